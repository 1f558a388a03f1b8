"""Declarations of grants.yml: which role may see which tables, columns and rows, and what is masked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, model_validator

from kedro_lakehouse.config.base import Declaration, Name, refuse
from kedro_lakehouse.config.history import ColumnChoice  # noqa: TC001 - pydantic reads it at run time
from kedro_lakehouse.config.tables import SENSITIVE_TAGS, Tag
from kedro_lakehouse.config.validation import Mistakes, found_kind, validated
from kedro_lakehouse.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.expressions import BooleanExpression

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName

    Tables = Mapping[TableName, TableConfig]

GRANTS_FILE: Final = "grants.yml"
Mask = Literal["none", "last4", "redact", "hide"]
MASKS: Final[tuple[Mask, ...]] = ("none", "last4", "redact", "hide")
"""From the one that hides nothing to the one that hides all; of two masks the later one holds."""
MASK_OF_TAG: Final[Mapping[str, Mask]] = {"personal": "redact", "payment": "last4"}
"""How columns with a tag are masked for roles that the tag is not granted to."""
_PRINCIPALS, _MASKS = "principals", "masks"
_ROLE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_PRINCIPAL: Final = re.compile(r"\d{12}|arn:aws[a-z-]*:[a-z0-9-]+:[a-z0-9-]*:\d{12}:\S+")


def rows_condition(text: str) -> str:
    """Return the text of a condition on a table's rows, or refuse it; see ``row_filter``."""
    columns_of(row_filter(text))
    return text


def row_filter(text: str) -> BooleanExpression:
    """Parse a condition on a table's own columns, which Iceberg applies while it reads the rows.

    It compares columns with constants (=, <>, <, <=, >, >=, IN, BETWEEN, IS NULL, LIKE 'start%'), joined by
    AND, OR and NOT. There is no function and no query in it: those do not parse. As in SQL a row is not let
    through where the condition is neither true nor false, for a column is null.
    """
    from pyiceberg.expressions.parser import parse
    from pyiceberg.expressions.visitors import rewrite_not
    from pyparsing import ParseBaseException

    try:
        found = parse(text)
        columns_of(found)
        return _without_unknown(rewrite_not(found))
    except (ParseBaseException, ValueError, TypeError, AttributeError) as error:
        raise refuse(
            "the text is not a condition on the table's columns",
            "Compare columns with constants, such as region = 'EU' and amount >= 0, joined by AND, OR, NOT.",
        ) from error


def columns_of(condition: BooleanExpression) -> frozenset[str]:
    """The columns that a condition names.

    Raises:
        TypeError: It holds something else than comparisons of columns.
    """
    from pyiceberg import expressions as ex

    if isinstance(condition, ex.And | ex.Or):
        return columns_of(condition.left) | columns_of(condition.right)
    if isinstance(condition, ex.Not):
        return columns_of(condition.child)
    if isinstance(condition, ex.AlwaysTrue | ex.AlwaysFalse):
        return frozenset()
    if isinstance(condition, ex.UnboundPredicate) and isinstance(condition.term, ex.Reference):
        return frozenset({condition.term.name})
    raise TypeError(type(condition).__name__)


def _without_unknown(condition: BooleanExpression) -> BooleanExpression:
    """The condition with SQL's meaning of null: to Iceberg null differs from every constant."""
    from pyiceberg import expressions as ex

    built: Any = ex  # its models hide their positional arguments from type checkers
    if isinstance(condition, ex.And | ex.Or):
        both = (_without_unknown(condition.left), _without_unknown(condition.right))
        return ex.And(*both) if isinstance(condition, ex.And) else ex.Or(*both)
    if isinstance(condition, ex.NotEqualTo | ex.NotIn | ex.NotStartsWith | ex.NotNaN):
        return ex.And(built.NotNull(condition.term), condition)
    return condition


