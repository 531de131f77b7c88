"""`holdfast discover`: what it prints, where it goes, and the published results where their data are at hand."""

import json
import re
from pathlib import Path

import pytest

from holdfast.constraints import PredicateSpace, parse_denial
from holdfast.jobs.command_line import exit_code_of

SHARED = Path(__file__).parents[3] / "shared" / "data"
TAX = "Zip,City,Salary\n01907,Swampscott,10\n01907,Swampscott,20\n10001,New York,20\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tax.csv").write_text(TAX)
    return tmp_path


def _discover(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    family = () if "--family" in arguments else ("--family", "dc")
    code = exit_code_of(["discover", *arguments, *family])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.usefixtures("folder")
def test_text_names_kinds_and_ends_with_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _discover(capsys, "tax.csv")
    assert code == 0
    assert out.splitlines() == [
        "key                    key(City, Salary)",
        "key                    key(Zip, Salary)",
        "functional_dependency  City -> Zip",
        "functional_dependency  Zip -> City",
    ]
    _, formal, _ = _discover(capsys, "tax.csv", "--formal", "--kind", "functional_dependency")
    assert formal.splitlines() == [
        "functional_dependency  not(t.Zip != s.Zip and t.City = s.City)",
        "functional_dependency  not(t.Zip = s.Zip and t.City != s.City)",
    ]
    assert err == (
        "tax: 3 rows, 3 columns; 4 denial constraints of at most 4 predicates (2 key, 2 functional dependency)\n"
    )


@pytest.mark.usefixtures("folder")
def test_order_dependencies(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _discover(capsys, "tax.csv", "--family", "od", "--max-context", "1", "--explain")
    assert code == 0
    assert sorted(out.splitlines()) == [
        "functional_dependency  City -> Zip",
        "functional_dependency  Zip -> City",
        "order_compatible       {}: City ~ Salary desc",
        "order_compatible       {}: Zip ~ City desc",
        "order_compatible       {}: Zip ~ Salary",
    ]
    assert (
        "tax: 3 rows, 3 columns; 5 order dependencies with at most 1 column in the context "
        "(2 constant, 3 order compatible)\n"
    ) in err
    assert "compared across" not in err
    assert "evidences of a sample" in err
    code, out, _ = _discover(capsys, "tax.csv", "--family", "od", "--format", "json", "--quiet", "--top", "1")
    (line,) = (json.loads(line) for line in out.splitlines())
    assert (code, line["family"], line["rank"]) == (0, "od", 1)


@pytest.mark.usefixtures("folder")
def test_a_space_of_one_family_gives_its_types_to_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    """One of order dependencies says nothing of crossed columns, which are measured then."""
    Path("tax.csv").write_text("a,b,s\n1,2,x\n2,3,y\n3,1,\n")
    for family, other in (("dc", "od"), ("od", "dc")):
        space = f"{family}.json"
        assert _discover(capsys, "tax.csv", "--family", family, "--write-space", space, "--quiet")[0] == 0
        anew = _discover(capsys, "tax.csv", "--family", other, "--quiet")
        assert _discover(capsys, "tax.csv", "--family", other, "--space", space, "--quiet") == anew
        assert anew[0] == 0
    assert "t.a != s.b" in anew[1]
    Path("ind.json").write_text(Path("od.json").read_text().replace('"od"', '"ind"'))
    code, _, err = _discover(capsys, "tax.csv", "--space", "ind.json")
    assert (code, err) == (2, "ind.json: not a predicate space: family 'ind' is none of dc, od\n")


@pytest.mark.usefixtures("folder")
def test_the_readmes_most_telling_constraints(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    data = re.search(r"\$ cat people\.csv\n(.*?)\n\n", text, re.DOTALL)
    example = re.search(r"\$ holdfast (discover people\.csv .*--top .*)\n((?:.+\n)+?)```", text)
    assert data is not None
    assert example is not None
    Path("people.csv").write_text(data[1] + "\n")
    assert exit_code_of(example[1].split()) == 0
    shown = capsys.readouterr()
    assert shown.out + shown.err == example[2]


@pytest.mark.usefixtures("folder")
def test_json_lines_and_a_file_hold_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _discover(capsys, "tax.csv", "--format", "json", "--quiet")
    assert (code, err) == (0, "")
    lines = [json.loads(line) for line in out.splitlines()]
    assert {line["family"] for line in lines} == {"dc"}
    assert {line["table"] for line in lines} == {"tax"}
    assert len({line["id"] for line in lines}) == len(lines)
    assert _discover(capsys, "tax.csv", "--format", "json", "--quiet", "--output", "found.jsonl")[:2] == (0, "")
    assert Path("found.jsonl").read_text() == out


@pytest.mark.usefixtures("folder")
def test_a_space_is_written_and_used_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert _discover(capsys, "tax.csv", "--write-space", "space.json", "--quiet")[0] == 0
    space = PredicateSpace.from_json(json.loads(Path("space.json").read_text()))
    assert [str(c) for c in space.schema] == ["Zip string", "City string", "Salary integer"]
    Path("more.csv").write_text("Zip,City,Salary\n1,2,3\n4,5,6\n")
    code, out, err = _discover(capsys, "more.csv", "--space", "space.json")
    assert code == 0
    assert "key(Zip)" in out
    assert "not(t.Zip < s.Zip" not in out
    assert err.startswith("tax: 2 rows")
    Path("bad.csv").write_text("Zip,City,Salary\n1,2,x\n")
    code, out, err = _discover(capsys, "bad.csv", "--space", "space.json")
    assert (code, out) == (3, "")
    assert "bad.csv, line 2, column Salary: 'x' is not a whole number" in err
    Path("other.csv").write_text("A\n1\n")
    assert _discover(capsys, "other.csv", "--space", "space.json")[0] == 2
    Path("broken.json").write_text("{")
    code, out, err = _discover(capsys, "tax.csv", "--space", "broken.json")
    assert (code, out) == (2, "")
    assert err.startswith("broken.json: ")


@pytest.mark.usefixtures("folder")
def test_the_explanation_of_a_wide_table_names_some_pairs_of_columns(capsys: pytest.CaptureFixture[str]) -> None:
    Path("wide.csv").write_text(",".join(f"c{i}" for i in range(8)) + "\n" + "1,1,1,1,1,1,1,1\n2,2,2,2,2,2,2,2\n")
    _, _, err = _discover(capsys, "wide.csv", "--max-predicates", "1", "--explain")
    (line,) = [line for line in err.splitlines() if "compared across" in line]
    assert "(c0, c1), (c0, c2), " in line
    assert line.count("(") == 20
    assert " and 8 more pairs; space " in line


@pytest.mark.usefixtures("folder")
def test_bounds_explanation_and_several_files(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _discover(capsys, "tax.csv", "tax.csv", "--max-predicates", "1", "--explain")
    assert (code, out) == (0, "")
    assert err.count("plan: all pairs") == 2
    assert "compared across: nothing; space " in err
    code, out, err = _discover(capsys, "tax.csv", "tax.csv", "--write-space", "s.json")
    assert (code, out) == (2, "")
    assert not Path("s.json").exists()


@pytest.mark.usefixtures("folder")
def test_arguments_that_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert _discover(capsys, "tax.csv", "--write-space", "nowhere/space.json")[:2] == (2, "")
    Path("list.json").write_text("[1]")
    code, out, err = _discover(capsys, "tax.csv", "--space", "list.json")
    assert (code, out) == (2, "")
    assert "not a predicate space" in err
    code, out, _ = _discover(capsys, "tax.csv", "--max-predicates", str(10**30))
    assert (code, len(out.splitlines())) == (0, 4)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", ["A,B\n", "A\n\n\n", "A,B\n,\n,\n", "A\n1\n"])
def test_hardly_any_data(capsys: pytest.CaptureFixture[str], text: str) -> None:
    Path("small.csv").write_text(text)
    code, out, _ = _discover(capsys, "small.csv", "--max-predicates", "0")
    assert code == 0
    assert out in {"", "constant               -> A\n"} or set(out.splitlines()) == {
        "constant               -> A",
        "constant               -> B",
    }


@pytest.mark.parametrize(
    ("file", "options", "expected"),
    [
        ("airport_original.csv.gz", ["--encoding", "latin-1"], "airport_original.incdc.txt"),
        ("adult11.csv.gz", ["--no-cross-columns", "--limit", "10000"], "adult11_first10000.fastadc.txt"),
        ("adult11.csv.gz", ["--no-cross-columns", "--limit", "31000"], 156),
        ("adult11.csv.gz", ["--no-cross-columns"], 177),
        ("tax10k.csv.gz", ["--no-cross-columns"], 8_818),
        ("adult.csv.gz", ["--no-cross-columns", "--limit", "5000"], 43_366),
    ],
)
def test_published_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, options: list[str], expected: str | int
) -> None:
    if not (SHARED / file).exists():
        pytest.skip(f"the real table {file} is not beside this checkout")
    space, found = tmp_path / "space.json", tmp_path / "found.jsonl"
    arguments = ["--typed-header", "--max-predicates", "0", "--quiet", "--format", "json", *options]
    code, _, err = _discover(
        capsys, str(SHARED / file), *arguments, "--output", str(found), "--write-space", str(space)
    )
    assert (code, err) == (0, "")
    lines = [json.loads(line)["constraint"] for line in found.read_text().splitlines()]
    assert len(set(lines)) == len(lines)
    if isinstance(expected, int):
        assert len(lines) == expected
        return
    read = PredicateSpace.from_json(json.loads(space.read_text()))
    published = (SHARED / "expected" / expected).read_text("utf-8").splitlines()
    assert set(lines) == {str(read.canonical(parse_denial(line))) for line in published if line.strip()}


@pytest.mark.parametrize("more", [(), ("--top", "9"), ("--min-coverage", "0.1")])
def test_inclusions_name_their_columns_as_they_are(
    more: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For programs, which would have to undo the quotes of `BattingPost.\\`3B\\``."""
    (folder / "Batting Post.csv").write_text("3B\n1\n2\n")
    (folder / "teams.csv").write_text("a.b\n1\n2\n3\n")
    given = ("Batting Post.csv", "teams.csv", "--family", "ind", "--format", "json", *more)
    code, out, _ = _discover(capsys, *given)
    lines = [json.loads(line) for line in out.splitlines()]
    assert (code, len(lines)) == (0, 1 + ("--min-coverage" in more))
    assert (lines[0]["dependent"], lines[0]["referenced"]) == ("`Batting Post`.`3B`", "teams.`a.b`")
    for line, sides in zip(lines, (("dependent", "referenced"), ("referenced", "dependent")), strict=False):
        assert [line[f"{side}_{part}"] for side in sides for part in ("table", "column")] == [
            *("Batting Post", "3B"),
            *("teams", "a.b"),
        ]


def test_columns_that_share_values_by_chance_are_left_out_on_request(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{20 + n % 60},{1 + 7 * n % 90},{n % 5 * 1250},{(n + 2) % 5 * 1250}" for n in range(400)]
    (folder / "people.csv").write_text("age,hours,paid,due\n" + "\n".join(rows) + "\n")
    crossing = {}
    for choice in ("auto", "related", "none"):
        options = ("--cross-columns", choice, "--max-predicates", "2", "--write-space", f"{choice}.json", "--quiet")
        assert exit_code_of(["discover", "people.csv", "--family", "dc", *options]) == 0
        crossing[choice] = json.loads((folder / f"{choice}.json").read_text())["cross_columns"]
    assert crossing == {"auto": [["age", "hours"], ["paid", "due"]], "related": [["paid", "due"]], "none": []}
    capsys.readouterr()
    assert (
        exit_code_of(["discover", "people.csv", "--family", "dc", "--no-cross-columns", "--max-predicates", "2"]) == 0
    )
    without = capsys.readouterr().out
    assert exit_code_of(["discover", "people.csv", "--family", "dc", *options[:4]]) == 0
    assert capsys.readouterr().out == without
