"""Requests to an API: paced, logged in, and with faults whose texts hold a status and a path alone."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import ssl
import threading
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from kedro_lakehouse.pulls.errors import SourceFault, TerminalFault, TransientFault
from kedro_lakehouse.pulls.rest.answers import Answer
from kedro_lakehouse.pulls.rest.login import log_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import httpx2

    from kedro_lakehouse.config.rest import RestSourceConfig

_UNAUTHORIZED: Final = 401
_TRANSIENT: Final = frozenset({408, 425, 429})
_NO_HEAD: Final = frozenset({400, 403, 404, 405})
"""Some APIs answer so to HEAD where they answer to GET; the header Date is there all the same."""
_HELP: Final[Mapping[int, str]] = {
    400: "Look into `parameters`, `window` and `paging`.",
    401: "Look into the source's credentials and `auth`; a secret may have expired.",
    403: "Ask the API's owner for the right to read it.",
    404: "Look into `base_url` and the table's `entity`.",
}
_MANUAL: Final = "Look into the API's manual, and the declaration of the source."


class RestClient:
    """The connection of one table to its API; it may be closed from another thread."""

    def __init__(self, config: RestSourceConfig, credentials: Mapping[str, Any]) -> None:
        """Open nothing yet.

        Raises:
            TerminalFault: The credentials lack a secret.
        """
        self._config = config
        self._log_in = log_in(config.auth, credentials, self._fetch_token)
        self._pace = _pace_of(config)
        self._client: httpx2.Client | None = None
        self._ended = threading.Event()

    def get(self, url: str, parameters: Sequence[tuple[str, str]], *, where: str) -> Answer:
        """The answer to a request.

        Args:
            url: The address, without a query.
            parameters: The query, without what logs in.
            where: The declared path, for messages: an address that an answer named may hold secrets.

        Raises:
            TransientFault: Too many requests, an error of the server, no connection, no JSON.
            TerminalFault: Anything else that is no answer.
        """
        response = self._ask("GET", url, parameters, where)
        if response.status_code == _UNAUTHORIZED and self._log_in.renew():
            response = self._ask("GET", url, parameters, where)
        _refuse(response, where)
        return Answer(response.content, response.headers, where=where)

    def clock(self, url: str, *, where: str) -> dt.datetime:
        """The time that the server's header Date tells."""
        response = self._ask("HEAD", url, (), where)
        if response.status_code == _UNAUTHORIZED and self._log_in.renew():
            response = self._ask("HEAD", url, (), where)
        if response.status_code not in _NO_HEAD and response.status_code != 501:  # noqa: PLR2004 - no such method
            _refuse(response, where)
        stated = _date(response.headers.get("date"))
        if stated is None:
            raise TerminalFault(
                f"{where} answers without a header Date, so nobody knows the server's time",
                "Ask the API's owner, or whoever runs the proxy before it.",
            )
        return stated

    def close(self) -> None:
        """End waiting requests and close connections."""
        self._ended.set()
        if self._client is not None:
            self._client.close()

    def _ask(
        self, method: str, url: str, parameters: Sequence[tuple[str, str]], where: str
    ) -> httpx2.Response:
        """One request, when it is its turn; the log-in may need another before it."""
        headers = {**self._config.headers, **self._log_in.headers()}
        query: list[tuple[str, str | int | float | bool | None]] = [
            *parameters,
            *self._log_in.parameters().items(),
        ]
        self._pace.wait(self._ended)
        with self._faults(where):
            return self._http().request(method, url, params=query, headers=headers)

    def _fetch_token(
        self, url: str, headers: Mapping[str, str], form: Mapping[str, str]
    ) -> Mapping[str, Any]:
        where = urlsplit(url).path
        with self._faults(where):
            response = self._http().post(url, data=dict(form), headers=dict(headers))
        _refuse(response, where)
        try:
            answer = response.json()
        except ValueError:
            answer = None
        return answer if isinstance(answer, dict) else {}

    @contextlib.contextmanager
    def _faults(self, where: str) -> Iterator[None]:
        """No connection, or one that is lost, is transient; a certificate that is not trusted is not."""
        import httpx2

        if self._ended.is_set():
            raise TransientFault(f"{where} was being read when the reading was ended")
        try:
            yield
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            if _is_about_certificate(error):
                raise TerminalFault(
                    f"{where}: the server's certificate is not trusted",
                    "Add its authority to the machine's, or name the file in SSL_CERT_FILE.",
                ) from None
            raise TransientFault(f"{where} gave no answer ({type(error).__name__})") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise TerminalFault(f"{where} gave no answer ({type(error).__name__})", _MANUAL) from None
        except RuntimeError:
            if not self._ended.is_set():
                raise
            raise TransientFault(f"{where} was being read when the reading was ended") from None

    def _http(self) -> httpx2.Client:
        if self._client is None:
            import httpx2

            # Its log shows each address whole, with a key in the query.
            logging.getLogger("httpx2").setLevel(logging.WARNING)
            self._client = httpx2.Client(
                timeout=self._config.timeout.total_seconds(),
                headers={"Accept": "application/json", "Cache-Control": "no-cache"},
            )
        return self._client


def _is_about_certificate(error: BaseException) -> bool:
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ssl.SSLCertVerificationError):
            return True
        found = found.__cause__ or found.__context__
    return False


def _refuse(response: httpx2.Response, where: str) -> None:
    """Raise the fault that an answer is, unless it holds records."""
    status = response.status_code
    if response.is_success:
        return
    fault: SourceFault
    if status in _TRANSIENT or status >= 500:  # noqa: PLR2004 - errors of the server
        fault = TransientFault(f"{where} answers {status}", retry_after=_retry_after(response.headers))
    elif response.is_redirect:
        fault = TerminalFault(
            f"{where} answers {status}: it is at another address", "Declare that address as `base_url`."
        )
    else:
        fault = TerminalFault(f"{where} answers {status}", _HELP.get(status, _MANUAL))
    raise fault


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that an answer asks to wait, as a number or as a date by the server's own clock.

    Source:
        RFC 9110, section 10.2.3.
    """
    text = headers.get("retry-after", "").strip()
    if text.isdigit():
        return float(text)
    until = _date(text)
    if until is None:
        return None
    now = _date(headers.get("date")) or dt.datetime.now(dt.UTC)
    return max(0.0, (until - now).total_seconds())


def _date(text: str | None) -> dt.datetime | None:
    try:
        return parsedate_to_datetime(text).astimezone(dt.UTC) if text else None
    except ValueError:
        return None


class _Pace:
    """Requests that keep their distance in time, of all tables of an API in this process."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._next = 0.0

    def wait(self, ended: threading.Event) -> None:
        """Wait for the turn of one more request, or until reading is ended."""
        if not self._seconds:
            return
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + self._seconds
        ended.wait(turn - now)


_paces: Final[dict[tuple[str, float], _Pace]] = {}


def _pace_of(config: RestSourceConfig) -> _Pace:
    seconds = config.rate or 0.0
    return _paces.setdefault((config.base_url, seconds), _Pace(seconds))
