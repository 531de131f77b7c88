"""`holdfast discover --near` and `holdfast exceptions`: what they print, where it goes, and what they refuse."""

import json
from pathlib import Path

import pandas as pd
import pyarrow.csv
import pyarrow.parquet
import pytest

import holdfast
from holdfast.jobs.command_line import exit_code_of

ZIPS = (
    "Zip,City\n" + "01907,Swampscott\n" * 4 + "01907,Lynn\n" + "10001,New York\n" * 3 + "02134,Boston\n02134,Allston\n"
)
"""One city is wrong for certain; of two others one is, nobody knows which."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zips.csv").write_text(ZIPS)
    return tmp_path


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = exit_code_of(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.usefixtures("folder")
def test_text_shows_exceptions_and_rows_and_ends_with_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _run(capsys, "discover", "zips.csv", "--near", "20%", "--family", "fd", "--sentences")
    assert code == 0
    assert out.splitlines() == [
        "functional_dependency  Zip -> City  (2 of 10 rows, 20 %)",
        "    Rows with the same Zip have the same City, but for 2 of 10 rows.",
        "    Zip      City",
        '    "01907"  "Lynn"     zips.csv, line 6',
        '    "02134"  "Boston"   zips.csv, line 10  undecided',
        '    "02134"  "Allston"  zips.csv, line 11  undecided',
        "functional_dependency  City -> Zip  (holds)",
        "    Rows with the same City have the same Zip.",
    ]
    assert err == (
        "zips: 10 rows, 2 columns; 2 near constraints with at most 2 exceptions and at most 3 columns in the context "
        "(2 constant)\n"
    )


@pytest.mark.usefixtures("folder")
def test_json_lines_have_the_fields_of_near_constraints(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("discover", "zips.csv", "--near", "20%", "--format", "json", "--quiet")
    code, out, err = _run(capsys, *arguments, "--examples", "1")
    assert (code, err) == (0, "")
    lines = {line["constraint"]: line for line in map(json.loads, out.splitlines())}
    line = lines["{Zip}: [] -> City"]
    assert len(line.pop("id")) == 64
    assert line == {
        "family": "near",
        "table": "zips",
        "constraint": "{Zip}: [] -> City",
        "shape": "constant",
        "context": ["Zip"],
        "target": ["City"],
        "exceptions": 2,
        "rows": 10,
        "share": 0.2,
        "size": 2,
        "violating_pairs": 10,
        "examples": [{"where": "zips.csv, line 6", "undecided": False, "row": {"Zip": "01907", "City": "Lynn"}}],
        "where": [],
    }
    assert set(lines) == {"{Zip}: [] -> City", "{City}: [] -> Zip"}
    Path("orders.csv").write_text("a,b\n1,1\n2,2\n3,3\n4,4\n5,1\n")
    _, out, _ = _run(capsys, "discover", "orders.csv", *arguments[2:])
    (line,) = (line for line in map(json.loads, out.splitlines()) if line["shape"] == "order")
    assert (line["constraint"], line["exceptions"], line["violating_pairs"]) == ("{}: a ~ b", 1, None)
    assert [example["row"] for example in line["examples"]] == [{"a": 5, "b": 1}]
    code, out, _ = _run(capsys, *arguments, "--examples", "0", "--top", "1")
    (line,) = map(json.loads, out.splitlines())
    assert (line["rank"], 0 < line["score"] <= 1, "examples" in line, "where" in line) == (1, True, False, False)


@pytest.mark.usefixtures("folder")
def test_rules_accept_what_violates_them_now(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("discover", "zips.csv", "--near", "20%", "--as-rules", "--quiet")
    code, out, _ = _run(capsys, *arguments, "--family", "fd")
    assert code == 0
    assert out.splitlines() == [
        "rules:",
        (
            '  - {name: zips_Zip_City, table: zips, fd: "Zip -> City", max_violating_rows: 7}  '
            "# Rows with the same Zip have the same City, but for 2 of 10 rows."
        ),
        '  - {name: zips_City_Zip, table: zips, fd: "City -> Zip"}  # Rows with the same City have the same Zip.',
    ]
    assert _run(capsys, *arguments, "--output", "rules.yaml")[0] == 0
    code, out, _ = _run(capsys, "check", "zips.csv", "--rules", "rules.yaml", "--examples", "0")
    assert code == 0
    assert "violated" in out
    with Path("zips.csv").open("a") as more:
        more.write("01907,Nahant\n")
    assert _run(capsys, "check", "zips.csv", "--rules", "rules.yaml", "--examples", "0")[0] == 1


@pytest.mark.usefixtures("folder")
def test_a_key_becomes_a_rule_too_and_what_holds_stays_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ids.csv").write_text("id,year\n1,x\n2,x\n3,x\n3,x\n")
    _, out, _ = _run(capsys, "discover", "ids.csv", "--near", "25%", "--family", "key", "--as-rules", "--quiet")
    assert out.splitlines()[1:] == [
        (
            "  - {name: ids_key_id, table: ids, key: [id], max_violating_rows: 2}  "
            "# No two rows have the same id, but for 1 of 4 rows."
        )
    ]
    _, out, _ = _run(capsys, "discover", "ids.csv", "--near", "0%", "--family", "fd", "--as-rules", "--quiet")
    assert out == 'rules:\n  - {name: ids_constant_year, table: ids, fd: "-> year"}  # All rows have the same year.\n'


@pytest.mark.usefixtures("folder")
def test_steps_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = _run(capsys, "discover", "zips.csv", "--near", "20%", "--explain")
    assert code == 0
    assert "candidates in 1 contexts of 0 columns" in err
    assert "as large as they can be and not near" in err


@pytest.mark.usefixtures("folder")
def test_inclusions_nearly_hold_by_coverage(capsys: pytest.CaptureFixture[str]) -> None:
    Path("known.csv").write_text("Zip\n01907\n10001\n")
    by_share = _run(capsys, "discover", "zips.csv", "known.csv", "--family", "ind", "--near", "40%")
    by_coverage = _run(capsys, "discover", "zips.csv", "known.csv", "--family", "ind", "--min-coverage", "0.6")
    assert by_share == by_coverage
    assert "66.67 % covered" in by_share[1]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--near 51%", "expected a share of the rows from 0% to 50%"),
        ("--near 1", "expected a share of the rows from 0% to 50%"),
        ("--near 1% --family dc", "'dc' is not one of key, fd, od, ind"),
        ("--near 1% --family key,ind", "Inclusions are searched for alone"),
        ("--family dc,ind", "Inclusions are searched for alone"),
        ("--family keys", "'keys' is not one of key, fk, fd, od, dc, ind."),
        ("--kind fd", "'fd' is not one of key, foreign_key, functional_dependency, constant"),
        ("--family key --all", "--all is for --top N"),
        ("--family key --min-coverage 0.5", "--min-coverage is for inclusions and foreign keys"),
        ("--family key --write-space s.json", "add dc to --family"),
        ("--near 1% --min-coverage 0.5", "leave one of them out"),
        ("--near 1% --spark --family od,fd", "leave out od, or --spark"),
        ("--near 1% --spark --examples 2", "leave it out, or --spark"),
        ("--near 1% --write-space s.json", "leave out --near"),
        ("--near 1% --family ind --as-rules", "leave out --near"),
        ("--near 1% --family ind --examples 2", "--examples is for rows"),
        ("--family dc --examples 2", "add --near SHARE"),
    ],
)
def test_what_does_not_fit_is_refused(capsys: pytest.CaptureFixture[str], arguments: str, said: str) -> None:
    code, out, err = _run(capsys, "discover", "zips.csv", *arguments.split())
    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.usefixtures("folder")
def test_several_files_and_a_space_with_types(capsys: pytest.CaptureFixture[str]) -> None:
    Path("other.csv").write_text("a\n1\n1\n2\n")
    code, out, err = _run(capsys, "discover", "zips.csv", "other.csv", "--near", "50%", "--format", "json")
    assert code == 0
    assert {json.loads(line)["table"] for line in out.splitlines()} == {"zips", "other"}
    assert err.count("near constraint") == 2
    assert _run(capsys, "discover", "zips.csv", "--family", "od", "--write-space", "space.json", "--quiet")[0] == 0
    space = json.loads(Path("space.json").read_text())
    assert _run(capsys, "discover", "zips.csv", "--near", "1%", "--space", "space.json", "--quiet")[0] == 0
    assert space
    code, _, err = _run(capsys, "discover", "zips.csv", "other.csv", "--near", "1%", "--space", "space.json")
    assert (code, "are for one file: name one" in err) == (2, True)


def test_python_finds_the_same() -> None:
    rows = pd.DataFrame({"zip": [1, 1, 1, 2, 2, 2, 2, 3, 3, 3], "city": list("aaabbbxccc")})
    found = holdfast.discover(rows, near="10%", name="zips")
    assert [str(near) for near in found] == ["{zip}: [] -> city", "{city}: [] -> zip", "{}: zip ~ city"]
    assert found[:] == list(holdfast.discover(rows, near=0.1))
    assert repr(found).startswith("<zips: 10 rows, 2 columns; 3 near constraints (2 constant, 1 order) with at most 1 ")
    frame = found.to_pandas()
    assert set(frame["constraint"]) == {"{zip}: [] -> city", "{city}: [] -> zip", "{}: zip ~ city"}
    assert frame["exceptions"].sum() == 2
    assert "{zip}: [] -&gt; city" in found._repr_html_()
    assert [str(near) for near in holdfast.discover(rows, near=0.1, family="od")] == ["{}: zip ~ city"]
    assert found[0] == found[:1][0]
    (removal,) = found.removals([next(near for near in found if str(near) == "{zip}: [] -> city")])
    assert removal.rows.tolist() == [6]
    for family in ("dc", "ind", ""):
        with pytest.raises(holdfast.HoldfastError, match="near constraints are of the families key, fd, od"):
            holdfast.discover(rows, near=0.1, family=family)
    with pytest.raises(holdfast.HoldfastError, match="leave out space, or near"):
        holdfast.discover(rows, near=0.1, space=holdfast.discover(rows).space)


@pytest.mark.usefixtures("folder")
def test_exceptions_are_listed_as_csv_or_parquet(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _run(capsys, "exceptions", "zips.csv", "Zip -> City")
    assert code == 0
    assert out.splitlines() == [
        '"_row","_undecided","Zip","City"',
        '5,false,"01907","Lynn"',
        '9,true,"02134","Boston"',
        '10,true,"02134","Allston"',
    ]
    assert err == "zips: {Zip}: [] -> City: 2 exceptions of 10 rows; 1 certain, 2 undecided\n"
    for name, read in (("e.csv", pyarrow.csv.read_csv), ("e.parquet", pyarrow.parquet.read_table)):
        assert _run(capsys, "exceptions", "zips.csv", "{Zip}: [] -> City", "--output", name, "--quiet") == (0, "", "")
        rows = read(name).to_pydict()
        assert (rows["_row"], rows["_undecided"]) == ([5, 9, 10], [False, True, True])
    code, out, _ = _run(capsys, "exceptions", "zips.csv", "City -> Zip")
    assert (code, out) == (0, '"_row","_undecided","Zip","City"\n')


def _orders(typos: int = 0) -> str:
    """Return 500 orders: import 7 breaks the cities, and the first cities have typos."""
    lines = ["Zip,City,source"]
    for i in range(500):
        wrong = i % 33 == 5
        city = "n/a" if wrong and i % 2 else f"C{i % 20 + 1}" if wrong else f"C{i % 20}" + "x" * (i < typos)
        lines.append(f"{i % 20},{city},import-{7 if wrong else i % 6}")
    return "\n".join(lines) + "\n"


RULE = "not(t.Zip = s.Zip and t.City != s.City and t.source != 'import-7' and s.source != 'import-7')"


@pytest.mark.usefixtures("folder")
def test_where_exceptions_are_and_a_rule_that_holds_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    Path("orders.csv").write_text(_orders())
    arguments = ("discover", "orders.csv", "--near", "4%", "--family", "fd", "--max-context", "1", "--quiet")
    code, out, _ = _run(capsys, *arguments, "--examples", "1")
    assert code == 0
    assert out.splitlines()[:5] == [
        "functional_dependency  Zip -> City  (15 of 500 rows, 3 %)",
        "    Zip  City",
        '    5    "n/a"  orders.csv, line 7',
        '    where: source = "import-7": 15 of 15 exceptions, 3 % of all rows',
        f'    holds except where source = "import-7": {RULE}',
    ]
    assert out.count("where:") == out.count("holds except where") == 2
    code, out, _ = _run(capsys, *arguments, "--format", "json", "--top", "9")
    lines = {line["constraint"]: line for line in map(json.loads, out.splitlines())}
    (found,) = lines["{Zip}: [] -> City"]["where"]
    assert 0 < found.pop("significance") < 1e-20
    assert found == {
        "column": "source",
        "value": "import-7",
        "exceptions": 15,
        "rows": 15,
        "share_of_rows": 0.03,
        "holds_elsewhere": True,
        "rules": [RULE],
    }
    rules = [rule for line in lines.values() for one in line["where"] for rule in one["rules"]]
    code, out, _ = _run(capsys, "check", "orders.csv", *(word for rule in rules for word in ("--rule", rule)))
    assert code == 0
    assert out.count("ok  ") == len(rules) == 2


@pytest.mark.usefixtures("folder")
def test_the_list_of_exceptions_notes_where_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    Path("orders.csv").write_text(_orders(typos=2))
    code, out, err = _run(capsys, "exceptions", "orders.csv", "Zip -> City")
    assert (code, out.count("import-7")) == (0, 15)
    assert err.splitlines()[-2:] == [
        "orders: {Zip}: [] -> City: 17 exceptions of 500 rows; 17 certain, 0 undecided",
        'where: source = "import-7": 15 of 17 exceptions, 3 % of all rows',
    ]
    assert _run(capsys, "exceptions", "orders.csv", "Zip -> City", "--quiet") == (0, out, "")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("zips.csv", "not(t.Zip < s.Zip)"), "exceptions are counted of keys, functional dependencies and order"),
        (("zips.csv", "Zap -> City"), "has no column 'Zap'; did you mean 'Zip'?"),
        (("zips.csv", "Zip -> City", "--output", "e.txt"), "expected .csv or .parquet"),
        (("zips.csv", "Zip -> City", "--output", "zips.csv"), "would replace zips.csv"),
        (("clash.csv", "key(a)"), "has a column _row"),
        (("s3a://bucket/t.parquet", "key(a)"), "is an address"),
    ],
)
def test_exceptions_refuse_what_they_cannot_list(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    Path("clash.csv").write_text("_row,a\n1,2\n")
    code, out, err = _run(capsys, "exceptions", *arguments)
    assert (code, out) == (2, "")
    assert said in err
