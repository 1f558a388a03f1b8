"""The end of a run: send each notifier the states that changed since they were last reported to it."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.errors import LakehouseError
from kedro_lakehouse.monitoring.alerts import (
    crossings,
    failure_states,
    quarantine_states,
    record_states,
    recorded_states,
    staleness_states,
)
from kedro_lakehouse.monitoring.table_status import LakeFacts, status_of, statuses_of, summary_of
from kedro_lakehouse.notifiers.base import RUN, Alert, AlertState, Message, Notifier
from kedro_lakehouse.plugins import NOTIFIERS, load_plugin

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kedro_lakehouse.config.monitoring import MonitoringConfig, NotifierConfig
    from kedro_lakehouse.monitoring.table_status import TableStatus
    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)


def notify(
    project: Project, monitoring: MonitoringConfig, error: BaseException | None, whole: Collection[str]
) -> None:
    """Send every notifier the states that changed; where none changed, nothing is sent.

    A notifier that fails is logged as a warning, and gets its states at the end of the next run: it never
    fails this one.

    Args:
        project: The project after its run.
        monitoring: Its monitoring.yml.
        error: What the run ended with.
        whole: The tables of which every node ran, without error unless ``error`` names them.
    """
    known = recorded_states(project.ops)
    now = datetime.now(UTC)
    statuses: list[TableStatus] = []
    if monitoring.stale_after:
        statuses = statuses_of(project)
    states = [
        *failure_states(error, set(whole) - _still_refused(project, known)),
        *quarantine_states(project.reports),
        *staleness_states(statuses, monitoring.stale_after, now),
        *project.alerts,
    ]
    for name, config in monitoring.notifiers.items():
        crossed = [s for s in crossings(states, known.get(name, {})) if s.kind in config.kinds]
        if not crossed:
            continue
        wanted = [s for s in crossed if s.raised or "recovery" in config.kinds]
        if not wanted or _delivered(project, name, config, wanted, error):
            record_states(project.ops, name, crossed, project.run_id)


def _still_refused(project: Project, known: Mapping[str, Mapping[tuple[str, str], bool]]) -> set[str]:
    """The tables with a reported failure whose newest extract is still refused: they have not recovered."""
    states = [state for of_one in known.values() for state in of_one.items()]
    reported = {subject for (kind, subject), raised in states if (kind, raised) == ("failure", True)}
    facts = LakeFacts(project)
    return {
        str(name)
        for name in project.declarations.tables
        if str(name) in reported and status_of(project.bind(name), facts).state == "refused"
    }


def _delivered(
    project: Project,
    name: str,
    config: NotifierConfig,
    states: Sequence[AlertState],
    error: BaseException | None,
) -> bool:
    """Send a notifier its message; return whether it was delivered. A warning names no address or secret."""

    def credentials() -> Mapping[str, Any]:
        return project.credentials(str(getattr(config, "credentials", "")))

    alerts = [Alert(state=s, commands=commands(project, s, error)) for s in states]
    message = Message(run_id=project.run_id, env=project.env, alerts=alerts)
    try:
        made: Any = load_plugin(NOTIFIERS, config.type)
        notifier: Notifier = made(config, credentials)
        notifier.send(message)
    except Exception as problem:  # noqa: BLE001 - plug-ins raise what they like; no notifier fails a run
        logger.warning(
            "The notifier '%s' (%s) could not be reached, the next run tries again: %s",
            name,
            config.type,
            _reason(problem),
        )
        return False
    return True


def _reason(problem: Exception) -> str:
    """Why a message was not delivered; of a server's answer only its number: its text may repeat a secret."""
    if isinstance(problem, LakehouseError):
        return str(problem)
    numbers = (getattr(problem, name, None) for name in ("smtp_code", "code", "errno"))
    number = next((str(n) for n in numbers if isinstance(n, int)), "")
    return f"{type(problem).__name__} {number}".rstrip()


def commands(project: Project, state: AlertState, error: BaseException | None) -> list[str]:
    """The commands that lead from an alert to its cause; with quarantined events, to their raw records."""
    if not state.raised:
        return []
    env, look = project.env_option, "kedro lakehouse"
    runs = f"{look} runs --limit 5{env}"
    if state.subject == RUN:
        return [runs]
    if state.kind == "discovery":
        return [f"{look} discovered {state.subject.partition(' ')[0]}{env}"]
    table = state.subject
    declared = {str(name): name for name in project.declarations.tables}
    name = declared.get(table)
    quarantine = summary_of(project.bind(name), "quarantine") if name is not None else None
    if quarantine is not None and quarantine.rows:
        batch = f" --batch {state.batch}" if state.batch else ""
        return [
            runs,
            f"{look} quarantine {table}{batch}{env}",
            f"{look} quarantine {table}{batch} --raw{env}",
        ]
    retry = getattr(error, "retry", None) if state.kind == "failure" else None
    return [runs, f"{look} tables{env}", retry or f"kedro run{env} --namespaces={table}"]
