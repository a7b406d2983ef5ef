"""Code that declares what it needs, and is not the owner's own, reaches nothing else: by the kernel where it
can, by an audit hook else.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import narval
from narval.calls import confining
from narval.surfaces.python.agent import Agent
from narval.system.confinement import abi, can_filter

MODULE = """
import ctypes, os, resource, socket, subprocess, sys
from narval import Input, Needs, Output, action, call

TAKES = [Input("attempt", "attempt[@way]")]
NEEDS = Needs(
    hosts=["127.0.0.1:{port}"], folders=["data rw", "{outside}/read r"], programs=["true"], secrets=["GIVEN"]
)

@action(runs="worker", needs=NEEDS, inputs=TAKES, outputs=[Output("did", "did")])
def attempt(**given):
    way, path = given["attempt"].attributes["way"], given["attempt"].attributes.get("path", "")
    home = str(call().home)
    done = str(WAYS[way](path.replace("HOME", home)))
    return f"<did>{{done.replace('<', '(')}}</did>"

@action(runs="worker", needs=Needs(), inputs=TAKES, outputs=[Output("did", "did")])
def nothing(**given):
    return attempt(**given)

def libc(path):
    file = ctypes.CDLL(None, use_errno=True).open(path.encode(), 0)
    if file < 0:
        raise OSError(ctypes.get_errno(), "open")
    return file

def connected(path):
    port = int(path)
    with socket.create_connection(("127.0.0.1", port), 5):
        return "connected"

def by_number(path):
    made = ctypes.CDLL(None, use_errno=True).socket(int(path), 1, 0)
    if made < 0:
        raise OSError(ctypes.get_errno(), "socket")
    return made

def forked(path):
    child = os.fork()
    if not child:
        try:
            open(path).read()
            os._exit(0)
        except BaseException:
            os._exit(7)
    if os.waitpid(child, 0)[1]:
        raise PermissionError("the child was refused")

def opener(path):
    return subprocess.run([path], check=True, capture_output=True).returncode

WAYS = {{
    "read": lambda path: len(open(path).read()),
    "write": lambda path: open(path, "w").write("x"),
    "list": os.listdir,
    "remove": os.remove,
    "rename": lambda path: os.rename(path, path + ".moved"),
    "link": lambda path: os.link(path, path + ".link"),
    "run": opener,
    "system": lambda path: 1 / (not os.system(path)),
    "fork": forked,
    "connect": connected,
    "by-address": lambda path: socket.socket().connect((path, {port})) or "connected",
    "unix": lambda path: socket.socket(socket.AF_UNIX).connect(path),
    "udp": lambda path: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9)),
    "bind": lambda path: socket.socket().bind(("127.0.0.1", 0)),
    "libc": libc,
    "libc-socket": by_number,
    "mode": lambda path: os.chmod(path, 0o644),
    "times": lambda path: os.utime(path, (1, 1)),
    "limits": lambda path: resource.prlimit(os.getppid(), resource.RLIMIT_CORE),
    "priority": lambda path: os.setpriority(os.PRIO_USER, 0, os.getpriority(os.PRIO_PROCESS, 0)),
    "own-priority": lambda path: os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0)),
    "kill": lambda path: os.kill(os.getppid(), 0) or os.kill(int(path), 0),
    "environment": lambda path: os.environ.get(path, "none"),
    "import": lambda path: __import__(path).__name__,
}}
"""
RECIPES = """<cookbook group="t">
  <recipe group="t" name="some" start_step="w" end_step="w">
    <step id="w" type="action" target="far.attempt"/></recipe>
  <recipe group="t" name="none" start_step="w" end_step="w">
    <step id="w" type="action" target="far.nothing"/></recipe>
