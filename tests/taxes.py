"""A made table of tax records, of any size, for tests and benchmarks.

The rules that it obeys, up to its errors:

    Zip -> City, State            AreaCode -> State            (AreaCode, Phone) is a key
    State, HasChild -> ChildExemp                              Salary takes twenty steps
    State, Salary -> Rate, and within a State Rate does not fall where Salary rises
    Salary -> Bonus, and Bonus does not fall where Salary rises
    Salary, Deduct -> Tax, and Tax rises with each of the two

Invariant: the same arguments give the same table, whatever the machine. An error replaces one dependent value of a row
by that of another row; some replace a value by the same one, so there may be fewer errors than asked for.
"""

import numpy as np
import pyarrow as pa

from holdfast.constraints import UsageError
from holdfast.tables.arrays import Floats, Ints

WIDE = (
    "State",
    "Zip",
    "City",
    "AreaCode",
    "Phone",
    "HasChild",
    "ChildExemp",
    "Salary",
    "Rate",
    "Bonus",
    "Deduct",
    "Tax",
)
NARROW = ("State", "Zip", "City", "AreaCode", "HasChild", "ChildExemp", "Salary", "Rate")

_DEPENDENT = ("State", "City", "ChildExemp", "Rate", "Bonus", "Tax")
_STATES = (
    "AK AL AR AZ CA CO CT DC DE FL GA HI IA ID IL IN KS KY LA MA MD ME MI MN MO MS MT NC ND NE NH NJ NM NV NY OH OK "
    "OR PA PR RI SC SD TN TX UT VA VT WA WI WV WY"
).split()
_ZIPS, _CITIES, _AREA_CODES, _SALARIES = 20_000, 6_000, 260, 20
_PHONES = 10_000_000


def tax_records(
    rows: int, columns: tuple[str, ...] = WIDE, seed: int = 1, error_rate: float = 0.0, first_row: int = 0
) -> pa.Table:
    """Make a table.

    Parameters
    ----------
    rows, columns : its size; `WIDE` has twelve columns, `NARROW` eight.
    seed : of the rules' tables and of the rows.
    error_rate : the share of rows with one wrong value.
    first_row : makes other rows under the same rules, with telephone numbers from this one on.

    Examples
    --------
    >>> tax_records(2, ("State", "Zip", "Salary")).to_pylist()
    [{'State': 'OK', 'Zip': '10876', 'Salary': 40000}, {'State': 'PA', 'Zip': '07138', 'Salary': 65000}]
    """
    unknown = set(columns) - set(WIDE)
    if unknown:
        raise UsageError(f"tax records have no column {min(unknown)}; there are {', '.join(WIDE)}")
    rules, rng = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1, first_row])
    state_of_zip = rules.permutation(np.arange(_ZIPS) % len(_STATES))
    city_of_zip = rules.integers(0, _CITIES, _ZIPS)
    child_exemption = rules.integers(0, 40, (len(_STATES), 2)) * 50
    rate = np.cumsum(rules.integers(0, 3, (len(_STATES), _SALARIES)), axis=1) * 0.25
    bonus = np.cumsum(rules.integers(0, 3, _SALARIES)) * 100

    zip_code, step = rng.integers(0, _ZIPS, rows), rng.integers(0, _SALARIES, rows)
    state = state_of_zip[zip_code]
    area_code = state + len(_STATES) * rng.integers(0, _AREA_CODES // len(_STATES), rows)
    has_child, deduct = rng.integers(0, 2, rows), rng.integers(0, 5000, rows)
    salary = (step + 1) * 5000
    numbers: dict[str, Ints | Floats] = {
        "State": state,
        "Zip": zip_code,
        "City": city_of_zip[zip_code],
        "AreaCode": area_code + 201,
        "Phone": (np.arange(first_row, first_row + rows) * 7_919_177) % _PHONES,
        "HasChild": has_child,
        "ChildExemp": child_exemption[state, has_child],
        "Salary": salary,
        "Rate": rate[state, step],
        "Bonus": bonus[step],
        "Deduct": deduct,
        "Tax": salary // 10 + 2 * deduct,
    }
    _spoil(numbers, [name for name in _DEPENDENT if name in columns], error_rate, rng)
    return pa.table({name: _written(name, numbers[name]) for name in columns})


def _spoil(
    numbers: dict[str, Ints | Floats],
    dependent: list[str],
    error_rate: float,
    rng: np.random.Generator,
) -> None:
    """Replace one dependent value in a share of the rows."""
    rows = len(numbers["State"])
    spoilt = rng.choice(rows, round(rows * error_rate), replace=False)
    which = rng.integers(0, max(len(dependent), 1), len(spoilt))
    for i, name in enumerate(dependent):
        at = spoilt[which == i]
        numbers[name] = numbers[name].copy()
        numbers[name][at] = numbers[name][rng.integers(0, rows, len(at))]


def _written(name: str, values: Ints | Floats) -> pa.Array:
    """Return a column's values as they stand in the table."""
    match name:
        case "State":
            return pa.DictionaryArray.from_arrays(pa.array(values, pa.int32()), pa.array(_STATES))
        case "City":
            return pa.DictionaryArray.from_arrays(pa.array(values, pa.int32()), pa.array(_city_names()))
        case "HasChild":
            return pa.DictionaryArray.from_arrays(pa.array(values, pa.int32()), pa.array(["N", "Y"]))
        case "Zip":
            texts = np.char.zfill((np.arange(_ZIPS) + 501).astype("U5"), 5)
            return pa.DictionaryArray.from_arrays(pa.array(values, pa.int32()), pa.array(texts))
        case "Phone":
            digits = np.char.zfill(values.astype("U7"), 7)
            return pa.array([f"{d[:3]}-{d[3:]}" for d in digits.tolist()])
    return pa.array(values)


def _city_names() -> list[str]:
    """Return the cities' names: each is made of two of a few words."""
    first = "Green Oak Maple River Lake Spring Fair West North East South High Clear Stone Glen Mill Cedar Elm Ash Rock"
    last = "ville field ton wood port view burg dale ford haven"
    base = [a + b for a in first.split() for b in last.split()]
    return [f"{base[i % len(base)]} {i // len(base)}".removesuffix(" 0") for i in range(_CITIES)]
