"""The OpenLineage events of a run: one job for the pipeline, one for each node, one for each commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from openlineage.client import event_v2 as ol
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    parent_run,
    schema_dataset,
    symlinks_dataset,
    tags_run,
)
from openlineage.client.uuid import generate_static_uuid

from kedro_lakehouse.ops.failures import message_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from kedro_lakehouse.lineage.columns import ColumnLineage, InputColumn
    from kedro_lakehouse.lineage.places import Place

PRODUCER: Final = "https://pypi.org/project/kedro-lakehouse"
_DIRECT: Final = ("IDENTITY", "TRANSFORMATION", "AGGREGATION")

JobKind = Literal["PIPELINE", "NODE", "COMMIT", "VIEW"]


@dataclass(frozen=True, kw_only=True)
class JobRun:
    """One run of one job; the same facts always give the same identifier."""

    namespace: str
    name: str
    kind: JobKind
    started: datetime
    token: str
    parent: JobRun | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The run's UUID, made from its start, its job's name and its token."""
        return str(generate_static_uuid(self.started, f"{self.namespace}/{self.name}/{self.token}".encode()))

    @property
    def root(self) -> JobRun:
        """The run of the pipeline."""
        return self.parent.root if self.parent else self


@dataclass(frozen=True, kw_only=True)
class Described:
    """A dataset as one event describes it; ``symlink`` is the name that queries use."""

    place: Place
    symlink: Place | None = None
    schema: Sequence[tuple[str, str]] = ()
    columns: ColumnLineage | None = None
    sources: Mapping[str, Place] = field(default_factory=dict)
    rows: int | None = None


def started(run: JobRun, *, inputs: Sequence[Described], outputs: Sequence[Described]) -> ol.RunEvent:
    """The event of a job's start."""
    return _event(ol.RunState.START, run, run.started, inputs=inputs, outputs=outputs)


def ended(
    run: JobRun,
    at: datetime,
    *,
    inputs: Sequence[Described],
    outputs: Sequence[Described],
    error: BaseException | None = None,
) -> ol.RunEvent:
    """The event of a job's end; its message holds no row's value, and there is no stack trace."""
    state = ol.RunState.COMPLETE if error is None else ol.RunState.FAIL
    event = _event(state, run, at, inputs=inputs, outputs=outputs)
    if error is not None:
        facet = error_message_run.ErrorMessageRunFacet(
            message=message_of(error), programmingLanguage="PYTHON", producer=PRODUCER
        )
        event.run.facets = {**(event.run.facets or {}), "errorMessage": facet}
    return event


def _event(
    state: ol.RunState,
    run: JobRun,
    at: datetime,
    *,
    inputs: Sequence[Described],
    outputs: Sequence[Described],
) -> ol.RunEvent:
    job_type = job_type_job.JobTypeJobFacet(
        processingType="BATCH", integration="KEDRO", jobType=run.kind, producer=PRODUCER
    )
    return ol.RunEvent(
        eventType=state,
        eventTime=at.isoformat(timespec="milliseconds"),
        run=ol.Run(runId=run.id, facets=_run_facets(run)),
        job=ol.Job(namespace=run.namespace, name=run.name, facets={"jobType": job_type}),
        inputs=[
            ol.InputDataset(namespace=d.place.namespace, name=d.place.name, facets=_facets(d)) for d in inputs
        ],
        outputs=[_output(d) for d in outputs],
        producer=PRODUCER,
    )


def _run_facets(run: JobRun) -> dict[str, Any]:
    facets: dict[str, Any] = {}
    if run.tags:
        tags = [tags_run.TagsRunFacetFields(key=k, value=v, source="KEDRO") for k, v in run.tags.items()]
        facets["tags"] = tags_run.TagsRunFacet(tags=tags, producer=PRODUCER)
    if run.parent is not None:
        facets["parent"] = parent_run.ParentRunFacet(
            run=parent_run.Run(runId=run.parent.id),
            job=parent_run.Job(namespace=run.parent.namespace, name=run.parent.name),
            root=parent_run.Root(
                run=parent_run.RootRun(runId=run.root.id),
                job=parent_run.RootJob(namespace=run.root.namespace, name=run.root.name),
            ),
            producer=PRODUCER,
        )
    return facets


def _output(dataset: Described) -> ol.OutputDataset:
    facets = _facets(dataset)
    if dataset.columns is not None:
        facets["columnLineage"] = _column_facet(dataset.columns, dataset.sources)
    statistics: dict[str, Any] = {}
    if dataset.rows is not None:
        statistics["outputStatistics"] = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=dataset.rows, producer=PRODUCER
        )
    return ol.OutputDataset(
        namespace=dataset.place.namespace, name=dataset.place.name, facets=facets, outputFacets=statistics
    )


def _facets(dataset: Described) -> dict[str, Any]:
    facets: dict[str, Any] = {}
    if dataset.symlink is not None:
        link = symlinks_dataset.Identifier(
            namespace=dataset.symlink.namespace, name=dataset.symlink.name, type="TABLE"
        )
        facets["symlinks"] = symlinks_dataset.SymlinksDatasetFacet(identifiers=[link], producer=PRODUCER)
    if dataset.schema:
        fields = [schema_dataset.SchemaDatasetFacetFields(name=n, type=t) for n, t in dataset.schema]
        facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=fields, producer=PRODUCER)
    return facets


def _column_facet(columns: ColumnLineage, sources: Mapping[str, Place]) -> Any:
    def one(column: InputColumn) -> Any:
        place = sources[column.source]
        kind = "DIRECT" if column.how in _DIRECT else "INDIRECT"
        how = column_lineage_dataset.Transformation(type=kind, subtype=column.how, masking=column.masked)
        return column_lineage_dataset.InputField(
            namespace=place.namespace, name=place.name, field=column.column, transformations=[how]
        )

    return column_lineage_dataset.ColumnLineageDatasetFacet(
        fields={
            name: column_lineage_dataset.Fields(inputFields=[one(c) for c in inputs])
            for name, inputs in columns.columns.items()
        },
        dataset=[one(c) for c in columns.rows],
        producer=PRODUCER,
    )
