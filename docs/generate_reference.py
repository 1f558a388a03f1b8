"""Write the reference pages and the JSON Schemas from the code.

Usage: ``.venv/bin/python docs/generate_reference.py [--check]``.
"""

from __future__ import annotations

import argparse
import datetime as dt
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

import click
from pydantic import AwareDatetime

import kedro_lakehouse.query.errors  # noqa: F401 - it defines errors of its own
from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.config.base import Declaration
from kedro_lakehouse.config.convert import ConvertConfig
from kedro_lakehouse.config.databases import SqlPullConfig, SqlSourceConfig
from kedro_lakehouse.config.discovery import CrawlerConfig, DiscoveryConfig, PlaceConfig
from kedro_lakehouse.config.dynamodb import DynamoSourceConfig
from kedro_lakehouse.config.enrich import EnrichConfig
from kedro_lakehouse.config.expectations import (
    KINDS,
    ExpectationConfig,
    Scalar,
    SuiteConfig,
    SuiteExpectationConfig,
)
from kedro_lakehouse.config.grants import GrantConfig
from kedro_lakehouse.config.history import ColumnChoice, HistoryConfig, HistoryViewConfig, ValidFromConfig
from kedro_lakehouse.config.json_schema import PARTIAL, json_schemas, meanings, schema_text
from kedro_lakehouse.config.lifetimes import (
    LakehouseLifetimes,
    LandingLifetime,
    PrefixLifetime,
    RetentionConfig,
)
from kedro_lakehouse.config.maintenance import (
    CompactConfig,
    ExpireConfig,
    LandingConfig,
    MaintenanceConfig,
    ManifestsConfig,
    OpsConfig,
    OrphansConfig,
    TableMaintenanceConfig,
)
from kedro_lakehouse.config.metadata import KafkaMetadataConfig, KinesisMetadataConfig
from kedro_lakehouse.config.mongodb import MongoPullConfig, MongoSourceConfig
from kedro_lakehouse.config.monitoring import (
    EmailConfig,
    LineageConfig,
    MetricsConfig,
    MonitoringConfig,
    NotifierConfig,
    SnsConfig,
    WebhookConfig,
)
from kedro_lakehouse.config.pulled import PulledSourceConfig, PullLimits, PullRetry
from kedro_lakehouse.config.pulls import Overlap, PullConfig
from kedro_lakehouse.config.registries import (
    ConfluentRegistryConfig,
    GlueRegistryConfig,
    RegistryConfig,
)
from kedro_lakehouse.config.rest import RestAuth, RestPaging, RestSourceConfig, RestWindow
from kedro_lakehouse.config.sap import SapPullConfig, SapSourceConfig
from kedro_lakehouse.config.service import QueryConfig, ServiceConfig, ServiceFile
from kedro_lakehouse.config.sources import (
    ChangesSourceConfig,
    CsvByLoad,
    CsvOptions,
    DebeziumSourceConfig,
    DmsSourceConfig,
    ExtractSourceConfig,
    ExtractTime,
    FileSourceConfig,
    KafkaSourceConfig,
    KinesisSourceConfig,
    SourceConfig,
)
from kedro_lakehouse.config.subjects import ErasureRequestsConfig, SubjectConfig
from kedro_lakehouse.config.tables import DeriveConfig, TableConfig
from kedro_lakehouse.errors import LakehouseError, TerminalError, TransientError, UnknownOutcomeError
from kedro_lakehouse.plugins import NOTIFIERS, REGISTRIES, SOURCES, TABLE_FORMATS, list_plugins, load_plugin

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from kedro_lakehouse.formats.base import TableFormat

