"""Kedro's settings of this project."""

from kedro.config import OmegaConfigLoader

from kedro_lakehouse.project import CONFIG_LOADER_ARGS

CONFIG_LOADER_CLASS = OmegaConfigLoader
__all__ = ["CONFIG_LOADER_ARGS", "CONFIG_LOADER_CLASS"]
