"""The schemas that the records of a stream name: what is kept of them, what the registry says, what fits."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import SourceUnreachableError, cut
from kedro_lakehouse.ops.schemas import KeptSchema, fingerprint_of
from kedro_lakehouse.schema_registries.base import NoAnswerError, SchemaVersion, UnknownSchemaError
from kedro_lakehouse.schema_registries.compatibility import misfits
from kedro_lakehouse.schema_registries.records import RecordReader

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kedro_lakehouse.config.sources import Compatibility
    from kedro_lakehouse.ops.schemas import KeptSchemas
    from kedro_lakehouse.schema_registries.avro import Form
    from kedro_lakehouse.schema_registries.base import Part, SchemaRegistry

logger = logging.getLogger(__name__)
_LONGEST_REASON: Final = 300
_USER: Final = re.compile(r"//[^/@]*@")


@dataclass(kw_only=True)
class TopicSchemas:
    """The schemas that the records of one table name in one registry."""

    table: str
    topic: str
    name: str
    """The name of the registry in registries.yml."""
    mode: Compatibility
    registry: SchemaRegistry
    kept: KeptSchemas
    run_id: str
    _new: list[KeptSchema] = field(default_factory=list)
    _used: set[tuple[Part, str, str | None]] = field(default_factory=set)
    """Which of the new ones records named."""
    _said: set[str] = field(default_factory=set)
    """Of which ones the log has said that they do not fit."""

    def reader(self, named: Collection[tuple[Part, str]], form: Form) -> RecordReader:
        """What reads records that name these schemas: kept ones, or else the registry is asked.

        A kept schema is used without the registry: a batch that names no other goes on while it is away.

        Raises:
            SourceUnreachableError: The registry must be asked, and does not answer.
        """
        try:
            found = {one: schema for one in sorted(named) if (schema := self._schema(one)) is not None}
        except NoAnswerError as error:
            place = f"the schema registry {self.registry.place}"
            raise SourceUnreachableError(table=self.table, place=place, detail=str(error)) from error
        refused = frozenset(one for one, schema in found.items() if not self._fits(schema))
        # In the order of versions: so a column's type does not depend on which record came first.
        ordered = sorted(found.items(), key=lambda one: (one[1].version or 0, one[0]))
        values, keys = (
            {one[1]: schema.text for one, schema in ordered if one[0] == part and one not in refused}
            for part in ("value", "key")
        )
        return RecordReader(self.registry, form, values, keys, refused)

    def keep(self, batch: int) -> None:
        """Write the schemas that were found since the last call; ``batch`` is the first that names them."""
        rows = [replace(one, batch=batch) if _key(one) in self._used else one for one in self._new]
        if rows:
            self.kept.keep(rows)
        self._new, self._used = [], set()

    def _rows(self) -> list[KeptSchema]:
        return [*self.kept.of(self.table, self._place), *self._new]

    @property
    def _place(self) -> str:
        """The registry's address: another registry of the same name gives its numbers to other schemas."""
        return _USER.sub("//", self.registry.place)

    def _schema(self, named: tuple[Part, str]) -> KeptSchema | None:
        """A schema with its place in its subject; None if the registry does not know it."""
        rows = [one for one in self._rows() if (one.part, one.id) == named]
        held = next((one for one in rows if one.subject is not None or self.mode == "NONE"), None)
        if held is None:
            try:
                text = rows[0].text if rows else self.registry.schema(named[1])
            except UnknownSchemaError:
                return None
            held = self._ask(*named, text)
            self._new.append(held)
        key = _key(held)
        if key not in self._used and not any(_key(one) == key and one.batch is not None for one in rows):
            self._used.add(key)
            if not any(_key(one) == key for one in self._new):
                self._new.append(replace(held, run_id=self.run_id, first_seen=datetime.now(UTC)))
        return held

    def _ask(self, part: Part, identity: str, text: str) -> KeptSchema:
        """Ask for the place of a schema in its subject and, where it is, for the versions before it."""
        try:
            place = self.registry.subject(identity, self._subjects(part, text))
            if place is None:
                return self._row(part, "", SchemaVersion(number=0, identity=identity, text=text))
            subject, number = place
            known = {one.version for one in self._rows() if one.subject == subject and one.version}
            found = self.registry.versions(subject, number, known)
        except NoAnswerError:
            if self.mode != "NONE":
                raise
            # Every version is read, so its number is not needed.
            return self._row(part, None, SchemaVersion(number=0, identity=identity, text=text))
        self._new += [self._row(part, subject, one) for one in found if one.number < number]
        return self._row(part, subject, SchemaVersion(number=number, identity=identity, text=text))

    def _subjects(self, part: Part, text: str) -> list[str]:
        """The names of subjects in the three usual manners, that of the topic first."""
        name, space = _name_of(text)
        full = name if "." in name or not space else f"{space}.{name}"
        return [f"{self.topic}-{part}", *([f"{self.topic}-{full}", full] if full else [])]

    def _row(self, part: Part, subject: str | None, version: SchemaVersion) -> KeptSchema:
        return KeptSchema(
            table=self.table, topic=self.topic, registry=self.name, place=self._place, id=version.identity,
            part=part, subject=subject, version=None if subject is None else version.number,
            text=version.text, fingerprint=fingerprint_of(version.text), batch=None, run_id=self.run_id,
            first_seen=datetime.now(UTC),
        )  # fmt: skip

    def _fits(self, schema: KeptSchema) -> bool:
        if not schema.subject or self.mode == "NONE":
            return True
        reason = misfits(lineage(schema, self._rows()), self.mode).get(schema.version or 0)
        if reason is not None and schema.id not in self._said:
            self._said.add(schema.id)
            logger.warning(
                "%s: version %s of %s (schema %s) does not fit %s, its records go to quarantine: %s",
                self.table, schema.version, schema.subject, schema.id, self.mode,
                cut(reason, _LONGEST_REASON),
            )  # fmt: skip
        return reason is None


def _key(one: KeptSchema) -> tuple[Part, str, str | None]:
    return one.part, one.id, one.subject


def _name_of(text: str) -> tuple[str, str]:
    """The name and the namespace of a record's schema; empty for others, and for what is no schema."""
    try:
        schema: Any = json.loads(text)
    except ValueError:
        return "", ""
    named = schema if isinstance(schema, dict) else {}
    return str(named.get("name", "")), str(named.get("namespace", ""))


def lineage(schema: KeptSchema, rows: Iterable[KeptSchema]) -> list[SchemaVersion]:
    """The versions of the subject of a kept schema, up to its own."""
    found = {
        one.version: SchemaVersion(number=one.version, identity=one.id, text=one.text)
        for one in [*rows, schema]
        if one.subject == schema.subject and one.version and one.version <= (schema.version or 0)
    }
    return list(found.values())
