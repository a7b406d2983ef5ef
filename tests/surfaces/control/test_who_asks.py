"""Who asks at the socket: a user of the system, an agent that is meant, fewer scopes, another's name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from narval.ask.asker import SCOPES
from narval.core.errors import RequestError
from narval.surfaces.control import wire
from narval.surfaces.control.client import Client
from narval.system.logins import login
from tests.surfaces.control.served import raw, read, request, serving


def asked(number: int, method: str, asking: dict[str, Any]) -> bytes:
    return wire.frame(wire.REQUEST, number, method, {}, asking)


def test_P45_the_system_tells_who_asks(folder: Path) -> None:
    with serving(folder) as (daemon, path), Client(path) as client, Client(path) as other:
        client.ask("echo")
        client.ask("echo")
        other.ask("echo")
        first, again, second = daemon.fake.askers
    assert (first.person, first.uid, first.way) == (login(os.geteuid()), os.geteuid(), "socket")
    assert (first.actor, first.agent, first.scopes) == ("", "", SCOPES)
    assert first.session == again.session != second.session


def test_P45_a_user_without_a_login_is_a_number(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = 4_000_000_001
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    with serving(folder, uid_of=lambda connection: stranger) as (daemon, path), Client(path) as client:
        client.ask("echo")
        assert daemon.fake.askers[0].person == str(stranger)


def test_G21_a_client_of_protocol_1_asks_the_homes_own_agent(folder: Path) -> None:
    with serving(folder) as (daemon, path):
        connection = raw(path)
        connection.sendall(wire.frame(0, 1, "echo", {"a": 1}))
        assert read(connection) == [wire.REPLY, 1, None, {"a": 1}]
        connection.sendall(asked(2, "echo", {"agent": "bob"}) + request(3, "echo"))
        assert {read(connection)[1], read(connection)[1]} == {2, 3}
        connection.close()
    assert [asker.agent for asker in daemon.fake.askers] == ["", "bob", ""]


def test_P39_one_request_is_in_anothers_name_and_the_next_is_not(folder: Path) -> None:
    own = login(os.geteuid())
    with serving(folder) as (daemon, path):
        connection = raw(path)
        connection.sendall(
            asked(1, "echo", {"as": "bob"}) + request(2, "echo") + asked(3, "echo", {"as": own})
        )
        assert {read(connection)[2] for _ in range(3)} == {None}
        connection.close()
        with Client(path, acting_as="bob") as client:
            client.ask("echo")
    askers = [(asker.person, asker.actor) for asker in daemon.fake.askers]
    assert askers == [("bob", own), (own, ""), (own, ""), ("bob", own)]


@pytest.mark.parametrize("name", [" ann", "a\x1b[2J", "x" * 65, "x" * 1_000_000])
def test_P39_a_name_that_is_none_is_refused_and_nothing_is_done(folder: Path, name: str) -> None:
    with serving(folder) as (daemon, path), Client(path, acting_as=name) as client:
        with pytest.raises(RequestError, match=r"^expected the name of a person.{1,200}$"):
            client.ask("echo")
        assert daemon.fake.askers == []


def test_P39_who_is_neither_owner_nor_root_cannot_act_in_anothers_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger, owner = os.geteuid() + 1234, os.geteuid() + 4321
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    with serving(folder, uid_of=lambda connection: stranger) as (daemon, path):
        with Client(path, acting_as="bob") as client:
            client.ask("echo")
            monkeypatch.setattr(os, "geteuid", lambda: owner)
            with pytest.raises(RequestError, match=f"only {owner}, whose home this is, .* not {stranger}"):
                client.ask("echo")
        assert len(daemon.fake.askers) == 1


def test_M67_who_has_logged_in_to_the_monitor_acts_themselves_in_a_session(folder: Path) -> None:
    own = login(os.geteuid())
    with serving(folder) as (daemon, path):
        for name in ("bob", own):
            with Client(path, acting_as=name, session="7") as client:
                client.ask("echo")
    told = [(asker.person, asker.actor, asker.way, asker.session) for asker in daemon.fake.askers]
    assert told == [("bob", "", "web", "7"), (own, "", "web", "7")]


@pytest.mark.parametrize("session", [" 7", "a\x1b[2J", "7" * 65])
def test_M67_a_session_that_cannot_be_shown_is_refused_and_nothing_is_done(
    folder: Path, session: str
) -> None:
    with serving(folder) as (daemon, path), Client(path, acting_as="bob", session=session) as client:
        with pytest.raises(RequestError, match=r"^expected the number of a session"):
            client.ask("echo")
        assert daemon.fake.askers == []


def test_M67_who_is_neither_owner_nor_root_has_no_session(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger, owner = os.geteuid() + 1234, os.geteuid() + 4321
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    with (
        serving(folder, uid_of=lambda connection: stranger) as (daemon, path),
        Client(path, acting_as="bob", session="7") as client,
    ):
        client.ask("echo")
        monkeypatch.setattr(os, "geteuid", lambda: owner)
        with pytest.raises(RequestError, match=f"only {owner}, whose home this is"):
            client.ask("echo")
        assert len(daemon.fake.askers) == 1


def test_M7_a_connection_lays_down_what_it_does_not_need_once(folder: Path) -> None:
    with serving(folder) as (daemon, path), Client(path) as client, Client(path) as other:
        assert client.ask("limit", scope="read") == {"scopes": ["read"]}
        for scope in ("read", "write"):
            with pytest.raises(RequestError, match="this connection is limited already, to read"):
                client.ask("limit", scope=scope)
        client.ask("echo")
        other.ask("echo")
    assert [asker.scopes for asker in daemon.fake.askers] == [{"read"}, SCOPES]


@pytest.mark.parametrize("given", [{}, {"scope": "all"}, {"scope": ["read"]}, {"scope": "read", "more": 1}])
def test_M7_what_is_no_scope_is_refused_and_limits_nothing(folder: Path, given: dict[str, Any]) -> None:
    with serving(folder) as (daemon, path), Client(path) as client:
        with pytest.raises(RequestError, match="limit takes a scope, one of read, write, people, got"):
            client.ask("limit", **given)
        client.ask("echo")
        assert daemon.fake.askers[0].scopes == SCOPES
