"""JSON Schemas of the YAML files, for editors: made from the models that check the files."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from pydantic.json_schema import models_json_schema

from kedro_lakehouse.config.base import Declaration
from kedro_lakehouse.config.columns import PARAMETER, ColumnIndexConfig
from kedro_lakehouse.config.convert import ConvertConfig
from kedro_lakehouse.config.discovery import DiscoveryConfig
from kedro_lakehouse.config.expectations import KINDS, ExpectationConfig, SuiteConfig
from kedro_lakehouse.config.grants import MASKS, GrantConfig
from kedro_lakehouse.config.maintenance import MaintenanceConfig
from kedro_lakehouse.config.monitoring import MonitoringConfig
from kedro_lakehouse.config.pulled import PulledSourceConfig
from kedro_lakehouse.config.pulls import PullConfig
from kedro_lakehouse.config.service import ServiceFile
from kedro_lakehouse.config.tables import TableConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Schema = dict[str, Any]

DRAFT: Final = "http://json-schema.org/draft-07/schema#"
"""The version of JSON Schema that editors know."""
FILES: Final = (
    "sources", "tables", "expectations", "maintenance", "monitoring", "grants", "discovery", "registries",
    "service", "convert", "parameters_column_index",
)  # fmt: skip
"""The files that have a schema, each ``<name>.yml``."""
PARTIAL: Final = ".env.json"
"""The ending of the schema for an environment's files."""
_REF: Final = "#/definitions/{model}"
_TABLE_NAME: Final = r"^(?!ops\.)[a-z](?:[a-z0-9]|_(?!_))*\.[a-z](?:[a-z0-9]|_(?!_|$))*$"
_PLACEHOLDER: Final[Mapping[str, Any]] = {
    "description": "A value that Kedro fills in, such as ${globals:landing}; null counts as not written.",
    "anyOf": [{"type": "null"}, {"type": "string", "pattern": r"\$\{"}],
}
_OWN: Final = "placeholder"


def json_schemas(
    sources: Mapping[str, type[Declaration]],
    notifiers: Mapping[str, type[Declaration]],
    registries: Mapping[str, type[Declaration]],
    *,
    partial: bool = False,
) -> dict[str, Schema]:
    """The schema of each file of ``FILES``, by name.

    Args:
        sources: The model of each type of source.
        notifiers: The model of each type of notifier.
        registries: The model of each type of registry.
        partial: For the files of an environment, which hold only what differs there: nothing is required.
    """
    pulled: dict[type[Declaration], None] = {PullConfig: None}
    pulled |= {m.pull_model: None for m in sources.values() if issubclass(m, PulledSourceConfig)}
    models: list[type[Declaration]] = [
        TableConfig, SuiteConfig, MaintenanceConfig, MonitoringConfig, GrantConfig, DiscoveryConfig,
        ServiceFile, ConvertConfig, ColumnIndexConfig, *pulled, *sources.values(),
        *notifiers.values(),
        *registries.values(),
    ]  # fmt: skip
    unique = list(dict.fromkeys(models))
    _, found = models_json_schema([(m, "validation") for m in unique], ref_template=_REF)
    by_name = {m.__name__: m for m in _with_inner(unique)}
    definitions = {
        name: _finished(schema, by_name.get(name), partial=partial) for name, schema in found["$defs"].items()
    }
    union = {key: kind for m in pulled for key, kind in definitions[m.__name__]["properties"].items()}
    definitions["TableConfig"]["properties"]["pull"] = _open(
        {"type": "object", "properties": union, "additionalProperties": False}
    )
    notified = _by_type(notifiers, partial=partial)
    definitions["MonitoringConfig"]["properties"]["notifiers"] = _open(_named(notified))
    definitions[_OWN] = dict(_PLACEHOLDER)
    tops = {
        "sources": _named(_by_type(sources, partial=partial)),
        "tables": _named(_ref(TableConfig), names=_TABLE_NAME),
        "expectations": _named(_ref(SuiteConfig), names=r"^[a-z][a-z0-9_]*$"),
        "registries": _named(_by_type(registries, partial=partial)),
        "convert": _named(_ref(ConvertConfig), names=_TABLE_NAME),
        "grants": _grants(),
        "parameters_column_index": {
            "type": ["object", "null"],
            "properties": {PARAMETER: _open(_ref(ColumnIndexConfig))},
        },
        "maintenance": _whole(definitions, MaintenanceConfig),
        "monitoring": _whole(definitions, MonitoringConfig),
        "discovery": _whole(definitions, DiscoveryConfig),
        "service": _whole(definitions, ServiceFile),
    }
    return {name: _file(name, tops[name], definitions) for name in FILES}


