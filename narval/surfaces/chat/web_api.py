"""The HTTP client for a chat service with a JSON API, by the guarded client; errors never show its secret."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from narval.files.outside.chats import ChatSettings
from narval.surfaces.chat.contract import AmbiguousError, ChatError
from narval.system.fetch import Fetched, FetchError, fetched

SECONDS = 30.0
"""The longest time of a request in seconds, beyond the time for which the service is asked to hold it."""
MOST_BYTES = 50_000_000
"""The most bytes of an answer in JSON."""
LONGEST_WAIT = 300.0
"""The longest wait, in seconds, that a service may ask for."""


class ApiAnswer(NamedTuple):
    """The answer of a service: its status, its JSON object ({} for anything else) and its headers."""

    status: int
    data: dict[str, Any]
    headers: Mapping[str, str]


class WebApi:
    """Asks one service of the settings; no error shows its secret or other concealed ones."""

    def __init__(self, settings: ChatSettings, home: Path, secret: str, usual_server: str = "") -> None:
        server = settings.server or usual_server
        self.url = (server if "://" in server else f"https://{server}").rstrip("/")
        self._settings, self._secrets = settings, {secret} - {""}
        self._tls_ca = home / settings.tls_ca if settings.tls_ca else None

    async def ask(
        self,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        held: float = 0.0,
        once: bool = False,
    ) -> ApiAnswer:
        """Request a path; `held` is the number of seconds for which the service may hold the request.

        Raises ConnectionError if there is no answer; for a request to be made `once` that may have been done,
        AmbiguousError instead; ChatError (final) for a server that is not allowed.
        """
        sent = {"Accept": "application/json", **(headers or {})}
        data = None
        if body is not None:
            sent["Content-Type"] = "application/json"
            data = json.dumps(body, ensure_ascii=False).encode()
        answer = await self._fetched(f"{self.url}/{path}", method, sent, data, MOST_BYTES, held, once=once)
        if once and answer.status >= 500:
            raise AmbiguousError(f"{self._settings}: the server failed ({answer.status}) while it sent")
        try:
            parsed = json.loads(answer.body)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, dict):
            return ApiAnswer(answer.status, parsed, answer.headers)
        if answer.status < 400:
            raise self._lost("its answer is no JSON object", was_sent=True, once=once)
        return ApiAnswer(answer.status, {}, answer.headers)

    async def download(
        self, path: str, target: Path, most: int, headers: Mapping[str, str] | None = None
    ) -> int:
        """Download a path into a file, and return the status; only an answer with 200 is written.

        Raises ChatError (final) for more than `most` bytes, ConnectionError if there is no answer.
        """
        answer = await self._fetched(f"{self.url}/{path}", "GET", headers or {}, None, most, 0.0)
        if answer.status == 200:
            await asyncio.to_thread(target.write_bytes, answer.body)
        return answer.status

    def conceal(self, secret: str) -> None:
        """Conceal another secret in errors."""
        self._secrets.add(secret)

    def without_secrets(self, text: str) -> str:
        """A text that is safe to show: on one line, without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return " ".join(text.split())[:300]

    async def _fetched(
        self,
        url: str,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None,
        most: int,
        held: float,
        *,
        once: bool = False,
    ) -> Fetched:
        seconds = SECONDS + held
        try:
            return await fetched(
                url,
                method=method,
                headers=headers,
                body=body,
                allow=self._settings.allow,
                most=most,
                seconds=seconds,
                silent=seconds,
                tls_ca=self._tls_ca,
            )
        except FetchError as error:
            message = self.without_secrets(str(error))
            if error.kind == "forbidden":
                raise not_allowed(self._settings, self.url) from None
            if error.kind == "too-large" and most != MOST_BYTES:
                raise ChatError(message, final=True) from None
            raise self._lost(message, was_sent=error.was_sent, once=once) from None

    def _lost(self, message: str, *, was_sent: bool, once: bool) -> Exception:
        text = f"{self._settings}: {message}"
        return AmbiguousError(text) if once and was_sent else ConnectionError(text)


def not_allowed(settings: ChatSettings, url: str) -> ChatError:
    """The error for an address in this machine or its networks that a chat's settings do not name."""
    place = urlsplit(url).netloc
    why = f"{place} is of this machine or its networks; to allow it, write"
    return ChatError(f'{settings}: {why} allow = ["{place}"] there', final=True)


async def wait_as_asked(seconds: float, settings: ChatSettings) -> None:
    """Wait as long as a service asks. Raises ConnectionError for a wait that is too long."""
    if seconds > LONGEST_WAIT:
        raise ConnectionError(f"{settings}: the server wants no request for {seconds:.0f} s")
    await asyncio.sleep(max(seconds, 0.1))
