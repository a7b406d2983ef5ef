"""A session at a homeserver of Matrix: its login, and its requests of the client API."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from narval.files.outside.chats import ChatSettings
from narval.surfaces.chat.contract import ChatError
from narval.surfaces.chat.web_api import ApiAnswer, WebApi, wait_as_asked

CLIENT = "_matrix/client/v3"
MOST_WAITS = 3
"""The most times that a request is repeated because the server asked to wait."""


class MatrixSession:
    """The account of the settings at its server; it logs in at the first request.

    The secret is an access token, or else the password. With a password the device is always the same, so
    that the server recognises a message that is sent again after a restart.
    """

    def __init__(self, settings: ChatSettings, home: Path, secret: str) -> None:
        self.settings, self.user = settings, settings.user
        self._api = WebApi(settings, home, secret)
        self._secret, self._token = secret, ""
        self._is_password = False
        place = f"{home.resolve()} {settings.name}"
        self._device = f"NARVAL{hashlib.sha256(place.encode()).hexdigest()[:10].upper()}"
        self._login = asyncio.Lock()

    async def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        held: float = 0.0,
        missing: bool = False,
        hurried: bool = False,
    ) -> dict[str, Any]:
        """The answer of the server to a request of the client API, below `v3`.

        With `missing`, the answer for a missing resource is {}; with `hurried`, also that of a busy server.
        Raises ConnectionError if another try may help, ChatError (final) if the server refuses.
        """
        waits = 0 if hurried else MOST_WAITS
        answer = await self._answered(method, path, body, held, waits)
        if answer.status == 401 and self._is_password:  # the token has expired, the password has not
            self._token = ""
            answer = await self._answered(method, path, body, held, waits)
        if answer.status == 200:
            return answer.data
        if (missing and answer.status == 404) or (hurried and answer.status == 429):
            return {}
        raise self._refused(answer, path)

    async def download(self, reference: str, target: Path, most: int) -> None:
        """Fetch a file of the server's media into a path."""
        server, _, media = reference.removeprefix("mxc://").partition("/")
        place = f"download/{quote(server, safe='')}/{quote(media, safe='')}"
        headers = {"Authorization": f"Bearer {await self._logged_in()}"}
        status = await self._api.download(f"_matrix/client/v1/media/{place}", target, most, headers)
        if status in (404, 405):  # a server older than Matrix 1.11
            status = await self._api.download(f"_matrix/media/v3/{place}", target, most)
        if status != 200:
            final = status in (400, 403, 404)
            raise ChatError(f"{self.settings}: the file was answered by {status}", final=final)

    async def _answered(
        self, method: str, path: str, body: Mapping[str, object] | None, held: float, waits: int
    ) -> ApiAnswer:
        for left in range(waits, -1, -1):
            headers = {"Authorization": f"Bearer {await self._logged_in()}"}
            answer = await self._api.ask(f"{CLIENT}/{path}", body, method=method, headers=headers, held=held)
            if answer.status != 429 or not left:
                break
            await wait_as_asked(_wait(answer), self.settings)
        return answer

    async def _logged_in(self) -> str:
        """The access token of the session; logs in if there is none."""
        async with self._login:
            if not self._token:
                self._token = await self._log_in()
                self._api.conceal(self._token)
        return self._token

    async def _log_in(self) -> str:
        if not self._secret or not self._api.url.startswith("http") or not self.settings.server:
            message = f"{self.settings}: expected server, user, and the secret with which it logs in"
            raise ChatError(message, final=True)
        if not self._is_password and self._secret.isascii():  # a header allows no other characters
            headers = {"Authorization": f"Bearer {self._secret}"}
            answer = await self._patiently("GET", "account/whoami", None, headers)
            if answer.status == 200:
                self._check_user(str(answer.data.get("user_id", "")))
                return self._secret
            if answer.status not in (401, 403):
                raise self._refused(answer, "account/whoami")
        if not self.settings.user:
            message = f'{self.settings}: expected user = "@NAME:SERVER" beside a password'
            raise ChatError(message, final=True)
        form = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": self.settings.user},
            "password": self._secret,
            "device_id": self._device,
            "initial_device_display_name": "narval",
        }
        answer = await self._patiently("POST", "login", form, {})
        if answer.status in (400, 401, 403):
            raise ChatError(
                f"{self.settings}: its secret is neither an access token nor the password of "
                f"{self.settings.user}: {self._words(answer)}",
                final=True,
            )
        if answer.status != 200:
            raise self._refused(answer, "login")
        self._is_password = True
        self._check_user(str(answer.data.get("user_id", "")))
        return str(answer.data["access_token"])

    async def _patiently(
        self, method: str, path: str, body: Mapping[str, object] | None, headers: Mapping[str, str]
    ) -> ApiAnswer:
        answer = await self._api.ask(f"{CLIENT}/{path}", body, method=method, headers=headers)
        if answer.status == 429:
            await wait_as_asked(_wait(answer), self.settings)
            answer = await self._api.ask(f"{CLIENT}/{path}", body, method=method, headers=headers)
        return answer

    def _check_user(self, user: str) -> None:
        if not user.startswith("@") or (self.settings.user.startswith("@") and user != self.settings.user):
            message = (
                f"{self.settings}: the secret is that of {user!r:.80}, not of {self.settings.user!r:.80}"
            )
            raise ChatError(message, final=True)
        self.user = user

    def _words(self, answer: ApiAnswer) -> str:
        return self._api.without_secrets(str(answer.data.get("error") or "no reason given"))

    def _refused(self, answer: ApiAnswer, path: str) -> Exception:
        what = f"{self.settings}: the server answered {answer.status} to {path.partition('?')[0]:.80}"
        what = f"{what}: {self._words(answer)}"
        if answer.status == 429 or answer.status >= 500:
            return ConnectionError(what)
        return ChatError(what, final=True)


def _wait(answer: ApiAnswer) -> float:
    """The seconds that the server asks to wait."""
    milliseconds = answer.data.get("retry_after_ms")
    if isinstance(milliseconds, int | float):
        return milliseconds / 1000
    after = answer.headers.get("retry-after", "")
    return float(after) if after.isdecimal() else 1.0
