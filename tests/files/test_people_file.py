"""People of a home: `etc/people.toml`, read whole, each fault at its place (P15, P16, P73)."""

from __future__ import annotations

import asyncio
import os
from datetime import date
from pathlib import Path

import msgspec
import pytest

from narval.core.definitions.people.directory import Approval, Away, Directory, Person
from narval.core.errors import SettingsError
from narval.core.source.text import Source
from narval.daemon.daemon import Daemon
from narval.files.check import check_home
from narval.files.home import Home
from narval.files.people_file import PEOPLE_FILE, load_people, parse_people
from narval.system.logins import login
from tests.daemon.at_work import Scene

PEOPLE = """
mail_trust = "mx.example.org"

[people.ann]
name  = "Ann Lee"
login = "ann"
mail  = ["ann@example.org"]
chat  = ["xmpp:Ann@example.org", "telegram:12345"]
zone  = "Europe/Paris"
quiet = "22:00-07:00"
roles = ["approver"]
web   = "person"
away  = { from = 2026-12-20, to = 2027-01-05, instead = "ben" }

[people.ben]

[roles.director]
above = ["approver"]

[admin]
roles = ["director"]
people = ["ann"]

[[approval]]
action = "mail.send"
match = "email[not(@kind='ack')]"
work = "home.approve"
"""


def read(text: str) -> Directory:
    directory, faults = parse_people(Source(PEOPLE_FILE, text.encode()))
    assert faults == []
    assert directory is not None
    return directory


def faults_in(text: str) -> list[str]:
    directory, faults = parse_people(Source(PEOPLE_FILE, text.encode()))
    assert directory is None
    return [str(fault).removeprefix(f"{PEOPLE_FILE}:") for fault in faults]


def test_P15_all_of_a_file_is_read() -> None:
    found = read(PEOPLE)
    absence = Away(date(2026, 12, 20), date(2027, 1, 5), "ben")
    chats = ("xmpp:Ann@example.org", "telegram:12345")
    ann = Person("ann", "Ann Lee", "ann", ("ann@example.org",), ("approver",), "person", absence, chats)
    ann = msgspec.structs.replace(ann, zone="Europe/Paris", quiet="22:00-07:00")
    assert found.people == (ann, Person("ben"))
    assert dict(found.above) == {"director": ("approver",)}
    assert (found.admin_people, found.admin_roles) == (("ann",), ("director",))
    assert found.mail_trust == "mx.example.org"
    assert read('ways = ["chat"]').ways == ("chat",)
    assert read("") == Directory()


def test_C2_a_person_is_known_by_a_chat() -> None:
    people = read(PEOPLE)
    for address in ("xmpp:ann@example.org", "xmpp:ANN@Example.org/phone", "telegram:12345"):
        person = people.by_chat(address)
        assert person is not None
        assert person.name == "ann"
    for address in ("ann@example.org", "telegram:1234", "xmpp:an\u017f@example.org", "matrix:12345", ""):
        assert people.by_chat(address) is None


def test_P73_the_rules_of_a_home_are_read() -> None:
    (rule,) = read(PEOPLE).approvals
    assert rule == Approval("mail.send", "home.approve", "email[not(@kind='ack')]")
    assert rule.condition is not None
    assert rule.condition.text == rule.match
    assert read("approval = []").approvals == ()


