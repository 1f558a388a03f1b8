"""The contract that every plug-in must fulfil, as pytest classes that its own tests subclass."""

from kedro_lakehouse.testing.formats import TableFormatContract
from kedro_lakehouse.testing.making import cut_off
from kedro_lakehouse.testing.samples import report, rows_of

__all__ = ["TableFormatContract", "cut_off", "report", "rows_of"]
