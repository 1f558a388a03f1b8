"""From what was read of sources.yml and tables.yml to checked declarations."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kedro_lakehouse.config.base import Declaration
from kedro_lakehouse.config.columns import PARAMETER, ColumnIndexConfig
from kedro_lakehouse.config.expectations import SuiteConfig
from kedro_lakehouse.config.pulled import PulledSourceConfig
from kedro_lakehouse.config.references import reference_problems
from kedro_lakehouse.config.sources import TableProblem
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.config.validation import Mistakes, as_it_is, found_kind, validated, what_is_right
from kedro_lakehouse.errors import ConfigurationError, InvalidNameError, did_you_mean, listed
from kedro_lakehouse.names import OWN_FORMAT, ROLES, TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kedro.config import AbstractConfigLoader

    from kedro_lakehouse.config.sources import SourceConfig

    Tables = Mapping[TableName, TableConfig]

SOURCES_FILE: Final = "sources.yml"
TABLES_FILE: Final = "tables.yml"
COLUMN_INDEX_FILE: Final = "parameters_column_index.yml"
SUITES_FILE: Final = "expectations.yml"

_D = TypeVar("_D", bound=Declaration)
_SUITE_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Declarations:
    """The sources, tables and suites of one environment; what one names is among the others."""

    sources: Mapping[str, SourceConfig]
    tables: Mapping[TableName, TableConfig]
    suites: Mapping[str, SuiteConfig] = field(default_factory=dict)

    @cached_property
    def looked_up_by_time(self) -> frozenset[str]:
        """The tables in whose history others look up as of the time of their events."""
        entries = (entry for table in self.tables.values() for entry in table.enrich)
        return frozenset(entry.table for entry in entries if entry.as_of == "event")

    def made_from(self, name: TableName) -> list[str]:
        """The tables that are derived from a table or enriched by it, or by one that is; by name."""
        found, more = set[str](), {str(name)}
        while more:
            more = {str(t) for t, table in self.tables.items() if more & set(table.tables_read)} - found
            found |= more
        return sorted(found)


@dataclass(frozen=True)
class Formats:
    """The registered table formats, and that of tables that name none."""

    known: Collection[str]
    default: str = OWN_FORMAT
    property_problem: Callable[[str, str, str], TableProblem | None] = lambda _format, _name, _value: None
    """What is wrong with a format's table property, by the format's name, the property's and its value."""


def load_declarations(
    sources: Mapping[str, Any],
    tables: Mapping[str, Any],
    source_models: Mapping[str, type[SourceConfig]],
    suites: Mapping[str, Any] | None = None,
    *,
    formats: Formats | None = None,
) -> Declarations:
    """Return the checked declarations of the merged files; a key whose value is None counts as not written.

    Args:
        sources: What sources.yml says, merged over the environments.
        tables: What tables.yml says, merged likewise.
        source_models: The model of each known source type.
        suites: What expectations.yml says, merged likewise.
        formats: The table formats that there are; without them any name will do.

    Raises:
        ConfigurationError: Something is wrong in the files; every such key is named.
    """
    mistakes = Mistakes()
    found = collect_declarations(
        mistakes, sources, tables, source_models, suites, formats=formats, goes_on=False
    )
    mistakes.refuse()
    return found


