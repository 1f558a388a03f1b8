"""``kedro lakehouse grants``: who may see what, and the same rights on AWS."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

import click

from kedro_lakehouse.cli.options import open_project, project_options
from kedro_lakehouse.cli.rebuild import confirm
from kedro_lakehouse.cli.show import print_json, print_rows, printable
from kedro_lakehouse.errors import counted, listed

if TYPE_CHECKING:
    from kedro_lakehouse.grants.access import TableAccess
    from kedro_lakehouse.grants.lake_formation import GrantPlan
    from kedro_lakehouse.project import Project


@click.command()
@click.argument("action", type=click.Choice(["show", "plan", "apply"]), default="show")
@click.argument("role", required=False)
@click.option("--yes", is_flag=True, help="Do not ask (apply).")
@project_options
def grants(*, action: Literal["show", "plan", "apply"], role: str | None, yes: bool, as_json: bool) -> None:
    """Show which tables, columns and rows the roles of grants.yml may see, and set it on AWS.

    show: who may see what, of one role or all; what is hidden by tags of columns is in it. plan: what differs
    in Lake Formation, as the calls that would make it alike; nothing is changed. apply: make these calls. A
    second apply changes nothing; a grant that is taken out of the file is revoked. plan and apply are for
    environments whose tables are in Glue.

    \b
    Examples:
      kedro lakehouse grants show analyst
      kedro lakehouse grants plan --env aws
      kedro lakehouse grants apply --env aws --yes
    """  # noqa: D301 - \b keeps click from wrapping the examples
    if role is not None and action != "show":
        raise click.UsageError(f"{action} is about all roles: name none.")
    if action == "show":
        _show(open_project(), role, as_json=as_json)
        return
    from kedro_lakehouse.grants.lake_formation import LakeFormation

    lake_formation = LakeFormation(open_project())
    plan = lake_formation.plan()
    if not as_json:
        _print(plan)
    if action == "apply" and plan.steps:
        confirm("Make these changes?", yes=yes)
        lake_formation.apply(plan)
    if as_json:
        print_json({"applied": action == "apply"} | asdict(plan))
    elif action == "apply" and plan.steps:
        click.echo(f"Done: {counted(len(plan.steps), 'change')}.")


def _print(plan: GrantPlan) -> None:
    for step in plan.steps:
        click.echo(printable(step.words))
    if not plan.steps:
        click.echo("Lake Formation has what grants.yml says.")
    if plan.absent:
        click.echo(
            f"Not in Glue yet, and left out: {listed(plan.absent)}. Plan again after they were written."
        )
    if plan.local:
        click.echo(f"Without a principal, for this machine only: {listed(plan.local)}.")
    if plan.ends_iam_only:
        click.echo(
            "Whom IAM alone let in is not let in any longer, the role of your jobs too: "
            "give that role rights of its own in Lake Formation first."
        )


def _show(project: Project, role: str | None, *, as_json: bool) -> None:
    rows = _shown(project, role)
    nothing = f"The role '{role}' sees no table." if role else "No role sees a table: write grants.yml."
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
