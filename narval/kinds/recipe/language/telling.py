"""Descriptions of recipes: how they begin, their steps in order, and the ways on from each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Library
from narval.core.definitions.people.approvals import agrees_by_itself
from narval.core.definitions.prototype import EMPTY, Prototype, TransitionCondition
from narval.core.definitions.telling.calls import (
    after_a_crash,
    at_once,
    call,
    forgotten,
    limits,
    looked_for,
    narrowed,
    takes,
    target_of,
    verb,
    written_element,
)
from narval.core.definitions.telling.dates import dates, every
from narval.core.definitions.telling.patterns import element_phrase, presence
from narval.core.definitions.telling.sentence import (
    Sentence,
    acts_outside,
    length,
    listed,
    names,
    quoted,
    sentence,
    verbatim,
)
from narval.core.definitions.tool import Tool, ToolArgument
from narval.core.errors import DefinitionError
from narval.core.kinds import ASKING
from narval.kinds.recipe.language.definition import Recipe, Step, Transition
from narval.kinds.recipe.language.parser import TO_SELECTED

_BEGINS = {
    "no": "It begins when a person or a program starts it.",
    "yes": "It begins when it is started. When a run of it has ended, well or not, another begins.",
    "parallel": (
        "It begins when it is started. As soon as a run has left its first step, another begins beside it."
    ),
}

_THEN = {
    "ignore": "its run continues, and is not notified.",
    "signal": 'its run is told by the signal "withdrawn" if it is under way.',
    "fail": "its run fails if it is under way.",
    "undo": "what its run did is undone, and its run is cancelled if it is under way.",
}
"""The treatment of a run, by `on-withdraw`."""

_ASKED = {
    "never": "no person is asked before.",
    "user": "the client's user is asked before.",
    "owner": "the owner of the home is asked before.",
}
"""The person who is asked before a client starts a run, by `approve`."""

_CHOICE = "Then it takes one of these ways, the one that is open first; of several, the upper one:"


def sentences(recipe: Recipe, library: Library) -> Iterator[Sentence]:
    """The sentences that describe a recipe."""
    steps = list(_in_order(recipe))
    yield Sentence(_in_short(recipe, steps, library), recipe.line)
    yield Sentence(_BEGINS[recipe.restart], recipe.line)
    yield from (Sentence(text, recipe.line) for text in forgotten(recipe.decay))
    if recipe.tool is not None:
        yield from (Sentence(text, recipe.line) for text in _as_tool(recipe.tool))
    if recipe.on_withdraw:
        yield Sentence(
            f"If something that it relied on is withdrawn, {_THEN[recipe.on_withdraw]}", recipe.line
        )
    yield Sentence(f"Its first step is {quoted(recipe.start.id)}.", recipe.start.line)
    step_ids: set[str] = set()
    for step in steps:
        step_ids.add(step.id)
        yield from _of_step(step, library)
        yield from _ways(recipe, step, step_ids)
    yield from _errors(recipe)
    yield from _outside(recipe, steps, library)


def _as_tool(tool: Tool) -> Iterator[str]:
    """The sentences about how clients of MCP may start it."""
    made = f"a `{tool.element}` made of {listed(map(_argument, tool.arguments))}"
    yield f"Clients of MCP that may start it give it {made}; {_ASKED[tool.approve]}"
    yield f"They are told how its run ends if it does within {length(tool.wait)}."


def _argument(argument: ToolArgument) -> str:
    """The phrase for an argument of a tool."""
    values = f", one of {listed(map(quoted, argument.one_of), 'or')}" if argument.one_of else ""
    need = "" if argument.is_required else ", may be left out"
    return f"`{argument.name}` ({argument.type}{values}{need})"


def _in_short(recipe: Recipe, steps: list[Step], library: Library) -> str:
    """The recipe in a line: what its first step waits for, if that does nothing else, and what all steps
    call.
    """
    does: dict[str, dict[str, None]] = {}
    for step in steps:
        if not _passes(step, library):
            target = step.target if step.target != TO_SELECTED else "agents that it finds"
            does.setdefault(verb(step.kind), {})[target] = None
    acts = (
        ", and ".join(f"{word} {listed(targets)}" for word, targets in does.items())
        if does
        else "does nothing"
    )
    ways = [_opening(way) for way in recipe.start.outs] if _passes(recipe.start, library) else []
    when = listed(ways, "or") if ways and all(ways) else ""
    opens = when and "`" not in when and len(when) < LONGEST
    return sentence(f"{when}, it {acts}" if opens else f"it {acts}")


LONGEST = 200
"""The most characters of what a recipe waits for, in its short description."""


def _opening(way: Transition) -> str:
    """The clause for what a way waits for; "" if it waits for nothing."""
    phrases = listed(presence(one.condition, absent=one.absent, several=one.listed) for one in way.conditions)
    when = dates(way.times, way.appointments) if _dated(way) else ""
    if when and way.conditions:
        return ""
    return when or (f"when {phrases}" if way.conditions else "")


def _passes(step: Step, library: Library) -> bool:
    """True for a step that does nothing: its target is pure, takes nothing and gives nothing."""
    target = target_of(step.kind, step.target, step.agent, library) if step.sending is None else None
    return getattr(target, "prototype", None) == EMPTY and getattr(target, "pure", False)


def _in_order(recipe: Recipe) -> Iterator[Step]:
    """The steps, breadth first from the first one."""
    line, seen = [recipe.start], {recipe.start.id}
    for step in line:
        yield step
        for transition in step.outs:
            for target in transition.outs:
                if target.id not in seen:
                    seen.add(target.id)
                    line.append(target)


# --- steps ------------------------------------------------------------------------------------------------


def _of_step(step: Step, library: Library) -> Iterator[Sentence]:
    target = target_of(step.kind, step.target, step.agent, library) if step.sending is None else None
    prototype = getattr(target, "prototype", None)
    if _passes(step, library):
        yield Sentence(f"{quoted(step.id)} does nothing ({step.target}).", step.line)
    else:
        does = _sends(step) if step.sending is not None else call(step.kind, step.target, step.agent, target)
        yield Sentence(f"{quoted(step.id)} {does}.", step.line)
    for text in _details(step, library):
        yield Sentence(text, step.line, depth=1)
    for text, deeper in _taking(step, prototype if isinstance(prototype, Prototype) else None):
        yield Sentence(text, step.line, depth=1 + deeper)
    for text in (
        *limits(step.timeout, step.retries, step.backoff, agent=step.agent),
        *after_a_crash(step.on_restart, target.tool if isinstance(target, Action) else None),
    ):
        yield Sentence(text, step.line, depth=1)


def _sends(step: Step) -> str:
    sending = step.sending
    assert sending is not None
    to = step.target if step.target != TO_SELECTED else ""
    agents = to.split()
    whom = (
        f"the agent{'s' if len(agents) > 1 else ''} {listed(agents)}"
        if to
        else f"the agents that {verbatim(sending.select)} names"
    )
    rest = ", and waits until all is taken" if sending.taken else ""
    if sending.keep is not None:
        rest += f"; what waits for longer than {length(sending.keep)} is no longer taken"
    return f"sends elements to {whom}{rest}"


def _details(step: Step, library: Library) -> Iterator[str]:
    """The sentences about the rest of a step."""
    if step.foreach is not None:
        yield f"It does so once for each element that is {element_phrase(step.foreach)}."
        yield from at_once(step.max_parallel, "such call")
    if step.approve:
        work = library.get(ASKING, step.approve)
        unless = ", which answers yes by itself if no person has answered in time" * agrees_by_itself(work)
        yield f"Before that, people are asked to agree by the work {step.approve}{unless}."
    if step.on_withdraw:
        yield f"If something that it was given is withdrawn, {_THEN[step.on_withdraw]}"
    if step.undo:
        yield f"What it did is undone by the action {step.undo}."
    if step.until is not None and step.every is not None:
        again = presence(step.until)
        yield f"It does so again {every(step.every)}, until {again}."
    if step.arguments:
        elements = (written_element(xml, at in step.values) for at, xml in enumerate(step.arguments))
        yield f"It is given {listed(elements)}."
    if step.context is not None:
        yield looked_for(step.context)


def _taking(step: Step, prototype: Prototype | None) -> Iterator[tuple[str, int]]:
    """The sentences about what a step takes and gives: the target's prototype as the step narrows it."""
    tightened = step.own_inputs
    if prototype is not None:
        with suppress(DefinitionError):
            tightened = step.prototype(prototype)
    elif not tightened.inputs:
        yield from ((text, 0) for text in narrowed(step.inputs, "takes"))
        yield from ((text, 0) for text in narrowed(step.outputs, "gives"))
    yield from takes(tightened)


