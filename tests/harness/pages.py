"""What the Markdown pages of the repository hold: fenced blocks, shell commands, links and headings."""

from __future__ import annotations

import re
import shlex
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.project import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FENCE = re.compile(r"^( *)```([a-z]*)[^\n]*\n(.*?)^\1```[ ]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
_HEREDOC = re.compile(r"<<'?(\w+)'?")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block: where it stands, its language, its text, and the prose before it."""

    page: str
    line: int
    language: str
    text: str
    before: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Every page of the repository, but for data's and tools' own."""
    shown = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    return sorted([*shown, *(p for d in ("examples", "notebooks", "data", "bench") for p in _readmes(d))])


def _readmes(folder: str) -> Iterator[Path]:
    yield from (ROOT / folder).glob("README.md")
    yield from (ROOT / folder).glob("*/README.md")


def name(page: Path) -> str:
    """A page's path within the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, without their indentation."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page=name(page),
            line=text.count("\n", 0, found.start()) + 1,
            language=found[2],
            text=textwrap.dedent(found[3]),
            before=_FENCE.sub("", text[: found.start()]).rstrip().rpartition("\n\n")[2],
        )
        for found in _FENCE.finditer(text)
    ]


def commands(block: Block) -> Iterator[str]:
    """The shell commands of a block, one by one: a command may span lines by quotes or by a here-document."""
    lines = iter(block.text.splitlines())
    for line in lines:
        whole = line
        while _is_open(whole) and (more := next(lines, None)) is not None:
            whole += "\n" + more
        if found := _HEREDOC.search(line):
            whole += "\n" + "\n".join(_until(lines, found[1]))
        if whole.strip():
            yield whole


def _until(lines: Iterator[str], end: str) -> Iterator[str]:
    for line in lines:
        yield line
        if line == end:
            return


def _is_open(command: str) -> bool:
    """Whether a quotation is not closed yet; words of a listing, such as "it's", are none."""
    if not re.match(r"\S*(kedro|make|git|sed|cat|cp|mv|mkdir) ", command):
        return False
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return True
    return False


def links(page: Path) -> list[str]:
    """The relative links of a page, outside of code."""
    prose = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", page.read_text(encoding="utf-8")))
    return [link for link in _LINK.findall(prose) if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the site and a repository's own view make them."""
    headings = _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
