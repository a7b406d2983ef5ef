"""The facts about a simulation's calls that its executor needs: whether one is pure, its possible results,
its caller, its inputs, and the default answer. The simulated agents provide them.

A default answer is the least that the outputs of a call allow, or none. An output's patterns state the name
and the attributes of its element. If they state more than that, no answer is made up: a simulation must not
invent things.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from lxml import etree

from narval.calls.context import CallContext
from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Library
from narval.core.definitions.prototype import Output, Prototype
from narval.core.elements.element import Element, Tree, local_name
from narval.core.patterns.key import Key
from narval.trials.simulate.names import DATAFLOW
from narval.trials.simulate.simulated_home import AgentsAtPlay

Refusal = Callable[[bytes], str | None]
"""A function that returns the reason why a schema refuses an element, or None."""


class CallsKnown:
    """The facts about calls, from agents that exist by the first call."""

    def __init__(self, agents: Callable[[], AgentsAtPlay]) -> None:
        self._agents = agents

    def is_pure(self, call: CallContext) -> bool:
        """True for a call of an action that is declared pure."""
        library, name = self._library(call), call.target.action
        definition = library.get("action", name) or library.get("node-type", name)
        return getattr(definition, "pure", False)

    def place(self, call: CallContext) -> tuple[int, str, str]:
        """The run, the definition and the step that make a call; for a dataflow, those that called it."""
        runs = self._agents().host(call.agent).agent.runs
        run = runs.get(call.run)
        if run is None:
            return call.run, "", call.step
        caller = run.caller
        if run.kind == DATAFLOW and caller is not None and caller.run in runs:
            return caller.run, runs[caller.run].name, caller.step
        return run.eid, run.name, call.step

    def prototype(self, call: CallContext) -> Prototype | None:
        """The prototype of an action as its step narrows it; of a dataflow without results, no outputs."""
        library, name = self._library(call), call.target.action
        action, dataflow = library.get("action", name), library.get(DATAFLOW, name)
        if action is None and dataflow is not None and not getattr(dataflow, "outputs", True):
            return Prototype()
        run = self._agents().host(call.agent).agent.runs.get(call.run)
        if not isinstance(action, Action):
            return None
        steps = getattr(run.definition, "steps", {}) if run is not None else {}
        step = steps.get(call.step)
        return step.prototype(action.prototype) if step is not None else action.prototype

    def refusal(self, call: CallContext) -> Refusal:
        """The judge of the elements that a call would produce."""
        return self._agents().known[call.agent].schemas.refusal

    def elements(self, call: CallContext, eids: Iterable[int]) -> tuple[Element, ...]:
        """The elements by their eids, in the memory of the calling agent."""
        memory = self._agents().host(call.agent).agent.memory
        present = (memory.element(eid) for eid in eids)
        return tuple(element for element in present if element is not None)

    def set_by_author(self, call: CallContext) -> Mapping[str, str]:
        """The attributes that the prompt of a call sets on whatever a language model answers, or {}."""
        action = self._library(call).get("action", call.target.action)
        prompt = call.inputs.get(action.model) if isinstance(action, Action) and action.model else None
        if not isinstance(prompt, Element):
            return {}
        return {each.get("name", ""): each.get("value", "") for each in prompt.tree().iterchildren("set")}

    def _library(self, call: CallContext) -> Library:
        return self._agents().known[call.agent].library


# --- default answers ------------------------------------------------------------------------------------

FILLED_IN = "simulated"
"""The value of an attribute that an output only requires to exist."""

OBEYED = ("start-plan", "quit")
"""The control elements, which are never made up."""


def default_answer(prototype: Prototype, refusal: Refusal) -> list[bytes] | None:
    """An element for each mandatory output; None if one of these cannot be derived."""
    elements: list[bytes] = []
    for output in prototype.outputs:
        if not output.optional:
            element = _element(output, prototype.outputs, refusal)
            if element is None:
                return None
            elements.append(element)
    return elements


def _element(output: Output, outputs: Iterable[Output], refusal: Refusal) -> bytes | None:
    if output.condition.variables:
        return None
    for key in output.condition.bind().alternatives():
        xml = _least(key)
        if xml is not None and refusal(xml) is None and _fitting(xml, outputs) == [output.id]:
            return xml
    return None


def _least(key: Key) -> bytes | None:
    """The element with the name and the attributes that a key demands of its root."""
    if key.tag is None or local_name(key.tag) in OBEYED:
        return None
    root = etree.Element(key.tag)
    for test in key.tests:
        if test.field.attribute is not None and test.positive:
            if test.operator == "eq":
                root.set(test.field.attribute, str(test.operand))
            elif test.operator == "has" and root.get(test.field.attribute) is None:
                root.set(test.field.attribute, FILLED_IN)
    return etree.tostring(root, encoding="utf-8")


def _fitting(xml: bytes, outputs: Iterable[Output]) -> list[str]:
    tree = Tree(Element(0, xml))
    return [output.id for output in outputs if output.condition.bind().test(tree)]
