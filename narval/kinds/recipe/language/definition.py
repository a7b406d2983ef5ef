"""Recipe: steps, and transitions between them (§2.1.1, tables 2.3-2.11, N12).

A recipe is linked once, when it is loaded: steps and transitions point at each other, so that following a
plan needs no look-ups. Nothing here is altered afterwards; steps, transitions and recipes compare by
identity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec

from narval.core.definitions.appointment import Appointment
from narval.core.definitions.library import OwnNeed, RunDefinition
from narval.core.definitions.prototype import (
    EMPTY,
    Context,
    Narrowing,
    Prototype,
    TransitionCondition,
    narrow,
)
from narval.core.definitions.reading.walks import reached
from narval.core.definitions.remote_calls import Addressed, RemoteCall, called
from narval.core.definitions.schedule import Time
from narval.core.patterns.pattern import Condition

EACH = "each"
"""The variable that stands for the element of a call of a `foreach`."""


class Sending(NamedTuple):
    """The way a step sends (G27): to the agents that its target names, or that `select`, an XPath,
    names in each element.

    With `taken`, the step is done when everything is taken. An element that waits for longer than `keep`
    seconds is no longer taken (None: as the sender's settings say).
    """

    select: str = ""
    taken: bool = False
    keep: float | None = None

    @property
    def payload(self) -> dict[str, Any] | None:
        """The data that goes with the call."""
        return {word: value for word, value in self._asdict().items() if value} or None


class Step(msgspec.Struct, eq=False):
    """A unit of behaviour (table 2.4): calls its target, once or for each element that fits `foreach`."""

    id: str
    """The name of the step in its recipe."""
    kind: str
    """The kind of the target: action, transform, recipe, or any other kind of definition."""
    target: str
    """The name of the target; with `sending`, names of agents."""
    foreach: Condition | None = None
    """The condition of elements: the target is called for each one that fits."""
    arguments: tuple[bytes, ...] = ()
    """The elements that are written in the step."""
    context: Context | None = None
    """The elements that are searched first for its inputs."""
    inputs: tuple[Narrowing, ...] = ()
    """The inputs of the target as this step narrows them."""
    outputs: tuple[Narrowing, ...] = ()
    """The outputs of the target as this step narrows them."""
    timeout: float | None = None
    """Seconds that an attempt may take."""
    retries: int = 0
    """The number of further attempts."""
    backoff: float | None = None
    """Seconds before the second attempt; doubled for each further one."""
    on_restart: Literal["", "retry", "error"] = ""
    """The treatment of a call that was cut off by a crash; "" means as its target says."""
    max_parallel: int | None = None
    """The most calls at once of a step with `foreach`."""
    until: Condition | None = None
    """The condition that ends the repetition: the target is called again until an element fits."""
    every: Appointment | None = None
    """The time between two calls of the repetition."""
    line: int = 1
    """The line in the file."""
    ins: tuple[Transition, ...] = ()
    """The transitions that lead to it."""
    outs: tuple[Transition, ...] = ()
    """The transitions that leave it, in the order they are tried."""
    sole: Transition | None = None
    """The only transition out of it, if that waits for nothing but this step and fires as soon as the step is
    done.
    """
    places: tuple[tuple[int, int], ...] = ()
    """The line and column of each argument."""
    values: Mapping[int, frozenset[str]] = {}
    """The variables of arguments that are filled in when the step is run, by position."""
    agent: str = ""
    """The agent whose definition is called; "" for its own agent."""
    own_inputs: Prototype = EMPTY
    """The inputs that this step itself states, for calls and sends to another agent."""
    sending: Sending | None = None
    """The way it sends to other agents; None if it calls its target."""
    approve: str = ""
    """The work by which a person agrees before its calls are made."""
    on_withdraw: str = ""
    """The treatment of its run when an element that it was given is withdrawn: ignore, signal, fail or undo;
    "" means as the recipe says.
    """
    undo: str = ""
    """The action that undoes what its calls have done; "" means as its target says."""
    _declared: Prototype | None = None
    """The prototype of the target."""
    _narrowed: Prototype = EMPTY
    """The same prototype, as narrowed by this step."""

    def prototype(self, target: Prototype) -> Prototype:
        """The target's prototype as this step narrows it. Raises DefinitionError."""
        if self._declared is not target:
            self._declared, self._narrowed = target, narrow(target, self.inputs, self.outputs)
        return self._narrowed

    @property
    def called(self) -> str:
        """The words for what it calls."""
        return called(self.kind, self.target, self.agent)

    def __repr__(self) -> str:
        return f"<Step {self.id}: {self.kind} {self.target}>"


class In(msgspec.Struct, frozen=True):
    """A step that a transition leaves (table 2.10); `on_error`: the link is for its errors (§1.5.2)."""

    step: Step
    on_error: bool = False


class Transition(msgspec.Struct, eq=False):
    """The way from some steps to others, and what must hold before a plan takes it (table 2.5)."""

    id: str
    """The name of the transition in its recipe."""
    priority: int = 0
    """The priority: the highest is tried first."""
    order: int = 0
    """The place in the file, which breaks ties of priority."""
    ins: tuple[In, ...] = ()
    """The links from the steps that it leaves."""
    outs: tuple[Step, ...] = ()
    """The steps that it leads to."""
    conditions: tuple[TransitionCondition, ...] = ()
    """The conditions that must hold in memory."""
    context: Context | None = None
    """The elements that are searched first for its conditions."""
    times: tuple[Time, ...] = ()
    """The dates at which it may fire."""
    line: int = 1
    """The line in the file."""
    sources: tuple[str, ...] = ()
    """The ids of the steps that it leaves."""
    targets: tuple[str, ...] = ()
    """The ids of the steps that it leads to."""
    rivals: tuple[Transition, ...] = ()
    """The transitions that share a source, itself included, in the order they are tried."""
    names: tuple[str, ...] = ()
    """The names of its conditions."""
    variables: frozenset[str] = frozenset()
    """The variables in its conditions."""
    inner_names: frozenset[str] = frozenset()
    """The names among `names` that others of its conditions use."""
    plain: bool = True
    """True if each condition needs one element, independently of the others."""
    lasting: bool = False
    """True if some condition must hold for a time."""
    appointments: tuple[Appointment, ...] = ()
    """The dates that are read from elements."""
    dated: bool = False
    """True if it has no rival and fires as soon as one of its dates has come."""

    def __repr__(self) -> str:
        return f"<Transition {self.id}>"


def link(steps: Mapping[str, Step], transitions: Mapping[str, Transition]) -> None:
    """Point steps and transitions, given by id, at each other, in the order they are tried."""
    ins: dict[str, list[Transition]] = {id: [] for id in steps}
    outs: dict[str, list[Transition]] = {id: [] for id in steps}
    for transition in transitions.values():
        transition.sources = tuple(source.step.id for source in transition.ins)
        transition.targets = tuple(step.id for step in transition.outs)
        for id in transition.targets:
            ins[id].append(transition)
        for id in transition.sources:
            outs[id].append(transition)
    for id, step in steps.items():
        step.ins = tuple(ins[id])
        step.outs = in_order(outs[id])
        step.sole = _sole(step)
    for transition in transitions.values():
        used = (each.condition.variables for each in transition.conditions)
        transition.names = tuple(each.name for each in transition.conditions if each.name)
        transition.variables = frozenset[str]().union(*used)
        transition.inner_names = transition.variables & {*transition.names}
        transition.lasting = any(each.lasting is not None for each in transition.conditions)
        transition.plain = not transition.inner_names and not any(
            each.listed or each.absent for each in transition.conditions
        )
        rivals = {rival.id: rival for source in transition.ins for rival in source.step.outs}
        transition.rivals = in_order(rivals.values())
        waits = len(rivals) > 1 or transition.conditions or transition.appointments
        transition.dated = bool(transition.times) and not waits


def named(transitions: Iterable[Transition]) -> dict[str, tuple[tuple[str, int], ...]]:
    """The names of conditions, each with the transitions and positions of the conditions that have it."""
    places: dict[str, tuple[tuple[str, int], ...]] = {}
    for transition in transitions:
        for at, condition in enumerate(transition.conditions):
            if condition.name:
                places[condition.name] = (*places.get(condition.name, ()), (transition.id, at))
    return places


def in_order(transitions: Iterable[Transition]) -> tuple[Transition, ...]:
    """Transitions by priority, then as in the file."""
    return tuple(sorted(transitions, key=lambda transition: (-transition.priority, transition.order)))


def _sole(step: Step) -> Transition | None:
    """The only transition out of a step, if it waits for nothing else."""
    if len(step.outs) != 1:
        return None
    only = step.outs[0]
    waits = len(only.ins) > 1 or only.ins[0].on_error or only.conditions or only.times or only.appointments
    return None if waits else only


class Recipe(RunDefinition, frozen=True, eq=False):
    """The definition that a plan follows (table 2.3). Steps and transitions are by id, as in the file.

    `restart` says when another plan begins: when this one has ended, or `parallel` to it, as soon as its
    first transition has fired. `names` has the names of conditions, each with the transitions and positions
    of the conditions of that name. `on_withdraw` is the treatment of its runs when an element that they
    relied on is withdrawn; None: those under way get a signal.
    """

    kind: ClassVar[str] = "recipe"

    start: Step
    end: Step
    steps: Mapping[str, Step]
    transitions: Mapping[str, Transition]
    restart: Literal["no", "yes", "parallel"] = "no"
    names: Mapping[str, tuple[tuple[str, int], ...]] = {}
    on_withdraw: str | None = None

    def line_of(self, part: str) -> int:
        """The line of its file on which a step begins."""
        step = self.steps.get(part)
        return step.line if step is not None else self.line

    def fails_with(self, part: str) -> bool:
        """True for a step that no error link leaves."""
        links = (link for transition in self.transitions.values() for link in transition.ins)
        return part in self.steps and not any(link.on_error and link.step.id == part for link in links)

    @property
    def waits(self) -> Iterator[tuple[str, tuple[TransitionCondition, ...]]]:
        """Its transitions, each with its conditions."""
        return ((transition.id, transition.conditions) for transition in self.transitions.values())

    @property
    def remote_calls(self) -> Iterator[RemoteCall]:
        """The steps that call definitions of other agents."""
        for step in self.steps.values():
            if step.agent:
                part = f"step {step.id!r}"
                yield RemoteCall(step.agent, step.kind, step.target, part, step.line, step.timeout)

    @property
    def addressed(self) -> Iterator[Addressed]:
        """The agents that its steps call or send to."""
        yield from super().addressed
        for step in self.steps.values():
            for name in step.target.split() if step.sending is not None and not step.sending.select else ():
                yield Addressed(name, f"step {step.id!r}", step.line)

    @property
    def own_needs(self) -> Iterator[OwnNeed]:
        """The need to send to any agent, if a step sends to agents that an element names."""
        for step in self.steps.values():
            if step.sending is not None and step.sending.select:
                yield OwnNeed("agent", "*", f"step {step.id!r}", step.line)

    @property
    def times(self) -> tuple[Time, ...]:
        """The dates of all transitions."""
        return tuple(time for transition in self.transitions.values() for time in transition.times)

    def part_id(self, transition: Transition) -> str:
        """The id of a transition among all parts: `transition ID` if a step has the same id."""
        return f"transition {transition.id}" if transition.id in self.steps else transition.id

    def transition_of(self, part: str) -> Transition | None:
        """The transition that has this id among all parts, if there is one."""
        transition = self.transitions.get(part) or self.transitions.get(part.removeprefix("transition "))
        return (
            transition
            if transition is not None and part in (transition.id, self.part_id(transition))
            else None
        )


# --- steps that lead nowhere ------------------------------------------------------------------------------

FAILS = "basic.error"
"""The action that only fails, so that nothing needs to follow it."""


def lead_nowhere(recipe: Recipe) -> Iterator[Step]:
    """The steps, except the end step, that no transition leaves once they are done."""
    for step in recipe.steps.values():
        links = (link for transition in step.outs for link in transition.ins if link.step is step)
        if step is not recipe.end and step.target != FAILS and all(link.on_error for link in links):
            yield step


def dead_ends(recipe: Recipe) -> Iterator[Step]:
    """The dead ends that a plan can reach while none of its branches leads to the end step."""
    transitions = recipe.transitions.values()
    backwards = (((target,), way.sources) for way in transitions for target in way.targets)
    ending = reached([recipe.end.id], backwards)
    alone = reached(
        [recipe.start.id],
        (
            (way.sources, [at for at in way.targets if ending.isdisjoint({*way.targets} - {at})])
            for way in transitions
        ),
    )
    return (step for step in lead_nowhere(recipe) if step.id in alone)


def remedy_of(recipe: Recipe, step: Step) -> str:
    """The remedy for a step that leads nowhere, for the author of its recipe."""
    return (
        f"step {step.id!r} leads nowhere, and a plan has one end, {recipe.end.id!r}: lead both to one step, "
        'such as <step id="end" type="action" target="basic.nothing"/>, and make that the end_step'
    )
