"""Webhooks of a home: their settings, and the one element of each key of a sender."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import narval
from narval.agent.request_keys import KEYS
from narval.core.errors import ElementError, RequestError
from narval.core.source.text import Source
from narval.files.settings import parse_settings
from narval.surfaces.control.client import Client
from narval.surfaces.python.agent import Agent
from tests.acceptance.home import make

AT_ONCE = 10

DIGEST = hashlib.sha256(b"a token").hexdigest()
SETTINGS = f'[hooks.build]\nsha256 = "{DIGEST}"\nelement = "build"\nbytes = "1K"\ncalls = 3\n'
SCHEMA = """<grammar xmlns="http://relaxng.org/ns/structure/1.0"><start><element name="build">
<attribute name="n"/></element></start></grammar>"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "narval.toml").write_text(SETTINGS)
    for part in ("recipes", "modules", "data"):
        (tmp_path / part).mkdir()
    with narval.open(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[hooks.build]\nelement = "b"', "1:8: hooks.build: expected sha256"),
        (f'[hooks.build]\nsha256 = "{DIGEST}"', "1:8: hooks.build: expected sha256"),
        ('[hooks.build]\nsha256 = "secret"\nelement = "b"', "2:10: hooks.build.sha256: expected the SHA-256"),
        (f'[hooks.a]\nsha256 = "{DIGEST}"\nelement = "quit"', "none that narval obeys"),
        (f'[hooks.a]\nsha256 = "{DIGEST}"\nelement = "plan"', "what narval calls a run"),
        (f'[hooks.a]\nsha256 = "{DIGEST}"\nelement = "a b"', "the name of an element, such as build"),
        (f'[hooks.a]\nsha256 = "{DIGEST}"\nelement = "b"\nbytes = "2M"', 'at most "1M"'),
        (f'[hooks.a]\nsha256 = "{DIGEST}"\nelement = "b"\ncalls = 0', "a whole number from 1 to 6,000"),
        (f'[hooks.a]\nsha256 = "{DIGEST}"\nelement = "b"\ntoken = "x"', "unknown setting 'hooks.a.token'"),
        (f'[hooks."../a"]\nsha256 = "{DIGEST}"\nelement = "b"', "a name of a to z, digits and -"),
        ("hooks = 3", "expected tables, such as [hooks.build]"),
    ],
)
def test_webhooks_are_settings_with_places_of_their_faults(text: str, fault: str) -> None:
    settings, faults = parse_settings(Source("etc/narval.toml", text.encode()))
    assert settings is None
    assert fault in "\n".join(map(str, faults))


def test_a_webhook_tells_what_it_took_and_refused(agent: Agent) -> None:
    for n in (1, 2):
        taken = agent.ask("take_hook", name="build", element=b"<build n='%d'/>" % n)
    agent.ask("note_refused", name="build", statuses={"401": 2})
    agent.ask("note_refused", name="build", statuses={"401": 1, "429": 1})
    (hook,) = agent.ask("hooks")
    assert (hook["taken"], hook["eid"], hook["refused"]) == (2, taken["eid"], {"401": 3, "429": 1})
    assert hook["last"] is not None
    with pytest.raises(RequestError, match="there is no webhook 'bild'"):
        agent.ask("note_refused", name="bild", statuses={"401": 1})
    with pytest.raises(RequestError, match="got '200'"):
        agent.ask("note_refused", name="build", statuses={"200": 1})


def test_webhooks_are_listed_and_hot(agent: Agent, tmp_path: Path) -> None:
    (hook,) = agent.ask("hooks")
    never = {"taken": 0, "last": None, "eid": None, "refused": {}}
    limits = {"element": "build", "bytes": 1024, "calls": 3, "sha256": DIGEST}
    assert hook == {"hook": "build", **limits, **never}
    (tmp_path / "etc" / "narval.toml").write_text("")
    agent.ask("reload")
    assert agent.ask("hooks") == []
    with pytest.raises(RequestError, match="there is no webhook 'build'"):
        agent.ask("take_hook", name="build", element=b"<build/>")


