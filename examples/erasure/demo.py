"""Purchases arrive; one customer asks to be erased, and is: before, after, and the evidence.

``make demo-erasure``; once that has run, also ``.venv/bin/python examples/erasure/demo.py``. Records are
landed while the customer is erased. What the project holds is deleted first, and kept at the end.
"""

from __future__ import annotations

import argparse
import json
import random
import secrets
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import purchases

HERE: Final = Path(__file__).resolve().parent
KEDRO: Final = str(Path(sys.executable).with_name("kedro"))
CUSTOMER: Final = 59_289
TABLE: Final = "icebergdemodb.customer"
EVIDENCE: Final = HERE / "evidence.json"


def kedro(*words: str) -> str:
    """Run a command of Kedro and print it with what it prints; return that.

    Raises:
        SystemExit: It failed.
    """
    shown = " ".join(f'"{word}"' if " " in word else word for word in words)
    print(f"\n$ kedro {shown}", flush=True)
    done = subprocess.run([KEDRO, *words], cwd=HERE, capture_output=True, text=True, check=False)
    print(done.stdout.rstrip(), flush=True)
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    return done.stdout


def count() -> str:
    """How many purchases of the customer there are in the table, and in its change log."""
    of = f"where customerid = '{CUSTOMER}'"
    return kedro(
        "lakehouse", "sql",
        f"select (select count(*) from {TABLE} {of}) as purchases, "
        f"(select count(*) from {TABLE}_changes {of}) as events, (select count(*) from {TABLE}) as of_all",
    )  # fmt: skip


def keep_landing(stop: threading.Event, seed: int) -> None:
    """Land a hundred records a second until it is stopped; some of them are the customer's."""
    chance, number = random.Random(seed), 0  # noqa: S311 - reproducible
    while not stop.wait(1.0):
        rows = [purchases.purchase(chance) for _ in range(99)]
        purchases.land(purchases.FOLDER, f"{seed}-{number:05}", [*rows, purchases.purchase(chance, CUSTOMER)])
        number += 1


def main() -> None:
    """Show it."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--seconds", type=int, default=60, help="so many files are there at first")
    given = words.parse_args()
    shutil.rmtree(HERE / "data", ignore_errors=True)
    (HERE / "data/01_raw/requests/erasure_request").mkdir(parents=True)
    credentials = HERE / "conf/local/credentials.yml"
    if not credentials.exists():
        credentials.write_text(f"erasure: {{key: {secrets.token_urlsafe(32)}}}\n")
    chance = random.Random(1)  # noqa: S311 - reproducible
    for second in range(given.seconds):
        of_all = [purchases.purchase(chance) for _ in range(99)]
        purchases.land(purchases.FOLDER, f"0-{second:05}", [*of_all, purchases.purchase(chance, CUSTOMER)])
    kedro("run", "--pipelines=ingestion,cdc_merge")
    count()
    stop = threading.Event()
    arriving = [threading.Thread(target=keep_landing, args=(stop, seed)) for seed in (1, 2)]
    for one in arriving:
        one.start()
    try:
        kedro("lakehouse", "erase", str(CUSTOMER), "--yes", "--evidence", EVIDENCE.name)
    finally:
        stop.set()
        for one in arriving:
            one.join()
    kedro("run", "--pipelines=ingestion,cdc_merge")
    count()
    kedro("lakehouse", "quarantine", TABLE, "--limit", "3")
    kedro("lakehouse", "erase", "--verify", EVIDENCE.name)
    facts = json.loads(EVIDENCE.read_text())
    print(f"\nThe evidence is in {EVIDENCE.name}: {facts['files']} files were searched.")


if __name__ == "__main__":
    main()
