"""Draw the rooms in architecture.md: ``.venv/bin/python docs/generate_architecture.py [--check]``.

The rows are the layers that import-linter enforces (pyproject.toml); what a room is for is the first line of
its docstring.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "architecture.md"
PACKAGE: Final = ROOT / "src" / "kedro_lakehouse"
BEGIN: Final = "<!-- rooms: made by docs/generate_architecture.py -->"
END: Final = "<!-- end of rooms -->"
_WIDTH: Final = 38
_APART, _TOGETHER = "|", ":"
"""How a layer separates its rooms: those that may not import each other, and those that may."""

Row = tuple[list[str], bool]
"""The rooms of one layer, and whether they may import each other."""


def rows() -> list[Row]:
    """The layers of import-linter, the uppermost first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "layers")
    return [(re.findall(r"\w+", layer), _TOGETHER in layer) for layer in layers]


def purpose(room: str) -> str:
    """The first line of the docstring of a room, which is a package or one module."""
    package = PACKAGE / room / "__init__.py"
    path = package if package.is_file() else PACKAGE / f"{room}.py"
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not docstring:
        raise ValueError(f"{path.relative_to(ROOT)} has no docstring: say in its first line what it is for.")
    return docstring.splitlines()[0]


def _box(room: str) -> str:
    """One room as a box of Mermaid: its name, and below it what it is for."""
    plain = purpose(room).replace("``", "").replace('"', "'").replace("<", "(").replace(">", ")")
    return f'{room}["<b>{room}</b><br/>{"<br/>".join(textwrap.wrap(plain, _WIDTH))}"]'


def picture() -> str:
    """The rooms as a flowchart of Mermaid: one row for each layer, and an arrow from each row to the next.

    A dotted line joins rooms of one row of which one may import the other.
    """
    return "\n".join(["```mermaid", "flowchart TB", *_lines(), "```"])


def _lines() -> Iterator[str]:
    names = []
    for number, (rooms, together) in enumerate(rows(), start=1):
        names.append(rooms[0] if len(rooms) == 1 else f"row{number}")
        if len(rooms) == 1:
            yield f"  {_box(rooms[0])}"
            continue
        yield f'  subgraph row{number}[" "]'
        yield "    direction LR"
        yield from (f"    {_box(room)}" for room in rooms)
        if together:
            yield f"    {' -.- '.join(rooms)}"
        yield "  end"
    yield f"  {' --> '.join(names)}"


def _page() -> str:
    """The page with the picture as it is now."""
    text = PAGE.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE.name} lacks the marks around the picture: {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{picture()}\n{END}{after}"


def stale() -> list[str]:
    """The name of the page if its picture is not what the code says."""
    return [] if PAGE.read_text(encoding="utf-8") == _page() else [PAGE.name]


def main(arguments: list[str] | None = None) -> int:
    """Draw the picture, or tell with ``--check`` whether it is stale."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the picture is stale")
    if parser.parse_args(arguments).check:
        if names := stale():
            sys.stderr.write(
                f"Stale: {', '.join(names)}. Run .venv/bin/python docs/generate_architecture.py\n"
            )
        return int(bool(names))
    PAGE.write_text(_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
