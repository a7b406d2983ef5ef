"""A program whose automaton says what it reaches, and in a home that asks any program of an automaton that
came by a collection, is started so that it reaches nothing else.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

import pytest

import narval
from narval.surfaces.python.agent import Agent
from narval.system.confinement import abi

PYTHON = os.path.realpath(sys.executable)
PROGRAMS = f"program cat; program {PYTHON}; program ls; program touch; folder {sys.base_prefix} r"

SAYS = """<AUTOMATON group="a" name="says" reaches="folder data rw; folder {outside}/read r;
    host 127.0.0.1:{port}; secret GIVEN; {programs}">
  <STATE name="start" command="sh"><env name="TRY" select="@try"><match>attempt</match></env>
    eval "$TRY"</STATE>
</AUTOMATON>"""
LIMITS = SAYS.replace('name="says"', 'name="limits"').replace('command="sh"', 'command="sh" cpu="60"')
ELSEWHERE = SAYS.replace('name="says"', 'name="elsewhere" directory="data"')
SILENT = """<AUTOMATON group="a" name="silent">
  <STATE name="start" command="sh"><env name="TRY" select="@try"><match>attempt</match></env>
    eval "$TRY"</STATE>
</AUTOMATON>"""
OWN = SILENT.replace('name="silent"', 'name="own"')
THREAD = """
from narval import Needs, action

@action(needs=Needs())
def look():
    return []