def collect_declarations(  # noqa: PLR0913 - the files, and what they are read with
    mistakes: Mistakes,
    sources: Mapping[str, Any],
    tables: Mapping[str, Any],
    source_models: Mapping[str, type[SourceConfig]],
    suites: Mapping[str, Any] | None = None,
    *,
    formats: Formats | None = None,
    goes_on: bool = True,
) -> Declarations:
    """Return the declarations that can be used, and add everything that is wrong to ``mistakes``.

    Unless the look ``goes_on``, the mistakes of single blocks are refused before what tables say of each
    other is looked at.
    """
    checked_sources: dict[str, SourceConfig] = {}
    checked_tables: dict[TableName, TableConfig] = {}
    checked_suites: dict[str, SuiteConfig] = {}
    made = what_is_right if goes_on else as_it_is
    for name, raw in entries(sources, SOURCES_FILE, mistakes).items():
        with mistakes.collected():
            of_it = partial(of_type, source_models, file=SOURCES_FILE, entry=name, what="source")
            checked_sources[name] = made(of_it, raw, name, mistakes)
    # A source whose own keys are wrong is reported there.
    declared = dict.fromkeys(map(str, _without_none(sources))) | checked_sources
    for text, raw in entries(tables, TABLES_FILE, mistakes).items():
        with mistakes.collected():
            table_id = table_name(text, TABLES_FILE)
            source, before = checked_sources.get(str(raw.get("source"))), len(mistakes.found)
            pull: Mapping[str, Any] = {"pull": None}
            with mistakes.collected():
                pull = _pull(raw, source, text)
            of_table = partial(validated, TableConfig, file=TABLES_FILE, entry=text)
            right_pull = len(mistakes.found) == before
            table = made(of_table, {"entity": table_id.table, **raw, **pull}, text, mistakes)
            if not right_pull:
                continue  # the key `pull` is wrong, and its source would judge by it
            checked_tables[table_id] = source.completed(table) if source else table
            mistakes.add(TABLES_FILE, _table_problems(table, declared, formats), f"{text}.")
    for text, raw in entries(suites or {}, SUITES_FILE, mistakes).items():
        with mistakes.collected():
            checked_suites[text] = made(partial(_suite, text), raw, text, mistakes)
    if formats is not None:
        mistakes.add(TABLES_FILE, _unknown_formats(checked_tables, formats.known))
        mistakes.add("globals.yml", _unknown_format("table_format", formats.default, formats.known))
    if not goes_on:
        mistakes.refuse()
    # What tables say of each other: of tables that cannot be used, it would follow from that.
    unusable = {str(name) for name in tables} - set(map(str, checked_tables))
    for problems_of in (_collisions, _view_names, _bad_inputs, _read_while_rows_leave):
        mistakes.add(TABLES_FILE, _not_about(problems_of(checked_tables), unusable))
    for text, suite in checked_suites.items():
        found = _not_about(_suite_problems(suite, checked_tables), unusable)
        mistakes.add(SUITES_FILE, found, f"{text}.expectations")
    return Declarations(
        sources=MappingProxyType(checked_sources),
        tables=MappingProxyType(checked_tables),
        suites=MappingProxyType(checked_suites),
    )


def _not_about(found: Iterable[TableProblem], unusable: Collection[str]) -> Iterator[TableProblem]:
    """The problems but those that name a table which is declared with mistakes of its own."""
    yield from (one for one in found if not any(f"'{name}'" in one.problem for name in unusable))


def _pull(raw: Mapping[Any, Any], source: SourceConfig | None, table: str) -> dict[str, Any]:
    """The key ``pull`` of a table, checked against what its type of source knows; nothing without the key.

    Raises:
        ConfigurationError: Something is wrong in it, or its source is not one that is asked for records.
    """
    if raw.get("pull") is None or source is None:
        return {}
    key = f"{table}.pull"
    if not isinstance(source, PulledSourceConfig):
        problem = f"a source of type '{source.type}' is not asked for its records: they arrive."
        remedy = "Remove the key, or name a source such as one of type sql."
        raise ConfigurationError(file=TABLES_FILE, key=key, problem=problem, remedy=remedy)
    if not isinstance(raw["pull"], Mapping):
        problem = f"expected keys below it; found {found_kind(raw['pull'])}."
        remedy = "Write for example {mode: full}."
        raise ConfigurationError(file=TABLES_FILE, key=key, problem=problem, remedy=remedy)
    return {"pull": validated(source.pull_model, raw["pull"], TABLES_FILE, key)}


def load_column_index(parameters: Mapping[str, Any]) -> ColumnIndexConfig:
    """Return the checked settings of the column index; without the key nothing is indexed.

    Raises:
        ConfigurationError: Something is wrong below the key ``column_index`` of parameters_column_index.yml.
    """
    raw = parameters.get(PARAMETER) or {}
    if not isinstance(raw, Mapping):
        problem = f"expected keys below it; found {found_kind(raw)}."
        remedy = "Write its keys, indented, below it."
        raise ConfigurationError(file=COLUMN_INDEX_FILE, key=PARAMETER, problem=problem, remedy=remedy)
    return validated(ColumnIndexConfig, _without_none(raw), COLUMN_INDEX_FILE, PARAMETER)


