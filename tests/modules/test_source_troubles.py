"""Trouble of each source that ships: told once while it lasts, beside others at work; gone when it is cured.

Attention, status and the log tell of it, in words that say what is to be set right.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import sleep
from typing import Any

import pytest

import narval
from narval.surfaces.python.agent import Agent
from tests.modules.feed_server import Server, says
from tests.modules.feed_texts import rss
from tests.modules.imap_server import ImapServer
from tests.modules.mailboxes import letter, maildir
from tests.modules.test_sources_survive import write_calendar, write_feed
from tests.places import ROOT

RECIPES = "".join(
    f'<recipe group="{module}" name="watch" start_step="watch" end_step="watch" restart="yes">'
    f'<step id="watch" type="action" target="{module}.watch" foreach="{element}"/></recipe>'
    for module, element in (
        ("mail", "mailbox"),
        ("feeds", "feed"),
        ("calendar", "calendar"),
        ("files", "folder"),
    )
)
PLACES = {
    "maildir": '<mailbox name="maildir" path="{}"/>',
    "mbox": '<mailbox name="mbox" kind="mbox" path="{}/mbox"/>',
    "feed": '<feed name="feed" path="{}/feed.rss"/>',
    "calendar": '<calendar name="calendar" path="{}/home.ics"/>',
    "files": '<folder path="{}" settle="0.01"/>',
}
"""The sources that read a place of this machine."""
REMEDIES = {
    "maildir": 'set <mailbox name="maildir"> right',
    "mbox": 'set <mailbox name="mbox"> right',
    "feed": 'set <feed name="feed"> right',
    "calendar": 'set <calendar name="calendar"> right',
    "files": 'set <folder path="{}"> right',
    "imap": 'set user of <mailbox name="imap"> right, or the password in etc/imap-secret',
    "web": 'set <feed name="web"> right',
}

MOST_LOOKS = 6_000
"""So many looks, a minute at least, and no more: what has not come by then is told, not waited for."""


class Imap(ImapServer):
    """A server on a loop of its own, which lets nobody in while it `refuses`."""

    refuses = False

    def _verdict(self, command: str, rest: str) -> str:
        return "NO [AUTHENTICATIONFAILED] gone" if self.refuses and command == "LOGIN" else "OK done"


@contextmanager
def serving(server: Imap) -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.open(), loop).result()
    try:
        yield loop
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def fill(place: Path) -> None:
    maildir(place / "in", 0)
    (place / "in/mbox").touch()
    write_feed(place, 1)
    write_calendar(place, 1)


def looks(agent: Agent) -> Iterator[int]:
    """A second of the simulated clock between one look and the next; the sources' threads get theirs."""
    for look in range(MOST_LOOKS):
        yield look
        agent.elapse(seconds=1)
        sleep(0.01)


def attention(agent: Agent, until: Callable[[list[str]], bool]) -> list[str]:
    """What attention tells, and status too, as soon as it is so."""
    told, items = list[str](), list[dict[str, Any]]()
    for _ in looks(agent):
        items = agent.ask("attention")
        told = [item["text"] for item in items]
        if until(told) and agent.ask("status")["attention"] == items:
            assert {item["what"] for item in items} <= {"source"}
            return told
    raise AssertionError((told, items, agent.ask("status")["attention"]))


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    for part in ("etc", "recipes"):
        (tmp_path / part).mkdir()
    (tmp_path / "etc/narval.toml").write_text('fetch_allow = ["127.0.0.1"]\n')
    (tmp_path / "etc/imap-secret").write_text("pass word")
    (tmp_path / "etc/imap-secret").chmod(0o600)
    (tmp_path / "recipes/watch.xml").write_text(f"<cookbook>{RECIPES}</cookbook>")
    with narval.open(tmp_path, clock=narval.SimulatedClock("2026-03-01T06:00:00Z")) as agent:
        yield agent


def test_in_a_program_of_its_own_each_source_in_trouble_is_told() -> None:
    # Its clock is moved by a second a look, while its sources answer in real time: a program that holds what
    # thousands of other tests have left answers too late for that.
    words = [sys.executable, "-m", "pytest", "-q", "-m", "soak", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.soak
def test_the_trouble_of_each_source_is_told_once_while_it_lasts_and_is_gone_with_its_cause(
    tmp_path: Path, agent: Agent, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    imap = Imap(letter(1))
    broken = {name: tmp_path / name / "in" for name in PLACES}
    with closing(Server()) as web, serving(imap) as its_loop:
        web.answers = [says(rss("news"))]
        for place in (tmp_path / "good", *(path.parent for path in broken.values())):
            fill(place)
        for name, element in PLACES.items():
            agent.add(element.format(broken[name]))
            agent.add(element.format(tmp_path / "good/in").replace('name="', 'name="good '))
        agent.add(imap.element())
        agent.add(f'<feed name="web" url="{web.url}" every="1"/>')
        for module in ("mail", "feeds", "calendar", "files"):
            agent.start(f"{module}.watch")
        agent.until_idle()
        assert attention(agent, lambda told: not told) == []
        words = [REMEDIES[name].format(f"{name}/in") for name in REMEDIES]
        for time in (1, 2):
            caplog.clear()
            known = {error.eid for error in agent.memory("error")}
            for place in broken.values():
                place.rename(place.with_name("out"))
            web.answers = [says(status=500)]
            imap.refuses = True
            its_loop.call_soon_threadsafe(imap.hang_up)
            told = attention(agent, lambda told: all(any(word in text for text in told) for word in words))
            (tmp_path / f"good/in/new/{time}").write_bytes(letter(10 + time))  # others at work hide nothing
            assert any(len(agent.memory("email")) > time for _ in looks(agent))
            assert len(attention(agent, lambda told: True)) == len(REMEDIES)
            errors = [error for error in agent.memory("error") if error.eid not in known]
            log = [record.getMessage() for record in caplog.records if record.name == "narval.sources"]
            for texts in (told, [error.text for error in errors], log):
                assert [sum(word in text for text in texts) for word in words] == [1] * len(words), (
                    time,
                    texts,
                )
            assert not any("Response status" in text for text in (*told, *log))
            for place in broken.values():
                place.with_name("out").rename(place)
            web.answers = [says(rss("news"))]
            imap.refuses = False
            attention(agent, lambda told: not told)
