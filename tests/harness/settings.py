"""What makes the settings of a project load soon in the process of the tests."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

from dynaconf.loaders import py_loader
from dynaconf.utils import files

if TYPE_CHECKING:
    from types import FrameType


def ask_frames_for_their_names_only() -> None:
    """Spare dynaconf the source lines of all frames.

    Each time that a project is opened, dynaconf calls ``inspect.stack`` four times and looks at the names of
    files alone. Under pytest, with its deep stack and thousands of modules, that took a fifth of a second.
    """
    for module in (files, py_loader):
        module.inspect = SimpleNamespace(stack=_frames)


def _frames() -> list[SimpleNamespace]:
    frame: FrameType | None = sys._getframe(1)
    found = []
    while frame is not None:
        found.append(SimpleNamespace(filename=frame.f_code.co_filename))
        frame = frame.f_back
    return found
