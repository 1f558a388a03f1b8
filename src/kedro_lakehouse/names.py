"""Names of tables, and the one function that quotes an identifier."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, Self, get_args

from kedro_lakehouse.errors import InvalidNameError

Role = Literal["current", "changes", "quarantine", "history", "archive"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
DROP_ORDER: Final[tuple[Role, ...]] = ("changes", "quarantine", "current", "history", "archive")
"""In this order they are dropped: a table without its change log is not taken for one that is up to date."""
CATALOG: Final = "lake"
OWN_FORMAT: Final = "iceberg"
"""The format of ``lake.ops`` and of the tables of convert.yml, in every environment."""
SPARK_CATALOG: Final = "spark_catalog"
"""Where the session registers tables that lie at a path."""
OPS_NAMESPACE: Final = "ops"
SNAPSHOT_ID: Final = "_snapshot_id"
"""The column of a table of snapshots that tells them apart, such as ``20240131T060000Z-000017``."""
UNFIT: Final = "schema="
"""The text of a record whose schema does not fit begins so; see ``UNFIT_RECORD``."""
UNFIT_RECORD: Final = rf"^{UNFIT}(\S+) base64:[A-Za-z0-9+/=]*$"
"""The whole of such a text: the schema's identity, and the bytes that were sent."""

RESERVED_COLUMNS: Final[frozenset[str]] = frozenset(
    {
        "_order",
        "_time",
        "_op",
        "_batch",
        "_position",
        "_order_from",
        "_order_to",
        "_order_last",
        "_deleted",
        "_tombstone",
        "_surrogate_key",
        "_unset",
        "_lookup",
        "_moved",
        "effective_from",
        "effective_to",
        "is_current",
    }
)

_PART = re.compile(r"[a-z][a-z0-9_]*")


def quote(*parts: str) -> str:
    """Return the SQL identifier path of ``parts``, safe to place in a statement.

    Raises:
        InvalidNameError: There is no part, or a part is empty.

    Example:
        >>> quote("lake", "sales", "odd`name")
        '`lake`.`sales`.`odd``name`'
    """
    if not parts or not all(parts):
        raise InvalidNameError(
            name=".".join(parts),
            problem="is empty or has an empty part",
            remedy="Give every part of the name.",
        )
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def is_within(table: str, space: str) -> bool:
    """Tell whether a table has this name, or lies in a namespace of it; each lies in the empty one.

    Example:
        >>> is_within("shop.order", "shop"), is_within("shop.order", "sho"), is_within("shop.order", "")
        (True, False, True)
    """
    return not space or table == space or table.startswith(f"{space}.")


def is_reserved_column(column: str) -> bool:
    """Tell whether ``column`` is a name of the framework, in any case (Spark compares names so)."""
    return column.lower() in RESERVED_COLUMNS


@dataclass(frozen=True, order=True)
class TableName:
    """A valid logical table name; holding one is the proof that both parts were checked.

    Raises:
        InvalidNameError: A part is not a lower-case identifier, or holds the reserved ``__``.

    Example:
        >>> name = TableName.parse("dms_sample.person")
        >>> str(name.with_suffix("history")), name.sql
        ('dms_sample.person_history', '`lake`.`dms_sample`.`person`')
    """

    namespace: str
    table: str

    def __post_init__(self) -> None:
        """Refuse parts that some catalog, or a derived name, could not hold."""
        for kind, part in (("first part", self.namespace), ("second part", self.table)):
            if not _PART.fullmatch(part):
                raise InvalidNameError(name=str(self), problem=f"is not [a-z][a-z0-9_]* in its {kind}")
            if "__" in part:
                raise InvalidNameError(name=str(self), problem=f"has the reserved '__' in its {kind}")
        if self.table.endswith("_"):
            raise InvalidNameError(
                name=str(self), problem="ends with '_', so its derived names would hold the reserved '__'"
            )

    @classmethod
    def parse(cls, name: str) -> Self:
        """Return the name written ``namespace.table``, as a user declares it.

        Raises:
            InvalidNameError: It is not such a name, or its namespace is the project's own ``ops``.
        """
        namespace, dot, table = name.partition(".")
        if not dot or "." in table:
            raise InvalidNameError(name=name, problem="is not of the form <namespace>.<table>")
        if namespace == OPS_NAMESPACE:
            raise InvalidNameError(
                name=name,
                problem="lies in the namespace 'ops', which is the project's own",
                remedy="Choose another namespace.",
            )
        return cls(namespace, table)

    @classmethod
    def ops(cls, table: str) -> Self:
        """Return the name of one of the project's own tables."""
        return cls(OPS_NAMESPACE, table)

    def with_suffix(self, role: Role) -> TableName:
        """Return the table that plays ``role`` for this declared table; ``current`` is the table itself.

        Raises:
            InvalidNameError: There is no such role.
        """
        if role == "current":
            return self
        if role not in ROLES:
            raise InvalidNameError(
                name=str(role), problem="is not a role of a table", remedy=f"Use one of: {', '.join(ROLES)}."
            )
        return TableName(self.namespace, f"{self.table}_{role}")

    @property
    def sql(self) -> str:
        """The quoted path in catalog ``lake``."""
        return quote(CATALOG, self.namespace, self.table)

    @property
    def identifier(self) -> tuple[str, str]:
        """The pair that pyiceberg takes."""
        return (self.namespace, self.table)

    def __str__(self) -> str:
        """Return ``namespace.table``, as it is written in tables.yml."""
        return f"{self.namespace}.{self.table}"
