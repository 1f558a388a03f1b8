"""An error of ours that a Python worker of Spark raises is known again on the driver."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from kedro_lakehouse.errors import OffsetsGoneError, SourceUnreachableError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.failures import known, message_of
from kedro_lakehouse.ops.from_workers import CarriedError, brought_back, carried

pytestmark = pytest.mark.unit


def of_spark(text: str) -> PySparkException:
    """What Spark makes of an error in a worker."""
    return PySparkException(f"An exception was thrown\nTraceback:\n  {text}\n\tat org.apache.spark")


def test_it_keeps_its_facts_on_the_way() -> None:
    sent = OffsetsGoneError(table=TableName("shop", "item"), partition="t:0", wanted=3, earliest=None)
    with pytest.raises(CarriedError) as raised, carried():
        raise sent
    back = known(of_spark(f"CarriedError: {raised.value}"))
    assert isinstance(back, OffsetsGoneError)
    assert (str(back.table), back.partition, back.wanted, back.earliest) == ("shop.item", "t:0", 3, None)
    assert str(back) == str(sent)
    assert message_of(of_spark(f"CarriedError: {raised.value}")) == str(sent)


def test_what_is_none_of_ours_passes() -> None:
    with pytest.raises(ZeroDivisionError), carried():
        raise ZeroDivisionError
    assert brought_back("kedro-lakehouse-error: is no error of ours") is None
    assert known(of_spark("ValueError: no")) is None


def test_only_kinds_of_ours_are_made() -> None:
    with pytest.raises(CarriedError) as raised, carried():
        raise SourceUnreachableError(table="t", place="p", detail="d")
    text = str(raised.value)
    assert isinstance(brought_back(text), SourceUnreachableError)
    strange = "kedro-lakehouse-error:eyJjb2RlIjogIk5PVEhJTkciLCAiZmFjdHMiOiB7fX0="
    assert brought_back(strange) is None
