"""Lineage as text, as Mermaid and as Graphviz's DOT; names in it are texts, whatever they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kedro_lakehouse.lineage.graph import INDEX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kedro_lakehouse.lineage.graph import Kind, Lineage, LineageNode

KINDS: Final[Mapping[Kind, str]] = {
    "source": "source",
    "changes": "change log",
    "quarantine": "quarantine",
    "current": "rows as they are now",
    "history": "all versions",
    "archive": "archive",
    "view": "view of the history",
    "index": "search by meaning",
}
_SHAPES: Final[Mapping[Kind, tuple[str, str]]] = {
    "source": ("[/", "/]"), "view": ("([", "])"), "index": ("{{", "}}"),
}  # fmt: skip
_TABLE: Final = ("[(", ")]")
_DOT_SHAPES: Final[Mapping[Kind, str]] = {"source": "folder", "view": "note", "index": "hexagon"}
_MOST: Final = 60
"""Characters of a name that a picture shows: of a long place the end tells more."""


def tree_of(lineage: Lineage, group: str, *, up: bool) -> list[str]:
    """What a group is made from, or what is made from it, as lines of an indented tree; each group once."""
    pairs = lineage.between_groups()
    seen: set[str] = {group}
    details = {node.group: node for node in lineage.nodes.values() if node.table is None}

    def lines(here: str, stem: str) -> Iterator[str]:
        found = [(s if up else t, how) for s, t, how in pairs if (t if up else s) == here]
        hows: dict[str, list[str]] = {}
        for name, how in found:
            hows.setdefault(name, []).append(how)
        for number, (name, ways) in enumerate(hows.items(), start=1):
            is_last = number == len(hows)
            of_place = details.get(name)
            more = f"  {of_place.detail if of_place else ', '.join(dict.fromkeys(ways))}"
            again = name in seen and any(True for s, t, _ in pairs if (t if up else s) == name)
            yield f"{stem}{'└─' if is_last else '├─'} {name}{more}{'  (as above)' if again else ''}"
            if name not in seen:
                seen.add(name)
                yield from lines(name, f"{stem}{'   ' if is_last else '│  '}")

    return list(lines(group, ""))


def _drawn(lineage: Lineage, focus: str | None) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """The names that are drawn with their labels, and the arrows: other tables than the focus are one box."""
    labels: dict[str, str] = {}

    def box(node: LineageNode) -> str:
        name = node.name if node.group == focus else node.group
        kind = KINDS[node.kind] if name == node.name and node.group == focus else node.detail
        labels.setdefault(name, f"{_short(name)}\n{kind}" if kind else _short(name))
        return name

    arrows = [(box(lineage.nodes[e.source]), box(lineage.nodes[e.target]), e.how) for e in lineage.edges]
    for node in lineage.nodes.values():
        box(node)
    if focus is None:
        arrows = [one for one in arrows if one[1] != INDEX]
        labels.pop(INDEX, None)
    return labels, list(dict.fromkeys(one for one in arrows if one[0] != one[1]))


def _short(name: str) -> str:
    return name if len(name) <= _MOST else f"…{name[1 - _MOST :]}"


def mermaid_of(lineage: Lineage, focus: str | None) -> str:
    """A flowchart for Markdown; the stored tables of the focus stand in a frame of their own."""
    labels, arrows = _drawn(lineage, focus)
    ids = {name: f"n{number}" for number, name in enumerate(labels)}

    def box(name: str) -> str:
        node = lineage.nodes.get(name)
        left, right = _SHAPES.get(node.kind, _TABLE) if node else _TABLE
        return f'{ids[name]}{left}"{_for_mermaid(labels[name])}"{right}'

    inside = _inside(lineage, focus, labels)
    lines = ["flowchart LR"]
    if focus is not None:
        lines += [f'  subgraph focus["{_for_mermaid(focus)}"]', *[f"    {box(n)}" for n in inside], "  end"]
    lines += [f"  {box(name)}" for name in labels if name not in inside]
    lines += [f"  {ids[source]} -->|{how}| {ids[target]}" for source, target, how in arrows]
    return "\n".join(lines)


def dot_of(lineage: Lineage, focus: str | None) -> str:
    """The same for Graphviz, from top to bottom: so it can be read on a narrow screen too."""
    labels, arrows = _drawn(lineage, focus)
    ids = {name: f"n{number}" for number, name in enumerate(labels)}

    def box(name: str) -> str:
        node = lineage.nodes.get(name)
        shape = _DOT_SHAPES.get(node.kind, "cylinder") if node else "cylinder"
        return f'{ids[name]} [label="{_for_dot(labels[name])}" shape={shape}]'

    inside = _inside(lineage, focus, labels)
    lines = [
        "digraph lineage {",
        "  rankdir=TB; bgcolor=white",
        '  node [fontname="sans-serif" fontsize=11]; edge [fontname="sans-serif" fontsize=9]',
    ]
    if focus is not None:
        lines += [
            f'  subgraph cluster_focus {{ label="{_for_dot(focus)}"; style=rounded;',
            *[f"    {box(name)}" for name in inside],
            "  }",
        ]
    lines += [f"  {box(name)}" for name in labels if name not in inside]
    lines += [f'  {ids[source]} -> {ids[target]} [label="{how}"]' for source, target, how in arrows]
    return "\n".join([*lines, "}"])


def _inside(lineage: Lineage, focus: str | None, labels: Mapping[str, str]) -> Sequence[str]:
    """The names of what belongs to the focus."""
    return [n for n in labels if focus is not None and n in lineage.nodes and lineage.nodes[n].group == focus]


def _for_mermaid(text: str) -> str:
    """A text between quotes in Mermaid: what it would read as marks is written by numbers."""
    kept = {" ", ".", "_", "-", "/", ":", "(", ")", ",", "…"}
    made = (c if c.isalnum() or c in kept else "<br/>" if c == "\n" else f"#{ord(c)};" for c in text)
    return "".join(made)


def _for_dot(text: str) -> str:
    """A text between quotes in DOT, where a backslash and a quote would end or change it."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