def test_one_element_is_added_whose_origin_names_the_webhook(agent: Agent) -> None:
    told = agent.ask("take_hook", name="build", element=b"<build n='1'/>")
    (row,) = agent.ask("memory", xpath="build")
    assert told == {"hook": "build", "eid": row["eid"], "again": False}
    assert row["origin"] == {"run": None, "step": None, "hook": "build", "by": None}


@pytest.mark.parametrize(
    ("xml", "problem"),
    [
        (b"<other/>", "gives <build>, not <other>"),
        (b"<build", "not well-formed|premature|error"),
        (b"<!DOCTYPE a [<!ENTITY e 'x'>]><build>&e;</build>", "DOCTYPE"),
        (b"<memory><build/><build/></memory>", "gives <build>, not <memory>"),
        (b"<plan/>", "what narval calls a run"),
    ],
)
def test_anything_else_is_refused_and_nothing_is_added(agent: Agent, xml: bytes, problem: str) -> None:
    before = agent.ask("count")
    with pytest.raises(ElementError, match=problem):
        agent.ask("take_hook", name="build", element=xml, key="k")
    assert agent.ask("count") == before
    assert not agent.ask("take_hook", name="build", element=b"<build/>", key="k")["again"]


def test_N7_the_schema_of_the_element_is_asked(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "etc" / "schemas").mkdir()
    (tmp_path / "etc" / "schemas" / "build.rng").write_text(SCHEMA)
    agent.ask("reload")
    with pytest.raises(ElementError, match="refused by its schema"):
        agent.ask("take_hook", name="build", element=b"<build/>", key="k")
    assert agent.ask("take_hook", name="build", element=b"<build n='1'/>", key="k")["again"] is False


def test_a_key_is_taken_once_though_it_comes_many_times_at_once(tmp_path: Path) -> None:
    home, told = make(tmp_path, settings=SETTINGS), list[dict[str, object]]()
    with home.running():
        ready = threading.Barrier(AT_ONCE)

        def send() -> None:
            with Client(home.home / "var/control.sock") as client:
                ready.wait(60)
                told.extend(
                    client.ask("take_hook", name="build", element=b"<build/>", key="k") for _ in "123"
                )

        senders = [threading.Thread(target=send) for _ in range(AT_ONCE)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join(60)
    assert [row["again"] for row in told].count(False) == 1
    assert (len(told), len({row["eid"] for row in told})) == (3 * AT_ONCE, 1)


def test_the_latest_keys_are_remembered(agent: Agent) -> None:
    for number in range(KEYS + 1):
        assert not agent.ask("take_hook", name="build", element=b"<build/>", key=f"k {number}")["again"]
    assert agent.ask("take_hook", name="build", element=b"<build/>", key="k 1")["again"]
    assert not agent.ask("take_hook", name="build", element=b"<build/>", key="k 0")["again"]


@pytest.mark.parametrize("key", ["k" * 201, "a\nb", "a\x1b[2J"])
def test_a_key_that_is_none_is_refused(agent: Agent, key: str) -> None:
    with pytest.raises(RequestError, match="expected a key of at most 200 printable"):
        agent.ask("take_hook", name="build", element=b"<build/>", key=key)


def test_a_key_is_taken_once_though_the_daemon_is_killed_in_between(tmp_path: Path) -> None:
    home = make(tmp_path, settings=SETTINGS)
    given = {"name": "build", "element": b"<build/>", "key": "delivery 7"}
    told = []
    for _ in range(3):
        with home.running() as daemon, Client(home.home / "var/control.sock") as client:
            told.append(client.ask("take_hook", **given))
            daemon.kill()
    assert [row["again"] for row in told] == [False, True, True]
    assert len({row["eid"] for row in told}) == 1
