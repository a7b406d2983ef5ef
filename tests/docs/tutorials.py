"""A reader of tutorials: saves their files and types their commands, in the order of the page."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from narval.system.logins import login
from tests.docs.test_cli_page import Reader
from tests.docs.typed import Numbers, blocks, commands, give_python, steady, with_grants
from tests.ports import free_port

LOOKS = ("narval", "cat", "ls")
ALTERS = ("add", "start", "run", "init", "stop", "take", "kill", "answer", "signal", "outdate", "put")
PATIENCE = 60.0
PORT = "8095"
"""The port that pages name; a free one stands for it."""


class Typist(Reader):
    """Does what a tutorial says; the numbers of its page each stand for one here."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        give_python(self)
        self._numbers = Numbers()
        self._port = str(free_port())

    def types(self, command: str, shown: str) -> str:
        """Type a command; what differs from what is shown, or "".

        A look is taken again for a while: a person takes longer to type than a daemon to act.
        """
        if stale := self._numbers.stale_in(command):
            return f"$ {command}\n{stale}"
        until = time.monotonic() + PATIENCE
        while True:
            written = self.does(command.replace(PORT, self._port))
            written = written.replace(str(self.folder), "/home/ann").replace(self._port, PORT)
            written = re.sub(rf"\b{login(os.geteuid())}\b", "ann", written)
            if self._numbers.agree(steady(shown), steady(written)):
                return ""
            if not is_look(command) or time.monotonic() > until:
                return f"$ {command}\n{written}\ninstead of\n{shown}"
            time.sleep(0.2)

    def saves(self, title: str, text: str) -> None:
        """Save a file; where a daemon is running, go on once it has taken that up."""
        loaded = self.does("narval definitions --json") if self.background else ""
        file = self.folder / title.removeprefix("~/")
        file.parent.mkdir(parents=True, exist_ok=True)
        is_definition = file.parent.name in ("recipes", "modules")
        text = text.replace('login = "ann"', f'login = "{login(os.geteuid())}"')
        file.write_text(with_grants(file, text.replace(PORT, self._port)), encoding="utf-8")
        until = time.monotonic() + PATIENCE
        while loaded and is_definition and time.monotonic() < until:
            if self.does("narval definitions --json") != loaded:
                break
            time.sleep(0.1)


def is_look(command: str) -> bool:
    """True if a command alters nothing, so that it may be given again."""
    words = command.split()
    return words[0] in LOOKS and not set(words) & set(ALTERS) and ">" not in command


def differences(reader: Typist, page: Path) -> Iterator[str]:
    """Follow a page to its end; what differs from it."""
    for language, title, text in blocks(page):
        if title:
            reader.saves(title, text)
        elif language == "console":
            for command, shown in commands(text):
                if differs := reader.types(command, shown):
                    yield differs