# --- ways on ----------------------------------------------------------------------------------------------


def _ways(recipe: Recipe, step: Step, step_ids: set[str]) -> Iterator[Sentence]:
    """The ways on from a step; one that leaves several steps is described with the last of them."""
    if step is recipe.end:
        yield Sentence("With its end the run has ended well.", step.line, depth=1)
    ways = step.outs
    depth = 1
    if len(ways) > 1:
        yield Sentence(_CHOICE, step.line, depth=1)
        depth = 2
    for transition in ways:
        if all(source in step_ids for source in transition.sources):
            yield from _way(transition, step, len(ways) > 1, depth)
        else:
            others = [source for source in transition.sources if source != step.id]
            goes = f"{names(others)} too, and is told there: to {names(transition.targets)}"
            yield Sentence(f"A way that waits for {goes}.", transition.line, depth=depth)
    if not ways and step is not recipe.end:
        yield Sentence("Nothing follows it.", step.line, depth=1)


def _way(transition: Transition, step: Step, several: bool, depth: int) -> Iterator[Sentence]:
    """One way on: what it waits for, and where it leads."""
    waits = list(_waits(transition, step))
    goes = f"it goes on with {names(transition.targets)}"
    date = dates(transition.times, transition.appointments) if _dated(transition) else ""
    if date and not waits:
        text = f"{date}, {goes}"
    elif date:
        text, waits = f"when it is time and what follows is so, {goes}:", [f"it is time {date}", *waits]
    elif len(waits) > 1:
        text = f"when all of this is so, {goes}:"
    elif waits:
        text = f"when {waits[0]}, {goes}"
    else:
        text = f"{'once it is done,' if several else 'then'} {goes}"
    yield Sentence(sentence(text), transition.line, depth=depth)
    for wait in waits if len(waits) > 1 else ():
        yield Sentence(sentence(wait), transition.line, depth=depth + 1)
    if transition.context is not None:
        yield Sentence(looked_for(transition.context), transition.line, depth=depth + 1)