def declares_tables(loader: AbstractConfigLoader) -> bool:
    """Whether a project has a tables.yml in any environment: what has none is left alone.

    Found by name, before any file is read or resolver registered; packed configuration has to be read.
    """
    return folder_declares_tables(str(loader.conf_source))


def folder_declares_tables(conf_source: str) -> bool:
    """The same, of a configuration's folder, archive or address."""
    conf = Path(conf_source)
    kinds = (".yml", ".yaml", ".json")
    packed = "://" in conf_source or conf.is_file()
    return packed or any(file.suffix in kinds for file in conf.glob("*/tables*"))


def _unknown_formats(tables: Tables, known: Collection[str]) -> Iterator[TableProblem]:
    for name, table in tables.items():
        if table.format:
            yield from _unknown_format(f"{name}.format", table.format, known)


def _unknown_format(key: str, name: str, known: Collection[str]) -> Iterator[TableProblem]:
    if name not in known:
        problem = f"there is no table format '{name}'.{did_you_mean(name, known)}"
        yield TableProblem(key, problem, f"Use one of: {', '.join(known)}.")


def entries(raw: Mapping[Any, Any], file: str, mistakes: Mistakes | None = None) -> dict[str, dict[Any, Any]]:
    """Return the entries of a file, by name; what is None counts as not written.

    Args:
        raw: What the file says.
        file: Its name.
        mistakes: Takes the entries that are no mappings; without it the first one is raised.

    Raises:
        ConfigurationError: An entry is not a mapping.
    """
    entries: dict[str, dict[Any, Any]] = {}
    found = mistakes or Mistakes()
    for name, value in raw.items():
        if value is None:
            continue
        if isinstance(name, str) and isinstance(value, Mapping):
            entries[name] = _without_none(value)
        else:
            problem = f"expected a name with keys below it; found {found_kind(value)}."
            found.add(file, [(str(name), problem, "Write its keys, indented, below it.")])
    if mistakes is None:
        found.refuse()
    return entries


def _without_none(raw: Mapping[Any, Any]) -> dict[Any, Any]:
    return {
        key: _without_none(value) if isinstance(value, Mapping) else value
        for key, value in raw.items()
        if value is not None
    }


def of_type(
    models: Mapping[str, type[_D]], raw: Mapping[Any, Any], file: str, entry: str, *, what: str
) -> _D:
    """Return one entry of a file as the model of its ``type``.

    Raises:
        ConfigurationError: There is no such type, or a key is wrong.
    """
    kind = raw.get("type")
    if isinstance(kind, str) and kind in models:
        return validated(models[kind], raw, file, entry)
    near = did_you_mean(str(kind), models)
    problem = "the key is missing." if kind is None else f"no {what} type '{kind}'.{near}"
    remedy = f"Use one of: {listed(sorted(models))}."
    raise ConfigurationError(file=file, key=f"{entry}.type", problem=problem, remedy=remedy)


def table_name(text: str, file: str) -> TableName:
    """Return the name of a table that an entry of a file is about.

    Raises:
        ConfigurationError: The text cannot be a table's name.
    """
    try:
        return TableName.parse(text)
    except InvalidNameError as error:
        problem = f"the table's name {error.problem}."
        raise ConfigurationError(file=file, key=text, problem=problem, remedy=error.remedy) from error


def refuse_undeclared(
    names: Iterable[str], tables: Collection[str], *, file: str, key: str, remedy: str
) -> None:
    """Refuse names, found below a key of a file, that are not those of declared tables.

    Raises:
        ConfigurationError: Names are not those of declared tables.
    """
    mistakes = Mistakes()
    for name in names:
        if name not in tables:
            problem = f"the table is not declared.{did_you_mean(name, tables)}"
            mistakes.add(file, [(f"{key}.{name}", problem, remedy)])
    mistakes.refuse()


def _table_problems(
    table: TableConfig, sources: Mapping[str, SourceConfig | None], formats: Formats | None
) -> Iterator[TableProblem]:
    """What is wrong with one table, beyond its own keys: its source, or its properties."""
    if table.source is not None and table.source not in sources:
        problem = f"no source '{table.source}' in {SOURCES_FILE}.{did_you_mean(table.source, sources)}"
        yield TableProblem("source", problem, f"Use one of: {listed(sorted(sources))}; or declare it.")
    elif table.source is not None and (source := sources[table.source]) is not None:
        yield from filter(None, [source.table_problem(table)])
    if formats is not None:
        named = table.format or formats.default
        yield from filter(None, (formats.property_problem(named, *one) for one in table.properties.items()))


