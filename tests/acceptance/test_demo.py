"""`make demo` as its owner sees it: one question before a doubtful answer goes out (P16, P72, P80)."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.home import PATIENCE
from tests.places import ROOT

QUESTION = "Answer otto@example.com: Re: Price list?"


def line(scratch: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "narval.surfaces.cli.demo", "--scratch", str(scratch), *more]


def hears_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def sent(scratch: Path) -> int:
    return len(list((scratch / "var/outbox/new").iterdir()))


def test_P80_without_a_terminal_the_question_stays_open_and_is_listed(tmp_path: Path) -> None:
    scratch = tmp_path / "home"
    pipes = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    done = subprocess.run(line(scratch), **pipes, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    asked = [text for text in done.stdout.splitlines() if text.startswith("You are asked")]
    assert asked == [f"You are asked  {QUESTION}"], "the rules of etc/trust.toml ask nothing"
    page = " ".join((ROOT / "docs/explanation/strangers.md").read_text().split())
    assert "The 50 mails of `make demo`, of ten days, are 36 answers and one question" in page
    assert re.search(r"^ *50 +mails came in", done.stdout, re.MULTILINE)
    for beside in ("1  is a copy of what came before", "1  could not be read"):
        assert beside in done.stdout, "52 files are in the mailbox"
    assert "waits for your answer" in done.stdout
    assert sent(scratch) == 36, "all other answers went out"
    shown = [
        text.split()[1:] for text in done.stdout.splitlines() if text.startswith("  ") and " --home " in text
    ]
    assert [words[2] for words in shown] == ["work", "run"]
    for words in shown:
        typed = subprocess.run(
            [sys.executable, "-m", "narval", *words], capture_output=True, timeout=PATIENCE
        )
        assert typed.returncode == 0, typed.stderr
    assert sent(scratch) == 37, "what was agreed to went out"


@pytest.mark.parametrize(("word", "told", "count"), [("a", "answered", 37), ("reject", "left alone", 36)])
def test_P72_the_owner_answers_by_a_word(tmp_path: Path, word: str, told: str, count: int) -> None:
    scratch = tmp_path / "home"
    parent, child = pty.openpty()
    demo = subprocess.Popen(
        line(scratch, "--pace", "0"),
        stdin=child,
        stdout=child,
        stderr=child,
        preexec_fn=hears_interrupts,  # a shell has what it puts in the background ignore them
    )
    os.close(child)
    shown = ""

    def until(text: str) -> None:
        nonlocal shown
        while text not in shown:
            shown += os.read(parent, 4096).decode()
        shown = shown[shown.index(text) + len(text) :]

    try:
        until(QUESTION)
        until("? ")
        os.write(parent, b"perhaps\n")
        until("expected approve or reject")
        until("? ")
        os.write(parent, f"{word}\n".encode())
        until(f"{told} ")
        assert sent(scratch) == count
        demo.send_signal(signal.SIGINT)
        until("stopped")
    finally:
        demo.kill()
        demo.wait()
        os.close(parent)
