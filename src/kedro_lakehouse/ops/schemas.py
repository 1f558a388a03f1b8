"""The schemas of registries that records named, kept so that they are known when the registry is away."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.ops.store import SCHEMAS_OF_RECORDS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kedro_lakehouse.ops.store import OpsStore
    from kedro_lakehouse.schema_registries.base import Part

_UNIQUE: Final = ("table", "place", "id", "part", "subject", "batch")


@dataclass(frozen=True, kw_only=True)
class KeptSchema:
    """A schema as ``lake.ops.schemas`` has it.

    - ``place`` is the registry's address, ``id`` what records name.
    - ``subject`` is None until the registry answers which one the schema belongs to. If it belongs to none,
      ``subject`` is empty and ``version`` is 0.
    - ``batch`` is the table's first batch with a record of this schema. It is None if no record names the
      schema: then it is kept because later versions are compared with it.
    """

    table: str
    topic: str
    registry: str
    place: str
    id: str
    part: Part
    subject: str | None
    version: int | None
    text: str
    fingerprint: str
    batch: int | None
    run_id: str
    first_seen: datetime


def fingerprint_of(text: str) -> str:
    """The SHA-256 of a schema's text."""
    return hashlib.sha256(text.encode()).hexdigest()


class KeptSchemas:
    """The kept schemas of one lakehouse, read once a run; safe to share among threads."""

    def __init__(self, store: OpsStore) -> None:
        """Keep the store; nothing is read yet."""
        self._store = store
        self._rows: list[KeptSchema] | None = None
        self._reading = threading.Lock()

    def all(self) -> list[KeptSchema]:
        """Every kept schema, the first seen first."""
        with self._reading:
            if self._rows is None:
                names = [one.name for one in fields(KeptSchema)]  # a later version may store more
                stored = self._store.read(SCHEMAS_OF_RECORDS)
                rows = [KeptSchema(**{name: row[name] for name in names}) for row in stored]
                self._rows = sorted(rows, key=lambda one: one.first_seen)
            return list(self._rows)

    def of(self, table: str, place: str) -> list[KeptSchema]:
        """The schemas that a table's records named in a registry, and those that they are compared with."""
        return [one for one in self.all() if (one.table, one.place) == (table, place)]

    def keep(self, schemas: Sequence[KeptSchema]) -> None:
        """Write schemas that are not kept yet, in one commit; without any, nothing is written."""
        self._store.append(SCHEMAS_OF_RECORDS, [asdict(one) for one in schemas], unless=_UNIQUE)
        with self._reading:
            if self._rows is not None:
                self._rows += schemas