def _suite(name: str, raw: dict[Any, Any]) -> SuiteConfig:
    if not _SUITE_NAME.fullmatch(name):
        problem = "the suite's name is not [a-z][a-z0-9_]*."
        remedy = "Use lower-case letters, digits and underscores."
        raise ConfigurationError(file=SUITES_FILE, key=name, problem=problem, remedy=remedy)
    return validated(SuiteConfig, raw, SUITES_FILE, name)


def _suite_problems(suite: SuiteConfig, tables: Tables) -> Iterator[TableProblem]:
    kept = {str(t): table for t, table in tables.items() if table.current or table.history}
    for number, expectation in enumerate(suite.expectations):
        about = kept.get(expectation.table)
        if expectation.nature == "drift" and about is not None and not about.current:
            problem = f"'{expectation.table}' keeps no current table whose rows could be counted."
            yield TableProblem(f"[{number}].table", problem, "Remove the expectation.")
        for key, table in (("table", expectation.table), ("other_table", expectation.other_table)):
            if table is not None and table not in kept:
                problem = f"no table '{table}' is declared.{did_you_mean(table, kept)}"
                yield TableProblem(f"[{number}].{key}", problem, f"Declare it in {TABLES_FILE}.")


def _bad_inputs(tables: Tables) -> Iterator[TableProblem]:
    """Tables whose inputs or references are not declared or do not fit, or lead back to themselves."""
    by_text = {str(name): table for name, table in tables.items()}
    for owner, table in by_text.items():
        for found in table.derive.inputs.values() if table.derive else ():
            if found not in by_text or not by_text[found].current:
                problem = f"no current table '{found}' is declared.{did_you_mean(found, by_text)}"
                yield TableProblem(f"{owner}.derive.inputs", problem, "Declare it.")
        yield from reference_problems(owner, by_text)
    for owner, table in by_text.items():
        reached, ahead = set[str](), list(table.tables_read)
        while ahead:
            name = ahead.pop()
            if name == owner:
                key = "derive.inputs" if table.derive else "enrich"
                yield TableProblem(f"{owner}.{key}", "the table is made from itself.", "Break the circle.")
                break
            if name in by_text and name not in reached:
                reached.add(name)
                ahead += by_text[name].tables_read


def _read_while_rows_leave(tables: Tables) -> Iterator[TableProblem]:
    """Tables that are made from one whose old rows leave it."""
    by_text = {str(name): table for name, table in tables.items()}
    for owner, table in by_text.items():
        for found in table.tables_read:
            if found in by_text and by_text[found].retention is not None:
                problem = f"old rows leave '{found}' (retention), and no event tells this table."
                key = f"{owner}.{'derive.inputs' if table.derive else 'enrich'}"
                yield TableProblem(key, problem, f"Remove `retention` of '{found}'.")


def _collisions(tables: Tables) -> Iterator[TableProblem]:
    for owner in tables:
        for role in ROLES:
            derived = owner.with_suffix(role)
            if derived != owner and derived in tables:
                problem = f"the name is that of the {role} table of '{owner}'."
                yield TableProblem(str(derived), problem, "Choose another name for one of the two.")
        if tables[owner].retention is not None and f"{owner}_all" in map(str, tables):
            problem = f"the name stands for '{owner}' and its archive."
            yield TableProblem(f"{owner}_all", problem, "Choose another name for one of the two.")


def _view_names(tables: Tables) -> Iterator[TableProblem]:
    """Views whose name is that of a table, of a table's role, or of another view."""
    taken = {t.with_suffix(role): f"the {role} table of '{t}'" for t in tables for role in ROLES}
    for owner, table in tables.items():
        if table.history is None or table.history.view is None:
            continue
        key, (space, _, name) = f"{owner}.history.view.name", table.history.view.name.rpartition(".")
        if space not in ("", owner.namespace):
            problem = f"the view lies in the table's namespace, not in '{space}'."
            yield TableProblem(key, problem, f"Write '{name}'.")
        view = TableName(owner.namespace, name)
        if view in taken:
            yield TableProblem(
                key, f"the name is that of {taken[view]}.", "Choose another name for the view."
            )
        taken[view] = f"the view of '{owner}'"
