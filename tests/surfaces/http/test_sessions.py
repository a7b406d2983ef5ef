"""Login links and sessions in their file (M65)."""

from __future__ import annotations

import re
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from narval.surfaces.http.sessions import IDLE, LINK, NOTED, WHOLE, Sessions, form_token, own_person


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(tmp_path: Path, clock: Clock) -> Sessions:
    return Sessions(tmp_path / "web", clock)


def test_M65_a_link_lets_in_once(sessions: Sessions) -> None:
    token = sessions.new_link("ann")
    assert re.fullmatch(r"[\w-]{22}", token)  # 128 bits
    link = sessions.link(token)
    assert link is not None
    assert link.person == "ann"
    secret = sessions.log_in(token, "ann", "operator")
    assert secret is not None
    assert sessions.log_in(token, "ann", "operator") is None
    assert sessions.link(token) is None
    found = sessions.find(secret)
    assert found is not None
    assert (found.number, found.person, found.role) == (1, "ann", "operator")


def test_M65_a_link_holds_ten_minutes(sessions: Sessions, clock: Clock) -> None:
    token = sessions.new_link("ann")
    clock.now += LINK - 1
    assert sessions.link(token) is not None
    clock.now += 1
    assert sessions.link(token) is None
    assert sessions.log_in(token, "ann", "operator") is None


def test_M65_a_session_ends_when_idle_and_after_a_week(sessions: Sessions, clock: Clock) -> None:
    secret = sessions.log_in(sessions.new_link("ann"), "ann", "operator") or ""
    clock.now += IDLE - 1
    assert sessions.find(secret) is not None
    clock.now += IDLE - 1
    assert sessions.find(secret) is not None  # it was in use meanwhile
    clock.now += IDLE
    assert sessions.find(secret) is None
    secret, begun = sessions.log_in(sessions.new_link("ann"), "ann", "operator") or "", clock.now
    while clock.now < begun + WHOLE:
        assert sessions.find(secret) is not None
        clock.now += IDLE / 2
    assert sessions.find(secret) is None
    assert sessions.listed() == []


def test_M65_only_hashes_are_kept_for_the_user_alone(sessions: Sessions, tmp_path: Path) -> None:
    token = sessions.new_link("ann")
    unused = sessions.new_link("ben")
    secret = sessions.log_in(token, "ann", "operator") or ""
    files = [path for path in (tmp_path / "web").iterdir() if path.is_file()]
    for path in files:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        for told in (token, unused, secret, form_token(secret)):
            assert told.encode() not in path.read_bytes()
    assert stat.S_IMODE((tmp_path / "web").stat().st_mode) == 0o700


def test_M65_a_request_does_not_write_each_time(sessions: Sessions, clock: Clock, tmp_path: Path) -> None:
    secret = sessions.log_in(sessions.new_link("ann"), "ann", "operator") or ""
    before = (tmp_path / "web" / "sessions.json").stat().st_ino
    clock.now += NOTED
    sessions.find(secret)
    assert (tmp_path / "web" / "sessions.json").stat().st_ino == before
    clock.now += 1
    sessions.find(secret)
    assert sessions.listed()[0].seen == clock.now


def test_M65_several_programs_alter_the_file_at_once(tmp_path: Path) -> None:
    def program(number: int) -> list[str]:
        own = Sessions(tmp_path / "web")
        made = [own.new_link(f"p{number}") for _ in range(10)]
        return [own.log_in(token, f"p{number}", "reader") or "" for token in made]

    with ThreadPoolExecutor(8) as pool:
        secrets = [secret for some in pool.map(program, range(8)) for secret in some]
    found = Sessions(tmp_path / "web").listed()
    assert sorted(one.number for one in found) == list(range(1, 81))
    beside = Sessions(tmp_path / "web")
    assert {one.person for secret in secrets if (one := beside.find(secret))} == {f"p{n}" for n in range(8)}
    assert beside.end(1)
    assert not beside.end(1)
    assert len(Sessions(tmp_path / "web").listed()) == 79


@pytest.mark.parametrize("damage", [b"", b"{", b'{"sessions": 7}', b"\xff\xfe"])
def test_M65_a_damaged_file_lets_nobody_in(sessions: Sessions, tmp_path: Path, damage: bytes) -> None:
    secret = sessions.log_in(sessions.new_link("ann"), "ann", "operator") or ""
    (tmp_path / "web" / "sessions.json").write_bytes(damage)
    assert sessions.find(secret) is None
    again = sessions.log_in(sessions.new_link("ann"), "ann", "operator") or ""
    assert sessions.find(again) is not None


def test_M68_the_token_of_forms_is_of_the_session_and_not_its_secret() -> None:
    assert form_token("a") != form_token("b")
    assert "a-secret" not in form_token("a-secret")


def test_M65_a_link_without_a_name_is_for_who_has_the_login() -> None:
    two = [{"person": "ann", "login": "a"}, {"person": "ben", "login": "b"}]
    assert own_person(two, "b") == "ben"
    assert own_person(two, "root") is None
    assert own_person(two[:1], "root") == "ann"  # the owner, for whoever may use the home
