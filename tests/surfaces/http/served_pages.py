"""The pages of a home served by a program of their own, and a browser of a few lines for them."""

from __future__ import annotations

import http.client
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from narval.files.home import Home
from narval.surfaces.http.sessions import FOLDER, Sessions, form_token
from tests.surfaces.cli.command_line import begun, line_of
from tests.surfaces.http.reading_html import read

_ADDRESS = re.compile(rb"answers at http://127\.0\.0\.1:(\d+)")

MOST = 2_500
"""So many addresses are looked at in a crawl; there are fewer."""

QUERIES = 3
"""So many queries of a page are looked at, as some go on for ever."""

ALIKE = 6
"""So many addresses of a form are looked at: of pages of runs, parts, elements and examples."""


def form_of(address: str) -> str:
    """An address with 0 for each number, and for each name of an example: those pages are alike."""
    return re.sub(r"\d+|(?<=/examples/)[\w-]+", "0", address)


class GotPage(NamedTuple):
    """An answer."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def is_page(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/html")


class Browsing:
    """Somebody who is logged in, in a few sessions, as each may ask fifty times a second."""

    def __init__(self, home: Path, port: int, person: str, sessions: int = 4) -> None:
        self.home, self.port = home, port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.secrets: list[str] = []
        kept = Sessions(Home(home).var / FOLDER)
        for _ in range(sessions):
            answer = self._asked("POST", "/login", {"token": kept.new_link(person)})
            self.secrets.append(answer.headers["set-cookie"].partition("=")[2].partition(";")[0])

    def get(self, address: str) -> GotPage:
        """The answer to a look."""
        return self._patient("GET", address, None)

    def post(self, address: str, **fields: str) -> GotPage:
        """The answer to a form."""
        return self._patient("POST", address, fields)

    def _patient(self, method: str, address: str, fields: dict[str, str] | None) -> GotPage:
        while True:
            self.secrets.append(self.secrets.pop(0))
            own = None if fields is None else {**fields, "token": form_token(self.secrets[0])}
            answer = self._asked(method, address, own)
            if answer.status != 429:
                return answer
            time.sleep(0.1)

    def _asked(self, method: str, address: str, fields: dict[str, str] | None) -> GotPage:
        headers = {"Origin": f"http://127.0.0.1:{self.port}"}
        if self.secrets and address != "/login":
            headers["Cookie"] = f"narval-{self.port}={self.secrets[0]}"
        if fields is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        answer = self._answered(method, address, urlencode(fields) if fields else None, headers)
        named = {name.lower(): value for name, value in answer.getheaders()}
        return GotPage(answer.status, named, answer.read().decode())

    def _answered(self, *asked: Any) -> http.client.HTTPResponse:
        """The answer; on a connection anew if the server has hung up on the one that was silent for long."""
        try:
            self._connection.request(*asked)
            return self._connection.getresponse()
        except ConnectionError:
            self._connection.close()
            self._connection.request(*asked)
            return self._connection.getresponse()

    def close(self) -> None:
        self._connection.close()

    def crawl(self, *starts: str, all_of: str = "") -> dict[str, GotPage]:
        """The answers of pages that links lead to, and their data: of each form of address a few, and all
        of the form `all_of`.
        """
        seen: dict[str, GotPage] = {}
        paths: Counter[str] = Counter()
        forms: Counter[str] = Counter()
        waiting = list(starts)
        while waiting:
            address = waiting.pop()
            path = urlsplit(address).path
            if address in seen or paths[path] > QUERIES or path.endswith("/live"):
                continue
            form = form_of(path)
            if forms[form] >= ALIKE and form != all_of:
                continue
            paths[path] += 1
            forms[form] += 1
            assert len(seen) < MOST, paths.most_common(10)
            seen[address] = answer = self.get(address)
            if 300 < answer.status < 400:
                waiting.append(answer.headers["location"])
            elif answer.is_page:
                links = [link for link in read(answer.text).links if link.startswith(("/", "?"))]
                links = [f"{path}{link}" if link.startswith("?") else link for link in links]
                waiting += [link.partition("#")[0] for link in links if "/static/" not in link]
                waiting.append(f"{path}.json")
        return seen


@contextmanager
def served(home: Path) -> Iterator[int]:
    """The pages of a home, served while inside; their port."""
    running = begun(home, "web", "--port", 0)
    try:
        found = _ADDRESS.search(line_of(running))
        assert found is not None
        yield int(found[1])
    finally:
        running.kill()
        running.communicate()