NAMED = "of a to z, digits and -, at most 32, that begins with a letter"
SUCH = "such as ann@example.org, found"
IN = "people.ann"
AT_A_CHAT = "an address with its kind, such as xmpp:ann@example.org"
SHARED = "is that of a already; two people cannot share it"


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("[people.ann]\nlogn = 1", ["2:1: unknown setting 'people.ann.logn'; did you mean 'login'?"]),
        ("peple = 1", ["1:1: unknown setting 'peple'; did you mean 'people'?"]),
        ("ways = ['letter']", ["1:9: ways: expected terminal, web, file, mail or chat, found 'letter'"]),
        ("people = 1", ["1:10: expected tables, such as [people.ann]"]),
        ("[people]\nann = 1", ["2:7: people.ann: expected a table, [people.ann], found 1"]),
        ("[people.Ann]", [f"1:9: people.Ann: expected a name {NAMED}"]),
        ("[people.ann]\nlogin = ''", ["2:9: people.ann.login: expected a text, found ''"]),
        ("[people.ann]\nmail = 'x@y'", [f"2:8: {IN}.mail: expected a list of addresses, {SUCH} 'x@y'"]),
        ("[people.ann]\nmail = ['x@y', 'x']", [f"2:16: {IN}.mail: expected an address, {SUCH} 'x'"]),
        ("[people.ann]\nchat = ['xmmp:a@b']", [f"2:9: {IN}.chat: expected {AT_A_CHAT}, found 'xmmp:a@b'"]),
        (
            "[people.ann]\nzone = 'Paris'",
            [f"2:8: {IN}.zone: expected the name of a time zone, such as Europe/Paris or UTC, found 'Paris'"],
        ),
        (
            "[people.ann]\nquiet = '22-24'",
            ["2:9: people.ann.quiet: expected hours, such as \"22:00-07:00\", found '22-24'"],
        ),
        (
            "[people.ann]\nquiet = '08:00-08:00'",
            ["2:9: people.ann.quiet: expected hours, such as \"22:00-07:00\", found '08:00-08:00'"],
        ),
        (
            "[people.a]\nchat = ['xmpp:A@b']\n[people.b]\nchat = ['xmpp:a@b']",
            [f"4:9: xmpp:a@b {SHARED}"],
        ),
        ("[people.ann]\nroles = ['A']", [f"2:10: people.ann.roles: expected a name {NAMED}, found 'A'"]),
        ("[people.ann]\nweb = 'boss'", [f"2:7: {IN}.web: expected reader, person or operator, found 'boss'"]),
        (
            "[people.ann]\naway = { from = 3 }",
            [f"2:17: {IN}.away.from: expected a day, such as 2026-12-20, found 3"],
        ),
        (
            "[people.ann]\naway = { from = 2026-12-20, to = 2026-12-19 }",
            ["2:34: expected a day not before 2026-12-20, found 2026-12-19"],
        ),
        ("[people.ann]\naway = { instead = 'bob' }", ["2:20: no person is called 'bob'; there is 'ann'"]),
        (
            "[people.a]\nlogin = 'x'\nmail = ['a@b']\n[people.b]\nlogin = 'x'\nmail = ['A@B']",
            [f"5:9: x {SHARED}", f"6:9: a@b {SHARED}"],
        ),
        (
            "[people.a]\naway = { instead = 'b' }\n[people.b]\n[people.b.away]\ninstead = 'a'",
            ["2:20: goes in a circle: a → b → a", "5:11: goes in a circle: b → a → b"],
        ),
        ("[people.a]\naway.instead = 'a'", ["2:16: goes in a circle: a → a"]),
        (
            "[roles.a]\nabove = ['b', 'c']\n[roles.c]\nabove = ['a']",
            ["2:9: goes in a circle: a → c → a", "4:9: goes in a circle: c → a → c"],
        ),
        ("[admin]\npeople = ['ann']", ["2:11: no person is called 'ann'"]),
        ("admin = 3", ["1:9: admin: expected a table, [admin], found 3"]),
        ("[approval]\naction = 'a.b'", ["1:2: approval: expected tables, each begun by [[approval]]"]),
        (
            "[[approval]]\nmatch = 'a['",
            [
                '1:3: approval needs action, such as action = "mail.send"',
                '1:3: approval needs work, such as work = "home.approve"',
                "2:9: approval.match: expected an XPath that narval can try "
                "(expected an expression, found the end), found 'a['",
            ],
        ),
        (
            "[[approval]]\naction = 'a.b'\nwork = 'w.a'\nmatch = 'a[. = $x]'",
            ["4:9: approval.match: expected no variable $x (none is there), found 'a[. = $x]'"],
        ),
        ("x = [", ["1:6: not TOML: Invalid value"]),
    ],
)  # fmt: skip
def test_P15_each_fault_has_its_place(text: str, faults: list[str]) -> None:
    assert faults_in(text) == faults


def test_P16_without_a_file_the_user_of_the_home_is_the_only_person(tmp_path: Path) -> None:
    assert load_people(tmp_path) == load_people(None) == Directory.of_owner(login(os.getuid()))


def test_P15_a_faulty_file_is_told_by_check_and_keeps_a_daemon_from_starting(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    (tmp_path / PEOPLE_FILE).write_text("[people.Ann]\nlogn = 1\n")
    told = [str(fault) for fault in check_home(Home(tmp_path))]
    assert [line.split(": ")[0] for line in told] == [f"{PEOPLE_FILE}:1:9", f"{PEOPLE_FILE}:2:1"]
    with pytest.raises(SettingsError, match=f"{PEOPLE_FILE}:2:1: unknown setting"):
        asyncio.run(scene.open())


def test_P15_the_file_is_hot_and_its_last_good_version_stays(tmp_path: Path) -> None:
    scene, file = Scene(tmp_path), tmp_path / PEOPLE_FILE

    async def changes(daemon: Daemon) -> None:
        assert daemon.agent.lookup.people.owner == login(os.getuid())
        file.write_text("[people.ann]\nroles = ['approver']\n")
        assert await daemon.reloader.reload()
        good = daemon.agent.lookup.people
        assert good.holders("approver") == ("ann",)
        file.write_text("[people.ann]\nroles = 3\n")
        assert await daemon.reloader.reload()
        assert daemon.agent.lookup.people is good is daemon.files.snapshot.people
        assert [fault.path for fault in daemon.files.faults] == [PEOPLE_FILE]
        file.write_text("[people.ben]\n")
        assert await daemon.reloader.reload()
        assert [person.name for person in daemon.files.snapshot.people.people] == ["ben"]
        assert daemon.files.faults == []
        file.unlink()
        assert await daemon.reloader.reload()
        assert [person.name for person in daemon.agent.lookup.people.people] == ["ben"]
        assert [fault.path for fault in daemon.files.faults] == [PEOPLE_FILE]

    async def at_work() -> None:
        await changes(await scene.open())
        await scene.end()

    asyncio.run(at_work())
