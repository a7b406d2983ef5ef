"""The daemon and its pages are killed while people look and act: nothing confirmed is lost (M1, M4, M60)."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import psutil
import pytest

from narval.files.home import Home
from narval.surfaces.http.place import WebPlace
from narval.surfaces.http.sessions import FOLDER, Sessions, form_token
from tests.acceptance.home import until
from tests.browser.programs import Household

SHOTS = ("web", "daemon", "both")
BASE = "/a/narval"
ACTS = ("add", "start", "cancel", "acknowledge")
EXPECTED = {0, 200, 303, 400, 409, 429, 503, 504}
"""The statuses that may come meanwhile: none at all (0), a page, a confirmation, a refusal; no 500."""


class Answer(NamedTuple):
    """The status of an answer, 0 where there was none, and where it leads."""

    status: int
    location: str


class Tab:
    """A person in a session of their own: looks, sends forms, follows."""

    def __init__(self, household: Household) -> None:
        self._port = int(household.address.rpartition(":")[2])
        sessions = Sessions(Home(household.home).var / FOLDER)
        secret = sessions.log_in(sessions.new_link("ann"), "ann", "operator")
        assert secret is not None
        self._cookie, self._token = f"{WebPlace(self._port).cookie}={secret}", form_token(secret)

    async def get(self, path: str) -> int:
        """The status of a page that is read to its end."""
        return (await self._said("GET", path)).status

    async def post(self, path: str, **fields: str) -> Answer:
        """The answer to a form."""
        return await self._said("POST", path, urlencode({"token": self._token, **fields}))

    async def asked(
        self, method: str, path: str, body: str = "", last: str = ""
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A request that is sent."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**24)
        own = f"127.0.0.1:{self._port}"
        lines = [f"{method} {path} HTTP/1.1", f"Host: {own}", "Connection: close", f"Cookie: {self._cookie}"]
        lines += [f"Last-Event-ID: {last}"] if last else []
        if body:
            lines += [f"Origin: http://{own}", "Content-Type: application/x-www-form-urlencoded"]
            lines += [f"Content-Length: {len(body)}"]
        writer.write("\r\n".join([*lines, "", body]).encode())
        return reader, writer

    async def _said(self, method: str, path: str, body: str = "") -> Answer:
        head, location = b"", b""
        try:
            reader, writer = await self.asked(method, path, body)
        except OSError:
            return Answer(0, "")
        try:
            head = await reader.readline()
            while line := await reader.readline():
                if line.lower().startswith(b"location:"):
                    location = line.partition(b":")[2].strip()
        except OSError:
            pass
        finally:
            writer.close()
        status = int(head.split()[1]) if head.endswith(b"\n") else 0
        assert status in EXPECTED, (method, path, head)
        return Answer(status, location.decode())


class Follower:
    """A page that is open, as a browser follows it: a second after it was hung up on it comes back."""

    def __init__(self, tab: Tab, path: str) -> None:
        self._tab, self.path = tab, path
        self.regions: dict[str, str] = {}
        self.pictures, self._last = 0, ""

    async def follow(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                reader, writer = await self._tab.asked("GET", f"{BASE}{self.path}/live", last=self._last)
                try:
                    await self._read(reader)
                finally:
                    writer.close()
            except OSError:
                pass
            await asyncio.sleep(1)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        head = await reader.readline()
        if not head.endswith(b"\n"):
            return
        assert int(head.split()[1]) in (200, 429, 503, 504), head
        name, number = b"", ""
        while (line := await reader.readline()).endswith(b"\n"):
            field, _, content = line.strip().partition(b": ")
            if field == b"event":
                name = content
            elif field == b"id":
                number = content.decode()
            elif field == b"data":
                if name == b"regions":
                    self.regions |= json.loads(content)
                    self.pictures += 1
                self._last, number = number or self._last, ""


class Life:
    """A home with its programs, those who look and act, and all that they were told."""

    def __init__(self, household: Household, seed: int) -> None:
        self.household = household
        self._chance, self._aim = random.Random(seed), random.Random(seed)
        self._numbers = itertools.count(1)
        self._runs: list[int] = []
        self.sent: dict[str, set[str]] = defaultdict(set)
        self.confirmed: dict[str, set[str]] = defaultdict(set)
        self.shots: Counter[str] = Counter()
        household.begin_daemon()
        household.begin_web()
        household.start("demo.slow")  # a worker is at work when its daemon is killed
        self._staged = household.start("show.stages")
        household.start("demo.fail")
        self._incident = until(lambda: household.data("errors"), "a run has failed")[0]["incident"]
        paths = ("", "/runs", "/memory", "/errors", f"/runs/{self._staged}")
        self.followers = [Follower(Tab(household), path) for path in paths]

    # --- people -----------------------------------------------------------------------------------------

    async def _act(
        self, tab: Tab, what: str, path: str, field: str, pattern: str = "{}", **more: str
    ) -> Answer:
        """Send a form that has a number of its own, and look where it leads."""
        number = str(next(self._numbers))
        self.sent[what].add(number)
        answer = await tab.post(f"{BASE}{path}", **{field: pattern.format(number)}, **more)
        if answer.status == 303:
            self.confirmed[what].add(number)
            if answer.location:
                await tab.get(answer.location)
        return answer

    async def _start(self, tab: Tab, name: str) -> int | None:
        answer = await self._act(tab, "start", f"/start/{name}", "xml", "<ticket n='{}'/>")
        found = re.search(r"/runs/(\d+)$", answer.location)
        return int(found[1]) if answer.status == 303 and found else None

    async def work(self, tab: Tab) -> None:
        """Send forms until cancelled."""
        while True:
            what = self._chance.choice(ACTS)
            if what == "add":
                await self._act(tab, what, "/memory/add", "xml", "<mark n='{}'/>")
            elif what == "start":
                started = await self._start(tab, "show.still")
                self._runs += [started] if started else []
            elif what == "acknowledge":
                await self._start(tab, "demo.fail")
                await self._act(tab, what, f"/errors/{self._incident}/acknowledge", "reason")
            elif self._runs:
                await self._act(tab, what, f"/runs/{self._runs.pop()}/cancel", "reason")
            await asyncio.sleep(self._chance.uniform(0.02, 0.1))

    # --- kills ------------------------------------------------------------------------------------------

    def shoot(self, shot: str) -> None:
        """Kill a program, or both, and begin it anew."""
        self.shots[shot] += 1
        if shot != "daemon":
            self.household.kill_web()
        if shot != "web":
            self.household.kill_daemon()
        time.sleep(self._aim.choice((0, 0, 0.2)))
        if shot != "daemon":
            self.household.begin_web()
        if shot != "web":
            self.household.begin_daemon()

    async def under_fire(self, shots: Iterable[str]) -> None:
        """Everybody is at work while programs are killed; then until all goes well again."""
        tasks = [asyncio.create_task(one.follow()) for one in self.followers]
        workers = [asyncio.create_task(self.work(Tab(self.household))) for _ in range(3)]
        try:
            for shot in shots:
                await asyncio.sleep(self._aim.uniform(0.1, 0.6))
                await asyncio.to_thread(self.shoot, shot)
            await self._goes_on([*tasks, *workers])
            await _ended(workers)
            await self._same_as_new()
        finally:
            await _ended([*tasks, *workers])

    async def _goes_on(self, tasks: list[asyncio.Task[None]]) -> None:
        """Nobody kills any more: each page gets pictures again, and each act is confirmed again."""
        pictures = [one.pictures for one in self.followers]
        known = {what: len(self.confirmed[what]) for what in ACTS}
        self.household.add("<go stage='1'/>")

        def well() -> bool:
            for task in tasks:
                if task.done():
                    task.result()
            seen = all(one.pictures > had for one, had in zip(self.followers, pictures, strict=True))
            return seen and all(len(self.confirmed[what]) > known[what] for what in ACTS)

        await asyncio.to_thread(until, well, "all goes on")

    async def _same_as_new(self) -> None:
        """Each page shows in the end what one shows that is opened only now."""
        for one in self.followers:
            new = Follower(Tab(self.household), one.path)
            task = asyncio.create_task(new.follow())

            def same(one: Follower = one, new: Follower = new) -> bool:
                mine = {name: without_token(one.regions.get(name, "")) for name in new.regions}
                return bool(mine) and mine == {
                    name: without_token(text) for name, text in new.regions.items()
                }

            try:
                await asyncio.to_thread(until, same, f"{one.path} shows what is")
            finally:
                await _ended([task])

    # --- what is there ----------------------------------------------------------------------------------

    def check(self) -> None:
        """All that was confirmed is there once, and nothing twice."""
        marks = self.household.data("memory", "mark", "--limit", "all")
        tickets = self.household.data("memory", "ticket", "--limit", "all")
        said = self.household.data("memory", "acknowledged", "--limit", "all")
        number_of = {one["eid"]: number_in(one["xml"], "n") for one in tickets}
        started, cancelled = Counter[str](), Counter[str]()
        with self.household.client() as client:
            for run in self.household.data("runs", "--limit", "all"):
                for entry in client.ask("history", run=run["eid"]):
                    if entry["what"] == "Started":
                        started.update(number_of[eid] for eid in entry.get("elements", ()))
                    if entry["what"] == "Cancelled":
                        cancelled[entry["reason"]] += 1
        found = {
            "add": Counter(number_in(one["xml"], "n") for one in marks),
            "start": started,
            "cancel": cancelled,
            "acknowledge": Counter(number_in(one["xml"], "reason") for one in said),
        }
        assert sorted(number_of.values()) == sorted(started)
        for what, counted in found.items():
            assert set(counted.values()) == {1}, (what, counted.most_common(3))
            assert self.confirmed[what] <= counted.keys() <= self.sent[what], what


def number_in(xml: str, attribute: str) -> str:
    found = re.search(rf'\b{attribute}="(\d+)"', xml)
    assert found is not None, xml
    return found[1]


def without_token(html: str) -> str:
    return re.sub(r'(name="token" value=")[^"]*', r"\1", html)


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks; what went wrong in one is raised."""
    for task in tasks:
        task.cancel()
    for gone in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(gone, Exception):
            raise gone


