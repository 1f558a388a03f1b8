"""Draw the pictures of the explanation: ``.venv/bin/python docs/draw_pictures.py [--check]``.

They are files of SVG, so that the site and a repository's own view show them without a script or a network.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FOLDER: Final = Path(__file__).resolve().parent / "pictures"
STYLE: Final = """\
text { font: 14px system-ui, sans-serif; fill: #1f2933; }
.small { font-size: 12px; fill: #52606d; }
.strong { font-weight: 600; }
.box, .bar { fill: #e6f4f1; stroke: #00796b; }
.late { fill: #fff3d6; stroke: #b7791f; }
.bad { fill: #fbe4e4; stroke: #b83232; }
.line { stroke: #52606d; fill: none; }
.ground { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e7eb; } .small { fill: #b3bdc9; } .ground { fill: #1e2129; } .line { stroke: #b3bdc9; }
  .box, .bar { fill: #12403b; } .late { fill: #4a3712; } .bad { fill: #4d1f1f; }
}"""
HEAD: Final = (
    '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
)
MIDDLE: Final = 'text-anchor="middle"'


@dataclass
class Drawing:
    """One picture; lengths in pixels, from the upper left corner."""

    title: str
    width: int
    height: int
    parts: list[str] = field(default_factory=list)

    def text(self, x: int, y: int, words: str, kind: str = "", more: str = "") -> None:
        """Write words from a point on, or around it."""
        self.parts.append(f'<text x="{x}" y="{y}" class="{kind}" {more}>{escape(words)}</text>')

    def box(self, x: int, y: int, width: int, lines: Sequence[str], kind: str = "box") -> None:
        """Draw a box with a strong first line."""
        height = 20 + 18 * len(lines)
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" class="{kind}"/>')
        for number, line in enumerate(lines):
            look = "small" if number else "strong"
            self.text(x + width // 2, y + 23 + 18 * number, line, look, MIDDLE)

    def arrow(self, *points: tuple[int, int]) -> None:
        """Draw a line through points with a tip at its end."""
        path = " ".join(f"{x},{y}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" class="line" marker-end="url(#tip)"/>')

    def svg(self) -> str:
        """The file's text."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" role="img" aria-label="{escape(self.title)}">\n'
            f"<title>{escape(self.title)}</title>\n<style>\n{STYLE}\n</style>\n"
            f'<defs>{HEAD}<path d="M0,0 L8,4 L0,8" class="line"/></marker></defs>\n'
            f'<rect width="{self.width}" height="{self.height}" class="ground"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


@dataclass(frozen=True)
class Event:
    """An event of one key: its order, and its city (None: a delete)."""

    order: int
    city: str | None
    late: bool = False


EVENTS: Final = (Event(1, "Oslo"), Event(4, "Bergen"), Event(6, None), Event(9, "Oslo"))
IN_TIME: Final = (Event(1, "Oslo"), Event(9, "Bodø"))
LATE: Final = Event(5, "Bergen", late=True)


def versions(events: Sequence[Event]) -> list[tuple[int, int | None, str, bool]]:
    """First order, order of the end, city and whether a late event made it: neighbours differ."""
    found: list[tuple[int, int | None, str, bool]] = []
    ordered = sorted(events, key=lambda event: event.order)
    for event, after in zip(ordered, [*ordered[1:], None], strict=True):
        if event.city is not None:
            found.append((event.order, after.order if after else None, event.city, event.late))
    return found


def _timeline(drawing: Drawing, y: int, events: Sequence[Event], label: str) -> None:
    left, step, end = 170, 44, 12
    drawing.text(16, y + 22, label, "strong")
    for start, stop, city, late in versions(events):
        x, right = left + start * step, left + (stop or end) * step
        kind = "late" if late else "bar"
        drawing.parts.append(f'<rect x="{x}" y="{y}" width="{right - x}" height="34" rx="4" class="{kind}"/>')
        drawing.text((x + right) // 2, y + 22, city + (" →" if stop is None else ""), "", MIDDLE)
    for event in events:
        drawing.text(left + event.order * step, y + 52, str(event.order), "small", MIDDLE)


def flow() -> Drawing:
    """From landing files to the tables."""
    drawing = Drawing("From landing files to four tables", 740, 250)
    drawing.box(16, 90, 130, ["landing files"])
    drawing.box(270, 72, 180, ["t_changes", "every accepted event"])
    drawing.box(270, 182, 180, ["t_quarantine", "raw record, place, reasons"])
    drawing.box(574, 16, 150, ["t", "one row a key"])
    drawing.box(574, 128, 150, ["t_history", "one row a version"])
    drawing.arrow((146, 105), (270, 100))
    drawing.arrow((146, 118), (200, 118), (200, 210), (270, 210))
    drawing.arrow((450, 90), (510, 44), (574, 44))
    drawing.arrow((450, 110), (510, 156), (574, 156))
    drawing.text(208, 94, "ingestion", "small", MIDDLE)
    drawing.text(518, 34, "cdc_merge", "small", MIDDLE)
    drawing.text(522, 176, "scd2", "small", MIDDLE)
    return drawing


def events_to_tables() -> Drawing:
    """Four events of one key, its versions and its current row."""
    drawing = Drawing("Four events of key 7, its versions and its current row", 740, 250)
    drawing.text(16, 36, "events", "strong")
    for event in EVENTS:
        words = ["delete" if event.city is None else "upsert", event.city or "key only"]
        drawing.box(128 + event.order * 44, 12, 84, words, "bad" if event.city is None else "box")
    drawing.text(16, 104, "by _order", "small")
    _timeline(drawing, 112, EVENTS, "t_history")
    drawing.text(16, 212, "t", "strong")
    last = EVENTS[-1]
    drawing.box(170, 184, 380, [f"id 7, city {last.city}, _order {last.order}"])
    drawing.text(16, 244, "Between 6 and 9 there is no version: the key was gone.", "small")
    return drawing


def late_event() -> Drawing:
    """A late event splits a version."""
    drawing = Drawing("A late event splits a version and leaves the newer one", 740, 230)
    _timeline(drawing, 16, IN_TIME, "before")
    drawing.text(16, 106, "arrives now", "strong")
    drawing.box(170 + LATE.order * 44 - 60, 80, 120, [f"{LATE.order}: {LATE.city}"], "late")
    _timeline(drawing, 140, (*IN_TIME, LATE), "after")
    drawing.text(16, 222, "Had the event come in time, the tables would be the same.", "small")
    return drawing


def tie() -> Drawing:
    """Two events of a key with an equal order."""
    drawing = Drawing("Two events of one key with equal order", 740, 220)
    drawing.box(16, 16, 190, ["upsert", "order 5, city Oslo"])
    drawing.box(16, 80, 190, ["delete", "order 5"], "bad")
    for y, rule, outcome, kind in (
        (8, "on_tie: delete_wins (default)", ["no row"], "bad"),
        (56, "on_tie: upsert_wins", ["city Oslo"], "box"),
        (104, "on_tie: fail", ["batch refused"], "late"),
    ):
        drawing.arrow((206, 76), (280, y + 24), (580, y + 24))
        drawing.text(294, y + 18, rule, "small")
        drawing.box(580, y, 144, outcome, kind)
    drawing.text(16, 176, "Of two upserts with equal order the greater row wins, column by column.", "small")
    drawing.text(16, 198, "Arrival plays no part, so every run and both tables agree.", "small")
    return drawing


def commit() -> Drawing:
    """One batch on its way, and what a kill does."""
    drawing = Drawing("Five steps of a batch, what readers see, and what a kill does", 740, 262)
    steps = [
        ("plan", "number, files"), ("stage", "rows on a branch"), ("audit", "counts, keys"),
        ("publish", "rows + bookmark"), ("acknowledge", "row in batches"),
    ]  # fmt: skip
    for number, (name, what) in enumerate(steps):
        x = 16 + number * 146
        drawing.box(x, 16, 124, [name, what], "late" if name == "publish" else "box")
        if number:
            drawing.arrow((x - 22, 44), (x, 44))
    drawing.text(16, 112, "readers see", "strong")
    published = 516
    drawing.box(16, 122, published - 16, ["batch 6"])
    drawing.box(published, 122, 724 - published, ["batch 7"])
    drawing.text(16, 190, "killed here, the next run", "strong")
    drawing.box(16, 200, published - 16, ["drops the stage, takes the same files again"], "bad")
    drawing.box(published, 200, 724 - published, ["writes the owed row"], "bad")
    return drawing


def database_to_table() -> Drawing:
    """The way of a changed row from a database to the tables."""
    drawing = Drawing("The way of a changed row from a database to the tables", 760, 160)
    parts = [
        ("database", "UPDATE customer"), ("Debezium", "reads its log"), ("Kafka", "a topic a table"),
        ("the loop", "batch by batch"),
    ]  # fmt: skip
    for number, (name, what) in enumerate(parts):
        x = 16 + number * 146
        drawing.box(x, 46, 124, [name, what])
        if number:
            drawing.arrow((x - 22, 74), (x, 74))
    for y, name, what in (
        (8, "customer", "as it is now"), (62, "customer_history", "each version"),
        (116, "city_sales", "made from both"),
    ):  # fmt: skip
        drawing.arrow((578, 74), (606, y + 18))
        drawing.text(612, y + 16, name, "strong")
        drawing.text(612, y + 32, what, "small")
    return drawing


def row_before_and_after() -> Drawing:
    """A row, its versions and the derived rows, before and after a change in the database."""
    drawing = Drawing("The tables before and after one UPDATE", 740, 236)
    for y, table, before, after in (
        (36, "customer", ["id 1, city Kiel"], ["id 1, city Trier"]),
        (88, "customer_history", ["Kiel, current"], ["Kiel, ended", "Trier, current"]),
        (158, "city_sales", ["Kiel: 66 purchases"], ["Kiel: 60 purchases", "Trier: 6 purchases"]),
    ):
        drawing.text(16, y + 24, table, "strong")
        drawing.box(180, y, 220, before)
        drawing.box(500, y, 220, after, "late")
        drawing.arrow((400, y + 19), (500, y + 19))
    drawing.text(290, 20, "before", "small", MIDDLE)
    drawing.text(610, 20, "some seconds after the UPDATE", "small", MIDDLE)
    return drawing


PICTURES: Final[dict[str, Callable[[], Drawing]]] = {
    "flow.svg": flow, "events-to-tables.svg": events_to_tables, "late-event.svg": late_event,
    "tie.svg": tie, "commit.svg": commit, "database-to-table.svg": database_to_table,
    "row-before-and-after.svg": row_before_and_after,
}  # fmt: skip


def stale() -> list[str]:
    """The names of pictures that are not what the code draws."""
    return [
        name for name, draw in PICTURES.items()
        if not (FOLDER / name).is_file() or (FOLDER / name).read_text(encoding="utf-8") != draw().svg()
    ]  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Draw the pictures, or tell with ``--check`` which are stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a picture is stale")
    if parser.parse_args(arguments).check:
        if names := stale():
            sys.stderr.write(f"Stale: {', '.join(names)}. Run .venv/bin/python docs/draw_pictures.py\n")
        return int(bool(names))
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw().svg(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