def _dated(transition: Transition) -> bool:
    return bool(transition.times or transition.appointments)


def _waits(transition: Transition, step: Step) -> Iterator[str]:
    """The clauses for what a way waits for: the ends of steps, and elements."""
    failed = [link.step.id for link in transition.ins if link.on_error]
    done = [link.step.id for link in transition.ins if not link.on_error]
    if done and (failed or done != [step.id]):
        yield f"{names(done)} {'are' if len(done) > 1 else 'is'} done"
    if failed:
        yield f"{names(failed)} {'have' if len(failed) > 1 else 'has'} failed"
    yield from map(_condition, transition.conditions)


def _condition(condition: TransitionCondition) -> str:
    text = presence(condition.condition, absent=condition.absent, several=condition.listed)
    if condition.use:
        text += ", which no run has taken here before"
    if condition.lasting is not None:
        text += f", and this has been so for {length(condition.lasting)}"
    return text + (f" (called {quoted(condition.name)} from then on)" if condition.name else "")


# --- at the end -------------------------------------------------------------------------------------------


def _errors(recipe: Recipe) -> Iterator[Sentence]:
    """The outcome of the run when a step fails."""
    taken = any(link.on_error for transition in recipe.transitions.values() for link in transition.ins)
    unless = ", and none of these ways is for that" if taken else ""
    yield Sentence(f"If a step fails{unless}, the run has failed.", recipe.line)


def _outside(recipe: Recipe, steps: list[Step], library: Library) -> Iterator[Sentence]:
    """The recipe's own acts outside the home."""
    acting: dict[str, list[str]] = {}
    for step in steps:
        called = target_of(step.kind, step.target, step.agent, library) if step.sending is None else None
        if acts_outside(called):
            acting.setdefault(step.target, []).append(step.id)
    if acting:
        parts = (f"{target} (in {names(ids)})" for target, ids in acting.items())
        yield Sentence(f"Outside the home it acts by {listed(parts)}.", recipe.line)
