"""Wire: requests with a key in their head, answers checked, errors in one sentence. Nothing is logged."""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Callable
from typing import Any

import httpx

from nearveil.client.errors import PROBLEM_PREFIX, TOO_MANY, ServiceError, UnreachableError
from nearveil.errors import UsageError

_PAUSES_S = (0.1, 0.4)
_LONGEST_DETAIL = 300
_CONNECTION_ERRORS = (httpx.NetworkError, httpx.ConnectTimeout, httpx.RemoteProtocolError)


class Wire:
    """One service and its connections, shared by all who talk to it with a key of their own."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float,
        transport: httpx.BaseTransport | None,
        allow_plain_http: bool,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        address = _checked(url, allow_plain_http=allow_plain_http)
        if not 0 < timeout_s < math.inf:
            raise UsageError("the time limit is a number of seconds greater than 0")
        self._pause = pause
        # A proxy of the environment would see a key that travels in clear; encrypted it may pass through one.
        self._http = httpx.Client(
            base_url=address, timeout=timeout_s, transport=transport, trust_env=address.scheme == "https"
        )
        self.shown_url = str(address)

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def send(
        self, method: str, path: str, key: str, *, repeatable: bool, json: Any = None, content: bytes | None = None
    ) -> httpx.Response:
        """Send a request and return the answer if it is a success; repeat it only where that changes nothing."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        if content is not None:
            headers["Content-Type"] = "application/json"
        for wait_s in (*(_PAUSES_S if repeatable else ()), None):
            try:
                answer = self._http.request(method, path, json=json, content=content, headers=headers)
            except _CONNECTION_ERRORS as error:
                if wait_s is None:
                    raise self._unreachable(error) from None
                self._pause(wait_s)
            except httpx.HTTPError as error:
                raise self._unreachable(error) from None
            else:
                if not answer.is_success:
                    raise _refusal(answer)
                return answer
        raise AssertionError("the last turn returns or raises")  # pragma: no cover

    def _unreachable(self, error: httpx.HTTPError) -> UnreachableError:
        return UnreachableError(
            f"the service at {self.shown_url} did not answer ({type(error).__name__}); is it running?"
        )


def json_of(answer: httpx.Response) -> Any:
    """Return the answer's JSON."""
    try:
        return answer.json()
    except ValueError:
        raise strange(answer) from None


def object_of(answer: httpx.Response) -> dict[str, Any]:
    """Return the answer's JSON, which is an object."""
    document = json_of(answer)
    if not isinstance(document, dict):
        raise strange(answer)
    return document


def field_of(answer: httpx.Response, name: str, kind: type | tuple[type, ...]) -> Any:
    """Return one field of an answer that is a JSON object."""
    value = object_of(answer).get(name)
    if not isinstance(value, kind):
        raise strange(answer)
    return value


def strange(answer: httpx.Response) -> ServiceError:
    """Return the error of an answer that no Nearveil service gives."""
    return ServiceError(
        "the service answered something else than a Nearveil service does; check the address",
        status=answer.status_code,
    )


def _checked(url: str, *, allow_plain_http: bool) -> httpx.URL:
    try:
        address = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        raise UsageError("the service's address is no web address; write it as http://127.0.0.1:8000") from None
    if address.scheme not in ("http", "https") or not address.host:
        raise UsageError("the service's address begins with http:// or https://, such as http://127.0.0.1:8000")
    if address.userinfo or address.query or address.fragment:
        raise UsageError("the service's address has no user name, question mark or # in it; give the key apart from it")
    if address.scheme == "http" and not (allow_plain_http or _is_loopback(address.host)):
        raise UsageError(
            "over http:// the key would travel in clear to another machine; use https://, or in a network of your own "
            "allow plain http (--plain-http)"
        )
    return address


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refusal(answer: httpx.Response) -> ServiceError:
    """Return what the service says as an error: its problem details where it has any."""
    try:
        document = answer.json()
    except ValueError:
        document = {}
    said = document if isinstance(document, dict) else {}
    kind, title, detail = (str(said.get(name) or "") for name in ("type", "title", "detail"))
    title = title or answer.reason_phrase
    words = " ".join(detail.split())[:_LONGEST_DETAIL]
    return ServiceError(
        f"the service refused ({answer.status_code} {title})" + (f": {words}" if words else ""),
        status=answer.status_code,
        name=kind.removeprefix(PROBLEM_PREFIX) if kind.startswith(PROBLEM_PREFIX) else "",
        title=title,
        detail=detail,
        retry_after_s=_retry_after_s(answer),
    )


def _retry_after_s(answer: httpx.Response) -> float | None:
    try:
        wait_s = float(answer.headers.get("Retry-After", ""))
    except ValueError:
        return None
    return wait_s if answer.status_code in (TOO_MANY, 503) and 0 <= wait_s < math.inf else None
