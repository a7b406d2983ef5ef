"""A run as a graph, in the language of Graphviz."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from narval.definitions.requirements import TransitionCondition
from narval.definitions.schedule import FIELDS, Ranges, Time
from narval.operations.text import duration, shortened

_COLOURS = {
    "todo": "#ffffff", "ready": "#fff3c4", "running": "#ffe08a", "end": "#ffe08a", "done": "#c9e9c3",
    "history": "#c9e9c3", "impossible": "#e6e6e6", "failed": "#f5b7b1", "error": "#f5b7b1",
    "wait-step": "#ffffff", "wait-condition": "#d6e6f7", "wait-time": "#d6e6f7", "fireable": "#ffe08a",
    "fired": "#c9e9c3", "fail": "#f5b7b1", "idle": "#ffffff", "held": "#d6e6f7", "erred": "#f5b7b1",
}  # fmt: skip


def dot(definition: Any, state: Any) -> str:
    """A run as a graph, as its kind is drawn."""
    lines = [
        f"digraph {_quoted(definition.full_name)} {{",
        '  graph [rankdir=TB, fontname="sans-serif", nodesep=0.35, ranksep=0.35];',
        '  node [fontname="sans-serif", fontsize=11, style="filled,rounded", color="#555555"];',
        '  edge [fontname="sans-serif", fontsize=9, color="#555555", arrowsize=0.7];',
        *_DRAWN[definition.kind](definition, state),
    ]
    return "\n".join([*lines, "}", ""])


def _automaton(definition: Any, state: Any) -> Iterator[str]:
    """States as boxes in the colour of how they stand; the arrows that were followed last are bold."""
    for each in definition.states.values():
        run = state.of(each.name)
        runs = " ".join(each.target or (each.commands[run.contender] if each.commands else ()))
        told = f"{run.state} {run.label}".rstrip()
        label = _quoted(f"{each.name}\n{shortened(runs, 40)}\n{told}")
        shape = "box, peripheries=2" if each.is_final else "box"
        yield f"  {_quoted(each.name)} [shape={shape}, label={label}, fillcolor={_fill(run.state)}];"
    for each in definition.states.values():
        for by, successors in each.follow.items():
            style = "bold" if state.of(each.name).label == by else "solid" if by == "0" else "dashed"
            for successor in successors:
                yield (
                    f"  {_quoted(each.name)} -> {_quoted(successor.name)} "
                    f"[label={_quoted(by)}, style={style}];"
                )


def _process(definition: Any, state: Any) -> Iterator[str]:
    """Nodes with their tokens: drawn elsewhere, for its engine comes with it."""
    from narval.operations.dot_process import lines

    return lines(definition, state)


def _recipe(definition: Any, state: Any) -> Iterator[str]:
    """Steps as boxes, transitions as bars, each in the colour of its state."""
    for step in definition.steps.values():
        run = state.step(step.id)
        marks = {definition.start.id: "▸ ", definition.end.id: "◂ "}
        label = f"{marks.get(step.id, '')}{step.id}\n{step.target}\n{run.state}"
        node = _quoted("s:" + step.id)
        yield f"  {node} [shape=box, label={_quoted(label)}, fillcolor={_fill(run.state)}];"
    for transition in definition.transitions.values():
        found = state.transition(transition.id).state
        texts = [_condition(condition) for condition in transition.conditions]
        label = "\n".join([transition.id, *map(_date, transition.times), *texts])
        node = _quoted("t:" + transition.id)
        shown = f"label={_quoted(label)}, fillcolor={_fill(found)}"
        yield f"  {node} [shape=box, height=0.2, fontsize=9, {shown}];"
        for link in transition.ins:
            style = ' [style=dashed, label="on error"]' if link.on_error else ""
            yield f"  {_quoted('s:' + link.step.id)} -> {node}{style};"
        for step in transition.outs:
            yield f"  {node} -> {_quoted('s:' + step.id)};"


_DRAWN: Mapping[str, Callable[[Any, Any], Iterator[str]]] = {
    "recipe": _recipe,
    "automaton": _automaton,
    "process": _process,
}
"""How the runs of each kind of definition are drawn."""


def _condition(condition: TransitionCondition) -> str:
    """A condition as it is written, and how long it must last."""
    text = " and ".join(pattern.text for pattern in condition.condition.patterns)
    return text if condition.lasting is None else f"{text} for {duration(condition.lasting)}"


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
