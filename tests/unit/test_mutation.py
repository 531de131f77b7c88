"""What the mutation run does with mutants: which there are, which are chosen, what tests make of them."""

import ast
import json
from pathlib import Path

import pytest

from tests.mutation import mutants
from tests.mutation.__main__ import compare
from tests.mutation.concerning import TESTS, concerning
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.mutants import AREAS, chosen, mutants_of
from tests.mutation.running import Trees, importing

ROOT = Path(__file__).resolve().parents[2]
SOURCE = '''
"""Docs 1 < 2."""
LIMIT = 4

def least(values: list[int], other: int = 3) -> "1 < 2":
    """Docs 1 < 2."""
    assert other < 5, f"{other + 1}"
    if not values and other >= 2:
        raise ValueError(f"none: {1 + 1}")
    return min(values)
'''


def test_the_mutants_of_a_function() -> None:
    found = [mutant.identity.removeprefix("a.py::least::") for mutant in mutants_of("a.py", SOURCE)]
    assert sorted(found) == sorted([
        "not values and other >= 2 -> not values or other >= 2#0",
        "not values and other >= 2 -> not values#0",
        "not values and other >= 2 -> other >= 2#0",
        "not values -> values#0",
        "other >= 2 -> other > 2#0",
        "other >= 2 -> other < 2#0",
        "2 -> 3#0",
        "2 -> 1#0",
        "raise ValueError(f'none: {1 + 1}') -> pass#0",
        "return min(values) -> return None#0",
        "min -> max#0",
    ])  # fmt: skip


def test_nothing_at_the_end_of_a_function_is_left_out() -> None:
    source = "def f(a):\n    if a:\n        return None\n    a.pop()\n    return None\n"
    found = [mutant.identity for mutant in mutants_of("a.py", source)]
    assert found == ["a.py::f::return None -> pass#0", "a.py::f::a.pop() -> pass#0"]


def test_a_mutant_differs_in_one_place() -> None:
    by_identity = {mutant.identity: mutant for mutant in mutants_of("a.py", SOURCE)}
    mutant = by_identity["a.py::least::not values and other >= 2 -> not values or other >= 2#0"]
    made = mutant.applied(SOURCE.encode()).decode()
    assert made == SOURCE.replace("not values and other >= 2", "(not values or other >= 2)")


def test_every_mutant_of_the_core_is_python_and_has_its_own_name() -> None:
    for path in (ROOT / "indexes/kernels").glob("*.py"):
        source = path.read_text("utf-8")
        found = mutants_of(path.name, source)
        assert len({mutant.identity for mutant in found}) == len(found)
        for mutant in found[::40]:
            assert ast.dump(ast.parse(mutant.applied(source.encode()))) != ast.dump(ast.parse(source))


def test_a_seed_chooses_the_same_mutants_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for _, patterns in AREAS.values():
        assert all(any(ROOT.glob(pattern)) for pattern in patterns)
    monkeypatch.setattr(mutants, "AREAS", {area: AREAS[area] for area in ("constraints", "state")})
    found = [mutant.identity for mutant in chosen(ROOT, 40, 0)]
    assert len(set(found)) == 40
    assert len([identity for identity in found if identity.startswith("state/")]) == 10
    assert found == [mutant.identity for mutant in chosen(ROOT, 40, 0)]
    assert found != [mutant.identity for mutant in chosen(ROOT, 40, 1)]


def test_the_table_of_tests_names_files_that_are_there() -> None:
    for prefix in TESTS:
        assert (ROOT / prefix).exists()
        assert [path for path in concerning(prefix) if not (ROOT / path).exists()] == []


def test_equivalent_mutants_are_possible() -> None:
    """One that is not, since its function has changed, is to be taken out of `tests/mutation/equivalent.py`."""
    paths = {identity.partition("::")[0] for identity in EQUIVALENT}
    possible = {m.identity for path in paths for m in mutants_of(path, (ROOT / path).read_text("utf-8"))}
    assert EQUIVALENT.keys() - possible == set()


def test_what_a_kernel_is_compiled_into_is_compiled_anew() -> None:
    kernels = "indexes/kernels"
    assert importing(ROOT, f"{kernels}/zones.py") >= {f"{kernels}/{name}.py" for name in ("zones", "probe", "count")}
    assert importing(ROOT, f"{kernels}/count.py") == {f"{kernels}/count.py"}


@pytest.mark.slow
def test_what_tests_make_of_mutants(tmp_path: Path) -> None:
    tree, work = tmp_path / "tree", tmp_path / "work"
    (tree / "tests").mkdir(parents=True)
    work.mkdir()
    (tree / "least.py").write_text(SOURCE)
    (tree / "tests/test_least.py").write_text(
        "from least import least\n\ndef test_least():\n    assert least([3, 2]) == 2\n"
    )
    made = {mutant.identity.removeprefix("least.py::least::"): mutant for mutant in mutants_of("least.py", SOURCE)}
    trees = Trees(tree, work)
    paths = ["tests/test_gone.py", "tests/test_least.py"]
    with pytest.raises(ValueError, match="is there"):
        trees.run(made["min -> max#0"], paths[:1])
    killed = trees.run(made["min -> max#0"], paths)
    assert (killed.outcome, killed.by) == ("killed", "tests/test_least.py::test_least")
    assert trees.run(made["2 -> 3#0"], paths).outcome == "survived"
    assert (tree / "least.py").read_text() == SOURCE
    (tree / "tests/test_least.py").write_text("def test_least():\n    assert False\n")
    with pytest.raises(ValueError, match="fails without any mutant"):
        Trees(tree, tmp_path / "other").run(made["2 -> 3#0"], paths)


def test_two_runs_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"

    def written(file: Path, outcomes: dict[str, str]) -> Path:
        lines = [json.dumps({"mutant": mutant, "outcome": outcome}) for mutant, outcome in outcomes.items()]
        file.write_text("\n".join(lines))
        return file

    written(before, {"a": "killed", "b": "timed out", "c": "survived", "d": "survived", "gone": "killed"})
    assert compare(before, written(after, {"a": "timed out", "b": "killed", "c": "killed", "d": "survived"})) == 0
    assert capsys.readouterr().out.splitlines() == [
        "4 mutants in both: 0 killed in the first run only, 1 in the second only",
        "+ c",
    ]
    assert compare(before, written(after, {"a": "killed", "b": "survived", "c": "survived"})) == 1
    assert "- b" in capsys.readouterr().out