"""

pytestmark = pytest.mark.skipif(not abi(), reason="this kernel has no Landlock")


class Place(NamedTuple):
    """A home that asks, with automata of its own and of a collection, and what is outside of it."""

    agent: Agent
    home: Path
    outside: Path
    port: int

    def attempt(self, script: str, name: str = "a.says") -> str:
        """`done`, or `failed`, of a script that is the only program of a run."""
        words = {
            "OUTSIDE": str(self.outside),
            "HOME": str(self.home),
            "PYTHON": PYTHON,
            "PORT": str(self.port),
        }
        for word, text in words.items():
            script = script.replace(word, text)
        run = self.agent.start(name, f"<attempt try={quoteattr(script)}/>")
        self.agent.until_idle()
        return str(self.agent.ask("show", run=run)["state"])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("programs")
    home, outside = folder / "home", folder / "outside"
    for path in ("data", "recipes", "collections/far/recipes", "collections/far/modules", "etc"):
        (home / path).mkdir(parents=True)
    (outside / "read").mkdir(parents=True)
    (outside / "secret").write_text("private")
    (outside / "read/this").write_text("open")
    (home / "etc/narval.toml").write_text('grants = "ask"\n[agent]\ncollections = ["home", "far"]\n')
    (home / "etc/GIVEN").write_text("a secret in a file")
    (home / "collections/far/recipes/silent.xml").write_text(SILENT)
    (home / "collections/far/modules/far.py").write_text(THREAD)
    (home / "recipes/own.xml").write_text(OWN)
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.MonkeyPatch.context() as patch:
        port = server.getsockname()[1]
        for name, text in {"says": SAYS, "limits": LIMITS, "elsewhere": ELSEWHERE}.items():
            filled = text.replace("{outside}", str(outside)).replace("{port}", str(port))
            (home / f"recipes/{name}.xml").write_text(filled.replace("{programs}", PROGRAMS))
        patch.setenv("GIVEN", "a secret that it says")
        patch.setenv("NOT_GIVEN", "another secret")
        with narval.open(home) as agent:
            agent.ask("grant", all=True)
            yield Place(agent, home, outside, port)


CONNECTS = "PYTHON -c 'import socket; socket.create_connection((\"127.0.0.1\", PORT), 5)'"
REACHED = [
    "cat OUTSIDE/read/this",
    "cat HOME/etc/GIVEN",
    "echo x >HOME/data/new; cat HOME/data/new",
    "touch HOME/data/touched",
    '[ "$GIVEN" = "a secret that it says" ]',
    '[ -z "$NOT_GIVEN" ]',
    '[ "$NARVAL_STATE" = start ]',
    CONNECTS,
    "ls HOME/data",
]


@pytest.mark.parametrize("name", ["a.says", "a.limits", "a.elsewhere"])
def test_a_program_reaches_what_its_automaton_says(place: Place, name: str) -> None:
    assert place.attempt(" && ".join(f"{{ {script}; }}" for script in REACHED), name) == "done"


OUT_OF_REACH = [
    "cat OUTSIDE/secret",
    "cat HOME/etc/narval.toml",
    "cat HOME/data/../etc/narval.toml",
    "echo x >OUTSIDE/read/this",
    "echo x >HOME/recipes/new.xml",
    "cat /etc/passwd",
    "sleep 0",
    "ls /",
    "cat /proc/1/environ",
    "cat /proc/$PPID/environ",
    "PYTHON -c 'open(\"OUTSIDE/secret\")'",
    "kill -0 $PPID",
    CONNECTS.replace("PORT", "1"),
    "PYTHON -c 'import socket; socket.socket(socket.AF_UNIX)'",
]


def refused(scripts: list[str]) -> str:
    """A script that ends well if each of these is refused."""
    tries = (f"( {script} ) && {{ echo reached {quote(script)}; exit 1; }}" for script in scripts)
    return "; ".join((*tries, "true"))


@pytest.mark.parametrize("name", ["a.says", "a.limits"])
def test_a_program_reaches_nothing_else(place: Place, name: str) -> None:
    assert place.attempt(refused(OUT_OF_REACH), name) == "done"
    assert (place.outside / "secret").read_text() == "private"
    assert (place.outside / "read/this").read_text() == "open"


def test_a_program_of_a_collection_that_says_nothing_reaches_nothing(place: Place) -> None:
    scripts = ["cat OUTSIDE/read/this", "echo x >HOME/data/no", "ls /", "read line </etc/passwd", CONNECTS]
    assert place.attempt(refused(scripts), "a.silent") == "done"
    assert place.attempt("ls", "a.silent") == "failed"
    assert place.attempt(scripts[0], "a.own") == "done"


def test_a_program_of_the_owner_that_says_nothing_is_not_confined(place: Place) -> None:
    assert place.attempt("cat OUTSIDE/secret && ls /", "a.own") == "done"


def test_what_a_program_reaches_is_granted_and_told(place: Place) -> None:
    (row,) = place.agent.ask("grants", name="a.says")["definitions"]
    outside = {need["need"] for need in row["needs"] if need["outside"]}
    assert outside == {
        "program sh", "program cat", f"program {PYTHON}", "program ls", "program touch",
        f"folder {sys.base_prefix} r", f"folder {place.outside}/read r", f"host 127.0.0.1:{place.port}",
        "secret GIVEN",
    }  # fmt: skip
    assert {need["need"] for need in row["needs"] if not need["outside"]} == {"folder data rw"}


def test_what_is_not_confined_is_told(place: Place) -> None:
    assert place.agent.ask("status")["grants"]["not_confined"] == {"threads": ["far.look"]}
    assert place.agent.ask("grants")["not_confined"] == {"threads": ["far.look"]}


def test_a_home_that_trusts_confines_what_says_what_it_reaches(tmp_path: Path) -> None:
    for path, text in {
        "recipes/own.xml": OWN.replace('name="own"', 'name="own" reaches="program cat"'),
        "collections/far/recipes/silent.xml": SILENT,
        "etc/narval.toml": '[agent]\ncollections = ["home", "far"]\n',
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    with narval.open(tmp_path) as agent:
        here = Place(agent, tmp_path, tmp_path, 0)
        assert here.attempt("cat HOME/etc/narval.toml", "a.own") == "failed"
        assert here.attempt("cat HOME/etc/narval.toml", "a.silent") == "done"
        assert agent.ask("status")["grants"]["not_confined"] == {"programs": ["a.silent"]}
