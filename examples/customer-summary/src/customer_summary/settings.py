"""Kedro's settings of the project."""

from kedro_lakehouse.project import CONFIG_LOADER_ARGS

__all__ = ["CONFIG_LOADER_ARGS"]