</cookbook>"""

KERNEL, HOOK = "kernel", "hook"


class Far(NamedTuple):
    """A home that follows a collection of somebody else, and what is outside of it."""

    agent: Agent
    home: Path
    outside: Path
    port: int
    held_by: str

    def attempt(self, way: str, path: object = "", recipe: str = "t.some") -> str:
        """The result of an action that tries something; "refused: …" if it must not."""
        before = {element.eid for element in self.agent.memory("did | error")}
        self.agent.start(recipe, f"<attempt way='{way}' path='{path}'/>")
        self.agent.until_idle()
        (made,) = [element for element in self.agent.memory("did | error") if element.eid not in before]
        text = made.text
        is_refused = made.name == "error" and any(word in text for word in REFUSALS)
        return f"refused: {text}" if is_refused else f"{made.name}: {text}"


REFUSALS = ("[Errno 13]", "[Errno 1]", "the child was refused", "division by zero")


@pytest.fixture(scope="module", params=[KERNEL, HOOK])
def far(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    if request.param == KERNEL and not abi():
        pytest.skip("this kernel has no Landlock")
    folder = tmp_path_factory.mktemp(request.param)
    home, outside = folder / "home", folder / "outside"
    for path in ("data", "recipes", "collections/far/modules", "etc"):
        (home / path).mkdir(parents=True)
    (outside / "read").mkdir(parents=True)
    (outside / "secret").write_text("private")
    (outside / "read/this").write_text("open")
    (home / "etc/narval.toml").write_text('[agent]\ncollections = ["home", "far"]\n')
    (home / "recipes/t.xml").write_text(RECIPES)
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.MonkeyPatch.context() as patch:
        port = server.getsockname()[1]
        module = MODULE.format(port=port, outside=outside)
        (home / "collections/far/modules/far.py").write_text(module)
        patch.setenv("GIVEN", "a secret that is granted")
        patch.setenv("NOT_GIVEN", "another secret")
        if request.param == HOOK:
            patch.setattr(confining, "abi", lambda: 0)
        with narval.open(home) as agent:
            yield Far(agent, home, outside, port, request.param)


def test_it_reaches_what_it_declares(far: Far) -> None:
    for way, path, result in [
        ("write", "HOME/data/new", "1"),
        ("read", "HOME/data/new", "1"),
        ("read", far.outside / "read/this", "4"),
        ("list", far.outside / "read", "['this']"),
        ("run", "true", "0"),
        ("connect", far.port, "connected"),
        ("by-address", "127.0.0.1", "connected"),
        ("import", "csv", "csv"),
        ("environment", "GIVEN", "a secret that is granted"),
        ("environment", "NOT_GIVEN", "none"),
    ]:
        assert far.attempt(way, path) == f"did: {result}"


OUT_OF_REACH = [
    ("read", "/etc/passwd"),
    ("read", "HOME/etc/narval.toml"),
    ("read", "HOME/data/../etc/narval.toml"),
    ("read", "HOME/data/link"),
    ("write", "HOME/recipes/new.xml"),
    ("write", "OUTSIDE/read/this"),
    ("write", "OUTSIDE/new"),
    ("list", "OUTSIDE"),
    ("remove", "OUTSIDE/read/this"),
    ("rename", "OUTSIDE/read/this"),
    ("link", "OUTSIDE/secret"),
    ("run", "false"),
    ("run", "HOME/data/program"),
    ("connect", "1"),
    ("by-address", "127.0.0.2"),
    ("by-address", "localhost"),
    ("unix", "HOME/var/narval.sock"),
    ("bind", ""),
    ("libc", "/etc/passwd"),
]


@pytest.mark.parametrize(("way", "path"), OUT_OF_REACH)
def test_it_reaches_nothing_else(far: Far, way: str, path: str) -> None:
    link = far.home / "data/link"
    if not link.is_symlink():
        link.symlink_to("/etc/passwd")
        (far.home / "data/program").write_text("#!/bin/sh\n")
        (far.home / "data/program").chmod(0o755)
    result = far.attempt(way, path.replace("OUTSIDE", str(far.outside)))
    assert result.startswith("refused"), result
    assert (far.outside / "secret").read_text() == "private"
    assert (far.outside / "read/this").read_text() == "open"


NOTHING = [
    ("read", "HOME/data/link"),
    ("write", "HOME/data/new"),
    ("run", "true"),
    ("connect", "PORT"),
    ("udp", ""),
    ("fork", "/etc/passwd"),
]


@pytest.mark.parametrize(("way", "path"), NOTHING)
def test_what_needs_nothing_reaches_nothing(far: Far, way: str, path: str) -> None:
    result = far.attempt(way, path.replace("PORT", str(far.port)), "t.none")
    assert result.startswith("refused"), result


@pytest.mark.parametrize(
    ("way", "path"),
    [("system", "/bin/true"), ("kill", "PID"), ("libc-socket", "1"), ("libc-socket", "2")],
)
def test_the_kernel_refuses_code_in_c_and_child_programs(far: Far, way: str, path: str) -> None:
    if way == "libc-socket" and far.held_by == KERNEL and not can_filter():
        pytest.skip("the numbers of this machine's system calls are not known")
    result = far.attempt(way, path.replace("PID", str(os.getpid())), "t.none")
    assert result.startswith("refused"), result


@pytest.mark.parametrize("way", ["mode", "times", "limits", "priority"])
def test_other_programs_and_the_attributes_of_files_stay_as_they_are(far: Far, way: str) -> None:
    sees = ("mode", "times") if far.held_by == HOOK else ()
    result = far.attempt(way, far.outside / "secret", "t.none")
    assert result.startswith("refused") == (way in sees or (far.held_by == KERNEL and can_filter())), result


def test_it_may_alter_its_own_priority_and_the_attributes_of_what_it_may_write(far: Far) -> None:
    assert far.attempt("write", "HOME/data/own") == "did: 1"
    assert far.attempt("mode", "HOME/data/own") == "did: None"
    assert far.attempt("own-priority", "", "t.none") == "did: None"


def test_the_owners_own_modules_are_not_confined(far: Far, tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "recipes").mkdir()
    text = (far.home / "collections/far/modules/far.py").read_text()
    (tmp_path / "modules/far.py").write_text(text)
    (tmp_path / "recipes/t.xml").write_text(RECIPES)
    with narval.open(tmp_path) as agent:
        own = Far(agent, tmp_path, far.outside, far.port, far.held_by)
        assert own.attempt("read", far.outside / "secret", "t.none") == "did: 7"
