"""The former name of ``column_search``, for embedders and indexes that were written with it."""

import sys

from kedro_lakehouse.column_search import embedders, indexes
from kedro_lakehouse.column_search.embedders import base as embedders_base
from kedro_lakehouse.column_search.indexes import base as indexes_base

__path__: list[str] = []  # a package: what it holds is already there
for _name, _module in {
    "embedders": embedders,
    "embedders.base": embedders_base,
    "indexes": indexes,
    "indexes.base": indexes_base,
}.items():
    sys.modules[f"{__name__}.{_name}"] = _module
