"""Delta tables that Spark wrote, with deletion vectors, mapped columns and widened types."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from kedro_lakehouse.discovery.look import find_datasets
from kedro_lakehouse.errors import UnreadableFileError

pytestmark = pytest.mark.unit

LAKES = Path(__file__).resolve().parents[2] / "data/lakes"
# What tests/compat expects of the same archive.
ITEM = [1, 3, 4, 5, 6]


@pytest.fixture
def item(tmp_path):
    """The table shop.item of that lake."""
    below = "delta-lake/data/lakehouse/warehouse/shop/item/"
    with tarfile.open(LAKES / "delta.tar.gz") as packed:
        members = [m for m in packed.getmembers() if m.name.removeprefix("./").startswith(below)]
        assert members
        packed.extractall(tmp_path, members=members, filter="data")
    return tmp_path / below


def test_rows_that_a_deletion_vector_hides_do_not_count(item):
    (found,) = find_datasets(str(item))
    assert (found.kind, found.rows, found.rows_exact, found.read) == ("delta", len(ITEM), True, len(ITEM))
    assert found.keys[0] == ("id",)
    assert {c.name: c.type for c in found.columns if not c.name.startswith("_")} == {
        "id": "bigint", "name": "string", "price": "bigint",
    }  # fmt: skip
    assert all(c.id is not None for c in found.columns)


def test_a_table_whose_log_is_damaged_is_an_error_that_names_it(item):
    entry = max(item.glob("_delta_log/*.json"))
    entry.write_text("{no json")
    with pytest.raises(UnreadableFileError, match="item cannot be read"):
        find_datasets(str(item))
