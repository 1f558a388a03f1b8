"""A lake with the rows of three persons, and the same lake without one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.project import FORMAT, TemporaryProject, write_text

if TYPE_CHECKING:
    from pathlib import Path

ANNA, BELA, CARL = "7001001", "7001002", "7001003"
SOURCES: dict[str, Any] = {
    "shop": {
        "type": "changes", "path": "${globals:landing}/shop", "pattern": "*.csv", "file_format": "csv",
        "op_column": "op",
    },
    "web": {"type": "changes", "path": "${globals:landing}/shop", "pattern": "*.csv", "file_format": "csv"},
}  # fmt: skip
COMMON = {"source": "shop", "order_by": ["n"], "effective_time": "ts"}
TYPES = {"n": "int", "ts": "timestamp_ntz"}
TABLES: dict[str, Any] = {
    "shop.customer": COMMON | {
        "keys": ["id"], "types": TYPES | {"id": "bigint", "age": "int"}, "history": True, "subject": "id",
        "checks": {"grown": "age >= 18"}, "personal": ["name"],
    },
    "shop.site": COMMON | {
        "keys": ["site"], "types": TYPES | {"site": "int", "customer": "bigint"}, "history": True,
        "subject": "customer", "ignore_null": ["customer"],
    },
    "shop.order": COMMON | {
        "keys": ["order", "line"], "types": TYPES | {"order": "int", "line": "int", "site": "int"},
        "history": {"track": {"exclude": ["note"]}}, "subject": {"column": "site", "through": "shop.site"},
    },
    "shop.visit": {
        "source": "web", "write": "append", "types": {"customer": "bigint"}, "subject": "customer",
    },
    "shop.spent": {
        "derive": {
            "inputs": {"c": "shop.customer", "s": "shop.site"},
            "sql": "select c.id as customer, count(s.site) as sites "
            "from c left join s on s.customer = c.id group by c.id",
        },
        "keys": ["customer"], "history": True, "subject": "customer",
    },
    "shop.request": COMMON | {
        "keys": ["request"], "types": TYPES | {"request": "int", "customer": "bigint", "until": "date"},
        "subject": "customer", "erasure_requests": {"due": "until"},
    },
}  # fmt: skip


KEY = {"erasure": {"key": "a key for the tests, long enough"}}


def stamp(n: int) -> str:
    return f"2026-01-{n:02} 00:00:00"


CUSTOMERS = [
    [f"U,{ANNA},Anna Q. Vandermeulen,30,1", f"U,{BELA},Bela,40,1", f"U,{CARL},Carl,50,1"],
    [f"U,{ANNA},Anna Q. Vandermeulen,31,5", f"U,{BELA},Bela,17,4", f"U,{ANNA},Anna Vandermeulen-Krol,12,6"],
    [f"U,{ANNA},Anna Q. Vandermeulen,30,3", f"D,{CARL},,,5", f"D,{ANNA},,,9", f"U,{CARL},Carl,51,7"],
]
# Each event with the customer whom its row is about, as a person would tell it.
SITES = [
    [(f"U,1,{ANNA},Rome,1", ANNA), (f"U,2,{BELA},Oslo,1", BELA), (f"U,3,{ANNA},Bonn,1", ANNA)],
    [
        ("U,1,,Roma,4", ANNA),
        (f"U,3,{BELA},Bonn,5", BELA),
        (f"U,2,{ANNA},Oslo,5", ANNA),
        ("U,2,,Osl,6", ANNA),
    ],
    [("D,1,,,8", ANNA), (f"U,2,{CARL},Oslo,9", CARL), ("D,3,,,7", BELA), (f"U,3,{ANNA},Bonn,3", ANNA)],
    [(f"U,1,{BELA},Rome,12", BELA), (f"U,4,{ANNA},Linz,2", ANNA)],
]
ORDERS = [
    [("U,1,1,1,a,1", True), ("U,1,2,2,b,1", True), ("U,2,1,5,c,1", False), ("U,3,1,4,k,2", True)],
    [("U,1,1,1,z,3", True), ("U,2,1,5,d,4", False), ("U,5,1,6,x,2", False), ("D,5,1,,,6", False)],
]
VISITS = [[f"{ANNA},home", f"{BELA},home", f"{ANNA},home"], [f"{CARL},cart", f"{ANNA},cart"]]


def land(project: TemporaryProject, entity: str, number: int, head: str, lines: list[str]) -> None:
    dated = [f"{line},{stamp(int(line.rpartition(',')[2]))}" for line in lines] if "ts" in head else lines
    write_text(project.landing / f"shop/{entity}/{number:03}.csv", "\n".join([head, *dated, ""]))


def made(folder: Path, table_format: str = FORMAT, *, whole: bool) -> TemporaryProject:
    """A lake of all events in two batches, or in one of those that are not about Anna."""
    tables = {name: dict(table) for name, table in TABLES.items()}
    if table_format == "iceberg":
        tables["shop.customer"]["partition_by"] = ["bucket(4, id)"]
    project = TemporaryProject.make(folder, SOURCES, tables, table_format=table_format)
    project.write("credentials", KEY, env="local")
    (project.landing / "shop/request").mkdir(parents=True)
    for number in range(1, 5):
        if number <= len(CUSTOMERS):
            lines = [line for line in CUSTOMERS[number - 1] if whole or ANNA not in line]
            land(project, "customer", number, "op,id,name,age,n,ts", lines)
        lines = [line for line, owner in SITES[number - 1] if whole or owner != ANNA]
        land(project, "site", number, "op,site,customer,city,n,ts", lines)
        if number <= len(ORDERS):
            # Sites 1 to 4 were Anna's at some time: their orders go with her.
            orders = [line for line, of_anna in ORDERS[number - 1] if whole or not of_anna]
            land(project, "order", number, "op,order,line,site,note,n,ts", orders)
            visits = [line for line in VISITS[number - 1] if whole or ANNA not in line]
            land(project, "visit", number, "customer,page", visits)
        if number == 4 or (whole and number == 2):
            project.run("ingestion", "cdc_merge", "scd2")
    return project


STORED = [
    *(f"shop.{t}{s}" for t in ("customer", "site", "order")
      for s in ("", "_history", "_changes", "_quarantine")),
    "shop.visit", "shop.visit_changes", "shop.spent",
]  # fmt: skip
NOT_COMPARED = {"_batch", "_position"}


def rows(project: TemporaryProject, table: str) -> list[str]:
    # Rows of visits are ordered by their place in a file, derived ones by when their inputs were committed.
    left_out = NOT_COMPARED | ({"_order"} if "visit" in table or "spent" in table else set())
    found = [{k: v for k, v in row.items() if k not in left_out} for row in project.rows(table)]
    return sorted(repr(sorted(row.items(), key=lambda pair: pair[0])) for row in found)
