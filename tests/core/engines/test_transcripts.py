"""Scenarios as transcripts: what is said to the engine, and all that followed, a scenario a file.

A file of `tests/core/engines/transcripts/` is blocks with a blank line between them. A block is what is said,
a line `----`, and what followed. `define` is followed by definitions as XML: recipes, and modules with the
prototypes of their actions. Lines that begin with `#` are remarks.

    start g.r [eids]            a plan of the recipe begins
    begins STEP                 the run that answers the call of a step begins
    returned STEP xml …         a call comes back with these elements
    erred STEP message          a call comes back with a problem
    produced STEP xml …         a source yields
    answers RUN                 a run that is over tells its caller
    arrives xml, add xml        an element from outside; with `add`, nobody is told
    passes SECONDS              time passes, and moments come
    cancel RUN                  someone asks a run to end
    show RUN                    the states of a run and of its parts

Of processes, with what happened by the names of the events, and:

    process p [name=value …]    a process begins with these attributes
    complete RUN NODE [arcs]    its token leaves on these arcs; a number is that of a token, `-` no arc
    backtrack RUN NODE          the process goes back
    says RUN OPERATION [json]   any operation
    did STEP json               the code for a node is back, and wants this done; or `did CALL json`
    asked FUNCTION json         what code of the user's own will answer
    type NAME [hooks]           there is a class for this type of nodes
    listener NAME [events]      there is a listener for all processes
    tokens RUN                  the tokens of a process, the active ones with a *
    memory                      every element, with what is known of it

A step is `a`, `4/a` where several runs have one of that name, or `a(3)` for the call that was given element
3.

`NARVAL_REWRITE=1 pytest tests/core/engines/test_transcripts.py` writes what follows now; the difference is
for the eyes of who commits it.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lxml import etree

from narval.core.definitions.action.definition import Action, Input, Output
from narval.core.elements.element import Element
from narval.core.engines.commands import Add, Call, Watch
from narval.kinds.process.engine.changes import EVENT_OF_CHANGE
from narval.kinds.process.language.code import mask_of
from tests.core.engines.dialogue import Dialogue, Refusal, action

FOLDER = Path(__file__).parent / "transcripts"
FILES = sorted(FOLDER.glob("*/*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_transcript(path: Path) -> None:
    written = path.read_text("utf-8")
    followed = play(written)
    if os.environ.get("NARVAL_REWRITE"):
        path.write_text(followed, "utf-8")
    difference = "\n".join(
        difflib.unified_diff(
            written.splitlines(), followed.splitlines(), str(path), "what followed", lineterm=""
        )
    )
    assert written == followed, difference


def test_there_are_transcripts() -> None:
    assert len(FILES) >= 12


def play(text: str) -> str:
    """The transcript again, with what follows now."""
    said, told = Dialogue(), []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        speech = re.split(r"^----\n?", block, flags=re.M)[0].rstrip("\n")
        if all(line.startswith("#") for line in speech.splitlines()):
            told.append(speech)
        else:
            told.append("\n".join([speech, "----", *follows(said, speech)]))
    return "\n\n".join(told) + "\n"


def follows(said: Dialogue, speech: str) -> Iterator[str]:
    """Do what a block says, and tell what follows."""
    lines = [line for line in speech.splitlines() if not line.startswith("#")]
    if lines[0] == "define":
        yield from define(said, "\n".join(lines[1:]))
        return
    for line in lines:
        word, _, rest = line.partition(" ")
        said.heard = []
        answer = SAY[word](said, rest)
        yield from answer or ()
        for run, event, changes, commands in said.heard:
            yield f"{type(event).__name__} to {run}"
            yield from (f"  {shown(change)}" for change in changes)
            yield from (f"  → {shown(command)}" for command in commands)


# --- what can be said -------------------------------------------------------------------------------------


def define(said: Dialogue, text: str) -> Iterator[str]:
    for root in etree.fromstring(f"<define>{text}</define>"):
        root.tail = None
        if root.tag == "process-definition":
            said.load(etree.tostring(root, encoding="unicode"))
            yield f"process test.{root.get('name')}"
        elif root.tag == "module":
            actions = [read_action(root.get("name"), node) for node in root]
            said.load(*actions)
            yield from (f"action {action.full_name}" for action in actions)
        else:
            said.load(etree.tostring(root, encoding="unicode"))
            yield f"recipe {root.get('group')}.{root.get('name')}"


def read_action(module: str, node: etree._Element) -> Action:
    inputs, outputs = (
        [kind(**prototype(child)) for child in node.iter(word)]
        for kind, word in ((Input, "input"), (Output, "output"))
    )
    return action(f"{module}.{node.get('name')}", inputs, outputs, source=node.get("source") == "yes")


def prototype(node: etree._Element) -> dict[str, Any]:
    words = {key: value == "yes" for key, value in node.attrib.items() if key not in ("id", "unique")}
    texts = {key: value for key, value in node.attrib.items() if key in ("id", "unique")}
    return {**texts, **words, "match": [child.text for child in node.iter("match")]}


def elements(text: str) -> list[str]:
    """The elements that stand side by side in a text."""
    found = list(etree.fromstring(f"<all>{text}</all>"))
    for element in found:
        element.tail = None
    return [etree.tostring(element, encoding="unicode") for element in found]


def call(text: str) -> tuple[str, dict[str, int]]:
    """A step, and of which run or for which element its call is."""
    run, step, given = re.fullmatch(r"(?:(\d+)/)?([^(]+)(?:\((\d+)\))?", text).groups()
    return step, {name: int(found) for name, found in (("run", run), ("given", given)) if found}


def at_call(say: Callable[..., Any], read: Callable[[str], list[str]]) -> Callable[[Dialogue, str], None]:
    def speak(said: Dialogue, rest: str) -> None:
        where, _, what = rest.partition(" ")
        step, which = call(where)
        say(said, step, *read(what), **which)

    return speak


def start(said: Dialogue, rest: str) -> None:
    name, *eids = rest.split()
    said.start(name, map(int, eids))


def show(said: Dialogue, rest: str) -> Iterator[str]:
    run = int(rest)
    yield f"plan {run} is {said.state(run)}"
    for found in filter(None, (said.steps(run), said.transitions(run))):
        yield f"  {', '.join(f'{name} {state}' for name, state in found.items())}"
    yield f"  context {listed(said.context(run)) or 'empty'}"


def memory(said: Dialogue, rest: str) -> Iterator[str]:
    for eid in said.memory:
        known = ["outdated"] * (eid in said.memory.outdated) + ["reserved"] * (eid in said.memory.reserved)
        known += [f"used by {' '.join(scope)} in {run}" for scope, run in said.memory.used_by(eid)]
        what = f"the plan {eid}" if said.memory.is_run(eid) else said.xml(eid)
        yield ", ".join([f"{eid} {what}", *known])


def process(said: Dialogue, rest: str) -> None:
    name, *attributes = rest.split()
    given = dict(attribute.split("=", 1) for attribute in attributes)
    said.start(name, kind="process", environment=given)


def says(said: Dialogue, run: str, operation: str, arguments: dict[str, Any]) -> Iterator[str]:
    try:
        answer = said.says(int(run), operation, **arguments)
    except Refusal as refusal:
        yield f"refused, {refusal.kind}: {refusal}"
    else:
        yield f"answered {', '.join(f'{name} {valued(value)}' for name, value in answer.items())}"


def which(text: str) -> dict[str, Any]:
    return {"token": int(text)} if text.isdigit() else {"node": text}


def complete(said: Dialogue, rest: str) -> Iterator[str]:
    run, token, *arcs = rest.split()
    yield from says(
        said, run, "complete", {**which(token), "arcs": ["" if a == "-" else a for a in arcs] or None}
    )


def backtrack(said: Dialogue, rest: str) -> Iterator[str]:
    run, token = rest.split()
    yield from says(said, run, "backtrack", which(token))


def operation(said: Dialogue, rest: str) -> Iterator[str]:
    run, name, *arguments = rest.split(" ", 2)
    yield from says(said, run, name, json.loads(arguments[0]) if arguments else {})


def did(said: Dialogue, rest: str) -> None:
    where, _, effects = rest.partition(" ")
    step, given = call(where)
    found = said.calls[where][1] if where in said.calls else said.call_of(step, **given)
    said.answer(found, value={"effects": json.loads(effects or "[]")})


def asked(said: Dialogue, rest: str) -> None:
    function, _, answer = rest.partition(" ")
    said.answers_to[function] = json.loads(answer)


def node_type(said: Dialogue, rest: str) -> None:
    name, *hooks = rest.split()
    said.node_types[name] = frozenset(hooks or ["execute"])


def listener(said: Dialogue, rest: str) -> None:
    name, *events = rest.split()
    said.listeners[name] = mask_of(events)


def tokens(said: Dialogue, rest: str) -> Iterator[str]:
    run = int(rest)
    found = said.engines[run].parts(said.definitions[run], said.states[run])
    yield f"process {run} is {said.state(run)}"
    for row in found["tokens"]:
        words = [f"{row['id']}{'' if row['complete'] else '*'} {row['node_id']}", str(row["guard_action"])]
        yield "  " + token_line(row, words)
    for row in found["arc_tokens"]:
        name = f" {row['arc']}" if row["arc"] else ""
        words = [f"{row['id']}{'' if row['complete'] else '*'} {row['from']}{name} → {row['to']}"]
        words += [f"of {row['parent']}" + (f" into {row['child']}" if row["child"] else "")]
        yield "  " + token_line(row, words)


def token_line(row: dict[str, Any], words: list[str]) -> str:
    words += [row["execution_type"]] if row["execution_type"] != "Forward" else []
    words += [f"in {' '.join(row['sets'])}"] if row["sets"] else []
    words += [f"{name}={value}" for name, value in row.get("environment", {}).items()]
    return ", ".join(words)


SAY: dict[str, Callable[[Dialogue, str], Any]] = {
    "start": start,
    "begins": at_call(Dialogue.begins, lambda text: []),
    "returned": at_call(Dialogue.returned, elements),
    "erred": at_call(Dialogue.erred, lambda text: [text]),
    "produced": at_call(Dialogue.produced, elements),
    "answers": lambda said, rest: said.answers(int(rest)),
    "arrives": lambda said, rest: said.arrives(rest) and None,
    "add": lambda said, rest: said.add(rest) and None,
    "passes": lambda said, rest: said.passes(float(rest)),
    "cancel": lambda said, rest: said.cancel(int(rest)),
    "show": show,
    "process": process,
    "complete": complete,
    "backtrack": backtrack,
    "says": operation,
    "did": did,
    "asked": asked,
    "type": node_type,
    "listener": listener,
    "tokens": tokens,
    "memory": memory,
}


# --- what followed ----------------------------------------------------------------------------------------


def shown(fact: Any) -> str:
    """A change or command on a line: its name, then its fields, those that say nothing left out."""
    special = SHOWN.get(type(fact))
    if special is not None:
        return special(fact)
    words = [EVENT_OF_CHANGE.get(type(fact).__name__, (type(fact).__name__,))[0]]
    for field in msgspec.structs.fields(fact):
        value = getattr(fact, field.name)
        if value != field.default and value not in ((), "", None, {}):
            words.append(f"{field.name}={valued(value)}")
    return " ".join(words)


def valued(value: Any) -> str:
    if isinstance(value, msgspec.Struct):
        return f"({shown(value).partition(' ')[2]})"
    if isinstance(value, tuple):
        return listed(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def listed(values: Any) -> str:
    return ",".join(f"({listed(value)})" if isinstance(value, tuple) else str(value) for value in values)


def shown_add(command: Add) -> str:
    element: Element = command.element
    return f"Add {element.eid} {element.xml.decode()}{'' if command.held else ' for everyone'}"


def shown_watch(command: Watch) -> str:
    waits = [
        bound.text if scope is None else f"{bound.text} not used by {' '.join(scope)}"
        for bound, scope in zip(command.conditions, command.scopes, strict=True)
    ]
    return f"Watch {command.watch}: {'; '.join(waits)}"


def shown_call(command: Call) -> str:
    words = [f"Call {command.call}: {command.step} is {command.kind} {command.name}"]
    words += [
        f"{slot}={listed(eids)}{'…' if slot in command.listed else ''}" for slot, eids in command.inputs
    ]
    words += [f"with {listed(command.elements)}"] if command.elements else []
    words += [f"near {listed(command.nearby)}"] if any(command.nearby) else []
    words += [f"try {command.attempt}"] if command.attempt > 1 else []
    return " ".join(words)


SHOWN: dict[type, Callable[[Any], str]] = {Add: shown_add, Watch: shown_watch, Call: shown_call}
