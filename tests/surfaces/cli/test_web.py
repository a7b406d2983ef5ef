"""The command web: a program beside the daemon (M1-M5, M64, M65, M95)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import psutil
import pytest

from tests.forked_commands import Command
from tests.programs import is_at_work
from tests.surfaces.cli.command_line import (
    begun,
    daemon,
    data,
    line_of,
    make_home,
    narval,
    program,
    until,
    well,
)

LINE = re.compile(r"narval web answers at (http://127\.0\.0\.1:\d+); (.*)\n")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path / "home")


@contextmanager
def web(home: Path, *arguments: object) -> Iterator[tuple[Command, str, str]]:
    """A web program that answers: itself, its address, and its login link."""
    running = begun(home, "web", "--port", 0, *arguments)
    try:
        found = LINE.fullmatch(line_of(running).decode())
        assert found is not None, running.communicate()
        yield running, found[1], found[2].rpartition(" ")[2]
    finally:
        if running.poll() is None:
            running.kill()
        running.communicate()


class Browser:
    """A browser that is logged in."""

    def __init__(self, address: str, link: str) -> None:
        self._address = address
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        self.logged_in = self.post("/login", token=link.partition("token=")[2], next="/sessions")

    def get(self, path: str) -> tuple[int, bytes]:
        return self._sent(urllib.request.Request(self._address + path))

    def post(self, path: str, **fields: str) -> int:
        body, headers = urlencode(fields).encode(), {"Origin": self._address}
        return self._sent(urllib.request.Request(self._address + path, body, headers))[0]

    def _sent(self, request: urllib.request.Request) -> tuple[int, bytes]:
        try:
            with self._opener.open(request, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


def test_M65_the_link_that_it_prints_lets_the_owner_in(home: Path) -> None:
    with daemon(home), web(home) as (_, address, link):
        browser = Browser(address, link)
        assert browser.logged_in == 200
        status, body = browser.get("/sessions.json")
        assert status == 200
        assert body == well(home, "web", "sessions", "--json").encode()  # M5
        (row,) = json.loads(body)
        assert (row["session"], row["role"]) == (1, "operator")
        assert Browser(address, link).logged_in == 403  # once
        other = data(home, "web", "login")
        assert other["login"].startswith(address)
        assert Browser(address, other["login"]).logged_in == 200
        assert data(home, "web", "sessions", "--end", 1) == {"ended": 1}
        assert browser.get("/sessions.json")[0] == 401
        assert [row["session"] for row in data(home, "web", "sessions")] == [2]


def test_M11_pages_show_moments_in_the_zone_of_the_home(home: Path) -> None:
    (home / "etc" / "narval.toml").write_text('timezone = "Pacific/Kiritimati"\n')  # 14 hours ahead of UTC
    with daemon(home), web(home) as (_, address, link):
        browser = Browser(address, link)
        _, page = browser.get("/sessions")
        (row,) = json.loads(browser.get("/sessions.json")[1])
        there = datetime.fromisoformat(row["begun"]).astimezone(ZoneInfo("Pacific/Kiritimati"))
        assert f">{there:%H:%M:%S}</time>" in page.decode()


def test_M4_it_starts_without_a_daemon_and_goes_on_when_one_comes_and_goes(home: Path) -> None:
    with web(home) as (_, address, link):
        assert Browser(address, link).logged_in == 503
        with daemon(home) as first:
            browser, agent = Browser(address, link), data(home, "agents")[0]["name"]
            assert browser.logged_in == 200
            assert browser.get(f"/a/{agent}/.json")[0] != 503
            first.kill()
            first.wait()
            assert browser.get(f"/a/{agent}/.json")[0] == 503
        with daemon(home):
            assert browser.get(f"/a/{agent}/.json")[0] != 503  # without another login


def test_M2_one_program_serves_a_home(home: Path) -> None:
    with web(home) as (running, address, _):
        second = narval(home, "web")
        assert second.exit_code == 1
        assert f"serves this home already, at {address}; log in there: narval web login" in second.stderr
        running.kill()
        running.wait()
    with web(home):
        pass
    assert narval(home, "web", "login").exit_code == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_M2_it_ends_well_by_a_signal(home: Path, number: signal.Signals) -> None:
    with web(home) as (running, _, _):
        running.send_signal(number)
        assert running.communicate() == (b"", b"")
        assert running.returncode == 0
    assert "narval web does not run for this home" in narval(home, "web", "login").stderr


def test_M2_nothing_wakes_it_while_nobody_asks(home: Path) -> None:
    with web(home) as (running, _, _):
        itself = psutil.Process(running.pid)

        def is_asleep() -> bool:
            before = itself.num_ctx_switches().voluntary
            time.sleep(1.5)
            return itself.num_ctx_switches().voluntary == before

        until(is_asleep)


def test_M64_it_listens_to_this_machine_alone(home: Path) -> None:
    for port in ("0.0.0.0:80", "0.0.0.0", "::", "example.org:80", "65536", "-1", "x"):
        refused = narval(home, "web", "--port", port)
        assert refused.exit_code == 2
        assert "the pages are served to it alone" in refused.stderr
        assert "--behind https://NAME" in refused.stderr
    assert "--behind goes with --socket" in narval(home, "web", "--behind", "https://x.example").stderr
    for url in ("http://x.example", "https://x.example/path", "https://", "x.example", "https://a b"):
        refused = narval(home, "web", "--socket", home / "s", "--behind", url)
        assert refused.exit_code == 1
        assert "expected an address such as https://narval.example.org" in refused.stderr
    assert "got both" in narval(home, "web", "--socket", home / "s", "--port", 1).stderr


def test_M65_login_names_who_there_is(home: Path) -> None:
    (home / "etc" / "people.toml").write_text('[people.ann]\nlogin = "nobody-here"\n[people.ben]\n')
    unknown = narval(home, "web", "login", "eve")
    assert "no person is called 'eve' in etc/people.toml; name one of ann, ben" in unknown.stderr
    assert "no person has the login" in narval(home, "web", "login").stderr
    with web(home):
        assert data(home, "web", "login", "ann")["person"] == "ann"


def pages_of(running: Command) -> list[psutil.Process]:
    children = psutil.Process(running.pid).children()
    return [one for one in children if is_at_work(one) and "--kept" in one.cmdline()]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_M3_the_daemon_keeps_the_pages_as_long_as_it_lives(home: Path, end: signal.Signals) -> None:
    with daemon(home, "--web") as running:
        told = line_of(running).decode()
        assert "to log in, make a link: narval web login" in told
        assert "token=" not in told
        (first,) = pages_of(running)
        first.kill()
        assert "narval web answers at" in line_of(running).decode()
        (second,) = pages_of(running)
        assert second.pid != first.pid
        link = data(home, "web", "login")["login"]
        assert Browser(link.partition("/login")[0], link).logged_in == 200
        running.send_signal(end)
        running.wait()
        until(lambda: not is_at_work(second))


def test_M3_the_second_unit_is_of_the_pages(home: Path) -> None:
    text = data(home, "service", "--web")["unit"]
    assert f"-m narval --home {home} web\n" in text
    assert "Restart=on-failure" in text
    assert data(home, "service")["unit"] != text
    waits = data(home, "service", "--standby")["unit"]
    assert waits == data(home, "service")["unit"].replace(" run\n", " run --standby\n")
    assert narval(home, "service", "--standby", "--web").exit_code == 2


_IMPORTED = """
import sys
from narval.surfaces.cli import main
try:
    main(sys.argv[1:], standalone_mode=False)
finally:
    heavy = ("starlette", "uvicorn", "h11", "jinja2", "sse_starlette", "anyio")
    own = ("narval.surfaces.http", "narval.surfaces.web")
    print(sorted(n for n in sys.modules if n.split(".")[0] in heavy or n.startswith(own)), file=sys.stderr)
"""


OTHERS = ("--help", "web --help", "status", "memory", "runs", "run --until-idle", "check", "service")


@pytest.mark.parametrize("words", OTHERS)
def test_M95_no_other_command_imports_any_of_it(home: Path, words: str) -> None:
    named = [sys.executable, "-c", _IMPORTED, "--home", str(home), *words.split()]
    done = subprocess.run(named, capture_output=True, text=True, check=False, env={**os.environ})
    assert done.stderr.splitlines()[-1] == "[]"


def test_M2_it_is_small(home: Path) -> None:
    with subprocess.Popen(program(home, "web", "--port", 0), stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert b"narval web answers" in running.stdout.readline()
        assert psutil.Process(running.pid).memory_info().rss < 60_000_000
        running.kill()
