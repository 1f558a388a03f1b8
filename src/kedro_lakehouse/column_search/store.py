"""``lake.ops.column_signatures`` and its history: read without a JVM, changed in one commit each."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kedro_lakehouse.column_search.signature import (
    ASPECTS,
    KEY_FIELDS,
    PROFILE_FIELDS,
    SCHEMA,
    TEXT_FIELDS,
    VECTOR_FIELDS,
    ColumnSignature,
    from_arrow,
    to_arrow,
    vectors_of,
)
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.lease import lease
from kedro_lakehouse.ops.patience import Patience

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from pyiceberg.table import Table, Transaction

    from kedro_lakehouse.column_search.signature import Aspect
    from kedro_lakehouse.session.catalog import MetadataCatalog

SIGNATURES: Final = TableName.ops("column_signatures")
HISTORY: Final = TableName.ops("column_signatures_history")
_STATE: Final = "kedro_lakehouse.column_index"
"""Table property with the number and time of the last change; both tables bear the same when all is well."""
_PROPERTIES: Final = {
    "format-version": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
_TIME: Final = pa.timestamp("us", tz="UTC")
_VERSION_FIELDS: Final = (*KEY_FIELDS, *PROFILE_FIELDS, *TEXT_FIELDS)
HISTORY_SCHEMA: Final = pa.schema(
    [*_VERSION_FIELDS, ("effective_from", _TIME), ("effective_to", _TIME), ("is_current", pa.bool_())]
)
"""One row a version of a (column_id, model_id): a version ends when the fingerprint changes."""
_STANDING: Final = (
    "column_id",
    "model_id",
    "namespace",
    "table",
    "source",
    "location",
    "version",
    "added",
    "fingerprint",
)
Key = tuple[str, str]


@dataclass(frozen=True)
class SignatureChange:
    """What an index run found: signatures to put in place, and the keys of those that are gone.

    ``embedded`` counts the signatures whose vectors were computed.
    """

    upserts: Sequence[ColumnSignature] = ()
    gone: Collection[Key] = ()
    embedded: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.upserts or self.gone)


@dataclass(frozen=True)
class Applied:
    """What a commit of signatures did."""

    number: int
    inserted: int
    updated: int
    deleted: int


class SignatureStore:
    """The signatures of every model, and their versions."""

    def __init__(self, catalog: MetadataCatalog, leases: str) -> None:
        """Keep where the tables are; they are made with the first signature."""
        self._catalog, self._leases = catalog, leases

    def standing(self) -> list[dict[str, Any]]:
        """Key, place, version and fingerprint of every signature that is kept."""
        rows: list[dict[str, Any]] = self._rows(SIGNATURES, SCHEMA, _STANDING).to_pylist()
        return rows

    def snapshot_id(self) -> int | None:
        """The state of the signatures; None where there are none."""
        found = self._catalog.outline(SIGNATURES)
        return None if found is None else found.snapshot_id

    def read(self, model_id: str) -> list[ColumnSignature]:
        """All signatures of a model with their vectors, by column."""
        rows = self._catalog.read_rows(SIGNATURES, ("model_id", model_id))
        if rows is None:
            return []
        by = [(name, "ascending") for name in ("namespace", "table", "ordinal")]
        return from_arrow(rows.take(pc.sort_indices(rows, by)))  # Table.sort_by would import pandas

    def models(self) -> list[str]:
        """The models that have signatures."""
        return sorted(set(self._rows(SIGNATURES, SCHEMA, ("model_id",)).column("model_id").to_pylist()))

    def vectors(self, fingerprints: Collection[str]) -> dict[str, dict[Aspect, NDArray[np.float32]]]:
        """The vectors that are known for some fingerprints."""
        if not fingerprints:
            return {}
        fields = ("fingerprint", *[name for name, _ in VECTOR_FIELDS])
        rows = self._rows(SIGNATURES, SCHEMA, fields, _among("fingerprint", fingerprints))
        matrices = {aspect: vectors_of(rows, aspect) for aspect in ASPECTS}
        return {
            fingerprint: {a: matrix[place] for a, matrix in matrices.items() if matrix[place].any()}
            for place, fingerprint in enumerate(rows.column("fingerprint").to_pylist())
        }

    def versions(self, column_id: str, model_id: str) -> list[dict[str, Any]]:
        """What the column was over time, the newest version first: counts and type, no values."""
        import pyiceberg.expressions as built

        fields = ("effective_from", "effective_to", "kind", "rows", "nulls", "distinct", "version")
        wanted = built.And(_equals("column_id", column_id), _equals("model_id", model_id))
        rows = self._rows(HISTORY, HISTORY_SCHEMA, fields, wanted).select(fields)
        versions: list[dict[str, Any]] = rows.sort_by([("effective_from", "descending")]).to_pylist()
        return versions

    def _rows(
        self, name: TableName, schema: pa.Schema, fields: tuple[str, ...], wanted: Any = "true"
    ) -> pa.Table:
        """Some rows and columns of a table; none where it has not been made yet."""
        if wanted == "true":
            rows = self._catalog.read_rows(name, columns=fields)
            return schema.empty_table() if rows is None else rows
        found = self._catalog.find(name)
        if found is None:
            return schema.empty_table()
        return found.scan(row_filter=wanted, selected_fields=fields).to_arrow()

    def apply(self, change: SignatureChange) -> Applied | None:
        """Put a change in place: one commit of the signatures, then one of their history.

        Where nothing changes nothing is written, unless an earlier run was killed between the two commits:
        then the history is completed first. A lease keeps two runs of one machine apart; of two machines
        the second one's commit fails.

        Raises:
            CommitConflictError: Other processes won every race; nothing was written.
        """
        with lease(self._leases, SIGNATURES, "index"):
            self._complete_history()
            if not change:
                return None
            applied = self._commit(change)
            self._complete_history()
        return applied

    def _commit(self, change: SignatureChange) -> Applied:
        from pyiceberg.exceptions import CommitFailedException

        rows = to_arrow(change.upserts)
        keys = {(one.column_id, one.model_id) for one in change.upserts} | set(change.gone)
        patience = Patience(SIGNATURES)
        while True:
            table = self._open(SIGNATURES, SCHEMA)
            held = {(row["column_id"], row["model_id"]) for row in self.standing()}
            state = json.loads(table.properties.get(_STATE, '{"number": 0}'))
            now = {"number": state["number"] + 1, "at": datetime.now(UTC).isoformat()}
            try:
                with table.transaction() as transaction:
                    _replace(transaction, keys & held, rows)
                    transaction.set_properties({_STATE: json.dumps(now)})
            except CommitFailedException as error:
                patience.pause(error)
                continue
            inserted = sum((one.column_id, one.model_id) not in held for one in change.upserts)
            return Applied(
                number=now["number"],
                inserted=inserted,
                updated=len(change.upserts) - inserted,
                deleted=len(set(change.gone) & held),
            )

    def _complete_history(self) -> None:
        """Bring the history to the state of the signatures, however many commits it lags behind."""
        current = self._catalog.find(SIGNATURES)
        if current is None or _STATE not in current.properties:
            return
        history = self._open(HISTORY, HISTORY_SCHEMA)
        if history.properties.get(_STATE) == current.properties[_STATE]:
            return
        at = datetime.fromisoformat(json.loads(current.properties[_STATE])["at"])
        names = tuple(name for name, _ in _VERSION_FIELDS)
        wanted = current.scan(selected_fields=names).to_arrow().select(names)
        open_rows = history.scan(row_filter=_equals("is_current", True)).to_arrow()  # noqa: FBT003 - a value
        closed, opened = version_changes(open_rows, wanted, at)
        keys = {(r["column_id"], r["model_id"]) for r in closed.select(["column_id", "model_id"]).to_pylist()}
        with history.transaction() as transaction:
            _replace(transaction, keys, pa.concat_tables([closed, opened]), only_current=True)
            transaction.set_properties({_STATE: current.properties[_STATE]})

    def _open(self, name: TableName, schema: pa.Schema) -> Table:
        found = self._catalog.find(name)
        if found is not None:
            if set(schema.names) - {field.name for field in found.schema().fields}:
                with found.update_schema() as update:
                    update.union_by_name(schema)
            return found
        self._catalog.ensure_namespace(name.namespace)
        return self._catalog.catalog.create_table_if_not_exists(
            name.identifier, schema=schema, properties=_PROPERTIES
        )


def version_changes(open_rows: pa.Table, wanted: pa.Table, at: datetime) -> tuple[pa.Table, pa.Table]:
    """The versions that end at a time, and those that begin then.

    Schema:
        open_rows: ``HISTORY_SCHEMA``, current versions only.
        wanted: its first columns, one row a (column_id, model_id).
    """
    held, now = _fingerprints(open_rows), _fingerprints(wanted)
    ending = pa.array([now.get(key) != print_ for key, print_ in held.items()], pa.bool_())
    starting = pa.array([held.get(key) != print_ for key, print_ in now.items()], pa.bool_())
    ended = open_rows.filter(ending).select(HISTORY_SCHEMA.names[:-2])
    closed = _completed(ended, effective_to=at, is_current=False)
    opened = _completed(wanted.filter(starting), effective_from=at, effective_to=None, is_current=True)
    return closed, opened


def _fingerprints(rows: pa.Table) -> dict[Key, str]:
    columns = rows.select(["column_id", "model_id", "fingerprint"]).to_pylist()
    return {(row["column_id"], row["model_id"]): row["fingerprint"] for row in columns}


def _completed(rows: pa.Table, **facts: object) -> pa.Table:
    """Rows of the history, with the columns that they lack: one value of each for all rows."""
    for name, value in facts.items():
        kind = HISTORY_SCHEMA.field(name).type
        rows = rows.append_column(name, pa.array([value] * rows.num_rows, kind))
    return rows.cast(HISTORY_SCHEMA)


def _replace(
    transaction: Transaction, keys: Iterable[Key], rows: pa.Table, *, only_current: bool = False
) -> None:
    """Delete the rows of some keys and append others, in one transaction."""
    from pyiceberg.expressions import And

    by_model: dict[str, list[str]] = {}
    for column_id, model_id in sorted(keys):
        by_model.setdefault(model_id, []).append(column_id)
    for model_id, columns in by_model.items():
        rows_to_delete = And(_equals("model_id", model_id), _among("column_id", columns))
        if only_current:
            rows_to_delete = And(rows_to_delete, _equals("is_current", True))  # noqa: FBT003 - a value
        transaction.delete(rows_to_delete)
    if rows.num_rows:
        transaction.append(rows)


def _equals(name: str, value: object) -> Any:
    import pyiceberg.expressions as built

    return built.EqualTo(name, value)  # type: ignore[call-arg, arg-type]


def _among(name: str, values: Collection[str]) -> Any:
    import pyiceberg.expressions as built

    return built.In(name, sorted(values))  # type: ignore[call-arg, arg-type]
