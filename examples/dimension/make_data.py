"""Write the example's files: made-up customers, always the same ones."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path

HERE = Path(__file__).resolve().parent
MASTER = ("customer_id", "first_name", "last_name", "employer_name", "email_id", "row_audit_ts")
ADDRESS = ("customer_id", "city", "country", "row_audit_ts")
FIRST = ("Ada", "Bela", "Chen", "Dilnoza", "Emeka", "Freya", "Goran", "Hana", "Iris", "Jomo")
LAST = ("Adler", "Bose", "Cruz", "Dahl", "Eze", "Frost", "Gomez", "Hoxha", "Ito", "Jensen")
EMPLOYER = ("Northwind", "Contoso", "Fabrikam", None)
CITY = (("Lyon", "France"), ("Porto", "Portugal"), ("Gdansk", "Poland"), ("Kyoto", "Japan"))
SEED = 2022


def files() -> dict[str, str]:
    """The text of every file, by its path below ``data/``."""
    pick = random.Random(SEED)  # noqa: S311 - the same rows every time
    master = {n: _person(n, pick) for n in range(1001, 1013)}
    address = {n: (n, *pick.choice(CITY), "2022-06-28 09:00:00") for n in range(1001, 1010)}
    # Rows on which a comparison by one joined text would see no change.
    master[1003] = (1003, "ab", "c", "Contoso", "abc@example.com", "2022-06-28 08:00:00")
    master[1004] = (1004, "Dilnoza", "Dahl", None, "dahl@example.com", "2022-06-28 08:00:00")
    later = [
        (1003, "a", "bc", "Contoso", "abc@example.com", "2022-07-15 08:00:00"),
        (1004, "Dilnoza", "Dahl", "", "dahl@example.com", "2022-07-15 08:00:00"),
        # Twice in one file: the later row_audit_ts counts, not the later line.
        (*master[1001][:3], "Fabrikam Labs", master[1001][4], "2022-07-15 11:00:00"),
        (*master[1001][:3], "Fabrikam", master[1001][4], "2022-07-15 10:00:00"),
        # Delivered again, nothing changed.
        (*master[1002][:5], "2022-07-15 08:00:00"),
        (1013, "Kemal", "Kaya", "Northwind", "kaya@example.com", "2022-07-15 08:00:00"),
    ]
    moved = [
        (1005, "Oslo", "Norway", "2022-07-15 09:00:00"),
        (1010, "Quito", "Ecuador", "2022-07-15 09:00:00"),
    ]
    return {
        "01_raw/customer_master/customer_master_with_ts.csv": _text(MASTER, master.values()),
        "01_raw/customer_address/customer_address_with_ts.csv": _text(ADDRESS, address.values()),
        "later/customer_master/customer_master_with_ts_incr.csv": _text(MASTER, later),
        "later/customer_address/customer_address_with_ts_incr.csv": _text(ADDRESS, moved),
    }


def _person(number: int, pick: random.Random) -> tuple[object, ...]:
    first, last = pick.choice(FIRST), pick.choice(LAST)
    mail = f"{first}.{last}{number}@example.com".lower()
    return number, first, last, pick.choice(EMPLOYER), mail, "2022-06-28 08:00:00"


def _text(header: tuple[str, ...], rows: object) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for row in rows:  # type: ignore[attr-defined]
        writer.writerow(["NULL" if v is None else v for v in row])
    return out.getvalue().replace(",,", ',"",')


if __name__ == "__main__":
    for name, text in files().items():
        path = HERE / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