def schema_text(schema: Schema) -> str:
    """A schema as its file holds it."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _file(name: str, top: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """A schema with the definitions that it needs, and no others."""
    used: dict[str, Schema] = {}
    ahead = [top]
    while ahead:
        for wanted in _references(ahead.pop()):
            if wanted not in used:
                used[wanted] = definitions[wanted]
                ahead.append(definitions[wanted])
    title = f"{name}.yml of kedro-lakehouse"
    return {"$schema": DRAFT, "title": title, **top, "definitions": dict(sorted(used.items()))}


def _references(schema: object) -> Iterable[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].rpartition("/")[2]
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _ref(model: type[Declaration]) -> Schema:
    return {"$ref": _REF.format(model=model.__name__)}


def _open(schema: Schema) -> Schema:
    """A schema that lets placeholders and null pass beside its own values."""
    told: Schema = {key: schema.pop(key) for key in ("description", "default") if key in schema}
    if set(schema) <= {"type"} and schema.get("type") == "string":
        return {**told, "type": ["string", "null"]}
    if not schema:
        return told
    parts = schema["anyOf"] if set(schema) == {"anyOf"} else [schema]
    kept = [part for part in parts if part != {"type": "null"}]
    return {**told, "anyOf": [*kept, {"$ref": _REF.format(model=_OWN)}]}


def _named(entry: Schema, *, names: str = "") -> Schema:
    """Entries by name; what begins with an underscore is the writer's own, to be used by others."""
    made: Schema = {
        "type": ["object", "null"], "patternProperties": {"^_": {}}, "additionalProperties": _open(entry)
    }  # fmt: skip
    if names:
        made["propertyNames"] = {"anyOf": [{"pattern": "^_"}, {"pattern": names}]}
    return made


def _whole(definitions: Mapping[str, Schema], model: type[Declaration]) -> Schema:
    """A file whose keys are those of one model."""
    return {**definitions[model.__name__], "type": ["object", "null"], "patternProperties": {"^_": {}}}


def _by_type(models: Mapping[str, type[Declaration]], *, partial: bool) -> Schema:
    """An entry whose keys are those of the model of its ``type``."""
    rules: list[Schema] = [
        {"if": {"required": ["type"], "properties": {"type": {"const": name}}}, "then": _ref(model)}
        for name, model in models.items()
    ]
    made: Schema = {"type": "object", "properties": {"type": {"enum": sorted(models)}}, "allOf": rules}
    if partial:
        rules.append(
            {"if": {"not": {"required": ["type"]}}, "then": {"anyOf": [_ref(m) for m in models.values()]}}
        )
        return made
    return {**made, "required": ["type"]}


def _grants() -> Schema:
    texts = {"type": "object", "additionalProperties": {"type": ["string", "null"]}}
    masks = {"type": "object", "additionalProperties": _open({"enum": list(MASKS)})}
    roles = {"type": "array", "items": _ref(GrantConfig)}
    return {
        "type": ["object", "null"],
        "properties": {"principals": _open(texts), "masks": _open(masks)},
        "patternProperties": {"^_": {}},
        "additionalProperties": _open(roles),
        "propertyNames": {"pattern": "^(_.*|[A-Za-z][A-Za-z0-9_-]*)$"},
    }


def _finished(schema: Schema, model: type[Declaration] | None, *, partial: bool) -> Schema:
    """A definition as editors need it: with meanings, open for placeholders, with the rules across keys."""
    schema = _plain(schema)
    if model is None:
        return schema
    told = meanings(model)
    aliases = {field.alias or name: name for name, field in model.model_fields.items()}
    schema["properties"] = {
        key: {"description": told.get(aliases.get(key, key), ""), **_opened(kind)}
        for key, kind in schema.get("properties", {}).items()
    }
    rules = _RULES.get(model.__name__, [])
    if issubclass(model, ExpectationConfig):
        rules = [*rules, *_expectations(partial=partial)]
    if model is TableConfig:
        rules = [*rules, *_tables(partial=partial)]
    if partial:
        schema.pop("required", None)
        rules = [rule for rule in rules if "oneOf" not in rule]
    if rules:
        schema["allOf"] = rules
    return schema


def _opened(kind: Schema) -> Schema:
    """A property's schema, open for placeholders at each place where a value stands."""
    for inner in ("items", "additionalProperties"):
        if isinstance(kind.get(inner), dict):
            kind[inner] = _opened(kind[inner])
    for number, part in enumerate(kind.get("anyOf", ())):
        kind["anyOf"][number] = _inner(part)
    return _open(kind)