def programs_of(home: Path) -> list[Any]:
    """The programs that run for a home and are no zombies: named so, or with a file of it open, as forks."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            named = [*process.cmdline(), process.environ().get("NARVAL_HOME", "")]
            opened = (file.path for file in process.open_files())
            is_named = str(home) in named or any(Path(path).is_relative_to(home) for path in opened)
            found += [process.pid] if is_named else []
        except psutil.Error:
            continue  # it has ended meanwhile, or is somebody else's
    return found


def live_through(folder: Path, seed: int, shots: Iterable[str]) -> None:
    """These shots at a home at work, then rest."""
    print(f"seed {seed}")
    household = Household(folder)
    try:
        life = Life(household, seed)
        assert programs_of(folder)
        asyncio.run(life.under_fire(shots))
        life.check()
    finally:
        household.close()
    until(lambda: not programs_of(folder), "no program is left")
    print(dict(life.shots), {what: len(numbers) for what, numbers in life.confirmed.items()})


@pytest.mark.parametrize("seed", [random.randrange(10**6)], ids=["any"])
def test_M1_M4_M60_what_was_confirmed_is_there_once_and_pages_go_on_whatever_is_killed(
    tmp_path: Path, seed: int
) -> None:
    live_through(tmp_path / "home", seed, random.Random(seed).sample((*SHOTS, "web", "daemon"), 5))


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
def test_M1_M4_M60_what_was_confirmed_is_there_once_and_pages_go_on_for_a_minute(
    tmp_path: Path, seed: int
) -> None:
    chance, end = random.Random(seed), time.monotonic() + 60

    def shots() -> Iterable[str]:
        while time.monotonic() < end:
            yield chance.choice(SHOTS)

    live_through(tmp_path / "home", seed, shots())
