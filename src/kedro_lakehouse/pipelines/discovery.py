"""Pipeline ``discovery``: what lies in the places of discovery.yml is compared with what was known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kedro.pipeline import Node, Pipeline

from kedro_lakehouse.names import OPS_NAMESPACE
from kedro_lakehouse.pipelines.rules import bound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.discovery.changes import Change, Comparison, FoundVersion
    from kedro_lakehouse.discovery.found import FoundDataset


def compare_datasets(
    found: Sequence[FoundDataset], known: Sequence[FoundVersion]
) -> tuple[Comparison, list[FoundDataset], list[Change], list[dict[str, str]]]:
    """Compare what was found with what was known.

    Returns:
        What is to be recorded; what was found, for those who propose and register; what changed, to be
        reported; and the same as a document.
    """
    from dataclasses import asdict

    from kedro_lakehouse.discovery.changes import compare

    comparison = compare(found, known)
    told = [asdict(change) | {"words": change.words} for change in comparison.changes]
    return comparison, list(found), list(comparison.changes), told


def propose_declarations(found: Sequence[FoundDataset]) -> tuple[str, str, str]:
    """Propose declarations for all that was found: the texts of sources.yml, tables.yml and catalog.yml."""
    from kedro_lakehouse.discovery.propose import proposed_files

    return proposed_files(found)


def plan_registration(found: Sequence[FoundDataset]) -> dict[str, str]:
    """Plan which tables the lake's catalog shall name, each with its file of metadata."""
    from kedro_lakehouse.discovery.register import tables_to_register

    return tables_to_register(found)


def report_changes(changes: Sequence[Change], *_done: Any) -> list[Change]:
    """Report what changed, once everything else is done: a change may be declared to fail the run."""
    return list(changes)


def create_pipeline() -> Pipeline:
    """The nodes of discovery; discovery.yml is read when they run."""
    proposed = ["proposed_sources", "proposed_tables", "proposed_catalog"]
    common: dict[str, Any] = {"namespace": OPS_NAMESPACE, "tags": ["discovery"]}
    return Pipeline(
        [
            Node(
                bound(compare_datasets),
                inputs=["ops.found_datasets", "ops.known_datasets"],
                outputs=["ops.discovered", "ops.datasets_there", "ops.dataset_changes", "discovery_changes"],
                name="compare_datasets",
                **common,
            ),
            Node(
                bound(propose_declarations),
                inputs="ops.datasets_there",
                outputs=proposed,
                name="propose_declarations",
                **common,
            ),
            Node(
                bound(plan_registration),
                inputs="ops.datasets_there",
                outputs="ops.registered_tables",
                name="register_tables",
                **common,
            ),
            Node(
                bound(report_changes),
                inputs=["ops.dataset_changes", "ops.registered_tables", *proposed],
                outputs="ops.discovery_report",
                name="report_changes",
                **common,
            ),
        ]
    )
