"""Make the small tables and the word vectors of the demo lake: seeded, so that each run makes the same.

``python bin/demo_lake.py tables`` writes ``data/demo_lake/``, which is in git; ``vectors`` writes a GloVe
text file of 300 dimensions with the demo's words. Its vectors are no published ones: those that
all-MiniLM-L6-v2 gives each word, turned by a fixed random matrix.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Value = Callable[[np.random.Generator, int], Any]

ROOT: Final = Path(__file__).resolve().parents[1]
TABLES: Final = ROOT / "data/demo_lake"
VECTORS: Final = ROOT / ".cache/models/demo.300d.txt"
_ROWS: Final = 40
_DIMENSION: Final = 300
_MINUTES: Final = 730 * 24 * 60

BOROUGHS: Final = ("Bronx", "Brooklyn", "Manhattan", "Queens", "Staten Island")
CITIES: Final = ("Albany", "Boston", "Buffalo", "Hartford", "Newark", "New York", "Providence", "Yonkers")
STREETS: Final = ("Bay Street", "Canal Street", "Elm Avenue", "Grand Street", "Main Street", "Park Place")
FIRST: Final = ("Ada", "Ben", "Carla", "Dan", "Emma", "Finn", "Grace", "Hugo", "Ida", "Jack")
LAST: Final = ("Adams", "Baker", "Clark", "Diaz", "Evans", "Foster", "Green", "Hill", "Irwin", "Jones")


def of(*words: str) -> Value:
    """One of some words."""
    return lambda chance, _: str(chance.choice(words))


def whole(least: int, greatest: int) -> Value:
    """A whole number."""
    return lambda chance, _: int(chance.integers(least, greatest + 1))


def real(least: float, greatest: float, digits: int = 2) -> Value:
    """A number with some digits after the point."""
    return lambda chance, _: round(float(chance.uniform(least, greatest)), digits)


def code(pattern: str) -> Value:
    """A code: ``9`` stands for a digit, ``A`` for a letter."""
    kinds = {"9": "0123456789", "A": "ABCDEFGHJKLMNPRSTUVW"}
    return lambda chance, _: "".join(str(chance.choice(list(kinds.get(c, c)))) for c in pattern)


def counting(first: int) -> Value:
    """The number of a row."""
    return lambda _, row: first + row


def day(chance: np.random.Generator, _: int) -> str:
    """A day of two years."""
    return str(date(2023, 1, 1) + timedelta(days=int(chance.integers(730))))


def moment(chance: np.random.Generator, _: int) -> str:
    """A minute of two years."""
    return str(datetime.fromisoformat("2023-01-01") + timedelta(minutes=int(chance.integers(_MINUTES))))


def street(chance: np.random.Generator, _: int) -> str:
    """A house in a street."""
    return f"{chance.integers(1, 400)} {chance.choice(STREETS)}"


def someone(chance: np.random.Generator, _: int) -> str:
    """A made-up person."""
    return f"{chance.choice(FIRST)} {chance.choice(LAST)}"


def flag(chance: np.random.Generator, _: int) -> bool:
    """Yes or no."""
    return bool(chance.integers(2))


COLUMNS: Final[dict[str, dict[str, Value]]] = {
    "transit_stops.csv": {
        "stop_id": code("S-9999"), "stop_name": of(*STREETS),
        "transit_district": of("Harbor", "Hill", "North", "Old Town"), "route": code("A9"),
        "latitude": real(40.5, 40.9, 5), "longitude": real(-74.2, -73.7, 5), "wheelchair_access": flag,
        "shelter": flag, "daily_boardings": whole(20, 4000), "opened_on": day,
    },
    "housing/parcels.csv": {
        "parcel": counting(70_001), "borough": of(*BOROUGHS), "zcode": code("10999"),
        "building_class": code("A9"), "floors": whole(1, 40), "dwellings": whole(1, 300),
        "floor_area": whole(300, 20_000), "year_built": whole(1890, 2022),
        "assessed_value": whole(90_000, 9_000_000), "energy_grade": of("A", "B", "C", "D"),
    },
    "housing/sales.parquet": {
        "deed": code("AA-99999"), "parcel": counting(70_001), "sold_on": day,
        "sale_price": whole(90_000, 3_000_000), "buyer": someone, "seller": someone, "mortgage": flag,
        "tax_rate": real(0.5, 3.5), "agency": of("Bay Homes", "Keystone", "Oak Realty"),
        "commission": real(1, 6),
    },
    "crm/customers.ndjson": {
        "customer_id": counting(1), "full_name": someone, "street_address": street, "city": of(*CITIES),
        "zip_code": code("10999"), "country": of("Canada", "Mexico", "United States"),
        "customer_since": day, "segment": of("consumer", "corporate", "small business"), "newsletter": flag,
        "lifetime_value": real(10, 20_000),
    },
    "crm/tickets.ndjson": {
        "ticket_number": code("T-99999"), "customer_id": whole(1, 40), "opened_at": moment,
        "channel": of("chat", "e-mail", "phone"), "priority": of("high", "low", "normal"),
        "subject": of("invoice is wrong", "late delivery", "lost password", "refund"), "agent": someone,
        "first_reply_minutes": whole(1, 900), "satisfaction": whole(1, 5), "solved": flag,
    },
    "crm/suppliers.json": {
        "supplier": of("Acme", "Globex", "Initech", "Umbrella"), "contact": someone,
        "location": of(*CITIES), "postalcode": code("09999"), "vat_number": code("AA999999999"),
        "payment_terms": of("30 days", "60 days"), "currency": of("CAD", "EUR", "USD"),
        "rating": real(1, 5, 1), "lead_time_days": whole(1, 60), "preferred": flag,
    },
    "schools.csv": {
        "school": of("Bay School", "Hill Academy", "Lincoln High", "Park Elementary"),
        "grades": of("1-5", "6-8", "9-12"), "principal": someone, "pupils": whole(80, 2400),
        "teachers": whole(8, 180), "graduation_rate": real(60, 100, 1),
        "mathematics_score": whole(200, 800), "reading_score": whole(200, 800),
        "free_lunch_share": real(0, 1), "founded": whole(1870, 2015),
    },
    "weather.csv": {
        "station": code("KA99"), "observed_on": day, "temperature_max": real(-10, 38, 1),
        "temperature_min": real(-20, 28, 1), "precipitation_mm": real(0, 60, 1),
        "snow_depth_cm": whole(0, 70), "wind_speed": real(0, 30, 1),
        "wind_direction": of("E", "N", "S", "W"), "humidity": whole(20, 100),
        "air_pressure": real(980, 1040, 1),
    },
    "hospital_stays.ndjson": {
        "stay": counting(900), "admitted_at": moment, "ward": of("cardiology", "maternity", "surgery"),
        "diagnosis_code": code("A99.9"), "triage_level": whole(1, 5),
        "insurer": of("Aetna", "Cigna", "Medicare"), "length_of_stay": whole(1, 30),
        "blood_pressure": whole(90, 180), "heart_rate": whole(48, 130), "total_charge": real(400, 90_000),
    },
    "library_loans.csv": {
        "loan": counting(1), "title": of("Emma", "Middlemarch", "Moby Dick", "Walden"),
        "author": of("George Eliot", "Henry Thoreau", "Herman Melville", "Jane Austen"),
        "isbn": code("978-9-999-99999-9"), "shelf": code("A-99"), "borrowed_on": day, "due_on": day,
        "renewals": whole(0, 3), "fine": real(0, 20), "language": of("English", "French", "Spanish"),
    },
    "energy/meters.parquet": {
        "meter": code("M-999999"), "tariff": of("day", "flat", "night"), "reading_at": moment,
        "kwh": real(0, 900), "voltage": real(218, 242, 1), "peak_demand": real(0, 40),
        "solar_feed_in": real(0, 50), "firmware": code("9.9.9"), "installed_on": day, "smart": flag,
    },
    "flights.json": {
        "flight_number": code("AA999"), "carrier": of("Delta", "JetBlue", "United"),
        "origin_airport": of("EWR", "JFK", "LGA"), "destination_airport": of("BOS", "LAX", "ORD", "SFO"),
        "scheduled_departure": moment, "delay_minutes": whole(0, 240),
        "aircraft": of("A320", "B737", "E190"), "distance_km": whole(200, 4200),
        "passengers": whole(20, 210), "cancelled": flag,
    },
    "recipes.json": {
        "dish": of("chili", "lasagna", "pancakes", "ramen"),
        "cuisine": of("American", "Italian", "Japanese"), "servings": whole(1, 8),
        "preparation_minutes": whole(5, 180), "calories": whole(90, 1200), "protein_g": real(0, 80, 1),
        "fat_g": real(0, 80, 1), "vegetarian": flag,
        "main_ingredient": of("beans", "flour", "noodles", "rice"),
        "difficulty": of("easy", "hard", "medium"),
    },
    "machine_sensors.parquet": {
        "sensor": code("SN-9999"), "machine": of("drill", "lathe", "press"), "measured_at": moment,
        "vibration": real(0, 12, 3), "bearing_temperature": real(20, 110, 1), "oil_pressure": real(1, 9),
        "rotation_speed": whole(0, 6000), "error_code": code("E99"), "maintenance_due": day,
        "running": flag,
    },
}  # fmt: skip


def make_tables() -> None:
    """Write every table in the kind that its name says."""
    for place, (name, columns) in enumerate(COLUMNS.items()):
        chance = np.random.default_rng(place)
        rows = [{column: value(chance, row) for column, value in columns.items()} for row in range(_ROWS)]
        path = TABLES / name
        path.parent.mkdir(parents=True, exist_ok=True)
        match path.suffix:
            case ".csv":
                with path.open("w", encoding="utf-8", newline="") as lines:
                    writer = csv.DictWriter(lines, list(columns), lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(rows)
            case ".json":
                path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
            case ".ndjson":
                path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            case _:
                pq.write_table(pa.Table.from_pylist(rows), path)
    print(f"{len(COLUMNS)} tables in {TABLES}")


def make_vectors(path: Path = VECTORS) -> None:
    """Write a vector for each word of the demo's names and values."""
    from kedro_lakehouse.column_search.embedders.base import ModelName
    from kedro_lakehouse.column_search.project_search import open_search

    search = open_search(model="minilm")
    texts = [text for one in search.corpus.signatures for text in one.texts.values()]
    words = sorted({word for text in texts for word in text.lower().split() if word.isalpha()})
    model = ModelName.parse("minilm").open(ROOT / ".cache")
    turn = np.random.default_rng(300).normal(size=(model.dimension, _DIMENSION)) / _DIMENSION**0.5
    vectors = model.embed(words) @ turn
    lines = [f"{w} {' '.join(f'{x:.5f}' for x in v)}\n" for w, v in zip(words, vectors, strict=True)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")
    print(f"{len(words):,} words in {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("tables", "vectors"))
    {"tables": make_tables, "vectors": make_vectors}[parser.parse_args().what]()
