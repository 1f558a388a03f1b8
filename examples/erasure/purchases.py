"""Purchases of customers, landed as JSON lines: so many records a second, a file each second.

Usage: ``python purchases.py --seconds 30 [--rate 100] [--seed 1] [--at-once] [--folder FOLDER]``.

Customers are 5,023 to 59,874, a number here and a text in the table. As in the demo that this follows, the
parts of a time are random by themselves: hour 24, minute 60 and 30 February occur, and are kept as texts.
``--at-once`` does not wait between two files.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any, Final

FIRST, LAST = 5_023, 59_874
"""The lowest and the highest number of a customer."""
FOLDER: Final = Path(__file__).resolve().parent / "data/01_raw/purchases/customer"
_PLACES: Final = (
    ("Rome", "Lazio", "Italy", "IT"),
    ("Kiel", "Holstein", "Germany", "DE"),
    ("Porto", "Norte", "Portugal", "PT"),
    ("Austin", "Texas", "United States", "US"),
)
_FIRST_NAMES: Final = ("Ada", "Bela", "Carla", "Dario", "Edith", "Farid", "Greta", "Hugo")
_LAST_NAMES: Final = ("Almeida", "Brandt", "Conti", "Duarte", "Evans", "Fischer", "Greco", "Hansen")
_STREETS: Final = ("Mill Lane", "Elm Street", "Harbour Road", "Church Walk")
_PRODUCTS: Final = ("lamp", "chair", "kettle", "ladder", "blanket")


def purchase(chance: random.Random, customer: int | None = None) -> dict[str, Any]:
    """One purchase, of any customer or of this one. A customer's own columns are always the same."""
    number = customer or chance.randint(FIRST, LAST)
    own = random.Random(number)  # noqa: S311 - reproducible
    city, state, country, code = own.choice(_PLACES)
    return {
        "year": str(chance.randint(2022, 2026)),
        "month": str(chance.randint(1, 12)),
        "day": str(chance.randint(1, 30)),
        "hour": str(chance.randint(0, 24)),
        "minute": str(chance.randint(0, 60)),
        "customerid": str(number),
        "firstname": own.choice(_FIRST_NAMES),
        "lastname": own.choice(_LAST_NAMES),
        "dateofbirth": f"{own.randint(1940, 2005)}-{own.randint(1, 12):02}-{own.randint(1, 28):02}",
        "city": city,
        "buildingnumber": str(own.randint(1, 400)),
        "streetaddress": own.choice(_STREETS),
        "state": state,
        "zipcode": f"{own.randint(10000, 99999)}",
        "country": country,
        "countrycode": code,
        "phonenumber": f"+{own.randint(10**10, 10**11 - 1)}",
        "productname": chance.choice(_PRODUCTS),
        "transactionamount": chance.randint(1, 900),
    }


def land(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """Write a file of records; it has its name once it is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{name}.part"
    part.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    part.rename(folder / f"{name}.jsonl")


def main() -> None:
    """Land the files."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--seconds", type=int, default=30)
    words.add_argument("--rate", type=int, default=100)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--at-once", action="store_true")
    words.add_argument("--folder", type=Path, default=FOLDER)
    given = words.parse_args()
    chance = random.Random(given.seed)  # noqa: S311 - reproducible
    for second in range(given.seconds):
        land(given.folder, f"{given.seed}-{second:05}", [purchase(chance) for _ in range(given.rate)])
        if not given.at_once:
            time.sleep(1)


if __name__ == "__main__":
    main()
