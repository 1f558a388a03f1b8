"""``make demo-stream``: everything starts, a change arrives, and nothing is left."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka", reason="`make test-streams` installs the extra kafka")
from harness.databases import INSTALLED_BY, is_installed
from harness.project import ROOT, environment, script
from harness.soak import soaking

pytestmark = pytest.mark.streams

only_in_soak = pytest.mark.skipif(not soaking(), reason="takes a minute; `make soak-streams` runs it")
DEMO = ROOT / "examples/stream/demo.py"
NAME = "kedro-lakehouse-demo-"


def processes() -> list[str]:
    """The command lines of all processes of this machine."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(place.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


@only_in_soak
@pytest.mark.parametrize("database", ["postgres", "mariadb"])
def test_a_change_in_the_database_arrives_and_nothing_is_left(database):
    if database == "mariadb" and not is_installed("mariadbd"):
        pytest.skip(INSTALLED_BY["mariadbd"])
    if database == "postgres" and not (
        is_installed("initdb") or list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    ):
        pytest.skip("PostgreSQL's server is not there: apt-get install postgresql-15")
    words = [sys.executable, str(DEMO), "--check", "--no-console", "--database", database]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300, env=environment(), check=False)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    for part in ("MariaDB" if database == "mariadb" else "PostgreSQL", "Kafka", "Kafka Connect", "the loop"):
        assert part in ended.stdout
    assert "A change was in shop.customer after" in ended.stdout
    assert not list(Path(tempfile.gettempdir()).glob(f"{NAME}*"))
    assert not [line for line in processes() if NAME in line]


def test_what_is_missing_is_said_with_what_installs_it(monkeypatch, tmp_path):
    demo = script(DEMO)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    java, postgres = demo.missing()
    assert "apt-get install openjdk-17" in java
    assert "apt-get install postgresql" in postgres
    _, mariadb = demo.missing("mariadb")
    assert "apt-get install mariadb-server" in mariadb
