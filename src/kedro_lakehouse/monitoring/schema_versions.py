"""The versions of the schemas that the records of topics name: what changed, whether they fit, since when."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.schema_registries.compatibility import changes_between, misfits
from kedro_lakehouse.sources.schemas import lineage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kedro_lakehouse.config.sources import Compatibility
    from kedro_lakehouse.ops.schemas import KeptSchema
    from kedro_lakehouse.project import Project


@dataclass(frozen=True, kw_only=True)
class VersionStatus:
    """A version of a schema, as a table that reads its topic sees it.

    ``fits`` and ``mode`` are None where the table is declared no more; ``reason`` says why it does not fit.
    ``changes`` are those from the version before, in words. ``since`` and ``batch`` are those of the first
    record that named it; None where none did.
    """

    table: str
    topic: str
    registry: str
    part: str
    subject: str | None
    version: int | None
    id: str
    fingerprint: str
    mode: Compatibility | None
    fits: bool | None
    reason: str | None
    changes: Sequence[str]
    since: datetime | None
    batch: int | None
    schema: str


def schema_versions(project: Project) -> list[VersionStatus]:
    """All kept versions, by table, part of the record, subject and version; the registry is not asked."""
    by_subject: dict[tuple[str, ...], dict[str, KeptSchema]] = defaultdict(dict)
    for one in project.schemas.all():
        known = by_subject[one.table, one.topic, one.place, one.part, one.subject or ""]
        held = known.get(one.id)
        if held is None or (held.batch is None and one.batch is not None):
            known[one.id] = one
    found = []
    for subject, known in sorted(by_subject.items()):
        found += _of_subject(list(known.values()), _mode(project, subject[0], subject[1]))
    return found


def _mode(project: Project, table: str, topic: str) -> Compatibility | None:
    """The mode that a table's source declares; None where the table does not read the topic any more."""
    config = next((c for name, c in project.declarations.tables.items() if str(name) == table), None)
    source: Any = project.declarations.sources.get(config.source or "") if config else None
    if config is None or getattr(source, "schema_registry", None) is None:
        return None
    return source.compatibility if source.stream_of(config) == topic else None


def _of_subject(known: Sequence[KeptSchema], mode: Compatibility | None) -> list[VersionStatus]:
    ordered = sorted(known, key=lambda one: (one.version or 0, one.first_seen))
    has_order = bool(ordered[-1].subject)
    refused = misfits(lineage(ordered[-1], ordered), mode) if mode and has_order else {}
    found = []
    for number, one in enumerate(ordered):
        before = ordered[number - 1] if number and has_order else None
        found.append(
            VersionStatus(
                table=one.table, topic=one.topic, registry=one.registry, part=one.part, subject=one.subject,
                version=one.version, id=one.id, fingerprint=one.fingerprint, mode=mode,
                fits=None if mode is None else one.version not in refused,
                reason=refused.get(one.version or 0),
                changes=changes_between(before.text, one.text) if before else [],
                since=one.first_seen if one.batch is not None else None, batch=one.batch, schema=one.text,
            )
        )  # fmt: skip
    return found
