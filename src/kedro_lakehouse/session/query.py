"""Let Spark answer a query, and nothing but a query: what could change or run something is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import UnsupportedError, nearest
from kedro_lakehouse.names import CATALOG
from kedro_lakehouse.session.jvm import java_class
from kedro_lakehouse.session.spark import get_session

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql import DataFrame, SparkSession

_LOGICAL: Final = "org.apache.spark.sql.catalyst.plans.logical."
_DESCRIBE: Final = frozenset({"DescribeRelation", "DescribeColumn", "DescribeQueryCommand", "ShowTables"})
# Statements, and the part of a query that runs a program of the machine.
_REFUSED: Final = ("Command", "ParsedStatement", "ScriptTransformation")
_CALLS_JAVA: Final = re.compile(
    r"\b(java_method|(?:try_)?reflect)\b[`\s]*(?:/\*.*?\*/\s*)*\(", re.IGNORECASE | re.DOTALL
)
_SETTINGS: Final = {"spark.sql.runSQLOnFiles": "false"}  # a query reads tables, not paths


def answer(
    conf: Mapping[str, str],
    text: str,
    *,
    catalog: str = CATALOG,
    elsewhere: Mapping[str, str] | None = None,
    known: Collection[str] = (),
) -> DataFrame:
    """The answer of one query as a lazy frame; a name ``ns.table`` is looked up in ``catalog``.

    ``elsewhere`` maps the names ``ns.table`` that are not in it to those by which Spark knows them; ``known``
    are all names, one of which may be meant by one that is not found.

    Raises:
        UnsupportedError: It is not one query that only reads, or Spark cannot understand it.
    """
    from pyspark.errors import AnalysisException, ParseException

    session = get_session({**conf, **_SETTINGS, "spark.sql.defaultCatalog": catalog})
    try:
        plan = session._jsparkSession.sessionState().sqlParser().parsePlan(text)
        refused = _CALLS_JAVA.search(text) is not None or any(_refused(session, n) for n in _nodes(plan))
        if refused and plan.getClass().getSimpleName() not in _DESCRIBE:
            raise UnsupportedError(
                what="This is not one query that only reads.",
                remedy="Give one SELECT, WITH or DESCRIBE; `kedro lakehouse --help` lists other ways.",
            )
        return session.sql(text)
    except (AnalysisException, ParseException) as error:
        missing = _missing_table(error)
        meant = (elsewhere or {}).get(missing)
        lists = 'Correct it; `kedro lakehouse sql "show tables"` lists the tables.'
        raise UnsupportedError(
            what=f"Spark refuses the query: {first_line(error)}{_near(missing, known, elsewhere or {})}",
            remedy=f"Write {meant} in its place, then `kedro lakehouse sql` again." if meant else lists,
        ) from error


def _near(missing: str, known: Collection[str], elsewhere: Mapping[str, str]) -> str:
    """A sentence that names the table which may be meant, as Spark knows it; nothing if none is near."""
    name = ".".join(missing.split(".")[-2:])
    if not name or name in known:
        return ""
    near = next((one for one in known if one.endswith(f".{name}")), None) or nearest(name, known)
    return f" Did you mean '{elsewhere.get(near, near)}'?" if near else ""


def _missing_table(error: AnalysisException | ParseException) -> str:
    """The table that Spark did not find, without quotes; nothing if it has another complaint."""
    facts = error.getMessageParameters() or {}
    return facts.get("relationName", "").replace("`", "").lower()


def mistake_in(session: SparkSession, text: str) -> str | None:
    """What Spark's parser says of a text that is no statement; None if it is one."""
    from pyspark.errors import ParseException

    try:
        session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    except ParseException as error:
        return first_line(error)
    return None


def _nodes(plan: Any) -> Iterator[Any]:
    """A node of a plan, and all nodes below it, also those of WITH."""
    yield plan
    for below in (plan.children(), plan.innerChildren()):
        for place in range(below.size()):
            child = below.apply(place)
            if hasattr(child, "innerChildren"):
                yield from _nodes(child)


def _refused(session: SparkSession, node: Any) -> bool:
    kinds = (java_class(session, "java.lang.Class").forName(_LOGICAL + kind) for kind in _REFUSED)
    return any(kind.isInstance(node) for kind in kinds)


def first_line(error: Exception) -> str:
    """The first line of what Spark says, without its code."""
    first = str(error).strip().splitlines()[0]
    return re.sub(r"^\[[A-Z_.0-9]+\] ", "", first).rstrip(".") + "."
