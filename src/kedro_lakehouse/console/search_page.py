"""Search: what the published sample offers (payload, mode, model, k), with facets, upload and explanation."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import streamlit as st

from kedro_lakehouse.column_search.files import SUFFIXES, suffix_of
from kedro_lakehouse.column_search.project_search import file_columns
from kedro_lakehouse.column_search.results import ColumnFilter, ColumnHit, Mode, TableHit
from kedro_lakehouse.console.charts import show_bars
from kedro_lakehouse.console.grids import distinct_told, share, show_rows
from kedro_lakehouse.console.lake import chosen_model, opened_project, search_of, tables_of
from kedro_lakehouse.project import from_project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.column_search.project_search import ColumnSearch
    from kedro_lakehouse.column_search.signature import ColumnSignature
    from kedro_lakehouse.console.grids import Titles
    from kedro_lakehouse.console.links import TablePages

MODES: Final[dict[str, Mode]] = {
    "everything": "hybrid",
    "column names": "name",
    "column content": "content",
    "names and content": "both",
}
_PERSONAL: Final = {"any": None, "only": True, "without": False}
_MOST_HITS: Final = 30
_SCORE: Final = st.column_config.NumberColumn("Score", width="small", format="%.2f")
_HITS: Final[Titles] = {
    "table": "Table",
    "column": "Column",
    "score": _SCORE,
    "type": st.column_config.TextColumn("Type", width="small"),
    "values": st.column_config.TextColumn("Some values", width="medium"),
    "location": "Location",
}
_TABLES: Final[Titles] = {
    "table": "Table",
    "score": _SCORE,
    "columns": "Columns like it",
    "location": "Location",
}
_BEST: Final[Titles] = {"column": "Column", "best": "Best", "second": "Second", "third": "Third"}


def show(pages: TablePages) -> None:
    """The page."""
    st.title("Find columns by meaning")
    with st.sidebar:
        model = chosen_model()
    search = search_of(model)
    mode = MODES[str(st.sidebar.radio("Compare", list(MODES), key="mode"))]
    k = st.sidebar.slider("Hits", 1, _MOST_HITS, 10, key="k")
    where = _facets(search)
    payload = st.text_input(
        "What are you looking for?",
        key="payload",
        placeholder="where do customers live, district, zip_code ...",
    )
    left, right = st.columns(2)
    example = left.selectbox(
        "or: columns like this one", sorted(search.corpus.row_of), index=None, key="like", placeholder="none"
    )
    file = right.file_uploader(
        "or: a file of yours", type=[s.removeprefix(".") for s in SUFFIXES], key="file"
    )
    if file is not None:
        _show_upload(search, _upload(file.name, file.getvalue(), model), k, where, pages)
    elif payload.strip():
        _show_hits(search.by_text(payload.strip(), k=k, mode=mode, where=where), pages)
    elif example:
        _show_hits(search.like(search.column(example), k=k, mode=mode, where=where), pages)
    else:
        st.caption(f"{len(search.corpus):,} columns of {len(tables_of(search.corpus.signatures)):,} tables.")


def _facets(search: ColumnSearch) -> ColumnFilter:
    known = search.corpus.signatures
    personal = st.sidebar.radio("Personal data", list(_PERSONAL), horizontal=True, key="personal")
    return ColumnFilter(
        namespaces=_facet("Namespace", {one.table.namespace for one in known}),
        tables=_facet("Table", {str(one.table) for one in known}),
        kinds=_facet("Type", {one.profile.kind for one in known}),
        tags=_facet("Tag", {tag for one in known for tag in one.table.tags}),
        personal=_PERSONAL[str(personal)],
    )


def _facet(label: str, values: set[str]) -> tuple[str, ...]:
    return tuple(st.sidebar.multiselect(label, sorted(values), key=label)) if values else ()


def _show_hits(hits: Sequence[ColumnHit], pages: TablePages) -> None:
    if not hits:
        st.info("Nothing was found.")
        return
    rows = [
        {
            "table": f"{hit.namespace}.{hit.table}",
            "column": hit.column,
            "score": hit.score,
            "type": hit.kind,
            "values": "personal" if hit.personal else ", ".join(hit.sample[:3]),
            "location": from_project(hit.location),
        }
        for hit in hits
    ]
    show_rows(rows, _HITS, key="hits", opens=pages.open)
    by_id = {hit.column_id: hit for hit in hits}
    asked = st.selectbox("Why this one?", list(by_id), key="explained")
    hit = by_id.get(str(asked), hits[0])
    pages.link("Open its table", f"{hit.namespace}.{hit.table}", hit.column)
    left, right = st.columns(2)
    why = [{"feature": name, "share": part} for name, part in hit.why.items()]
    with left:
        show_bars(why, of="feature", value="share", title="added to the score")
    with right:
        formats = [{"format": name, "share": part} for name, part in hit.formats]
        show_rows(formats, {"format": "Format", "share": share("Share of values")}, key="formats")
    if hit.shared:
        right.text(f"Shared values: {', '.join(hit.shared)}")
    distinct = distinct_told(hit.distinct, values=round(hit.rows * (1 - hit.null_fraction)))
    right.text(f"{hit.rows:,} rows, {distinct} distinct, {hit.null_fraction:.1%} without a value")
    right.text(from_project(hit.location))


def _upload(name: str, content: bytes, model: str | None) -> list[ColumnSignature]:
    """The columns of an uploaded file; of its name only the ending is used, and nothing is kept."""
    ending = suffix_of(Path(name)) + (".gz" if name.endswith(".gz") else "")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"upload{ending}")
        path.write_bytes(content)
        return file_columns(path, opened_project(), model=model)


def _show_upload(
    search: ColumnSearch, columns: Sequence[ColumnSignature], k: int, where: ColumnFilter, pages: TablePages
) -> None:
    found = search.unionable(columns, k=k, where=where)
    st.header("Tables like it")
    show_rows([_table_row(hit) for hit in found], _TABLES, key="tables", opens=pages.open)
    pages.link_each("Open:", [f"{hit.namespace}.{hit.table}" for hit in found])
    st.header("Columns like its columns")
    best = search.by_columns(columns, k=3, where=where)
    rows = []
    for own, hits in best:
        told = [f"{hit.column_id} ({hit.score:.2f})" for hit in hits]
        rows.append({"column": own, **dict(zip(("best", "second", "third"), told, strict=False))})
    show_rows(rows, _BEST, key="columns")


def _table_row(hit: TableHit) -> dict[str, object]:
    pairs = ", ".join(f"{own} = {pair.column}" for own, pair in hit.pairs)
    table = f"{hit.namespace}.{hit.table}"
    return {"table": table, "score": hit.score, "columns": pairs, "location": from_project(hit.location)}
