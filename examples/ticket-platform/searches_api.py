"""An API of searches: what was looked for in which city, in pages and in windows of time.

``SEARCHES_TOKEN=... python searches_api.py PORT`` serves ``GET /v1/searches`` to who shows the token;
``since`` and ``before`` limit the times, and ``after`` is the ``next`` of the page before.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

COUNT: Final = 900
PAGE: Final = 250
_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_TERMS: Final = ("monsoon heist", "city derby", "rooftop beats", "imax", "last ferry", "coupons")


def search(number: int) -> dict[str, Any]:
    """One search, made from its number."""
    return {
        "id": number,
        "term": _TERMS[number * number % 11 % len(_TERMS)],
        "city_id": number % 5 + 1,
        "at": (_BEGIN + timedelta(minutes=number * 31)).isoformat(),
    }


def page(query: dict[str, str]) -> dict[str, Any]:
    """A page of the searches that a query asks for, and where the next one begins."""
    begin, end = query.get("since", "0"), query.get("before", "9")
    after = int(query.get("after", "0"))
    found = [one for one in map(search, range(after + 1, COUNT + 1)) if begin <= one["at"] < end]
    return {"items": found[:PAGE], "next": found[PAGE - 1]["id"] if len(found) > PAGE else None}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if self.headers.get("Authorization") != f"Bearer {os.environ['SEARCHES_TOKEN']}":
            self._answer(401, {"error": "who are you?"})
        elif parts.path != "/v1/searches":
            self._answer(404, {"error": "there is /v1/searches"})
        else:
            self._answer(200, page(dict(parse_qsl(parts.query))))

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Handler).serve_forever()
