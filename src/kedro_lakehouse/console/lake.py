"""What the pages look at: the project, opened once, and the search of each model, opened once a state."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import streamlit as st

from kedro_lakehouse.column_search.lake_index import signature_store
from kedro_lakehouse.column_search.project_search import ColumnSearch, indexed_models, open_search
from kedro_lakehouse.grants.access import RoleAccess
from kedro_lakehouse.private import CONSOLE_ROLE
from kedro_lakehouse.project import Project, activate, found_project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.column_search.signature import ColumnSignature


@st.cache_resource(show_spinner=False)
def opened_project() -> Project:
    """The project around the working folder, in the environment of KEDRO_ENV."""
    return activate(found_project())


@st.cache_resource(show_spinner=False)
def role_access() -> RoleAccess | None:
    """What the role may see whose view this is; None where the console shows all."""
    role = os.environ.get(CONSOLE_ROLE)
    return RoleAccess.of(opened_project(), role) if role else None


def chosen_model() -> str | None:
    """Let the user choose a model where there are several, in the place that is drawn now.

    They are those of the parameters, and others that name themselves in the index.
    """
    declared = list(opened_project().column_index.models)
    known = declared + [m for m in indexed_models(opened_project()) if ":" in m and m not in declared]
    if len(known) < 2:  # noqa: PLR2004 - one is no choice
        return known[0] if known else None
    return st.selectbox("Model", known, key="model")


def search_of(model: str | None) -> ColumnSearch:
    """The search over what is indexed now, and may be seen."""
    return _search(model, signature_store(opened_project()).snapshot_id())


@st.cache_resource(show_spinner="Opening the index ...", max_entries=4)
def _search(model: str | None, state: int | None) -> ColumnSearch:  # noqa: ARG001 - a part of the cache's key
    return open_search(opened_project(), model=model, lets=_lets)


def _lets(one: ColumnSignature) -> bool:
    access = role_access()
    has_values = not one.profile.personal
    return access is None or access.sees_profile(str(one.table), one.profile.name, has_values=has_values)


def tables_of(columns: Sequence[ColumnSignature]) -> list[str]:
    """The names of the tables that columns belong to."""
    return sorted({str(one.table) for one in columns})


def known_tables() -> list[str]:
    """The declared tables, or those of them that the role may see."""
    access = role_access()
    return sorted(
        str(name) for name in opened_project().declarations.tables if access is None or name in access.tables
    )
