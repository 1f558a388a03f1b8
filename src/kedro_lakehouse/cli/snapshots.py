"""``kedro lakehouse snapshots``, ``tag`` and ``branch``: the states of a table, and names for them."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from kedro_lakehouse.cli.completion import complete_tables
from kedro_lakehouse.cli.options import limit_option, no_roles, open_project, project_options
from kedro_lakehouse.cli.show import print_result, print_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kedro_lakehouse.names import Role, TableName
    from kedro_lakehouse.project import Project

_STAGES: Final[dict[Role, str]] = {"changes": "ingestion"}
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@click.command()
@click.argument("table", shell_complete=complete_tables)
@limit_option(20)
@project_options
@no_roles("The states of tables are shown to no role:")
def snapshots(*, table: str, limit: int, as_json: bool) -> None:
    """List the states of a table that can still be read, the newest first.

    TABLE is a declared table, or what is stored beside it: shop.item, shop.item_history,
    shop.item_changes or shop.item_quarantine. Of each snapshot: when it was published and by what, the
    rows that the table had, the batch that a run published with it, and its tags. A batch that changed no
    row has the snapshot of the batch before. Times are UTC.

    \b
    Examples:
      kedro lakehouse snapshots dms_sample.person
      kedro lakehouse snapshots dms_sample.person_history --limit 0 --json
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse.operations.rollback import published_commits, readable_states, snapshots_of

    project = open_project()
    declared, stage, stored = stored_table(project, table)
    reports = published_commits(project.bind(declared), stage)
    found = list(readable_states(snapshots_of(project.bind(declared)), stored, reports).values())
    batches: dict[int, list[int]] = {}
    for snapshot, report in reports:
        batches.setdefault(snapshot, []).append(report.batch)
    shown = [_with_batches(asdict(one), batches.get(one.snapshot_id, [])) for one in found]
    nothing, right, whole = f"{table} holds nothing yet.", ("rows", "batch"), ("snapshot",)
    print_rows(shown, as_json=as_json, nothing=nothing, limit=limit, cells=_cells, right=right, whole=whole)


def _with_batches(one: dict[str, Any], batches: Sequence[int]) -> dict[str, Any]:
    """A snapshot with its last batch, and all of them: a batch that changes no row makes no snapshot."""
    return one | {"batch": batches[-1] if batches else None, "batches": batches}


def _cells(one: dict[str, Any]) -> dict[str, object]:
    return {
        "snapshot": one["snapshot_id"],
        "committed": one["committed_at"],
        "operation": one["operation"],
        "rows": f"{one['rows']:,}",
        "batch": " to ".join(map(str, dict.fromkeys([*one["batches"][:1], *one["batches"][-1:]]))),
        "tags": ", ".join(one["names"]) + ("" if one["on_main"] else " (left)"),
    }


def _names_a_snapshot(what: str, gets: str) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command that gives a snapshot a name of one kind, or takes it away."""

    def command(callback: Callable[..., None]) -> click.Command:
        message = f"The snapshot that {gets}; default: the newest."
        made = click.option("--delete", is_flag=True, help=f"Take the {what} away.")(
            project_options(callback)
        )
        made = click.option("--snapshot", type=int, metavar="ID", help=message)(made)
        return click.command()(
            click.argument("table", shell_complete=complete_tables)(click.argument("name")(made))
        )

    return command


@_names_a_snapshot("name", "gets the name")
def tag(*, table: str, name: str, snapshot: int | None, delete: bool, as_json: bool) -> None:
    """Give a state of a table a name, under which it does not expire. Starts Spark.

    It is read by its name: `kedro lakehouse sql "select * from shop.item version as of 'audit_2026'"
    --engine spark`. A name that is taken moves.

    \b
    Examples:
      kedro lakehouse tag dms_sample.person audit_2026
      kedro lakehouse tag dms_sample.person audit_2026 --delete
    """  # noqa: D301 - \b keeps click from wrapping the examples
    stored, chosen = _name("tag", table, name, snapshot, delete=delete)
    facts = {"table": str(stored), "tag": name, "snapshot_id": chosen, "deleted": delete}
    message = f"{stored}: snapshot {chosen} is {'no longer' if delete else 'now'} called {name}."
    print_result(facts, message, as_json=as_json)


@_names_a_snapshot("branch", "it begins at")
def branch(*, table: str, name: str, snapshot: int | None, delete: bool, as_json: bool) -> None:
    """Begin a branch of a table, to try changes that no reader of the table sees. Starts Spark.

    It is read as a tag is, and written by Spark under the name shop.item.branch_NAME; runs leave it alone.
    A branch that is there begins anew.

    \b
    Examples:
      kedro lakehouse branch dms_sample.person try_out
      kedro lakehouse branch dms_sample.person try_out --delete
    """  # noqa: D301 - \b keeps click from wrapping the examples
    stored, chosen = _name("branch", table, name, snapshot, delete=delete)
    facts = {"table": str(stored), "branch": name, "snapshot_id": chosen, "deleted": delete}
    message = "is gone" if delete else f"begins at snapshot {chosen}"
    print_result(facts, f"{stored}: the branch {name} {message}.", as_json=as_json)


def _name(
    kind: Literal["tag", "branch"], table: str, name: str, snapshot: int | None, *, delete: bool
) -> tuple[TableName, int]:
    """Give or take away the name of a tag or branch; the stored table, and the snapshot of the name."""
    from kedro_lakehouse.errors import NoSuchSnapshotError
    from kedro_lakehouse.operations.rollback import published_commits, readable_states, snapshots_of

    if not _NAME.fullmatch(name) or name == "main" or name.startswith("stage_"):
        raise click.BadParameter("use a word of its own, such as audit_2026.", param_hint="NAME")
    project = open_project()
    declared, stage, stored = stored_table(project, table)
    lake = snapshots_of(project.bind(declared))
    found = readable_states(lake, stored, published_commits(project.bind(declared), stage))
    named = next((i for i, s in found.items() if name in s.names), None)
    chosen = named if delete else snapshot or next((i for i, s in found.items() if s.on_main), None)
    if chosen is None or chosen not in found:
        wanted = f"the {kind} {name}" if delete else f"snapshot {snapshot}" if snapshot else "any batch"
        known = [n for s in found.values() for n in s.names] if delete else [str(i) for i in found]
        raise NoSuchSnapshotError(table=stored, wanted=wanted, known=known)
    if delete:
        lake.forget(stored, name)
    else:
        (lake.tag if kind == "tag" else lake.branch)(stored, name, chosen)
    return stored, chosen


def stored_table(project: Project, text: str) -> tuple[TableName, str, TableName]:
    """The declared or converted table that a stored one belongs to, its stage in ops.batches, and its name.

    Raises:
        ConfigurationError: No such table is declared.
    """
    from kedro_lakehouse.names import ROLES, TableName

    name = TableName.parse(text)
    if name in project.conversions:
        return name, "convert", name
    for declared in project.declarations.tables:
        for role in ROLES:
            if declared.with_suffix(role) == name:
                return declared, _STAGES.get(role, role), name
    project.table(name)  # says what is declared
    raise AssertionError(name)
