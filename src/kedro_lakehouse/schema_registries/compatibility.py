"""Which versions of a schema fit a mode of compatibility, and what changed between two versions.

Source:
    Apache Avro 1.12 specification, schema resolution; Confluent documentation, schema evolution and
    compatibility.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kedro_lakehouse.schema_registries.avro import connect_schema, without_logical_types

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kedro_lakehouse.config.sources import Compatibility
    from kedro_lakehouse.schema_registries.base import SchemaVersion

NEW_READS_OLD, OLD_READS_NEW = "a reader of this version", "a reader of version"


class _Rule(NamedTuple):
    """What a mode asks: who must read whose records, and whether of all earlier versions or of the last."""

    backward: bool
    forward: bool
    transitive: bool

    def implies(self, other: _Rule) -> bool:
        """Whether what this asks is all that the other one asks, or more."""
        return all(mine or not theirs for mine, theirs in zip(self, other, strict=True))


_RULES: Final[Mapping[Compatibility, _Rule]] = {
    "BACKWARD": _Rule(backward=True, forward=False, transitive=False),
    "BACKWARD_TRANSITIVE": _Rule(backward=True, forward=False, transitive=True),
    "FORWARD": _Rule(backward=False, forward=True, transitive=False),
    "FORWARD_TRANSITIVE": _Rule(backward=False, forward=True, transitive=True),
    "FULL": _Rule(backward=True, forward=True, transitive=False),
    "FULL_TRANSITIVE": _Rule(backward=True, forward=True, transitive=True),
}


def misfits(versions: Sequence[SchemaVersion], mode: Compatibility) -> dict[int, str]:
    """The versions of one subject that do not fit, by their numbers, each with the reason.

    A version is compared with those before it that fit, by the registry's numbers: so it does not matter in
    which order records came. What fits a narrower mode fits a wider one, too: to widen a mode only brings
    records back.

    Args:
        versions: All versions up to the newest one in question.
    """
    if mode == "NONE":
        return {}
    rule = _RULES[mode]
    found = dict[int, str]()
    fitting: list[SchemaVersion] = []
    ordered = sorted(versions, key=lambda one: one.number)
    for position, version in enumerate(ordered):
        compared = fitting if rule.transitive else fitting[-1:]
        problem = next((p for old in compared if (p := _problem(version, old, rule))), None)
        if problem is None or _fits_narrower(ordered[: position + 1], rule):
            fitting.append(version)
        else:
            found[version.number] = problem
    return found


def _fits_narrower(versions: Sequence[SchemaVersion], rule: _Rule) -> bool:
    """Whether the last of these versions fits a mode that asks for more than this rule."""
    narrower = [mode for mode, other in _RULES.items() if other != rule and other.implies(rule)]
    return any(versions[-1].number not in misfits(versions, mode) for mode in narrower)


def _problem(new: SchemaVersion, old: SchemaVersion, rule: _Rule) -> str | None:
    if rule.backward and (found := unreadable(new.text, old.text)):
        return f"{NEW_READS_OLD} cannot read version {old.number}: {found[0]}"
    if rule.forward and (found := unreadable(old.text, new.text)):
        return f"{OLD_READS_NEW} {old.number} cannot read this one: {found[0]}"
    return None


@lru_cache(maxsize=2**14)
def unreadable(reader: str, writer: str) -> tuple[str, ...]:
    """Why a reader with one schema cannot read what was written with another; empty if it can.

    ``avro`` does not look at what numbers mean. So decimals must have the same scale here, and the reader's
    as many digits; times must be in the same unit.
    """
    from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
    from avro.errors import AvroException

    try:
        if json.loads(reader) == json.loads(writer):
            return ()
        parsed = [_parsed(text) for text in (reader, writer)]
    except (AvroException, ValueError) as error:
        return (f"it cannot be compared: {error}",)
    checker: Any = ReaderWriterCompatibilityChecker
    answer = checker().get_compatibility(*parsed)
    if answer.compatibility is not SchemaCompatibilityType.compatible:
        kinds = sorted({kind.value.replace("_", " ") for kind in answer.incompatibilities})
        return (f"{', '.join(kinds)}: {', '.join(sorted(map(str, answer.messages)))}",)
    return tuple(_other_meanings(_meaning(reader), _meaning(writer), "the record"))


_meaning: Final = lru_cache(maxsize=256)(connect_schema)


@lru_cache(maxsize=256)
def _parsed(text: str) -> Any:
    """The schema without logical types: of those that it does not know, ``avro`` warns."""
    from avro.schema import make_avsc_object

    return make_avsc_object(without_logical_types(json.loads(text)), validate_names=False)


def _other_meanings(reader: Mapping[str, Any], writer: Mapping[str, Any], place: str) -> Iterator[str]:
    """Where the same bytes mean another value to the reader."""
    mine, theirs = reader.get("name"), writer.get("name")
    if _is_decimal(mine) and _is_decimal(theirs):
        have, held = _digits(reader), _digits(writer)
        if have[1] != held[1] or have[0] < held[0]:
            yield f"{place}: decimal{have} cannot hold decimal{held}"
    elif mine != theirs and _is_time(mine) and _is_time(theirs):
        yield f"{place}: {_short(mine)} is not {_short(theirs)}"
    written = {field["field"]: field for field in writer.get("fields", ())}
    for field in reader.get("fields", ()):
        if field["field"] in written:
            yield from _other_meanings(field, written[field["field"]], f"field {field['field']}")
    for part in ("items", "values"):
        if part in reader and part in writer:
            yield from _other_meanings(reader[part], writer[part], place)


def _digits(field: Mapping[str, Any]) -> tuple[int, int]:
    """Precision and scale."""
    parameters = field["parameters"]
    return int(parameters["connect.decimal.precision"]), int(parameters["scale"])


def _is_decimal(name: str | None) -> bool:
    return name is not None and name.endswith(".Decimal")


def _is_time(name: str | None) -> bool:
    return name is not None and name.startswith(("org.apache.kafka.connect.data.", "io.debezium.time."))


def _short(name: str | None) -> str:
    return str(name).rpartition(".")[2]


class Field(NamedTuple):
    """A field of a record: its type in words, and its default as JSON; None without one."""

    type: str
    default: str | None


def fields_of(text: str) -> dict[str, Field]:
    """The fields of a schema by their paths; those of a record that is used twice, where it is defined."""
    found = dict[str, Field]()

    def walk(schema: Any, path: str) -> None:
        if isinstance(schema, list):
            for part in schema:
                walk(part, path)
        elif isinstance(schema, dict):
            for field in schema.get("fields", ()):
                here = f"{path}.{field['name']}" if path else field["name"]
                default = json.dumps(field["default"]) if "default" in field else None
                found[here] = Field(in_words(field["type"]), default)
                walk(field["type"], here)
            for part in ("type", "items", "values"):
                walk(schema.get(part), path)

    walk(json.loads(text), "")
    return found


def in_words(schema: Any) -> str:  # noqa: PLR0911 - a table of cases
    """A type as a reader of a list of changes wants it, such as ``decimal(9,2) or null``."""
    if isinstance(schema, list):
        parts = [in_words(part) for part in schema if part != "null"]
        return " or ".join([*parts, *(["null"] if "null" in schema else [])])
    if not isinstance(schema, dict):
        return str(schema)
    kind = schema["type"]
    if isinstance(kind, (dict, list)):
        return in_words(kind)
    logical = schema.get("logicalType")
    if logical == "decimal":
        return f"decimal({schema.get('precision')},{schema.get('scale', 0)})"
    if logical:
        return str(logical)
    if kind == "array":
        return f"array of {in_words(schema['items'])}"
    if kind == "map":
        return f"map of {in_words(schema['values'])}"
    if kind == "enum":
        return f"enum({', '.join(schema['symbols'])})"
    if kind == "fixed":
        return f"fixed({schema['size']})"
    return str(schema["name"]) if kind == "record" else str(kind)


def changes_between(old: str, new: str) -> list[str]:
    """What a version changed, in words: fields added, removed, of another type or default."""
    before, after = fields_of(old), fields_of(new)
    found = []
    for name in [*(n for n in before if n not in after), *after]:
        if name not in after:
            found.append(f"removed {name} {before[name].type}")
        elif name not in before:
            found.append(f"added {name} {after[name].type}{_default(after[name])}")
        elif before[name].type != after[name].type:
            found.append(f"{name}: {before[name].type} became {after[name].type}")
        elif before[name].default != after[name].default:
            found.append(f"{name}: default {before[name].default} became {after[name].default}")
    return found


def _default(field: Field) -> str:
    return " without default" if field.default is None else f" default {field.default}"