FOLDER: Final = Path(__file__).resolve().parent / "reference"
README: Final = FOLDER.parent.parent / "README.md"
PACKAGE: Final = "kedro_lakehouse"
SCHEMAS: Final = FOLDER.parent.parent / "src" / PACKAGE / "schema_files"
_BEGIN: Final = "<!-- formats: made by docs/generate_reference.py -->"
_END: Final = "<!-- end of formats -->"
_FEATURES: Final[Mapping[str, str]] = {
    "merge": "tables with keys, histories",
    "staged_audit": "audited before a reader sees it",
    "as_of": "read as of a time",
    "evolve": "columns added, types widened",
    "drop_columns": "columns dropped",
    "follows_references": "rows follow references",
    "partition_transforms": "partitions by a function, as days(ts)",
    "views": "a history's view in the catalog (else in the session)",
    "maintenance": "pipeline `maintenance`",
}

_WORDS: Final[Mapping[object, str]] = {
    str: "text", int: "whole number", float: "number", bool: "`true` or `false`", dt.date: "date",
    dt.timedelta: "duration",
    type(None): "", Any: "value", AwareDatetime: "time with its zone",
}  # fmt: skip
_DEFAULTS: Final[Mapping[tuple[type[Declaration], str], str]] = {
    (TableConfig, "history"): "`false`",
    (TableConfig, "entity"): "the table's name",
    (TableConfig, "valid_from"): "`extract_time`",
    (TableConfig, "delete_scope"): "`table`",
    (FileSourceConfig, "csv"): "the defaults below",
    (SourceConfig, "max_bytes"): "`2 GiB`",
    (PullLimits, "bytes"): "`64 GiB`",
    (PullLimits, "time"): "`4 hours`",
    (PullRetry, "budget"): "`10 minutes`",
    (RestSourceConfig, "timeout"): "`60 seconds`",
    (RestSourceConfig, "paging"): "`{type: none}`",
}
_ANSWERED: Final[Mapping[str, str]] = {
    "row": "one aggregation", "aggregate": "one aggregation", "count": "one aggregation",
    "unique": "a group by its columns", "drift": "metadata", "fresh": "metadata, in every run",
    "reference": "a join; suites only", "other_count": "two counts; suites only",
    "engine": "Great Expectations",
}  # fmt: skip
_KINDS: Final[Mapping[type[LakehouseError], str]] = {
    TransientError: "transient", TerminalError: "terminal", UnknownOutcomeError: "unknown",
}  # fmt: skip

NOTE: Final = "<!-- Made by docs/generate_reference.py from the code: change the code, not this page. -->\n"

CONFIGURATION: Final = """\
# Configuration

Every key of `sources.yml`, `tables.yml`, `expectations.yml`, `maintenance.yml`, `convert.yml`,
`discovery.yml`, `registries.yml`, `monitoring.yml` and `grants.yml`. They live in `conf/base/`; those of
`conf/<env>/` are merged softly over them: a key that an environment does not write keeps its value, a key
that it sets to `null` counts as not written. Lists are replaced, not joined. An unknown key is refused; the
message names the allowed ones.

The text of a path may use `${globals:landing}` and the other names of `globals.yml`.

"""
ERRORS: Final = """\
# Errors

Every error of this package starts with its code in brackets, says what is wrong in its first sentence and
what to do in its second. Codes do not change between versions; the words may.

| kind | means |
| --- | --- |
| transient | Nothing was written. Run again. |
| terminal | Running again changes nothing. Correct the input or the declaration first. |
| unknown | The commit may have happened. Run again: the run looks for the batch first. Clean nothing up. |

Words in braces stand for facts of the case. No message holds a value of a row. What
`kedro lakehouse rebuild` does:
[Recover from a failure](../how-to/recover-from-a-failure.md#when-the-advice-is-to-rebuild).

"""
COMMANDS: Final = """\
# Commands

What `kedro lakehouse` offers in any project that installs the package; put `.venv/bin/` before it. Every
command explains itself with `--help`. `--env` may also stand right after `lakehouse`.

With `--json` a command prints JSON on its standard output, and an error on its standard error, as
`{"error": {"code": ..., "message": ..., "remedy": ...}}`. A command ends with status 0, with 1 where
something was wrong (see [Errors](errors.md)), or with 2 where its own words were (code `USAGE`).

"""


