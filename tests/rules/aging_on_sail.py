"""Random histories whose rows grow old, on Sail: ``python -m rules.aging_on_sail SEED HISTORIES all|some``.

``some`` are designs of which each is unlike the others; they take seconds.

The last line of what it prints is JSON: ``differences`` from the model, how many rows came ``back`` to their
table, and which planted ``faults`` were found.
"""

from __future__ import annotations

import json
import os
import sys

os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # before PySpark is imported

from property.histories import DESIGNS
from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession

from rules.lifetimes import FORGETS, differences
from rules.on_sail import SMALL

SOME = ("plain", "all_ignored", "two_fields", "truncated_partly")

FOR_FAULTS = 400
"""Histories beside a planted fault: with 60, one seed in some tens shows no trace of it."""


def main(seed: str, number: str, designs: str) -> None:
    server = SparkConnectServer(port=0)
    server.start(background=True)
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{server.listening_address[1]}").getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    found: dict[str, list[str]] = {}
    back = 0
    chosen = [design for design in DESIGNS if designs == "all" or design.name in SOME]
    for design in chosen:
        of_it = min(int(number), SMALL) if design.truncates else int(number)
        wrong, returned = differences(session, design, of_it, int(seed))
        found |= wrong
        back += returned
    of_fault = max(int(number), FOR_FAULTS)
    faults = {f: bool(differences(session, DESIGNS[2], of_fault, int(seed), f)[0]) for f in FORGETS}
    print(json.dumps({"differences": found, "back": back, "faults": faults}, default=str))  # noqa: T201
    session.stop()  # while the server lives: a client that ends after it retries for ten minutes
    server.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
