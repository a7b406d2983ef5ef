"""Confinement: the services and places that a call may reach, by the needs that its author declares."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import narval
from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.agent.runs import NOT_GRANTED
from narval.agent.within_grant import granted_to
from narval.calls.context import CallContext, Inputs, Target
from narval.calls.programs.spawn import LIMITING
from narval.calls.workers.confined import Confined
from narval.core.definitions.action.definition import Action
from narval.core.definitions.action.needs import LISTS, NOTHING, Needs, table_of
from narval.core.definitions.library import Definition, Library, RunDefinition
from narval.core.elements.element import Element
from narval.core.engines.commands import Call, Program
from narval.core.engines.events import Failure
from narval.core.errors import ActionError
from narval.core.trust.covering import ANYTHING, is_covered
from narval.core.trust.needs import Attributes, NamedPlaces, Need, needs_of_call, written_in
from narval.files.agents.collections import folder_of
from narval.files.agents.settings import COLLECTIONS
from narval.files.allowed_files import check_words
from narval.files.outside.services import AnyService, WebService, places_by_table
from narval.system.confinement import Confinement, abi

SYSTEM = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/null", "/dev/zero",
          "/dev/urandom", "/dev/random")  # fmt: skip
"""The places that every program reads."""

ITSELF = "/proc/self"
"""The place where a worker reads about itself. Programs do not get it: the daemon would resolve the path to
itself.
"""

INTERNET = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/ssl")
"""The places that a program reads to connect to a host by name."""

LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-x86_64.so.1")
"""The program loaders. Code that may run a program may run these."""


def services_for(needs: Needs | None, services: tuple[AnyService, ...]) -> tuple[AnyService, ...]:
    """The services that code gets: all; or, if it declares needs, those without a secret and those whose
    secret it declares.
    """
    if needs is None:
        return services
    return tuple(each for each in services if _may_ask(each, needs.secrets))


def _may_ask(service: AnyService, secrets: tuple[str, ...]) -> bool:
    if not isinstance(service, WebService) or not service.secret:
        return True
    return any(value == service.secret or table_of(value) == service.table for value in secrets)


def given_to(inputs: Iterable[Element | list[Element] | None]) -> dict[str, tuple[Attributes, ...]]:
    """The attributes of the elements that a call gets and of their children, by element name."""
    elements = (each for value in inputs for each in (value if isinstance(value, list) else [value]))
    return written_in(element.xml for element in elements if element is not None)


def confined_to(call: CallContext) -> Confined:
    """The only places that the worker of a call may reach."""
    target, needs = call.target, call.target.needs or Needs()
    resolved = needs_of_call(
        needs, given_to(call.inputs.values()), NamedPlaces({}, places_by_table(call.services))
    )
    hosts = tuple(sorted(need.text for need in resolved if need.what == "host" and "{" not in need.value))
    secrets = [need.value for need in resolved if need.what == "secret"]
    programs = [path for need in resolved if need.what == "program" for path in _program(need.value)]
    reads = [*SYSTEM, ITSELF, *(INTERNET if hosts else ()), *_python(), *_module(target.module_path)]
    reads += [str(call.home / "etc" / name) for name in secrets if call.home is not None]
    reads += [str(folder) for folder in _folders(resolved, call.home, "r")]
    limits = Confinement(
        reads=tuple(dict.fromkeys(reads)),
        writes=("/dev/null", *(str(folder) for folder in _folders(resolved, call.home, "rw"))),
        executes=tuple(dict.fromkeys([*programs, *(LOADERS if programs else ())])),
        ports=tuple(sorted({_port(host) for host in hosts})),
    )
    environment = tuple((name, os.environ[name]) for name in secrets if name in os.environ)
    return Confined(limits, hosts, environment, by_hook=not abi())


def reach_of_program(agent: AgentState, run: Run, program: Program) -> Needs | None:
    """The places that a program may reach besides its own file; None for any.

    It is limited to what its definition declares. A program whose definition declares nothing may reach
    nothing if the definition came with a collection and the home asks for grants.
    """
    if program.reaches is not None or agent.lookup.grants is None:
        return program.reaches
    return NOTHING if folder_of(run.definition.path).startswith(f"{COLLECTIONS}/") else None


def limits_of_program(
    call: CallContext, words: Sequence[str], searched: str, directory: str, group: Path | None
) -> Confinement:
    """The places that a program, and all that it starts, may reach: those of the call, and its own file.

    The program is looked up in the PATH `searched`, or in the directory if its name has a slash. The shell
    that sets its limits, and enters the control group that accounts for it, is confined as well.
    """
    needs = call.reaches or NOTHING
    own = [os.path.join(directory, words[0])] if "/" in words[0] else [words[0]]
    programs = [file for name in (*own, *needs.programs) for file in _program(name, searched)]
    if call.program is not None and call.program.is_limited:
        programs += [LIMITING, os.path.realpath(LIMITING)]
    folders = [Need("folder", value) for value in needs.folders]
    home = call.home or Path(directory)
    return Confinement(
        reads=(
            *SYSTEM,
            *(INTERNET if needs.hosts else ()),
            *(str(home / "etc" / name) for name in needs.secrets),
            *(str(folder) for folder in _folders(folders, home, "r")),
        ),
        writes=(
            "/dev/null",
            *(str(folder) for folder in _folders(folders, home, "rw")),
            *([str(group / "cgroup.procs")] if group is not None else ()),
        ),
        executes=tuple(dict.fromkeys([*programs, *LOADERS])),
        ports=tuple(sorted({_port(host) for host in needs.hosts})),
    )


_PLACES = {"thread": "threads", "inline": "threads", "async": "the loop", "source": "the loop",
           "cluster": "a cluster"}  # fmt: skip
"""The places where code runs unconfined, as shown to people."""


def unconfined(library: Library, *, asks: bool) -> dict[str, list[str]]:
    """The names of unconfined code from collections, by where it runs. `asks`: the home asks for grants."""
    places: dict[str, list[str]] = {}
    for one in library:
        for place in _unconfined(one, asks) if folder_of(one.path).startswith(f"{COLLECTIONS}/") else ():
            places.setdefault(place, []).append(one.full_name)
    return {place: sorted(places[place]) for place in sorted(places)}


def _unconfined(one: Definition, asks: bool) -> Iterator[str]:
    if isinstance(one, Action):
        if one.where in _PLACES:
            yield _PLACES[one.where]
        elif one.needs is None or one.pure:
            yield "workers without needs"
    elif isinstance(one, RunDefinition):
        needs = {need.what for need in one.own_needs}
        if ANYTHING in needs:
            yield "code in definitions"
        is_held = asks or getattr(one, "says_its_reach", False)
        if "program" in needs and not (is_held and abi()):
            yield "programs"


def beyond_grant(agent: AgentState, run: Run, call: Call, target: Target, inputs: Inputs) -> Failure | None:
    """The error of an action call that would reach something not granted to the definition behind it; None if
    it may be made.
    """
    holder = granted_to(agent, run) if call.kind == Action.kind else None
    if holder is None:
        return None
    outermost, granted = holder
    beyond = next(_beyond(target.needs, granted, inputs), "")
    if not beyond:
        return None
    name = outermost.name
    why = f"{target.action} would reach what is not granted to {name}: {beyond}"
    return Failure(NOT_GRANTED, f"{why}; see: narval grants {name}{agent.option}", final=True)


def granted_needs(agent: AgentState, run: Run) -> tuple[str, ...] | None:
    """The needs granted to the definition behind a call; None if the home asks for no grants, or if that
    definition may reach anything.
    """
    holder = granted_to(agent, run) if agent.lookup.grants is not None else None
    return None if holder is None else holder[1]


def beyond_files(target: Target, inputs: Inputs, home: Path | None) -> Failure | None:
    """The error of a call that names a file which its action may not reach, judged by the path alone; None if
    there is none. Links are followed by the action itself.
    """
    names = frozenset[str]() if target.needs is None else target.needs.files_named_by
    values = (value if isinstance(value, list) else [value] for value in inputs.values()) if names else ()
    try:
        for element in (each for value in values for each in value if each is not None):
            own: list[Attributes] = [element.attributes] if element.name in names else []
            if any(name.startswith(f"{element.name}/") for name in names):
                within = written_in([element.xml])
                own += (each for name in names if "/" in name for each in within.get(name, ()))
            for attributes in own:
                if "path" in attributes:
                    check_words(attributes, home)
    except ActionError as error:
        return Failure(error.kind, str(error))
    return None


def _beyond(needs: Needs | None, granted: tuple[str, ...], inputs: Inputs) -> Iterator[str]:
    """The needs of a call that were not granted. A need granted for any value of an element counts as
    granted.
    """
    if needs is None:
        if not is_covered(ANYTHING, granted):
            yield ANYTHING
        return
    declared = _not_granted(needs, granted)
    if declared == NOTHING:
        return
    for need in needs_of_call(declared, given_to(inputs.values()), NamedPlaces()):
        if need.is_outside and not is_covered(need.text, granted):
            yield need.text


@lru_cache(maxsize=1024)
def _not_granted(needs: Needs, granted: tuple[str, ...]) -> Needs:
    """The needs that are not literally among those granted."""
    return Needs(
        **{
            name: tuple(value for value in getattr(needs, name) if f"{name[:-1]} {value}" not in granted)
            for name in LISTS
        }
    )


def _port(host: str) -> int:
    number = host.rpartition(":")[2]
    return int(number) if number.isdigit() else -1


def _folders(needs: Iterable[Need], home: Path | None, how: str) -> Iterator[Path]:
    for need in needs:
        path, _, used = need.value.rpartition(" ")
        if need.what == "folder" and used == how and "{" not in path:
            yield (home or Path.cwd()) / Path(path).expanduser()


def _python() -> Iterator[str]:
    """The places of Python, of the packages installed for it, and of narval."""
    yield from {sys.prefix, sys.base_prefix, str(Path(narval.__file__).parent)}
    yield from (path for path in sys.path if os.path.isabs(path) and "site-packages" in path)


def _module(path: str) -> Iterator[str]:
    """The file of a module, or its folder if it has several files."""
    if os.path.isabs(path):
        yield os.path.dirname(path) if os.path.basename(path) == "__init__.py" else path


def _program(name: str, searched: str | None = None) -> Iterator[str]:
    """The file of a program, and those of its interpreter if it is a script."""
    path = shutil.which(name, path=searched)
    if path is None:
        return
    yield from dict.fromkeys((path, os.path.realpath(path)))
    try:
        with open(path, "rb") as file:
            first = file.readline(256)
    except OSError:
        return
    if first.startswith(b"#!"):
        words = first[2:].decode("utf-8", "replace").split()
        yield from words[:1]
        if words[:1] and os.path.basename(words[0]) == "env" and len(words) > 1:
            yield from _program(words[-1], searched)
