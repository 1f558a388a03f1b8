"""Sixty faults, each planted into one line of the package, and the tests that must find it.

``python -m faults`` plants one after the other into a copy of the package and runs these tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Fault:
    """A line of the package (``right``, in ``file``) that becomes ``wrong``."""

    what: str
    file: str
    right: str
    wrong: str
    found_by: str

    def planted_in(self, text: str) -> str:
        """The text of the file with the fault.

        Raises:
            AssertionError: The file does not have the line exactly once.
        """
        assert text.count(self.right) == 1, f"{self.file} has not once: {self.right}"
        return text.replace(self.right, self.wrong)


FAULTS = [
    Fault(**facts)
    for facts in yaml.safe_load(Path(__file__).with_name("planted.yml").read_text(encoding="utf-8"))
]
