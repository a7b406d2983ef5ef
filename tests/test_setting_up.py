"""Progress while `make demo` and `make test` set up: one line at a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.places import ROOT

TELLING = [sys.executable, str(ROOT / "tests" / "setting_up.py"), "installing"]
TWO_LINES = ["sh", "-c", "echo first; printf '\\033[31mse\\tcond\\n'; sleep 1.2"]


def test_elsewhere_than_at_a_terminal_lines_are_plain() -> None:
    done = subprocess.run([*TELLING, *TWO_LINES], capture_output=True, text=True, check=True)
    first, last = done.stdout.splitlines()
    assert first == "installing …"
    assert last.startswith("installing: ")
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout


def test_at_a_terminal_one_line_is_shown_and_taken_back() -> None:
    ours, theirs = pty.openpty()
    running = subprocess.Popen([*TELLING, *TWO_LINES], stdout=theirs, stderr=theirs)
    os.close(theirs)
    written = b""
    with suppress(OSError):
        while read := os.read(ours, 65536):
            written += read
    os.close(ours)
    assert running.wait() == 0
    *shown, last = written.decode().split("\r\x1b[K")
    assert any(line.endswith("se cond") for line in shown), "colours and control characters are left out"
    assert "\n" not in "".join(shown)
    assert last.startswith("installing: ")


@pytest.mark.parametrize(
    ("program", "status", "said"),
    [(["sh", "-c", "echo no network; exit 3"], 3, "no network"), (["/no/such"], 127, "cannot be run")],
)
def test_what_fails_says_all_it_said(program: list[str], status: int, said: str) -> None:
    done = subprocess.run([*TELLING, *program], capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert said in done.stderr
