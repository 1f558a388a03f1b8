"""Look up the JVM's classes, each only once, and read what its collections hold.

Py4J asks the JVM anew each time a name is used. For ``jvm.org.apache...`` it asks for every part whether it
is a class, and each question searches some 300 jars: 10 ms for a name, a tenth of a small run's time in all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# Names that PySpark uses for every column and every list that it hands over to the JVM.
_OF_PYSPARK = ("functions", "PythonUtils", "PythonSQLUtils", "org.apache.spark.sql.functions")


class _KnownClass:
    """A class of the JVM whose methods are looked up only once."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        # Imported here, because it takes a seventh of a second, which other commands need not wait.
        from py4j.java_gateway import JavaMember

        member = getattr(self._found, name)
        if isinstance(member, JavaMember):  # else it is the value of a field, which may change
            vars(self)[name] = member
        return member

    def __call__(self, *arguments: object) -> Any:
        return self._found(*arguments)


def java_class(session: SparkSession, name: str) -> Any:
    """A class of the JVM by its full name, looked up only once."""
    view: Any = session._jvm
    known = vars(view)
    if name not in known:
        known[name] = _KnownClass(getattr(view, name))
    return known[name]


def know_names_of_pyspark(session: SparkSession) -> None:
    """Look up in advance the names that PySpark's own code uses most, so that it finds them at once."""
    for name in _OF_PYSPARK:
        java_class(session, name)
    # PySpark compares each exception of the JVM with some fifteen classes. It does so through TypeUtil, which
    # it names part by part, so each part is stored as a plain attribute.
    view: Any = session._jvm
    package = view.py4j
    reflection = package.reflection
    vars(reflection)["TypeUtil"] = reflection.TypeUtil
    vars(package)["reflection"] = reflection
    vars(view)["py4j"] = package


def each(iterable: Any) -> Iterator[Any]:
    """The items of a collection or a stream of the JVM.

    Py4J's own loops end with an exception of the JVM, which PySpark needs 10 ms and more to inspect.
    """
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


def texts(java_map: Any) -> dict[str, str]:
    """A Java map as a dictionary of strings."""
    return {str(name): str(java_map.get(name)) for name in each(java_map.keySet())}
