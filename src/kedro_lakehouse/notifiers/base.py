"""What every notifier offers, and the message that it delivers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, runtime_checkable

from kedro_lakehouse.errors import RefusedExtractsError
from kedro_lakehouse.ops.table_summary import in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kedro_lakehouse.config.monitoring import NotifierConfig

AlertKind = Literal["failure", "staleness", "quarantine", "discovery"]
RUN: Final = ""
"""Subject of a failure that is the run's own, not a table's."""

_WORDS: Final = {
    ("failure", True): in_words("failing"),
    ("failure", False): "recovered",
    ("staleness", True): in_words("stale"),
    ("staleness", False): f"{in_words('fresh')} again",
    ("quarantine", True): "has quarantined events",
    ("quarantine", False): "has no new quarantined events",
    ("discovery", True): "changed",
}
_NAMED: Final = 3


@dataclass(frozen=True, kw_only=True)
class AlertState:
    """The present state of one thing: ``raised`` means that somebody should know of it.

    ``subject`` is a table's name, or ``RUN``; ``batch`` is the batch that led to the state, if it is one.
    """

    kind: AlertKind
    subject: str
    raised: bool
    code: str = ""
    message: str = ""
    batch: int | None = None


@dataclass(frozen=True, kw_only=True)
class Alert:
    """A change of state, and the commands with which to look into it; no text of it holds a row's value."""

    state: AlertState
    commands: Sequence[str]

    @property
    def headline(self) -> str:
        """What happened to what, in a few words."""
        subject = "the run" if self.state.subject == RUN else self.state.subject
        code = f" [{self.state.code}]" if self.state.code else ""
        words = _WORDS[self.state.kind, self.state.raised]
        if self.state.raised and self.state.code == RefusedExtractsError.code:
            words = in_words("refused")
        return f"{subject} {words}{code}"


@dataclass(frozen=True, kw_only=True)
class Message:
    """The message that one notifier gets about one run."""

    run_id: str
    env: str
    alerts: Sequence[Alert]

    @property
    def subject(self) -> str:
        """One line that names the first tables, for the subject of a mail."""
        named = "; ".join(alert.headline for alert in self.alerts[:_NAMED])
        more = len(self.alerts) - _NAMED
        return f"[lakehouse {self.env}] {named}" + (f" and {more} more" if more > 0 else "")

    @property
    def text(self) -> str:
        """Everything, for people: each alert with its commands, one per line."""
        lines = [f"Run {self.run_id}, environment {self.env}."]
        for alert in self.alerts:
            lines += ["", alert.headline, f"  {alert.state.message}"]
            if alert.commands:
                lines += ["  In the project's folder:", *(f"    {command}" for command in alert.commands)]
        return "\n".join(lines) + "\n"

    def as_json(self) -> dict[str, Any]:
        """Everything, for programs; ``text`` is what chat services show."""
        return {
            "text": f"{self.subject}\n{self.text}",
            "run_id": self.run_id,
            "env": self.env,
            "alerts": [
                {
                    "kind": alert.state.kind,
                    "state": "raised" if alert.state.raised else "cleared",
                    "subject": alert.state.subject,
                    "code": alert.state.code,
                    "message": alert.state.message,
                    "batch": alert.state.batch,
                    "commands": list(alert.commands),
                }
                for alert in self.alerts
            ],
        }


@runtime_checkable
class Notifier(Protocol):
    """One way to reach people; register it in the entry-point group ``kedro_lakehouse.notifiers``.

    It is made by ``Notifier(config, credentials)``: its checked declaration, and a function that fetches
    the entry of credentials.yml that the declaration names. It keeps no secret between two messages.
    """

    config_model: ClassVar[type[NotifierConfig]]

    def __init__(self, config: Any, credentials: Callable[[], Mapping[str, Any]]) -> None:
        """Keep both; nothing is opened or fetched."""
        ...

    def send(self, message: Message) -> None:
        """Deliver a message, within the declared timeout.

        Raises:
            Exception: It was not delivered; the next run tries again.
        """
        ...
