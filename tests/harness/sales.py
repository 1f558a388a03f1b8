"""Sales with the name of a country each, and the reference that has the countries' codes.

The names of keys, columns and countries, and the two wrong values, are those of the published system.
"""

from __future__ import annotations

import random
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTRIES: Final = ("India", "China", "Albania", "Sri Lanka", "Haiti", "Norway")
REFERENCE: Final = (("IN", "India"), ("US", "USA"), ("CA", "Canada"), ("CN", "China"))
LEFT_OUT: Final = ("country", "unitprice", "unitcost", "totalrevenue", "totalcost", "totalprofit")
KEPT: Final = {
    "uuid", "itemtype", "saleschannel", "orderpriority", "orderdate", "region", "shipdate", "unitssold",
    "impressiontime", "code", "combinedname",
}  # fmt: skip
SALES: Final[dict[str, Any]] = {
    "source": "sales", "entity": "generate-data", "keys": ["uuid"], "order_by": ["orderdate"],
    "types": {"orderdate": "date"}, "columns": {"exclude": list(LEFT_OUT)},
    "enrich": [
        {
            "table": "ref.tgt_country_lookup_table", "on": {"country": "countryname"},
            "columns": ["code", "combinedname"],
        }
    ],
}  # fmt: skip
DATES: Final = {"csv": {"date_format": "M/d/yy"}}
"""How the records of a source have to be read: ``orderdate`` is 9/24/12."""


def sales(first: int, count: int) -> Iterator[dict[str, str]]:
    """Records of the generator, with numbers from ``first`` on; the same in every run."""
    for number in range(first, first + count):
        chance = random.Random(number)  # noqa: S311 - reproducible
        ordered = date(2012, 1, 1) + timedelta(days=chance.randrange(360))
        wrong = number % 7 == 0
        yield {
            "uuid": f"u{number}", "country": COUNTRIES[number % len(COUNTRIES)], "itemtype": "Household",
            "saleschannel": chance.choice(["Online", "Offline"]), "orderpriority": chance.choice("LMHC"),
            "orderdate": f"{ordered.month}/{ordered.day}/{ordered:%y}",
            "region": "AsiaEurope" if wrong else "Asia",
            "shipdate": "1/2/13", "unitssold": str(chance.randrange(9999)), "unitprice": "9.33",
            "unitcost": "6.92", "totalrevenue": "1", "totalcost": "1", "totalprofit": "1",
            "impressiontime": "2022-13-24T02:27:41Z" if wrong else "2022-10-24T02:27:41Z",
        }  # fmt: skip


def corrected(number: int) -> list[dict[str, str]]:
    """Two more records of one sale: as text the first one's date is the earlier, as a date the later one."""
    (sale,) = sales(number, 1)
    newer = sale | {"orderdate": "12/29/12", "itemtype": "newer"}
    return [newer, sale | {"orderdate": "9/24/12", "itemtype": "older"}]
