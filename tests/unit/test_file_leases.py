"""A lease as a lock on a local file."""

from __future__ import annotations

import pytest

from kedro_lakehouse.errors import LeaseLostError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.lease import lease

pytestmark = pytest.mark.unit

ITEM = TableName("shop", "item")


@pytest.mark.parametrize("made_anew", [False, True])
def test_a_holder_learns_that_its_lock_file_was_removed(tmp_path, made_anew):
    with lease(str(tmp_path), ITEM, "current") as held:
        held.check()
        (lock,) = tmp_path.iterdir()
        lock.unlink()
        if made_anew:
            lock.touch()
        with pytest.raises(LeaseLostError):
            held.check()
