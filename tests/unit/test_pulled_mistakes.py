"""Mistakes in declarations of pulled sources: each is refused by its key before anything is contacted."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from kedro_lakehouse.config.databases import SqlSourceConfig
from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.mongodb import MongoSourceConfig
from kedro_lakehouse.config.rest import RestSourceConfig
from kedro_lakehouse.config.sap import SapSourceConfig
from kedro_lakehouse.errors import ConfigurationError

pytestmark = pytest.mark.unit

MODELS: Any = {
    "sql": SqlSourceConfig, "rest": RestSourceConfig, "mongodb": MongoSourceConfig, "sap": SapSourceConfig,
}  # fmt: skip
GOOD: dict[str, dict[str, Any]] = {
    "sql": {"dialect": "postgresql", "connection": {"host": "db", "database": "shop"}, "credentials": "erp"},
    "rest": {
        "base_url": "https://api.example.com/v1", "auth": {"type": "bearer"}, "credentials": "api",
        "paging": {"type": "cursor", "next": "next", "parameter": "after"},
    },
    "mongodb": {"database": "shop", "credentials": "mongo"},
    "sap": {"connection": {"ashost": "sap", "sysnr": "00", "client": "100"}, "credentials": "sap"},
}  # fmt: skip
INCREMENTAL = {"mode": "incremental", "cursor": "at"}
OF_DATABASES = {"late": "open_transactions"}

JDBC: dict[str, Any] = {
    "dialect": "jdbc", "connection": {"url": "jdbc:db2://db:50000/shop"}, "jars": ["drivers/jcc.jar"],
    "clock": "SELECT CURRENT TIMESTAMP FROM SYSIBM.SYSDUMMY1",
}  # fmt: skip
OF_TABLES = JDBC["connection"] | {"dbTable": "x"}
WITH_SECRETS = (
    "jdbc:db2://db:50000/shop:user=x;password=y;", "jdbc:oracle:thin:scott/tiger@db:1521/shop",
    "jdbc:mariadb://scott:tiger@db/shop",
)  # fmt: skip
MISTAKES: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    ("sql", {"dialect": "postgres"}, {}, "sources.yml: s.dialect", "'postgresql'"),
    ("sql", {"dialect": "db2"}, {}, "sources.yml: s.dialect", "'sqlserver'"),
    ("sql", {"dialect": None}, {}, "sources.yml: s.dialect", "missing"),
    ("sql", {"connection": {"password": "x"}}, {}, "sources.yml: s.connection.password", "secret"),
    ("sql", {"conection": {}}, {}, "sources.yml: s.conection", "Did you mean 'connection'?"),
    ("sql", {"one_stat": True}, {}, "sources.yml: s.one_stat", "Did you mean 'one_state'?"),
    ("sql", {"evry": "1 h"}, {}, "sources.yml: s.evry", "Did you mean 'every'?"),
    ("sql", {"every": "soon"}, {}, "sources.yml: s.every", "12 hours"),
    ("sql", {"limits": {"row": 5}}, {}, "sources.yml: s.limits.row", "Did you mean 'rows'?"),
    ("sql", {"retry": {"budget": "-1 min"}}, {}, "sources.yml: s.retry.budget", "12 hours"),
    ("sql", {"max_pulls": 0}, {}, "sources.yml: s.max_pulls", "1"),
    ("sql", {"layout": "../elsewhere"}, {}, "sources.yml: s.layout", "leaves"),
    ("sql", {"mode": "incremantal"}, {}, "sources.yml: s.mode", "'incremental'"),
    ("sql", {}, {"pull": {"mode": "incremental"}}, "tables.yml: a.t.pull.cursor", "{mode: incremental"),
    ("sql", {}, {"pull": {"curser": "at"}}, "tables.yml: a.t.pull.curser", "Did you mean 'cursor'?"),
    ("sql", {}, {"pull": {"cursor": "at"}}, "tables.yml: a.t.pull.cursor", "no window"),
    ("sql", {}, {"pull": INCREMENTAL | {"late": "10 min"}}, "tables.yml: a.t.pull.late", "{overlap: 10 min}"),
    ("sql", {}, {"pull": INCREMENTAL, "keys": [], "write": "append"}, "tables.yml: a.t.keys", "List the key"),
    ("sql", {}, {"pull": {"mode": "snapshot"}}, "tables.yml: a.t.write", "`write: append`"),
    ("sql", {}, {"keys": [], "write": "append"}, "tables.yml: a.t.write", "would be added"),
    ("sql", {}, {"pull": {"keep": 0}}, "tables.yml: a.t.pull.keep", "1"),
    ("sql", JDBC | {"connection": {"host": "db"}}, {}, "sources.yml: s.connection", "jdbc:db2://"),
    *(
        ("sql", JDBC | {"connection": {"url": url}}, {}, "sources.yml: s.connection.url", "credentials.yml")
        for url in WITH_SECRETS
    ),
    ("sql", JDBC | {"connection": OF_TABLES}, {}, "sources.yml: s.connection", "Remove it"),
    ("sql", JDBC | {"jars": []}, {}, "sources.yml: s.jars", "drivers/jcc"),
    ("sql", JDBC | {"clock": None}, {}, "sources.yml: s.clock", "SELECT CURRENT_TIMESTAMP"),
    ("sql", JDBC | {"clock": "SELECT (1"}, {}, "sources.yml: s.clock", "Close it"),
    ("sql", JDBC | {"one_state": True}, {}, "sources.yml: s.one_state", "by JDBC"),
    ("sql", JDBC, {"pull": INCREMENTAL | OF_DATABASES}, "tables.yml: a.t.pull.late", "{overlap: 10 min}"),
    ("sql", {"jars": ["x.jar"]}, {}, "sources.yml: s.jars", "not read by JDBC"),
    ("sql", {"clock": "SELECT 1"}, {}, "sources.yml: s.clock", "not read by JDBC"),
    ("rest", {"paging": {"type": "offset"}}, {}, "sources.yml: s.paging", "`verify: twice`"),
    ("rest", {"paging": {"type": "cursor"}}, {}, "sources.yml: s.paging.next", "'next'"),
    ("rest", {"paging": {"type": "pages"}}, {}, "sources.yml: s.paging.type", "'page'"),
    ("rest", {"base_url": "https://api.example.com/v1?key=x"}, {}, "sources.yml: s.base_url", "`parameters`"),
    ("rest", {"headers": {"Authorization": "x"}}, {}, "sources.yml: s.headers", "`auth`"),
    ("rest", {"credentials": None}, {}, "sources.yml: s.credentials", "Add `credentials`"),
    ("rest", {"rate": "fast"}, {}, "sources.yml: s.rate", "5/s"),
    ("rest", {}, {"pull": INCREMENTAL}, "tables.yml: a.t.pull.mode", "window"),
    ("mongodb", {"document": "flat"}, {}, "sources.yml: s.document", "'flatten'"),
    ("mongodb", {}, {"pull": INCREMENTAL | OF_DATABASES}, "tables.yml: a.t.pull.late", "overlap"),
    ("sap", {"connection": {"passwd": "x"}}, {}, "sources.yml: s.connection.passwd", "credentials.yml"),
    ("sap", {}, {"pull": INCREMENTAL | {"late": {"overlap": "1 h"}}}, "tables.yml: a.t.pull.late", "1 day"),
]  # fmt: skip


def declared(kind: str, source: dict[str, Any], table: dict[str, Any]) -> Any:
    whole = {"type": kind, "path": "p"} | GOOD[kind] | source
    given = {key: value for key, value in whole.items() if value is not None}
    return load_declarations({"s": given}, {"a.t": {"source": "s", "keys": ["id"]} | table}, MODELS)


@pytest.fixture(autouse=True)
def _nothing_is_contacted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a declaration was looked at over the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.parametrize("kind", GOOD)
def test_without_a_mistake_they_are_accepted(kind: str) -> None:
    assert declared(kind, {}, {})


@pytest.mark.parametrize(("kind", "source", "table", "key", "words"), MISTAKES)
def test_a_mistake_is_refused_with_its_key_and_what_to_write(
    kind: str, source: dict[str, Any], table: dict[str, Any], key: str, words: str
) -> None:
    with pytest.raises(ConfigurationError) as found:
        declared(kind, source, table)
    assert (f"{found.value.file}: {found.value.key}", words in str(found.value)) == (key, True), found.value
    assert len(found.value.remedy) > 0
