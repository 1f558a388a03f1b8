"""What a table's nodes do, as a picture that kedro-viz shows beside each of them (Mermaid)."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Final

from kedro.utils import KedroExperimentalWarning

from kedro_lakehouse.changes.contract import OnTie, TableContract

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kedro.pipeline.preview_contract import MermaidPreview

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import Role, TableName
_MANY: Final = 6
_PENDING: Final = '"Events that the table does not have yet"'
_TIES: Final[Mapping[OnTie, str]] = {
    "delete_wins": "of a tie a delete wins",
    "upsert_wins": "of a tie an upsert wins",
    "fail": "a tie fails the batch",
}


def picture_of(name: TableName, table: TableConfig, role: Role) -> Callable[[], MermaidPreview]:
    """The picture of a table's node, for its ``preview_fn``; nothing is read before it is shown."""
    # Kedro says once a process that pictures of nodes may change: no user of this package can act on it.
    warnings.filterwarnings(
        "ignore", message="The 'preview_fn' feature is experimental", category=KedroExperimentalWarning
    )
    return partial(picture, name, table, role)


def picture(name: TableName, table: TableConfig, role: Role) -> MermaidPreview:
    """The rule by which a stored table is filled, as declared, and where it stands by its metadata."""
    from kedro.pipeline.preview_contract import MermaidPreview

    contract = TableContract.of(name, table)
    if role == "changes":
        lines = _ingestion(name, table, contract)
    elif table.write != "merge":
        lines = _plain(name, table)
    else:
        lines = _history(table, contract) if role == "history" else _current(table, contract)
    lines.append(f"table[({_standing(name, role)})]")
    return MermaidPreview(content="\n  ".join(["flowchart TD", *lines]))


def _ingestion(name: TableName, table: TableConfig, contract: TableContract) -> list[str]:
    origin = f"Files of {table.source}, folder {table.entity}" if table.source else "A query of other tables"
    checks = _columns(("well-formed", "key is there", *contract.checks))
    stop = (
        f"fails over {100 * table.max_invalid_fraction:g}% invalid" if table.max_invalid_fraction < 1 else ""
    )
    return [
        f"landed([{_text(origin)}])",
        f"landed --> event[{_text('Each record becomes a change event')}]",
        f"event --> valid{{{_text('Valid?', checks, stop)}}}",
        "valid -- yes --> table",
        f"valid -- no --> quarantine[({_standing(name, 'quarantine')})]",
    ]


def _current(table: TableConfig, contract: TableContract) -> list[str]:
    last = _text("The last event of each key counts", f"key: {_columns(contract.keys)}", _order(contract))
    return [
        f"events([{_PENDING}])",
        f"events --> last[{last}]",
        f"last --> newer{{{_text('Later than', 'the row?')}}}",
        f"newer -- no --> kept[{_text('The row stays')}]",
        f"newer -- insert, update --> put[{_text('The row is put in place', _partial(contract))}]",
        f"newer -- delete --> gone[{_text('The row is deleted', _deletes(table))}]",
        "put --> table",
        "gone --> table",
    ]


def _history(table: TableConfig, contract: TableContract) -> list[str]:
    place = _text(
        "Each finds its place among the versions", f"key: {_columns(contract.keys)}", _order(contract)
    )
    opened = _text("A version opens,", "the one before it ends", _partial(contract))
    return [
        f"events([{_PENDING}])",
        f"events --> place[{place}]",
        f"place --> differs{{{_text('Differs from the', 'version before?', _tracked(contract))}}}",
        f"differs -- no --> kept[{_text('No new version')}]",
        f"differs -- insert, update --> opened[{opened}]",
        f"differs -- delete --> ended[{_text('The version ends', _deletes(table))}]",
        "opened --> table",
        "ended --> table",
    ]


def _tracked(contract: TableContract) -> str:
    if contract.track_include is not None:
        return _columns(contract.track_include)
    return f"all but {_columns(contract.track_exclude)}" if contract.track_exclude is not None else ""


def _plain(name: TableName, table: TableConfig) -> list[str]:
    rule = "Rows are added" if table.write == "append" else "Rows take the place of all others"
    return [f"events([{_text(f'New rows of {name}')}])", f"events --> rule[{_text(rule)}]", "rule --> table"]


def _order(contract: TableContract) -> str:
    by = _columns(contract.order_by) if contract.order_by else "the order of the source"
    return f"by {by}; {_TIES[contract.on_tie]}"


def _partial(contract: TableContract) -> str:
    if contract.ignore_null:
        kept = "any column" if contract.ignore_null == "*" else _columns(contract.ignore_null)
        return f"null keeps the value of {kept}"
    return "what was not sent keeps its value" if contract.unset_marker is not None else ""


def _deletes(table: TableConfig) -> str:
    return "" if table.hard_deletes == "close" else f"missing in an extract: {table.hard_deletes}"


def _standing(name: TableName, role: Role) -> str:
    from kedro_lakehouse.monitoring.table_status import summary_of
    from kedro_lakehouse.project import active_project

    stored, found = name.with_suffix(role), summary_of(active_project().bind(name), role)
    if found is None:
        return _text(str(stored), "holds nothing yet")
    facts = f"{found.rows:,} rows" + (f", batch {found.batch}" if found.batch else "")
    return _text(str(stored), facts, f"{found.committed:%Y-%m-%d %H:%M:%S} UTC" if found.committed else "")


def _columns(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_MANY]) + (f" and {len(names) - _MANY} more" if len(names) > _MANY else "")


def _text(*lines: str) -> str:
    """Lines of a Mermaid label; no character of a name can end the label or become markup."""
    escaped = (
        "".join(c if c.isalnum() or c in " _.,:;()%?/-+" else f"#{ord(c)};" for c in t) for t in lines if t
    )
    return '"' + "<br/>".join(escaped) + '"'
