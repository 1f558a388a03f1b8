"""Node functions as Kedro looks at them: nothing to warn of, in a notebook or in a project of others."""

import logging
import warnings

import pytest
from harness.project import ROOT
from kedro.validation.type_extractor import TypeExtractor

from kedro_lakehouse.pipeline_registry import register_tables
from kedro_lakehouse.project import _Active, activate, found_project

pytestmark = pytest.mark.unit


@pytest.fixture
def bundled(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(_Active, "project", None)
    return activate(found_project())


def test_kedro_has_nothing_to_warn_of(bundled, caplog):
    caplog.set_level(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipelines = register_tables(bundled)
        assert TypeExtractor(pipelines).extract_types_from_pipelines() == {}
    assert len(pipelines["__default__"].nodes) > 40
    assert [record.getMessage() for record in caplog.records] == []


def test_a_node_still_has_the_name_and_the_words_of_its_function(bundled):
    names = {node.func.__name__ for node in register_tables(bundled)["__default__"].nodes}
    assert {"ingest", "plan_merge", "plan_versions", "index_columns"} <= names
