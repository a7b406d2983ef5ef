"""The questions of the executor of a simulation about a call, answered from the agents at play: whether it is
pure, what it may give, by whom it is made, and with what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from narval.calls.context import CallContext
from narval.core.definitions.action.definition import Action
from narval.core.definitions.prototype import Prototype
from narval.core.elements.element import Element
from narval.trials.simulate.agents import AgentsAtPlay
from narval.trials.simulate.executor import RecordedCall, SimulationHooks
from narval.trials.simulate.names import DATAFLOW
from narval.trials.simulate.scenario import CannedAnswer


def hooks_of(
    agents: Callable[[], AgentsAtPlay], past: Callable[[RecordedCall], CannedAnswer | None]
) -> SimulationHooks:
    """The answers for agents that are there by the first call, and those that calls came back with before."""
    return SimulationHooks(
        is_pure=lambda call: _is_pure(agents(), call),
        prototype=lambda call: _prototype(agents(), call),
        place=lambda call: _place(agents(), call),
        refusal=lambda call: agents().known[call.agent].schemas.refusal,
        set_by_author=lambda call: _set_by_author(agents(), call),
        elements=lambda call, eids: _elements(agents(), call, eids),
        past=past,
    )


def _is_pure(agents: AgentsAtPlay, call: CallContext) -> bool:
    library, name = agents.known[call.agent].library, call.target.action
    definition = library.get("action", name) or library.get("node-type", name)
    return getattr(definition, "pure", False)


def _place(agents: AgentsAtPlay, call: CallContext) -> tuple[int, str, str]:
    runs = agents.host(call.agent).agent.runs
    run = runs.get(call.run)
    if run is None:
        return call.run, "", call.step
    caller = run.caller
    if run.kind == DATAFLOW and caller is not None and caller.run in runs:
        return caller.run, runs[caller.run].name, caller.step
    return run.eid, run.name, call.step


def _prototype(agents: AgentsAtPlay, call: CallContext) -> Prototype | None:
    """The prototype of an action, as the step that calls it tightens that; of a dataflow that gives nothing
    one without outputs.
    """
    library, name = agents.known[call.agent].library, call.target.action
    action, dataflow = library.get("action", name), library.get(DATAFLOW, name)
    if action is None and dataflow is not None and not getattr(dataflow, "outputs", True):
        return Prototype()
    run = agents.host(call.agent).agent.runs.get(call.run)
    if not isinstance(action, Action):
        return None
    steps = getattr(run.definition, "steps", {}) if run is not None else {}
    step = steps.get(call.step)
    return step.prototype(action.prototype) if step is not None else action.prototype


def _elements(agents: AgentsAtPlay, call: CallContext, eids: Iterable[int]) -> tuple[Element, ...]:
    memory = agents.host(call.agent).agent.memory
    found = (memory.element(eid) for eid in eids)
    return tuple(element for element in found if element is not None)


def _set_by_author(agents: AgentsAtPlay, call: CallContext) -> Mapping[str, str]:
    """The attributes that the prompt of a call sets, as `model.ask` would; {} for any other call."""
    action = agents.known[call.agent].library.get("action", call.target.action)
    prompt = call.inputs.get(action.model) if isinstance(action, Action) and action.model else None
    if not isinstance(prompt, Element):
        return {}
    return {each.get("name", ""): each.get("value", "") for each in prompt.tree().iterchildren("set")}
