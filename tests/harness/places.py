"""A place with datasets of every kind that discovery knows, and the twelve changes that are planted in it."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import DayTransform

if TYPE_CHECKING:
    from collections.abc import Sequence

HUDI = Path(__file__).resolve().parents[1] / "data/hudi"

# table, kind of change, column
PLANTED = {
    ("found.suppliers", "table_added", ""),
    ("found.returns", "table_removed", ""),
    ("found.clients", "table_renamed", ""),
    ("found.orders", "column_added", "channel"),
    ("found.events", "column_removed", "agent"),
    ("found.prices", "type_changed", "amount"),
    ("found.rates", "format_changed", ""),
    ("found.readings", "partition_added", ""),
    ("found.lake_sale", "column_renamed", "gross"),
    ("found.lake_visit", "partition_added", ""),
    ("found.delta_stock", "column_added", "shelf"),
    ("found.hudi_stock", "column_added", "checked_by"),
}
OTHER_ACCOUNT = "210987654321"
CRAWLED = {
    "places": [
        {
            "path": "s3://acme-lake/raw", "table_prefix": {"delta": "delta_"}, "exclude": ["archive/**"],
            "crawler": {
                "database": "raw", "delta_tables": ["stock", "sales/orders"], "schedule": "cron(0 5 * * ? *)",
            },
        },
        {
            "path": "s3://partner-lake/shared", "formats": ["iceberg"],
            "crawler": {"database": "shared", "account": OTHER_ACCOUNT},
        },
        {"path": "s3://acme-lake/not-crawled"},
    ],
}  # fmt: skip
"""A discovery.yml of which `deploy` makes crawlers."""
CARDS = ["4111 1111 1111 1111", "5500 0000 0000 0004", "340000000000009", "30000000000004"]
ORDERS = [(n, f"customer {n}", f"{n}@mail.example.org", n % 3, f"2026-01-{n:02}") for n in range(1, 25)]


class Places:
    """The place, and the Iceberg catalog that two of its tables belong to."""

    def __init__(self, root: Path) -> None:
        """Write everything as it is before the changes."""
        self.root = root
        root.mkdir(parents=True)
        uri = f"sqlite:///{root.parent}/elsewhere.db"
        self.catalog = SqlCatalog("elsewhere", uri=uri, warehouse=f"file://{root}")
        self._files()
        self._iceberg()
        self._delta()
        self.hudi("before")

    def csv(self, path: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Write a csv file."""
        lines = [",".join(map(str, row)) for row in (header, *rows)]
        self._place(path).write_text("\n".join(lines) + "\n", encoding="utf-8")

    def json(self, path: str, rows: Sequence[dict[str, Any]]) -> None:
        """Write a file of JSON lines."""
        self._place(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def parquet(self, path: str, **columns: Any) -> None:
        """Write a parquet file."""
        pq.write_table(pa.table(columns), self._place(path))

    def _place(self, path: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def _files(self) -> None:
        header = ("order_id", "customer", "contact", "status", "ordered_on")
        self.csv("orders/orders-1.csv", header, ORDERS[:12])
        self.csv("orders/orders-2.csv", header, ORDERS[12:])
        self.csv("customers/customers.csv", ("id", "segment"), [(n, "abc"[n % 3]) for n in range(9)])
        self.json(
            "events/events.jsonl", [{"id": n, "agent": "x", "at": "2026-01-01T00:00:00Z"} for n in (1, 2)]
        )
        self.parquet("prices/part-0.parquet", sku=["a", "b"], amount=[1, 2])
        self.parquet("returns/part-0.parquet", return_id=[1, 2, 3])
        self.csv("rates/rates.csv", ("currency", "rate"), [("EUR", "1.0"), ("USD", "1.1")])
        self.parquet("readings/part-0.parquet", sensor=[1, 2], value=[0.5, 0.75])
        self.parquet("steady/part-0.parquet", code=["x", "y"])
        self.csv("payments/payments.csv", ("payment", "card"), list(enumerate(CARDS)))
        for region in ("north", "south"):
            self.parquet(
                f"trips/region={region}/day=2026-01-0{len(region) % 4 + 1}/part-0.parquet", trip=[1, 2]
            )

    def _iceberg(self) -> None:
        self.catalog.create_namespace("lake")
        sale = pa.table({"sale": pa.array([1, 2, 3], pa.int64()), "amount": pa.array([1.0, 2.0, None])})
        self.catalog.create_table("lake.sale", sale.schema, location=f"file://{self.root}/lake/sale").append(
            sale
        )
        visit = pa.table(
            {"visit": pa.array([1, 2], pa.int64()), "at": pa.array([0, 1], pa.timestamp("us", "UTC"))}
        )
        self.catalog.create_table(
            "lake.visit", visit.schema, location=f"file://{self.root}/lake/visit"
        ).append(visit)

    def _delta(self) -> None:
        from deltalake import write_deltalake

        stock = pa.table({"item": pa.array([1, 2, 3], pa.int64()), "site": ["n", "s", "n"]})
        write_deltalake(self.root / "stock", stock, partition_by=["site"])

    def hudi(self, state: str) -> None:
        """Put the Hudi tables of a state there."""
        shutil.rmtree(self.root / "hudi", ignore_errors=True)
        with tarfile.open(HUDI / f"{state}.tar.gz") as packed:
            packed.extractall(self.root / "hudi", filter="data")

    def change(self) -> None:
        """Plant the twelve changes; beside them rows come, which is none."""
        from deltalake import write_deltalake

        self.csv("suppliers/suppliers.csv", ("supplier_id", "name"), [(1, "A"), (2, "B")])
        shutil.rmtree(self.root / "returns")
        (self.root / "customers").rename(self.root / "clients")
        header = ("order_id", "customer", "contact", "status", "ordered_on", "channel")
        self.csv(
            "orders/orders-3.csv",
            header,
            [(n, "c", f"{n}@mail.example.org", 1, "2026-02-01", "web") for n in (31, 32)],
        )
        self.json("events/events.jsonl", [{"id": n, "at": "2026-01-01T00:00:00Z"} for n in (1, 2, 3)])
        self.parquet("prices/part-0.parquet", sku=["a", "b"], amount=["1", "2"])
        (self.root / "rates/rates.csv").unlink()
        self.parquet("rates/rates.parquet", currency=["EUR", "USD"], rate=[1.0, 1.1])
        (self.root / "readings/day=2026-01-01").mkdir()
        (self.root / "readings/part-0.parquet").rename(self.root / "readings/day=2026-01-01/part-0.parquet")
        self.parquet("steady/part-1.parquet", code=["z"])  # rows alone
        with self.catalog.load_table("lake.sale").update_schema() as update:
            update.rename_column("amount", "gross")
        with self.catalog.load_table("lake.visit").update_spec() as spec:
            spec.add_field("at", DayTransform())
        more = pa.table({"item": pa.array([4], pa.int64()), "site": ["n"], "shelf": ["3b"]})
        write_deltalake(self.root / "stock", more, mode="append", schema_mode="merge")
        self.hudi("after")