class GrantConfig(Declaration):
    """One grant of a role: on a database, on a table with all or some columns and rows, or on a tag."""

    database: Name | None = None
    """A namespace: all its tables, now and later, but those that the role has a grant of their own for."""
    table: Name | None = None
    """A table, as namespace.table, with its history and the view on it."""
    tag: Tag | None = None
    """The columns with this tag in every table, unmasked: `personal`, `payment`, `public` or one of
    `column_tags`.
    """
    can: Literal["describe", "select"] = "select"
    """Whether rows are shown, or what there is alone: of a table its columns, of a database its name."""
    columns: ColumnChoice | None = None
    """The columns that are shown, as {include | exclude: [...]}; default: all."""
    mask: Mapping[Name, Mask] = {}
    """How columns are masked, as {column: none | last4 | redact | hide}; default: as their tags say."""
    rows: Annotated[Name, AfterValidator(rows_condition)] | None = None
    """A condition that rows meet which are shown, such as region = 'EU'."""

    @model_validator(mode="after")
    def _one_resource(self) -> Self:
        named = [key for key in ("database", "table", "tag") if getattr(self, key) is not None]
        if len(named) != 1:
            problem = "exactly one of 'database', 'table' and 'tag' is needed"
            raise refuse(problem, "Write one grant for each.")
        of_tables = [key for key in ("columns", "mask", "rows") if getattr(self, key)]
        if of_tables and self.table is None:
            problem = f"'{of_tables[0]}' is for grants on one table"
            raise refuse(problem, "Name the table by `table`.", key=of_tables[0])
        if of_tables and self.can == "describe":
            problem = f"'{of_tables[0]}' is for grants that show rows"
            raise refuse(problem, "Remove it, or write `can: select`.", key=of_tables[0])
        if self.tag is not None and self.can == "describe":
            problem = "a tag stands for values, not for tables"
            raise refuse(problem, "Write `can: select`, or grant a database or table.", key="can")
        return self

    @property
    def columns_named(self) -> Iterator[tuple[str, str]]:
        """The columns that the grant names, each with the key that does."""
        choice = self.columns
        for key, names in (("include", choice and choice.include), ("exclude", choice and choice.exclude)):
            yield from ((f"columns.{key}", name) for name in names or ())
        yield from ((f"mask.{name}", name) for name in self.mask)
        if self.rows is not None:
            yield from (("rows", name) for name in sorted(columns_of(row_filter(self.rows))))


@dataclass(frozen=True)
class Grants:
    """All of grants.yml.

    Attributes:
        roles: The grants of each role.
        principals: Who a role is to AWS: the ARN of an IAM role or user, or an account's number.
        masks: How columns with a tag are masked.
    """

    roles: Mapping[str, tuple[GrantConfig, ...]] = field(default_factory=dict)
    principals: Mapping[str, str] = field(default_factory=dict)
    masks: Mapping[str, Mask] = field(default_factory=lambda: dict(MASK_OF_TAG))

    def of(self, role: str) -> tuple[GrantConfig, ...]:
        """The grants of a role.

        Raises:
            ConfigurationError: grants.yml does not declare it.
        """
        if role not in self.roles:
            known = ", ".join(sorted(self.roles)) or "none"
            raise ConfigurationError(
                file=GRANTS_FILE,
                key=role,
                problem=f"the role is not declared.{did_you_mean(role, self.roles)}",
                remedy=f"Declare it with its grants, or use a declared one: {known}.",
            )
        return self.roles[role]


def load_grants(raw: Mapping[str, Any], tables: Tables) -> Grants:
    """Return the checked content of a merged grants.yml.

    Args:
        raw: What the file says, merged over the environments.
        tables: The declared tables.

    Raises:
        ConfigurationError: Something is wrong in the file; every such key is named.
    """
    mistakes = Mistakes()
    roles: dict[str, tuple[GrantConfig, ...]] = {}
    for role, listed in raw.items():
        if role in (_PRINCIPALS, _MASKS) or listed is None:
            continue
        with mistakes.collected():
            roles[role] = _role(role, listed)
    masks = dict(MASK_OF_TAG) | _texts(raw, _MASKS, mistakes)
    principals = _texts(raw, _PRINCIPALS, mistakes)
    mistakes.refuse()
    tags = {tag for table in tables.values() for tag in table.tagged} | {*SENSITIVE_TAGS, "public"}
    mistakes.add(GRANTS_FILE, _wrong_masks(masks, tags))
    mistakes.add(GRANTS_FILE, _wrong_principals(principals, roles))
    for role, grants in roles.items():
        mistakes.add(GRANTS_FILE, _problems(grants, tables, tags), role)
    mistakes.refuse()
    return Grants(roles, principals, masks)  # type: ignore[arg-type]


def _role(role: str, listed: object) -> tuple[GrantConfig, ...]:
    if not _ROLE.fullmatch(role):
        problem, remedy = "a role's name is a word of letters, digits, '_' and '-'.", "Choose such a name."
        raise ConfigurationError(file=GRANTS_FILE, key=role, problem=problem, remedy=remedy)
    if not isinstance(listed, list):
        problem = f"expected a list of grants; found {found_kind(listed)}."
        remedy = "Begin each grant with '- {', such as - {table: sales.order, can: select}."
        raise ConfigurationError(file=GRANTS_FILE, key=role, problem=problem, remedy=remedy)
    mistakes, found = Mistakes(), []
    for number, one in enumerate(listed):
        with mistakes.collected():
            found.append(validated(GrantConfig, one, GRANTS_FILE, f"{role}[{number}]"))
    mistakes.refuse()
    return tuple(found)


