"""Whose program asks: that of a call, one that the daemon keeps beside it, or a person's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from narval.surfaces.control.peer_credentials import UNTOLD, call_of
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
