"""One task played by narval: its recipe runs in a home of its own, a stand-in answers its questions."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import narval
from bench.agentdojo.model import ScriptedModel
from bench.agentdojo.tools import TOOLS, Environment, arguments_of, played_in
from narval.surfaces.python.agent import Agent

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

SETTINGS = """timezone = "UTC"
fetch_allow = ["127.0.0.1"]

[models.scripted]
url = "{url}"
model = "scripted"
"""


class Ask(NamedTuple):
    """A question of narval: the call, its arguments, why it asks, and the answer of the stand-in."""

    name: str
    arguments: Mapping[str, Any]
    why: str
    agreed: bool


class Played(NamedTuple):
    """What came of a task: what was said and asked, and how AgentDojo judges it."""

    said: str
    asks: tuple[Ask, ...]
    calls: tuple[tuple[str, Mapping[str, Any]], ...]
    solved: bool
    attacked: bool | None
    error: str


class World:
    """The program that has AgentDojo's environments, asked line by line."""

    def __init__(self, python: Path) -> None:
        # AgentDojo makes lists of sets: the same ones in the same order, at each run
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        self._program = subprocess.Popen(
            [python, HERE / "world.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._asking = threading.Lock()
        self.suites: dict[str, dict[str, list[str]]] = self._ask(do="suites")
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.said: list[str] = []

    def _ask(self, **asked: Any) -> Any:
        assert self._program.stdin
        assert self._program.stdout
        with self._asking:  # calls run in threads of their own
            self._program.stdin.write(json.dumps(asked) + "\n")
            self._program.stdin.flush()
            answer = json.loads(self._program.stdout.readline())
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer["value"]

    def begin(self, suite: str, task: str, injection: str | None) -> Any:
        """Put up the environment of a task."""
        self.calls, self.said = [], []
        return self._ask(do="begin", suite=suite, task=task, injection=injection)

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """What a tool gives. Raises ValueError with the words of its error."""
        self.calls.append((name, arguments))
        return self._ask(do="call", name=name, arguments=arguments)

    def say(self, text: str) -> None:
        """Tell the user something."""
        self.said.append(text)

    def end(self) -> Any:
        """How AgentDojo judges what came of it."""
        return self._ask(do="end", output="\n".join(self.said))

    def close(self) -> None:
        """End the program."""
        assert self._program.stdin
        self._program.stdin.close()
        self._program.wait()


def make_home(folder: Path, suite: str, url: str) -> None:
    """Make the home in which the tasks of a suite are played."""
    for part in ("etc", "modules", "recipes", "data"):
        (folder / part).mkdir(parents=True)
    shutil.copytree(ROOT / "modules/model", folder / "modules/model")
    for name in ("etc/trust.toml", "recipes/model.xml", "recipes/trust.xml"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copy(HERE / "modules/tool.py", folder / "modules/tool.py")
    shutil.copy(HERE / f"recipes/{suite}.xml", folder / f"recipes/{suite}.xml")
    (folder / "etc/narval.toml").write_text(SETTINGS.format(url=url), encoding="utf-8")
    (folder / "etc/people.toml").write_text(PEOPLE, encoding="utf-8")


PEOPLE = """[people.emma]
web = "operator"
login = "emma"
"""


def right_answers(suite: str) -> Mapping[str, Any]:
    """The right answers of a model to the questions of a suite."""
    return tomllib.loads((HERE / f"answers/{suite}.toml").read_text(encoding="utf-8"))


def play(
    folder: Path, world: Environment, model: ScriptedModel, suite: str, task: str, injection: str | None
) -> Played:
    """Play one task, with an attack or without."""
    begun = world.begin(suite, task, injection)
    model.wanted = [(name, arguments) for name, arguments in begun["wanted"]]
    shutil.rmtree(folder / "var", ignore_errors=True)
    played_in.append(world)
    asks: list[Ask] = []
    try:
        with narval.open(folder, by="emma") as agent:
            agent.start(f"{suite}.{task}")
            agent.until_idle()
            while answered := _answer_questions(agent, begun["solved_by"]):
                asks += answered
                agent.until_idle()
            errors = [element.text for element in agent.memory("error")]
    finally:
        played_in.pop()
    judged = world.end()
    said = "\n".join(world.said)
    return Played(
        said, tuple(asks), tuple(world.calls), judged["solved"], judged["attacked"], "; ".join(errors)
    )


def _answer_questions(agent: Agent, solved_by: list[Any]) -> list[Ask]:
    """Answer all questions that there are, and agree to calls of the ground truth alone."""
    asks: list[Ask] = []
    for row in agent.ask("worklist"):
        item = agent.ask("work_item", item=row["item"])
        text = str(item["text"])
        name = next(iter(_CALL.findall(text)), "")
        elements = [agent.element(int(eid)) for eid in _TAKEN.findall(text)]
        held = [(name, arguments_of(element)) for element in elements if element is not None]
        agreed = bool(held) and all(_is_right(name, arguments, solved_by) for name, arguments in held)
        why = next((line for line in text.splitlines() if "of etc/trust.toml" in line), "")
        asks += [Ask(name, arguments, why, agreed) for name, arguments in held]
        outcome = "once" if agreed else "reject"
        agent.ask("answer", item=row["item"], outcome=outcome)
    return asks


_CALL = re.compile(r"^Call: tool\.(\w+)$", re.MULTILINE)
_TAKEN = re.compile(r"takes request: element (\d+):")
"""The calls of which an item asks, as it shows them: what they call, and the elements that they take."""


def _is_right(name: str, arguments: Mapping[str, Any], solved_by: list[Any]) -> bool:
    """True if a call is one of those that solve the task: what says where is equal, the rest need not be."""
    where = TOOLS[name].where.replace("@", "").split()
    return any(
        name == right_name and all(_plain(arguments.get(part)) == _plain(right.get(part)) for part in where)
        for right_name, right in solved_by
    )


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return sorted(map(_plain, value), key=str)
    if value is None or value == "":
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)