def _texts(raw: Mapping[str, Any], key: str, mistakes: Mistakes) -> dict[str, str]:
    found = raw.get(key) or {}
    if isinstance(found, Mapping) and all(isinstance(value, str | None) for value in found.values()):
        return {str(name): value for name, value in found.items() if value is not None}
    problem = "expected names with texts."
    mistakes.add(GRANTS_FILE, [(key, problem, "Write each text in quotes, such as {analyst: 'arn:...'}.")])
    return {}


def _wrong_masks(masks: Mapping[str, str], tags: set[str]) -> Iterator[tuple[str, str, str]]:
    for tag, mask in masks.items():
        if mask not in MASKS:
            near = did_you_mean(mask, MASKS)
            yield f"{_MASKS}.{tag}", f"there is no mask '{mask}'.{near}", f"Use one of: {', '.join(MASKS)}."
        if tag not in tags:
            yield f"{_MASKS}.{tag}", *_unknown_tag(tag, tags)


def _wrong_principals(
    principals: Mapping[str, str], roles: Mapping[str, object]
) -> Iterator[tuple[str, str, str]]:
    for role, principal in principals.items():
        if role not in roles:
            problem = f"no role '{role}' is declared.{did_you_mean(role, roles)}"
            yield f"{_PRINCIPALS}.{role}", problem, f"Declare it; to take all its grants, write `{role}: []`."
        if not _PRINCIPAL.fullmatch(principal):
            problem = "the text is neither the ARN of a principal nor an account's number."
            yield f"{_PRINCIPALS}.{role}", problem, "Write for example arn:aws:iam::111122223333:role/name."


def _unknown_tag(tag: str, tags: set[str]) -> tuple[str, str]:
    problem = f"no column has the tag '{tag}'.{did_you_mean(tag, tags)}"
    return problem, "Give it to columns by `column_tags` of tables.yml."


def _problems(
    grants: tuple[GrantConfig, ...], tables: Tables, tags: set[str]
) -> Iterator[tuple[str, str, str]]:
    """What is wrong with a role's grants, beyond their own keys."""
    by_text, spaces = {str(name): table for name, table in tables.items()}, {n.namespace for n in tables}
    granted_tags = {grant.tag for grant in grants if grant.tag and grant.can == "select"}
    seen = set[tuple[str | None, ...]]()
    for number, grant in enumerate(grants):
        place, resource = f"[{number}].", (grant.database, grant.table, grant.tag)
        if resource in seen:
            remedy = "Write one grant for each database, table and tag."
            yield place.rstrip("."), "the role has a grant on this already.", remedy
        seen.add(resource)
        if grant.database is not None and grant.database not in spaces:
            problem = f"no table of a database '{grant.database}' is declared."
            problem += did_you_mean(grant.database, spaces)
            yield f"{place}database", problem, "Use the first part of a declared table's name."
        if grant.tag is not None and grant.tag not in tags:
            yield f"{place}tag", *_unknown_tag(grant.tag, tags)
        if grant.table is None:
            continue
        if grant.table not in by_text:
            problem = f"the table is not declared.{did_you_mean(grant.table, by_text)}"
            yield f"{place}table", problem, "Use a table of tables.yml; its history is granted with it."
            continue
        yield from _of_columns(grant, by_text[grant.table], granted_tags, place)


def _of_columns(
    grant: GrantConfig, table: TableConfig, granted_tags: set[str], place: str
) -> Iterator[tuple[str, str, str]]:
    """Columns that the table cannot have, and restrictions that a granted tag would lift."""
    known = table.columns_kept
    for key, name in grant.columns_named:
        if "." in name:
            yield f"{place}{key}", f"'{name}' is a part of a column.", "Name whole columns."
        elif known is not None and name.lower() not in {one.lower() for one in known}:
            problem = f"the table keeps no column '{name}'.{did_you_mean(name, known)}"
            yield f"{place}{key}", problem, "Use a column that tables.yml keeps."
    lifted = {name.lower(): tag for tag in granted_tags for name in table.tagged.get(tag, ())}
    hidden = {name.lower() for name in (grant.columns and grant.columns.exclude) or ()}
    hidden |= {name.lower() for name, mask in grant.mask.items() if mask != "none"}
    if lifted and grant.rows is not None:
        column, tag = next(iter(lifted.items()))
        problem = f"the tag '{tag}' gives the role all rows of column '{column}'."
        yield f"{place}rows", problem, "Remove the grant on the tag, or the condition."
    elif both := sorted(hidden & lifted.keys()):
        key = "mask" if both[0] in map(str.lower, grant.mask) else "columns.exclude"
        problem = f"column '{both[0]}' is hidden here, and given by the tag '{lifted[both[0]]}'."
        yield f"{place}{key}", problem, "Remove the grant on the tag, or this."
