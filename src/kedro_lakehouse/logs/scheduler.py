"""The scheduler's run to which a run belongs: its names in logs, steps and folders."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

_PARAMETERS: Final = ("dag_name", "task_id", "correlation_id")
_AIRFLOW: Final = ("AIRFLOW_CTX_DAG_ID", "AIRFLOW_CTX_TASK_ID", "AIRFLOW_CTX_DAG_RUN_ID")
_LONGEST: Final = 250
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_.:+~@=-]")


def fit(word: str) -> str:
    """Make a word from outside safe for log lines: only letters, digits and ``_.:+~@=-``, at most 250."""
    return _UNFIT.sub("_", word)[:_LONGEST]


@dataclass(frozen=True, kw_only=True)
class SchedulerRun:
    """One task of one run of a scheduler's graph.

    Example:
        >>> run = SchedulerRun(dag="data_pipeline", task="glue_task", run="manual__2022-07-12")
        >>> run.correlation_id
        'data_pipeline.glue_task manual__2022-07-12'
        >>> run.cluster_name
        'data_pipeline.glue_task-manual__2022-07-12'
        >>> run.log_folder
        'logs/emr/data_pipeline/glue_task/manual__2022-07-12'
        >>> " ".join(run.step_arguments())
        '--dag_name data_pipeline --task_id glue_task --correlation_id manual__2022-07-12'
    """

    dag: str
    task: str
    run: str

    @classmethod
    def of(cls, parameters: Mapping[str, object], environment: Mapping[str, str]) -> Self | None:
        """Read it from a run's parameters, else from what Airflow sets; None where neither has all three."""
        for names, given in ((_PARAMETERS, parameters), (_AIRFLOW, environment)):
            words = [fit(str(given.get(name) or "")) for name in names]
            if all(words):
                dag, task, run = words
                return cls(dag=dag, task=task, run=run)
        return None

    @property
    def correlation_id(self) -> str:
        """What every line of the task's run carries: ``dag.task run``."""
        return f"{self.dag}.{self.task} {self.run}"

    @property
    def cluster_name(self) -> str:
        """The name of an EMR cluster that is made for the task's run."""
        return f"{self.dag}.{self.task}-{self.run}"

    @property
    def log_folder(self) -> str:
        """Where such a cluster puts its logs, below a bucket."""
        return f"logs/emr/{self.dag}/{self.task}/{self.run}"

    def step_arguments(self) -> list[str]:
        """The arguments that a rendered Glue job or EMR step takes: named as the parameters of a run."""
        pairs = zip(_PARAMETERS, (self.dag, self.task, self.run), strict=True)
        return [word for name, value in pairs for word in (f"--{name}", value)]


def cloudwatch_query(correlation_id: str) -> str:
    """The query of CloudWatch Logs Insights for all lines that carry an id, in the order of time.

    Example:
        >>> print(cloudwatch_query("data_pipeline.glue_task manual__2022-07-12"))
        fields @timestamp, @logStream, @message
        | filter @message like "data_pipeline.glue_task manual__2022-07-12"
        | sort @timestamp asc
        | limit 10000
    """
    wanted = correlation_id.replace("\\", "\\\\").replace('"', '\\"')
    return (
        "fields @timestamp, @logStream, @message\n"
        f'| filter @message like "{wanted}"\n'
        "| sort @timestamp asc\n"
        "| limit 10000"
    )
