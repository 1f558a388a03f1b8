"""The jars of the servers and drivers that tests start, pinned by their checksums."""

from __future__ import annotations

import fcntl
from itertools import chain
from pathlib import Path
from typing import Final

import pyspark

from harness.project import ROOT
from kedro_lakehouse.session.jars import checked_jars, sums

PINNED: Final = Path(__file__).with_name("server_jars.sha256")


def server_jars(packages: str, *, excludes: str = "") -> list[str]:
    """The jars of these packages, fetched by Ivy once and compared with the pinned checksums."""
    folder = ROOT / ".cache/ivy-servers"
    conf = {
        "spark.jars.packages": packages,
        "spark.jars.excludes": excludes,
        "spark.jars.ivy": str(folder),
    }
    # Two workers of the tests share the folder, and Ivy does not expect company.
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        jars = checked_jars(conf)
    pinned = set(PINNED.read_text(encoding="ascii").splitlines())
    if strangers := set(sums(jars)) - pinned:
        raise AssertionError(f"not pinned in {PINNED.name}: {sorted(strangers)}")
    # Spark's resolver leaves out Scala's library, because Spark has it; Spark 3.5 has an older one.
    own = Path(pyspark.__path__[0], "jars").glob("scala-library-2.13*.jar")
    other = ROOT.glob(".venv/lib/*/site-packages/pyspark/jars/scala-library-2.13*.jar")
    return [*jars, str(next(chain(own, other)))]
