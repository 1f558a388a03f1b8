"""Reviews of products, generated from a seed: the shape of customer reviews, none of their text."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

CATEGORIES: Final = ("Books", "Camera", "Electronics", "Music", "Shoes", "Sports", "Toys", "Video", "Watches")
TYPES: Final = {"star_rating": "int", "review_date": "date"}
_FIRST: Final = dt.date(1999, 1, 1)
_DAYS: Final = 6000


def reviews(rows: int, seed: int) -> pa.Table:
    """Some reviews, in no order; a fixed seed gives the same rows."""
    chance = np.random.default_rng(seed)
    products = chance.integers(0, 20_000, rows)
    days = np.datetime64(_FIRST) + chance.integers(0, _DAYS, rows).astype("timedelta64[D]")
    words = np.array(["bright", "solid", "small", "fast", "quiet", "light", "plain", "sturdy"])
    titles = [" ".join(row) for row in words[chance.integers(0, len(words), (rows, 4))]]
    return pa.table(
        {
            "marketplace": pa.array(["US"] * rows),
            "customer_id": pa.array([f"C{n:08}" for n in chance.integers(0, 10_000_000, rows)]),
            "review_id": pa.array([f"R{seed:03}{n:09}" for n in range(rows)]),
            "product_id": pa.array([f"P{n:06}" for n in products]),
            "product_title": pa.array(titles),
            "star_rating": pa.array(chance.integers(1, 6, rows), pa.int32()),
            "product_category": pa.array([CATEGORIES[n % len(CATEGORIES)] for n in products]),
            "review_date": pa.array(days.astype("datetime64[D]")),
        }
    )


def land_reviews(folder: Path, *, files: int, rows: int, seed: int = 1) -> None:
    """Write so many parquet files of so many reviews each, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        path = folder / f"part-{number:05}.parquet"
        if not path.exists():
            pq.write_table(reviews(rows, seed + number), path)


def land_reviews_as_csv(folder: Path, *, files: int, rows: int, seed: int = 1) -> None:
    """The same as text with a header."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        pyarrow.csv.write_csv(reviews(rows, seed + number), folder / f"part-{number:05}.csv")
