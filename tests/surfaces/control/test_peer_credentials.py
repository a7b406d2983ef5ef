"""Whose program asks: that of a call, one that the daemon keeps beside it, or a person's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from narval.surfaces.control import peer_credentials
from narval.surfaces.control.peer_credentials import UNTOLD, call_of, peer_call
from narval.surfaces.control.server import listener_at
from narval.surfaces.control.task_handle import CALL

SAYS = "echo $$; read line"
"""A program that says its process id, and ends with its input."""


@contextmanager
def program(script: str, *words: str, **environment: str) -> Iterator[list[int]]:
    """A program of this one: its process id, and the one that it says."""
    started = ["/bin/sh", "-c", script, "sh", *words]
    pipe, environment = subprocess.PIPE, {"PATH": os.environ["PATH"], **environment}
    with subprocess.Popen(started, stdin=pipe, stdout=pipe, env=environment) as one:
        assert one.stdout is not None
        yield [one.pid, int(one.stdout.readline())]
        one.communicate(b"\n")


def test_a_program_of_the_daemon_answers_a_call_unless_the_daemon_keeps_it_beside_itself() -> None:
    daemon = os.getpid()
    with program(f"/bin/sh -c '{SAYS}'; true", "--kept") as (first, other):
        assert other != first
        assert [call_of(one, daemon) for one in (first, other)] == [UNTOLD, UNTOLD], "it may say anything"
        assert [call_of(one, daemon, {first}) for one in (first, other)] == ["", ""]
        assert call_of(first) == "", "not every program of a person's is a call's"


def test_a_program_without_the_environment_of_its_call_is_known_by_those_that_started_it() -> None:
    with program(f"env -i /bin/sh -c '{SAYS}'; true", **{CALL: "a.7"}) as (first, bare):
        assert [call_of(one, os.getpid()) for one in (first, bare)] == ["a.7", "a.7"]


def test_a_program_that_has_ended_before_it_is_looked_at_is_no_persons(tmp_path: Path) -> None:
    says = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    with closing(listener_at(tmp_path / "socket")) as listener:
        subprocess.run([sys.executable, "-c", says, str(tmp_path / "socket")], check=True)
        with closing(listener.accept()[0]) as connection:
            assert peer_call(connection, os.getpid()) == UNTOLD


def test_one_of_whose_lineage_a_part_is_missing_is_no_persons(monkeypatch: pytest.MonkeyPatch) -> None:
    with program(f"/bin/sh -c '{SAYS}'; true") as (first, other):
        assert call_of(other) == ""
        monkeypatch.setattr(peer_credentials, "_MOST_ANCESTORS", 1)
        assert call_of(other) == UNTOLD, "it has hidden behind many"
        monkeypatch.undo()
        read = peer_credentials._read
        monkeypatch.setattr(
            peer_credentials, "_read", lambda one, name: read(one, name) if one == other else b""
        )
        assert call_of(other) == "", "the system hides it, as that of another user"
        monkeypatch.setattr(peer_credentials, "_has_ended", lambda one: one == first)
        assert call_of(other) == UNTOLD
