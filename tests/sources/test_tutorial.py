"""The tutorial about a database: its own commands, in their order, on a PostgreSQL that it starts itself."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("adbc_driver_postgresql", reason="`make test-sources` installs the extra sql")
from harness.databases import INSTALLED_BY, Postgres, is_installed
from harness.processes import free_port
from harness.project import ROOT, TemporaryProject
from harness.soak import only_in_soak
from harness.tutorials import Followed, follow, in_shell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.sources


@pytest.fixture
def as_owner_of_the_server() -> Iterator[Callable[[str], str]]:
    """Run a command with a home of its own, as who may start the server; it is stopped in the end."""
    initdb = shutil.which("initdb")
    if initdb is None or not is_installed("initdb"):
        pytest.skip(INSTALLED_BY["initdb"])
    user = ["runuser", "-u", Postgres.user, "-m", "--"] if os.getuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="kedro-lakehouse-tutorial-") as home:
        if user:
            shutil.chown(home, Postgres.user)

        def run(command: str, *, check: bool = True) -> str:
            env = os.environ | {"HOME": home, "PATH": f"{os.environ['PATH']}:{Path(initdb).resolve().parent}"}
            words = [*user, "bash", "-euc", command]
            return subprocess.run(
                words, cwd=home, env=env, check=check, stdout=subprocess.PIPE, text=True
            ).stdout

        try:
            yield run
        finally:
            run("if [ -e ~/shop-server ]; then pg_ctl -D ~/shop-server -m immediate stop; fi", check=False)


@only_in_soak
def test_a_database_is_replicated(
    tmp_path: Path, as_owner_of_the_server: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = TemporaryProject.of_repository(tmp_path / "project")
    port = str(free_port())

    def export(command: str) -> str:
        given = dict(word.split("=") for word in shlex.split(command)[1:])
        for name, value in (given | {"PGPORT": port}).items():
            monkeypatch.setenv(name, value)
        return ""

    def psql(command: str) -> str:
        printed = in_shell(command, project)
        time.sleep(1.1)  # nobody types on within the second that a window of changes leaves out
        return printed

    def install(command: str) -> str:
        recipe = subprocess.run(
            ["make", "-n", "test-sources"], cwd=ROOT, check=True, capture_output=True, text=True
        )
        assert command in recipe.stdout.splitlines()  # the lane has done it
        return ""

    otherwise: dict[str, Any] = {
        "export ": export, "psql ": psql, "UV_PYTHON_DOWNLOADS=never ": install,
        **dict.fromkeys(("initdb ", "pg_ctl ", "rm -r ~/shop-server "), as_owner_of_the_server),
    }  # fmt: skip
    page = ROOT / "docs/tutorials/replicate-a-database.md"
    done = follow(Followed(project, page, otherwise))
    done.require_what_it_shows(blocks=7)
    assert "No mistake in 17 tables" in done.output_of("lakehouse check")
    planned = done.output_of("lakehouse plan")
    assert planned.count("is pulled") == 2
    assert "erp.purchase" in planned
    counts = {table: len(project.rows(table)) for table in ("erp.customer", "erp.purchase")}
    assert counts == {"erp.customer": 3, "erp.purchase": 3}
