"""The page on workflow patterns: each definition of it runs as its steps say, and each pattern has a row."""

from __future__ import annotations

import re

import pytest

from tests.core.engines.dialogue import Dialogue, Refusal
from tests.places import ROOT

PAGE = (ROOT / "docs" / "explanation" / "workflow-patterns.md").read_text(encoding="utf-8")
FORM = r"^## ([^\n]+)\n(?:(?!^## ).)*?^```xml\n(.*?)^```\n\n```steps\n(.*?)^```"
EXAMPLES = re.findall(FORM, PAGE, re.MULTILINE | re.DOTALL)
ROWS = re.findall(r"^\| (\d+) \| .+? \| (yes|no|in part) \| (.*) \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "steps"), [example[1:] for example in EXAMPLES], ids=[e[0] for e in EXAMPLES]
)
def test_each_definition_runs_as_its_steps_say(text: str, steps: str) -> None:
    said = Dialogue(text)
    run = 0
    for line in steps.splitlines():
        what, _, expected = line.rpartition(": ")
        if what == "start":
            (name,) = re.findall(r'process-definition name="(\w+)"', text)
            run = said.start(name, kind="process")
        elif what.startswith("add "):
            said.arrives(what.removeprefix("add "))
        elif expected == "refused":
            with pytest.raises(Refusal):
                complete(said, run, what)
            continue
        else:
            complete(said, run, what)
        assert (line, waiting(said, run)) == (line, expected)


def complete(said: Dialogue, run: int, what: str) -> None:
    """Complete a node, by named arcs, as a set: the oldest token that stands on it."""
    words = re.fullmatch(r"complete (\w+)(?: by ([\w ]+?))?(?: as (\d+))?", what)
    assert words is not None, what
    node, arcs, count = words.groups()
    standing = said.states[run].standing.get(node)
    where = {"token": next(iter(standing))} if standing else {"node": node}
    made = {"set": {"name": "set", "count": int(count)}} if count else {}
    said.says(run, "complete", **where, arcs=arcs.split() if arcs else None, **made)
    if count:
        said.says(run, "execute")


def waiting(said: Dialogue, run: int) -> str:
    """The nodes on which tokens wait, once for each; a dot when the process is complete."""
    state = said.states[run]
    if state.status == "completed":
        return "."
    return " ".join(sorted(node for node, tokens in state.standing.items() for _ in tokens))


def test_all_43_patterns_have_a_row_and_what_is_served_an_example() -> None:
    assert [int(number) for number, *_ in ROWS] == list(range(1, 44))
    anchors = {re.sub(r"[^\w ]", "", title).lower().replace(" ", "-") for title, *_ in EXAMPLES}
    linked = set(re.findall(r"\(#([\w-]+)\)", PAGE))
    assert linked == anchors
    assert [number for number, served, how in ROWS if served == "yes" and "(#" not in how] == []
