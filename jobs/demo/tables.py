"""The demo's table: tax records, and the changes of five steps.

Invariant: the records are the same on every machine and at every run. No constraint of the first records holds by
chance, and each step changes what its title says (tests/unit/test_demo.py).
"""

import csv
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

Record = dict[str, str | int | float | None]

TABLE, KEY = "tax", "Id"
COLUMNS = ("Id", "Phone", "State", "Zip", "City", "HasChild", "ChildExemp", "Salary", "Rate")
SEEDED, NEWCOMERS = 300, 20

_PLACES = {
    "CA": (("90210", "Beverly Hills"), ("94103", "San Francisco"), ("94110", "San Francisco")),
    "MA": (("01907", "Swampscott"), ("02138", "Cambridge"), ("02139", "Cambridge")),
    "NY": (("10001", "New York"), ("10025", "New York"), ("14850", "Ithaca")),
}
_FIRST_CENTS = {"CA": 300, "MA": 500, "NY": 400}
_EXEMPTION = {"CA": 900, "MA": 1_000, "NY": 1_200}
_RICHEST = 58


@dataclass(frozen=True)
class Change:
    """A record of the stream.

    Parameters
    ----------
    operation : insert, update or delete; other words make a bad record.
    row : the row after the change; for a delete, the row before.
    before : the row before an update.
    is_cut : whether the record is truncated to its first half.
    """

    operation: str
    row: Record
    before: Record | None = None
    is_cut: bool = False


@dataclass(frozen=True)
class DemoStep:
    """Changes that are sent together, with a title."""

    title: str
    changes: Sequence[Change]


def tax_records() -> list[Record]:
    """Return the first records.

    Zip decides City and State, State and HasChild decide ChildExemp, and within a state the rate never falls as the
    salary rises. One person in New York earns more than all others there.
    """
    chance = random.Random(7)
    records = [_person(number, chance) for number in range(1, SEEDED + 1)]
    richest = records[_RICHEST - 1]
    richest |= {"State": "NY", "Zip": "10025", "City": "New York", "Salary": 120_000, "Rate": _rate("NY", 120_000)}
    richest |= {"ChildExemp": _EXEMPTION["NY"] if richest["HasChild"] == "Y" else None}
    return records


def steps(records: Sequence[Record]) -> list[DemoStep]:
    """Return the steps that change the first records, in order."""
    chance = random.Random(8)
    new = [_like(chance.choice(records), SEEDED + 1 + number) for number in range(NEWCOMERS)]
    in_cambridge = next(record for record in records if record["Zip"] == "02139")
    wrong = _like(in_cambridge, SEEDED + NEWCOMERS + 1) | {"City": "Boston"}
    richest = records[_RICHEST - 1]
    later = [_like(record, SEEDED + NEWCOMERS + 2 + number) for number, record in enumerate(records[:5])]
    return [
        DemoStep(f"{NEWCOMERS} new people are inserted.", [Change("insert", row) for row in new]),
        DemoStep("One more record comes, with another city for a zip that is known.", [Change("insert", wrong)]),
        DemoStep(
            "An update lowers the rate of the best paid person of New York.",
            [Change("update", richest | {"Rate": 4.5}, before=richest)],
        ),
        DemoStep("The record with the wrong city is deleted.", [Change("delete", wrong)]),
        DemoStep(
            "Five records come, three of them broken.",
            [
                Change("insert", later[0]),
                Change("insert", later[1], is_cut=True),
                Change("insert", later[2] | {"Salary": "plenty"}),
                Change("replace", later[3]),
                Change("insert", later[4]),
            ],
        ),
    ]


def write_csv(file: Path, records: Iterable[Record]) -> None:
    """Write records with a header."""
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)


def _person(number: int, chance: random.Random) -> Record:
    state = chance.choice(sorted(_PLACES))
    zip_code, city = chance.choice(_PLACES[state])
    has_child = chance.random() < 0.5
    salary = chance.randrange(20_000, 100_000, 5_000)
    return {
        "Id": number,
        "Phone": _phone(number),
        "State": state,
        "Zip": zip_code,
        "City": city,
        "HasChild": "Y" if has_child else "N",
        "ChildExemp": _EXEMPTION[state] if has_child else None,
        "Salary": salary,
        "Rate": _rate(state, salary),
    }


def _like(record: Record, number: int) -> Record:
    """Return a record that differs in id and phone only."""
    return record | {"Id": number, "Phone": _phone(number)}


def _phone(number: int) -> str:
    return f"555-{1_000 + number * 37 % 9_000:04d}"


def _rate(state: str, salary: int) -> float:
    return (_FIRST_CENTS[state] + 25 * (salary // 15_000)) / 100
