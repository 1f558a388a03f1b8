"""The JVM behind a session: its classes, each looked up once, and what its collections hold.

Py4J asks the JVM anew at each use of a name. ``jvm.org.apache...`` asks for every part of it whether it is a
class, in each of some 300 jars: 10 ms a name, and a tenth of a small run's time in all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# What PySpark names at every column and every list that it hands over.
_OF_PYSPARK = ("functions", "PythonUtils", "PythonSQLUtils", "org.apache.spark.sql.functions")


class _KnownClass:
    """A class whose methods are looked up once."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        from py4j.java_gateway import JavaMember  # a seventh of a second, which other commands need not wait

        member = getattr(self._found, name)
        if isinstance(member, JavaMember):  # else the value of a field, which may change
            vars(self)[name] = member
        return member

    def __call__(self, *arguments: object) -> Any:
        return self._found(*arguments)


def java_class(session: SparkSession, name: str) -> Any:
    """A class of the JVM by its full name."""
    view: Any = session._jvm
    known = vars(view)
    if name not in known:
        known[name] = _KnownClass(getattr(view, name))
    return known[name]


def know_names_of_pyspark(session: SparkSession) -> None:
    """Have PySpark's own code find the names that it uses most."""
    for name in _OF_PYSPARK:
        java_class(session, name)
    # Each exception of the JVM is compared with some fifteen classes, by a class that is named by its parts.
    view: Any = session._jvm
    package = view.py4j
    reflection = package.reflection
    vars(reflection)["TypeUtil"] = reflection.TypeUtil
    vars(package)["reflection"] = reflection
    vars(view)["py4j"] = package


def each(iterable: Any) -> Iterator[Any]:
    """What a collection or a stream of the JVM holds.

    Py4J's own loops end by an exception of the JVM, which PySpark takes 10 ms and more to look at.
    """
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


def texts(java_map: Any) -> dict[str, str]:
    """A map of texts."""
    return {str(name): str(java_map.get(name)) for name in each(java_map.keySet())}