def _words(kind: Any) -> str:  # noqa: PLR0911 - a table of cases
    """The type of a key as a person says it."""
    origin, args = get_origin(kind), get_args(kind)
    if set(get_args(Scalar)) <= set(args):
        return "value"
    if origin is Annotated:
        return _words(args[0])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in args)
    if origin is tuple:
        return f"list of {_words(args[0])}"
    if origin is Mapping:
        return f"mapping of {_words(args[0])} to {_words(args[1])}"
    if origin in (Union, types.UnionType):
        parts = dict.fromkeys(_words(part) for part in args)
        return " or ".join(part for part in parts if part)
    if inspect.isclass(kind) and issubclass(kind, Declaration):
        return f"[mapping](#{_anchor(_TITLES[kind])})"
    return _WORDS[kind]


def _of_model(model: type[Declaration], name: str, field: FieldInfo) -> tuple[str, str]:
    """The type and the default of a key."""
    kind = field.annotation
    if get_origin(kind) is Literal:
        words = ", ".join(f"`{value}`" for value in get_args(kind))
    else:
        words = _words(kind)
    if model is TableConfig and name == "history":
        words = f"`true`, `false` or {words}"
    if model in (ExtractSourceConfig, ChangesSourceConfig) and name == "csv":
        words = _words(CsvOptions)
    if name == "rate":
        words = "rate"
    if name == "max_bytes":
        words += " or size"
    given = next((text for (m, n), text in _DEFAULTS.items() if issubclass(model, m) and n == name), None)
    if given is not None:
        return words, given
    if field.is_required():
        return words, "**required**"
    return words, _shown(field.get_default())


