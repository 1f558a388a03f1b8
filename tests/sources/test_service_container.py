"""What the rendered service's container starts: configuration from S3, tokens from Secrets Manager."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError

import boto3
import pytest

pytest.importorskip("fastapi", reason="`make test-sources` installs the extra service")
import yaml
from harness.aws import LAKEHOUSE, moto_aws
from harness.deploying import copy_to_deploy, deployed
from harness.processes import free_port
from harness.project import environment

from kedro_lakehouse.service.tokens import hash_of_token, new_token

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

pytestmark = pytest.mark.sources

WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = sys.modules["py4j"] = None
from kedro_lakehouse.service.container import main
main()
"""
"""What the image runs, which has no PySpark."""


def asked(address: str, token: str = "") -> tuple[int, Any]:
    """Status and content of an answer; 0 while nobody answers."""
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - to this machine
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)
    except URLError:
        return 0, None


def test_a_container_serves_the_environment_until_it_is_asked_to_end(tmp_path: Path) -> None:
    token, port = new_token(), free_port()
    with moto_aws():
        wheel = copy_to_deploy(tmp_path, grants={"reader": [{"database": "dms_sample"}]})
        out = tmp_path / "out"
        deployed(tmp_path, "--target", "service", "--env", "aws", "--out", str(out), "--wheel", str(wheel))
        key = "artifacts/kedro-lakehouse-service/conf.zip"
        boto3.client("s3").upload_file(str(out / "artifacts/conf.zip"), LAKEHOUSE, key)
        hashes = json.dumps({"reader": hash_of_token(token)})
        boto3.client("secretsmanager").create_secret(
            Name="kedro-lakehouse/service_tokens", SecretString=hashes
        )
        template = yaml.safe_load((out / "template.yml").read_text(encoding="utf-8"))
        (container,) = template["Resources"]["Task"]["Properties"]["ContainerDefinitions"]
        known = {
            "${LakehouseBucket}": LAKEHOUSE, "${LandingBucket}": "landing", "${KmsKeyArn}": "",
            "${AWS::Region}": os.environ["AWS_REGION"],
        }  # fmt: skip
        words = [word if isinstance(word, str) else word["Fn::Sub"] for word in container["Command"]]
        for name, value in known.items():
            words = [word.replace(name, value) for word in words]
        words[words.index("--port") + 1] = str(port)
        with (tmp_path / "log").open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", WITHOUT_SPARK, *words],
                env=environment(), stdout=log, stderr=log, cwd=tmp_path,
            )  # fmt: skip
        try:
            address = f"http://127.0.0.1:{port}"
            end = time.monotonic() + 60
            while not (status := asked(f"{address}/health")[0]):
                assert process.poll() is None, (tmp_path / "log").read_text(encoding="utf-8")[-2000:]
                assert time.monotonic() < end
                time.sleep(0.1)
            assert status == 200
            assert asked(f"{address}/v1/datasets", "none")[0] == 401
            status, found = asked(f"{address}/v1/datasets", token)
            assert status == 200
            names = {one["dataset"] for one in found["items"]}
            assert names
            assert all(name.startswith("dms_sample.") for name in names)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)