def _inner(part: Schema) -> Schema:
    for inner in ("items", "additionalProperties"):
        if isinstance(part.get(inner), dict):
            part[inner] = _opened(part[inner])
    return part


_DROPPED: Final = frozenset({"title", "discriminator", "prefixItems"})


def _plain(schema: Any) -> Any:
    """A schema in draft 7, without titles and without defaults that YAML would write otherwise."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made: Schema = {}
    for key, value in schema.items():
        if key in _DROPPED and not isinstance(value, dict):
            continue
        if key == "default" and not isinstance(value, bool | int | float) and not _is_word(value):
            continue
        if key == "patternProperties":  # the names of keys have a pattern, and no others are allowed
            ((pattern, inner),) = value.items()
            made |= {"propertyNames": _plain({"pattern": pattern}), "additionalProperties": _plain(inner)}
        elif key == "properties":
            made[key] = {name: _plain(one) for name, one in value.items()}
        elif key == "pattern" and isinstance(value, str):
            made[key] = re.sub(r"\\[zZ]", "$", value)
        else:
            made["anyOf" if key == "oneOf" else key] = _plain(value)
    return made


def _is_word(value: object) -> bool:
    return isinstance(value, str) and not re.match(r"P[\dT]|\d{4}-", value) and bool(value)


def _expectations(*, partial: bool) -> list[Schema]:
    """Which keys go with which type of expectation."""
    rules = []
    for name, kind in KINDS.items():
        allowed = ["type", "severity", "scope", "table", *kind.needs, *kind.takes, *kind.one_of]
        then: Schema = {"propertyNames": {"enum": allowed}}
        if not partial:
            then["required"] = list(kind.needs)
            if kind.one_of:
                then["anyOf"] = [{"required": [key]} for key in kind.one_of]
        rules.append({"if": {"required": ["type"], "properties": {"type": {"const": name}}}, "then": then})
    return rules


def _tables(*, partial: bool) -> list[Schema]:
    """What a table's keys demand of each other."""
    without_keys: Schema = {"required": ["write"], "properties": {"write": {"enum": ["append", "replace"]}}}
    no_keys = {"properties": {"keys": {"maxItems": 0}, "history": {"enum": [False, None]}}}
    rules: list[Schema] = [{"if": without_keys, "then": no_keys}, {"not": {"required": ["source", "derive"]}}]
    if not partial:
        merged: Schema = {"properties": {"write": {"const": "merge"}}}
        rules += [{"if": merged, "then": {"required": ["keys"]}}]
        rules += [{"anyOf": [{"required": ["source"]}, {"required": ["derive"]}]}]
    return rules


def _one_of(*keys: str) -> Schema:
    return {"oneOf": [{"required": [key]} for key in keys]}


_RULES: Final[Mapping[str, list[Any]]] = {
    "ColumnChoice": [_one_of("include", "exclude")],
    "PlaceConfig": [_one_of("path", "catalog")],
    "GrantConfig": [_one_of("database", "table", "tag")],
    "LineageConfig": [_one_of("file", "url")],
    "ExtractTime": [
        {
            "if": {"required": ["from"], "properties": {"from": {"const": "name"}}},
            "then": {"required": ["pattern"]},
        }
    ],
}
"""What keys of a model demand of each other, as its validators say it."""


def _with_inner(models: Iterable[type[Declaration]]) -> set[type[Declaration]]:
    """Models with all those that stand in their fields, at any depth."""
    found: set[type[Declaration]] = set()
    ahead = list(models)
    while ahead:
        model = ahead.pop()
        if model not in found:
            found.add(model)
            ahead += [
                m
                for f in model.model_fields.values()
                for part in (f.annotation, *f.metadata)
                for m in _models_in(_taken(part))
            ]
    return found


def _models_in(kind: Any) -> Iterable[type[Declaration]]:
    if inspect.isclass(kind) and issubclass(kind, Declaration):
        yield kind
    for part in (*get_args(kind), *getattr(kind, "__metadata__", ())):
        yield from _models_in(_taken(part))


def _taken(part: Any) -> Any:
    """What a validator takes, or the part of a type itself."""
    return getattr(part, "json_schema_input_type", part)


def meanings(model: type[Declaration]) -> dict[str, str]:
    """What the keys of a model mean: the text that stands below each in its class, or in a class above."""
    found: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if issubclass(owner, Declaration):
            tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
            for key, below in pairwise(cast("ast.ClassDef", tree.body[0]).body):
                match key, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                        value=ast.Constant(value=str(text))
                    ):
                        found[name] = " ".join(text.split())
    return found
