"""The archive of Spark's classes: the place that the configuration names."""

from pathlib import Path

import pytest
import yaml

from kedro_lakehouse.cli.class_archive import OPTIONS, archive_of

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.unit


def test_it_is_where_sessions_look_for_it() -> None:
    assert archive_of("-Xmx1g -XX:SharedArchiveFile=/cache/classes.jsa -Xlog:cds=off") == Path(
        "/cache/classes.jsa"
    )
    assert archive_of('-XX:SharedArchiveFile="/my cache/classes.jsa" -Xlog:cds=off') == Path(
        "/my cache/classes.jsa"
    )


@pytest.mark.parametrize("conf", [ROOT / "conf/base", ROOT / "src/kedro_lakehouse/starter/conf/base"])
def test_laptops_name_one(conf: Path) -> None:
    options = yaml.safe_load((conf / "spark.yml").read_text(encoding="utf-8"))[OPTIONS]
    assert archive_of(options) is not None


def test_clusters_name_none() -> None:
    options = yaml.safe_load((ROOT / "conf/aws/spark.yml").read_text(encoding="utf-8"))[OPTIONS]
    assert archive_of(options) is None