def _shown(default: object) -> str:
    if isinstance(default, Declaration):
        return "its own defaults"
    if default in (None, (), {}):
        return "none"
    if isinstance(default, dt.timedelta):
        if not default.days:
            return f"`{default.seconds // 60} minutes`"
        return f"`{default.days} day{'s' if default.days != 1 else ''}`"
    if isinstance(default, tuple):
        default = f"[{', '.join(default)}]"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`" if default != "" else "empty"


_TITLES: Final[Mapping[type[Declaration], str]] = {
    DmsSourceConfig: "A source of type dms",
    ExtractSourceConfig: "A source of type extract",
    ChangesSourceConfig: "A source of type changes",
    DebeziumSourceConfig: "A source of type debezium",
    KafkaSourceConfig: "A source of type kafka",
    KafkaMetadataConfig: "metadata of Kafka",
    KinesisSourceConfig: "A source of type kinesis",
    KinesisMetadataConfig: "metadata of Kinesis",
    PulledSourceConfig: "A source that is asked for its records",
    SqlSourceConfig: "A source of type sql",
    RestSourceConfig: "A source of type rest",
    RestAuth: "auth of a source of type rest",
    RestPaging: "paging of a source of type rest",
    RestWindow: "window of a source of type rest",
    SapSourceConfig: "A source of type sap",
    MongoSourceConfig: "A source of type mongodb",
    DynamoSourceConfig: "A source of type dynamodb",
    PullRetry: "retry",
    PullLimits: "limits",
    RegistryConfig: "registries.yml",
    ConfluentRegistryConfig: "A registry of type confluent",
    GlueRegistryConfig: "A registry of type glue",
    ExtractTime: "extract_time",
    CsvOptions: "csv",
    CsvByLoad: "csv by kind of file",
    TableConfig: "tables.yml",
    HistoryConfig: "history",
    ColumnChoice: "columns and history.track",
    HistoryViewConfig: "history.view",
    ValidFromConfig: "valid_from",
    PullConfig: "pull",
    SqlPullConfig: "pull of a source of type sql",
    SapPullConfig: "pull of a source of type sap",
    MongoPullConfig: "pull of a source of type mongodb",
    Overlap: "pull.late",
    DeriveConfig: "derive",
    EnrichConfig: "enrich",
    SubjectConfig: "subject",
    ErasureRequestsConfig: "erasure_requests",
    GrantConfig: "A grant of grants.yml",
    RetentionConfig: "retention",
    LandingLifetime: "lifetime",
    MaintenanceConfig: "maintenance.yml",
    TableMaintenanceConfig: "tables of maintenance.yml",
    CompactConfig: "compact",
    ManifestsConfig: "manifests",
    ExpireConfig: "expire",
    OrphansConfig: "orphans",
    LandingConfig: "landing",
    OpsConfig: "ops of maintenance.yml",
    LakehouseLifetimes: "lifetimes of maintenance.yml",
    PrefixLifetime: "A lifetime of files",
    ConvertConfig: "convert.yml",
    DiscoveryConfig: "discovery.yml",
    PlaceConfig: "places",
    CrawlerConfig: "crawler",
    ServiceFile: "service.yml",
    ServiceConfig: "service",
    QueryConfig: "query",
    MonitoringConfig: "monitoring.yml",
    NotifierConfig: "A notifier of any type",
    EmailConfig: "A notifier of type email",
    WebhookConfig: "A notifier of type webhook",
    SnsConfig: "A notifier of type sns",
    MetricsConfig: "metrics",
    LineageConfig: "lineage",
    ExpectationConfig: "expectations",
    SuiteConfig: "expectations.yml",
    SuiteExpectationConfig: "expectations of a suite",
}


def _anchor(title: str) -> str:
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _section(model: type[Declaration]) -> Iterator[str]:
    first = inspect.getdoc(model) or ""
    yield f"## {_TITLES[model]}\n\n{first.splitlines()[0]}\n\n"
    yield "| key | type | default | meaning |\n| --- | --- | --- | --- |\n"
    told = meanings(model)
    for name, field in model.model_fields.items():
        words, default = _of_model(model, name, field)
        cells = (f"`{field.alias or name}`", words, default, told[name])
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
    yield "\n"


def configuration() -> str:
    """The page of all keys."""
    sections = "".join("".join(_section(model)) for model in _TITLES)
    return NOTE + CONFIGURATION + sections + _types_of_expectations()


def _types_of_expectations() -> str:
    """Every type of expectation with its keys, and what answers it."""
    lines = ["## Types of expectations\n\n", "| type | keys | answered by |\n| --- | --- | --- |\n"]
    for name, kind in KINDS.items():
        optional = [f"`{key}`" for key in (*kind.one_of, *kind.takes)]
        keys = [f"**`{key}`**" for key in kind.needs] + optional
        lines.append(f"| `{name}` | {', '.join(keys)} | {_ANSWERED[kind.nature]} |\n")
    return "".join(lines) + "\n"


def _leaves(base: type[LakehouseError]) -> Iterator[type[LakehouseError]]:
    for child in base.__subclasses__():
        if "code" in vars(child) and child.__module__.startswith(f"{PACKAGE}."):
            yield child
        yield from _leaves(child)


def errors() -> str:
    """The page of all error codes."""
    lines = ["| code | class | kind | what it says | what to do |\n| --- | --- | --- | --- | --- |\n"]
    for leaf in sorted(_leaves(LakehouseError), key=lambda error: error.code):
        kind = next(
            (word for base, word in _KINDS.items() if issubclass(leaf, base)), "as its tables' errors"
        )
        says = leaf.summary or (inspect.getdoc(leaf) or "").splitlines()[0]
        advice = "" if leaf.advice.startswith("{") else leaf.advice
        cells = (f"`{leaf.code}`", f"`{leaf.__name__}`", kind, says, advice or "The message says it.")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    return NOTE + ERRORS + "".join(lines)


def _fenced(text: str) -> str:
    return f"\n\n```bash\n{textwrap.dedent(text).rstrip()}\n```"


def _command(path: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    yield f"## {path}\n\n"
    told = inspect.cleandoc(command.help or "").replace("\b\n", "")
    # Indented lines are examples.
    yield re.sub(r"\n((?:  .+(?:\n|$))+)", lambda found: _fenced(found[1]), told) + "\n\n"
    yield "```text\n" + " ".join([path, *command.collect_usage_pieces(context)]) + "\n```\n\n"
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    if options:
        yield "| option | meaning |\n| --- | --- |\n"
    for option in options:
        value = "" if option.is_flag else f" {option.make_metavar(context)}"
        meaning = option.help or ""
        if option.show_default and option.default is not None:
            meaning += f" Default: `{option.default}`."
        cells = (f"`{', '.join(option.opts)}{value}`", meaning)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
    yield "\n"


def commands() -> str:
    """The page of ``kedro lakehouse``."""
    found = sorted(lakehouse.commands.items())
    parts = (part for name, command in found for part in _command(f"kedro lakehouse {name}", command))
    return NOTE + COMMANDS + "".join(parts).rstrip("\n") + "\n"


def formats() -> str:
    """What each table format of the project can do, as it declares: a table for the README."""
    own = [name for name, value in list_plugins(TABLE_FORMATS).items() if value.startswith(PACKAGE)]
    declared = {
        name: cast("type[TableFormat]", load_plugin(TABLE_FORMATS, name)).capabilities for name in own
    }
    lines = ["| | " + " | ".join(own) + " |", "| --- |" + " --- |" * len(own)]
    lines += [
        f"| Spark {line} | " + " | ".join(_yes(line in c.spark) for c in declared.values()) + " |"
        for line in sorted({line for c in declared.values() for line in c.spark})
    ]
    lines += [
        f"| {words} | " + " | ".join(_yes(getattr(c, name)) for c in declared.values()) + " |"
        for name, words in _FEATURES.items()
    ]
    return "\n".join(lines)


def _yes(holds: bool) -> str:  # noqa: FBT001 - a cell of a table
    return "yes" if holds else "no"


def _readme() -> str:
    """The README with the table of formats as it is declared now."""
    before, begin, rest = README.read_text(encoding="utf-8").partition(_BEGIN)
    _, end, after = rest.partition(_END)
    return f"{before}{begin}\n{formats()}\n{end}{after}"


PAGES: Final = {"commands.md": commands, "configuration.md": configuration, "errors.md": errors}


def schema_files() -> dict[str, str]:
    """The texts of the JSON Schemas that the package has with it, by name: those of its own types alone."""
    own = {}
    for group, base in ((SOURCES, SourceConfig), (NOTIFIERS, NotifierConfig), (REGISTRIES, RegistryConfig)):
        names = [name for name, value in list_plugins(group).items() if value.startswith(f"{PACKAGE}.")]
        own[base] = {name: cast("Any", load_plugin(group, name)).config_model for name in names}
    texts = {}
    for ending, partial in ((".json", False), (PARTIAL, True)):
        made = json_schemas(*own.values(), partial=partial)
        texts |= {f"{name}{ending}": schema_text(schema) for name, schema in made.items()}
    return texts


def stale() -> list[str]:
    """The names of pages and schemas that are not what the code says."""
    names = [
        name for name, page in PAGES.items()
        if not (FOLDER / name).is_file() or (FOLDER / name).read_text(encoding="utf-8") != page()
    ]  # fmt: skip
    names += [
        name for name, text in schema_files().items()
        if not (SCHEMAS / name).is_file() or (SCHEMAS / name).read_text(encoding="utf-8") != text
    ]  # fmt: skip
    return names + ([README.name] if README.read_text(encoding="utf-8") != _readme() else [])


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, or tell with ``--check`` which are stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is stale")
    if parser.parse_args(arguments).check:
        names = stale()
        if names:
            sys.stderr.write(f"Stale: {', '.join(names)}. Run .venv/bin/python docs/generate_reference.py\n")
        return int(bool(names))
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
    README.write_text(_readme(), encoding="utf-8")
    SCHEMAS.mkdir(exist_ok=True)
    for name, text in schema_files().items():
        (SCHEMAS / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
