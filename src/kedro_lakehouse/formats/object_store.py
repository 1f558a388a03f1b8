"""Translate Spark's settings of an object store into those of delta-rs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_S3A: Final = "spark.hadoop.fs.s3a."
_WORDS: Final = {
    "endpoint": "AWS_ENDPOINT_URL",
    "endpoint.region": "AWS_REGION",
    "access.key": "AWS_ACCESS_KEY_ID",
    "secret.key": "AWS_SECRET_ACCESS_KEY",
    "session.token": "AWS_SESSION_TOKEN",
}


def storage_options(spark_conf: Mapping[str, str], place: str) -> dict[str, str]:
    """The options for a place; if Spark's settings hold no credentials, AWS's own are used, as by Spark."""
    if not place.startswith(("s3:", "s3a:")):
        return {}
    found = {word: spark_conf[_S3A + key] for key, word in _WORDS.items() if spark_conf.get(_S3A + key)}
    if found.get("AWS_ENDPOINT_URL", "").startswith("http:"):
        found["AWS_ALLOW_HTTP"] = "true"
    if spark_conf.get(_S3A + "path.style.access") != "true":
        found["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] = "true"
    return found
