"""AWS as moto plays it, on this machine's own port, and a project that runs on it."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config
from moto.server import ThreadedMotoServer

from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REGION, LAKEHOUSE, LANDING = "eu-west-1", "lakehouse-test", "landing-test"


@dataclass(frozen=True)
class ProjectOnAws:
    """A copy of the repository's configuration, whose commands run as a user types them."""

    path: Path

    def kedro(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``kedro ...`` in a process of its own."""
        command = [sys.executable, "-m", "kedro", *words]
        return subprocess.run(command, cwd=self.path, capture_output=True, text=True, check=False)

    def opened(self) -> Project:
        """The project as a command without Spark opens it."""
        return Project.load(str(self.path / "conf"), "aws")

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
            yield environment["AWS_ENDPOINT_URL"]
    finally:
        server.stop()
