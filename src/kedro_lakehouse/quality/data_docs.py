"""Great Expectations' Data Docs, rendered from recorded results: no table is read, no row value shown."""

from __future__ import annotations

import json
import shutil
import warnings
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.config.expectations import KINDS
from kedro_lakehouse.quality.engine import great_expectations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_SITE: Final = "quality"
INDEX: Final = "index.html"
_SEVERITY: Final = {"block": "critical", "warn": "warning"}
_OWN: Final = {kind for kind, about in KINDS.items() if about.nature in ("drift", "reference", "fresh")}


def render_data_docs(results: Sequence[Mapping[str, Any]], folder: Path) -> Path:
    """Write a site with one page per suite; return the path of its first page.

    Args:
        results: Rows of ``lake.ops.quality_results``; those of each suite are from one validation.
        folder: Where the site is written; pages that are there already are replaced.
    """
    gx = great_expectations()
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    _declare_own_types()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    shutil.rmtree(folder / "validations", ignore_errors=True)
    for name in list(context.get_site_names()):
        context.delete_data_docs_site(name)
    site = {
        "class_name": "SiteBuilder",
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder)},
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        "show_how_to_buttons": False,
    }
    context.add_data_docs_site(_SITE, site)
    by_suite: dict[str, list[Mapping[str, Any]]] = {}
    for row in results:
        by_suite.setdefault(row["suite"], []).append(row)
    for suite, rows in by_suite.items():
        run = RunIdentifier(run_name=rows[0]["run_id"], run_time=rows[0]["judged_at"])
        key = ValidationResultIdentifier(
            expectation_suite_identifier=ExpectationSuiteIdentifier(name=suite),
            run_id=run,
            batch_identifier=suite,
        )
        context.validation_results_store.set(key, _validation(suite, rows, run))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its renderers warn of their own deprecations
        context.build_data_docs(site_names=[_SITE])
    return folder / INDEX


def _declare_own_types() -> None:
    """Register this project's own expectation types with Great Expectations, so that its pages show them."""
    from great_expectations.expectations.expectation import BatchExpectation
    from great_expectations.expectations.registry import list_registered_expectation_implementations

    known = list_registered_expectation_implementations()
    for kind in sorted(_OWN - set(known)):
        fields = [*KINDS[kind].needs, *KINDS[kind].takes, *KINDS[kind].one_of]
        words = dict.fromkeys([*(key for key in fields if key != "mostly"), "mostly"])
        # Its metaclass registers the class under the snake case of its name.
        type(
            "".join(part.capitalize() for part in kind.split("_")),
            (BatchExpectation,),
            {
                "__module__": __name__,
                "__annotations__": dict.fromkeys(words, Any),
                "domain_keys": (),
                "success_keys": tuple(words),
                **words,
                "_validate": _answered_elsewhere,  # without it the class counts as abstract
            },
        )


def _answered_elsewhere(*_: object, **__: object) -> Any:
    """These expectations are answered by ``quality.across`` and by metadata, never by a GX engine."""
    raise NotImplementedError


def _validation(suite: str, rows: Sequence[Mapping[str, Any]], run: Any) -> Any:
    """The results of one validation as Great Expectations' own objects."""
    from great_expectations.core import ExpectationSuiteValidationResult

    met = sum(bool(row["success"]) for row in rows)
    return ExpectationSuiteValidationResult(
        success=met == len(rows),
        results=[_single(row) for row in rows],
        suite_name=suite,
        statistics={
            "evaluated_expectations": len(rows),
            "successful_expectations": met,
            "unsuccessful_expectations": len(rows) - met,
            "success_percent": 100.0 * met / len(rows),
        },
        meta={
            "run_id": run,
            "active_batch_definition": {"data_asset_name": suite},
            "snapshots": rows[0]["snapshots"],
        },
        id=None,
    )


def _single(row: Mapping[str, Any]) -> Any:
    from great_expectations.core.expectation_validation_result import ExpectationValidationResult
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.expectations.metadata_types import FailureSeverity

    figures = {"element_count": "elements", "unexpected_count": "unexpected", "observed_value": "observed"}
    result = {name: row[column] for name, column in figures.items()}
    if row["elements"] and row["unexpected"] is not None:
        result["unexpected_percent"] = 100.0 * row["unexpected"] / row["elements"]
    of_suite = {"description": row["expectation"]} if row["table"] != row["suite"] else {}
    return ExpectationValidationResult(
        success=bool(row["success"]),
        expectation_config=ExpectationConfiguration(
            type=row["type"],
            kwargs=json.loads(row["kwargs"]),
            severity=FailureSeverity(_SEVERITY[row["severity"]]),
            **of_suite,
        ),
        result={k: v for k, v in result.items() if v is not None},
        meta={"engine": row["engine"]},
        exception_info={"raised_exception": False, "exception_message": None, "exception_traceback": None},
    )
