"""AWS as moto plays it, on this machine's own port, and a project that runs on it."""

from __future__ import annotations

import contextlib
import logging
import shutil
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3
import pyarrow.parquet as pq
import pytest
import yaml
from botocore.config import Config
from moto.server import ThreadedMotoServer
from s3fs import S3FileSystem

from harness.oracle import DMS_TABLES
from harness.project import DATA, ROOT
from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

REGION, LAKEHOUSE, LANDING = "eu-west-1", "lakehouse-test", "landing-test"
_READ = """
import sys
import pyarrow as pa
import pyarrow.parquet as pq
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project
project = Project.load("conf", sys.argv[1])
for table in sys.argv[3:]:
    name = TableName("dms_sample", table)
    found = pa.Table.from_batches(project.format_of(name).read(name)._collect_as_arrow())
    pq.write_table(found, f"{sys.argv[2]}/{table}.parquet")
"""


@dataclass(frozen=True)
class ProjectOnAws:
    """A copy of the repository's configuration, whose commands run as a user types them."""

    path: Path
    env: str = "aws"

    @classmethod
    def make(cls, path: Path, env: str = "aws") -> ProjectOnAws:
        """Copy the configuration, without the table of extracts, whose files are not uploaded."""
        shutil.copytree(ROOT / "conf", path / "conf", ignore=shutil.ignore_patterns("local"))
        (path / "conf/local").mkdir()
        (path / "src").mkdir()
        shutil.copy(ROOT / "pyproject.toml", path / "pyproject.toml")
        (path / ".cache").symlink_to(ROOT / ".cache")
        made = cls(path, env)
        made.declare(DMS_TABLES)
        return made

    def declare(self, tables: Sequence[str], *, extracts: bool = False) -> None:
        """Leave only these tables of the DMS task, and of the expectations none where some are missing."""
        others = {f"dms_sample.{table}": None for table in DMS_TABLES if table not in tables}
        self._write("tables", ({} if extracts else {"sp500.constituents": None}) | others)
        if others:
            self._write("expectations", {"dms_sample": None})

    def _write(self, name: str, content: dict[str, None]) -> None:
        file = self.path / "conf" / self.env / f"{name}.yml"
        file.write_text(yaml.safe_dump(content), encoding="utf-8")

    def read(self, tables: Sequence[str], folder: Path) -> dict[str, pa.Table]:
        """Tables of the DMS task, read by Spark in a process of its own."""
        done = subprocess.run(
            [sys.executable, "-c", _READ, self.env, str(folder), *tables],
            cwd=self.path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-5000:]
        return {table: pq.read_table(folder / f"{table}.parquet") for table in tables}

    def run(self) -> None:
        """Run the default pipeline, which must succeed."""
        done = self.kedro("run", f"--env={self.env}")
        assert done.returncode == 0, done.stderr[-5000:]

    def kedro(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``kedro ...`` in a process of its own."""
        command = [sys.executable, "-m", "kedro", *words]
        return subprocess.run(command, cwd=self.path, capture_output=True, text=True, check=False)

    def opened(self) -> Project:
        """The project as a command without Spark opens it."""
        return Project.load(str(self.path / "conf"), self.env)

    def objects(self, prefix: str) -> dict[str, str]:
        """What is stored below a prefix of the lakehouse's bucket: the tag of each object's content."""
        pages = boto3.client("s3").get_paginator("list_objects_v2").paginate(Bucket=LAKEHOUSE, Prefix=prefix)
        return {o["Key"]: o["ETag"] for page in pages for o in page.get("Contents", ())}


@contextlib.contextmanager
def moto_aws() -> Iterator[str]:
    """Let every client of this process and of its children speak to moto, which has two empty buckets.

    Gives the server's address.
    """
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}", "LAKEHOUSE_PATH_STYLE": "true",
        "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION, "AWS_EC2_METADATA_DISABLED": "true",
        "LAKEHOUSE_S3A_ENCRYPTION": "AES256",
        "LAKEHOUSE_BUCKET": LAKEHOUSE, "LANDING_BUCKET": LANDING,
    }  # fmt: skip
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "KEDRO_ENV"):
                patch.delenv(name, raising=False)
            for name, value in environment.items():
                patch.setenv(name, value)
            # One process, one state: what an earlier module made is forgotten.
            urllib.request.urlopen(f"http://{host}:{port}/moto-api/reset", data=b"").close()
            # A busy machine's first answer may be late; asking twice would find the bucket made.
            s3 = boto3.client("s3", config=Config(retries={"max_attempts": 0}, read_timeout=300))
            for bucket in (LAKEHOUSE, LANDING):
                s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
            # It keeps clients by their arguments, and so those of an earlier server's address.
            S3FileSystem.clear_instance_cache()
            yield environment["AWS_ENDPOINT_URL"]
    finally:
        server.stop()


@contextlib.contextmanager
def landed_on_aws() -> Iterator[str]:
    """What ``moto_aws`` gives, with the landed files of the bundled DMS task."""
    with moto_aws() as address:
        s3 = boto3.client("s3")
        for file in (DATA / "01_raw/dms_sample").rglob("*.parquet"):
            s3.upload_file(str(file), LANDING, f"landing/{file.relative_to(DATA / '01_raw')}")
        yield address
