"""``kedro lakehouse grants``: who may see what, and the same rights on AWS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from kedro_lakehouse.cli.options import open_project, project_options
from kedro_lakehouse.cli.show import print_rows

if TYPE_CHECKING:
    from kedro_lakehouse.grants.access import TableAccess
    from kedro_lakehouse.project import Project


@click.command()
@click.argument("action", type=click.Choice(["show"]), default="show")
@click.argument("role", required=False)
@project_options
def grants(*, action: Literal["show"], role: str | None, as_json: bool) -> None:  # noqa: ARG001
    """Show which tables, columns and rows the roles of grants.yml may see.

    show: who may see what, of one role or all. What tags of columns hide is in it.

    \b
    Examples:
      kedro lakehouse grants show
      kedro lakehouse grants show analyst --json
    """  # noqa: D301 - \b keeps click from wrapping the examples
    project = open_project()
    rows = list(_shown(project, role))
    nothing = (
        "No role may see anything: add one to conf/base/grants.yml."
        if role is None
        else (f"The role '{role}' may see nothing.")
    )
    print_rows(rows, as_json=as_json, nothing=nothing, cells=_cells, whole=("role", "table"))


def _shown(project: Project, role: str | None) -> list[dict[str, Any]]:
    from kedro_lakehouse.grants.access import RoleAccess

    roles = [role] if role else list(project.grants.roles)
    return [
        _facts(name, access) for one in roles for name, access in RoleAccess.of(project, one).by_name.items()
    ]


def _facts(name: str, access: TableAccess) -> dict[str, Any]:
    return {
        "role": access.role,
        "table": name,
        "can": "select" if access.reads else "describe",
        "include": None if access.include is None else sorted(access.include),
        "exclude": sorted(access.exclude),
        "masks": dict(sorted(access.masks.items())),
        "rows": access.rows,
    }


def _cells(one: dict[str, Any]) -> dict[str, object]:
    columns = "all" if one["include"] is None else ", ".join(one["include"])
    shown = one["include"]
    masks = [f"{column}: {mask}" for column, mask in one["masks"].items() if shown is None or column in shown]
    reads = one["can"] == "select"
    return {
        "role": one["role"],
        "table": one["table"],
        "can": one["can"],
        "columns": f"all but {', '.join(one['exclude'])}" if one["exclude"] else columns,
        "masked": ", ".join(masks),
        "rows": (one["rows"] or "all") if reads else "none",
    }
