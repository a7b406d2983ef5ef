"""A run as a graph, in the language of Graphviz."""

from __future__ import annotations

from typing import Any

from narval.definitions.recipe import Ranges, Time
from narval.definitions.recipe_words import FIELDS

_COLOURS = {
    "todo": "#ffffff", "ready": "#fff3c4", "running": "#ffe08a", "end": "#ffe08a", "done": "#c9e9c3",
    "history": "#c9e9c3", "impossible": "#e6e6e6", "failed": "#f5b7b1", "error": "#f5b7b1",
    "wait-step": "#ffffff", "wait-condition": "#d6e6f7", "wait-time": "#d6e6f7", "fireable": "#ffe08a",
    "fired": "#c9e9c3", "fail": "#f5b7b1",
}  # fmt: skip


def dot(definition: Any, state: Any) -> str:
    """Steps as boxes, transitions as bars, each in the colour of its state."""
    lines = [
        f"digraph {_quoted(definition.full_name)} {{",
        '  graph [rankdir=TB, fontname="sans-serif", nodesep=0.35, ranksep=0.35];',
        '  node [fontname="sans-serif", fontsize=11, style="filled,rounded", color="#555555"];',
        '  edge [fontname="sans-serif", fontsize=9, color="#555555", arrowsize=0.7];',
    ]
    for step in definition.steps.values():
        run = state.step(step.id)
        marks = {definition.start.id: "▸ ", definition.end.id: "◂ "}
        label = f"{marks.get(step.id, '')}{step.id}\n{step.target}\n{run.state}"
        lines.append(
            f"  {_quoted('s:' + step.id)} [shape=box, label={_quoted(label)}, fillcolor={_fill(run.state)}];"
        )
    for transition in definition.transitions.values():
        found = state.transition(transition.id).state
        texts = [" and ".join(one.text for one in each.condition.patterns) for each in transition.conditions]
        label = "\n".join([transition.id, *map(_date, transition.times), *texts])
        node = _quoted("t:" + transition.id)
        lines.append(
            f"  {node} [shape=box, height=0.2, fontsize=9, label={_quoted(label)}, fillcolor={_fill(found)}];"
        )
        for link in transition.ins:
            style = ' [style=dashed, label="on error"]' if link.on_error else ""
            lines.append(f"  {_quoted('s:' + link.step.id)} -> {node}{style};")
        lines += [f"  {node} -> {_quoted('s:' + step.id)};" for step in transition.outs]
    return "\n".join([*lines, "}", ""])


def _date(time: Time) -> str:
    """A date as it is written."""
    fields = ((name, getattr(time, name)) for name in FIELDS)
    return " ".join(f"{name}={_list(ranges)}" for name, ranges in fields if ranges) or "time"


def _list(ranges: Ranges) -> str:
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _fill(state: str) -> str:
    return f'"{_COLOURS.get(state, "#ffffff")}"'


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
