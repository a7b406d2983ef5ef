"""One advance of an instance: what it tells servers and cases, and the calls it makes."""

from __future__ import annotations

from typing import Any

from narval.core.definitions.action.definition import Action
from narval.core.engines import commands
from narval.core.engines.assignment import Slot, assign
from narval.core.engines.candidates import CandidateSearch
from narval.core.engines.decision import Decision, Inputs
from narval.core.engines.events import Failure, Plain, Returned
from narval.kinds.task.engine.changes import AskerSet, CallAsked, TaskChange
from narval.kinds.task.engine.state import InstanceState, ScriptFrame
from narval.kinds.task.engine.values import ScriptFault
from narval.kinds.task.language.definition import Rule, Script, TaskDefinition


class InstanceDecision(Decision[TaskDefinition, InstanceState, TaskChange], kw_only=True, eq=False):
    """One advance of one instance."""

    moves: int = 0
    """The number of states entered."""

    # --- the definition -------------------------------------------------------------------------------

    def script(self, frame: ScriptFrame) -> Script:
        """The script that is under way."""
        definition = self.definition
        if frame.kind == "routes":
            return definition.route_of(frame.state)
        if frame.kind == "action":
            rule = self.rule(frame)
            return rule.action if rule is not None else ()
        task_state = definition.states[frame.state]
        return task_state.on_leaving if frame.kind == "leaving" else task_state.on_assert

    def rule(self, frame: ScriptFrame) -> Rule | None:
        """The rule whose action a script is; None for other scripts."""
        rules = self.definition.rules_for(frame.state, frame.event) if frame.kind == "action" else ()
        return rules[frame.rule] if frame.rule < len(rules) else None

    def task(self, name: str) -> TaskDefinition:
        """The type with a name, sought in the group first, then as a full name. Raises ScriptFault."""
        for full in (f"{self.definition.group}.{name}", name):
            definition = self.view.definition(self.definition.kind, full)
            if definition is not None and definition.full_name == full:
                assert isinstance(definition, TaskDefinition), definition
                return definition
        raise ScriptFault("unknown-target", f"expected a task type, found no {name}")

    def named(self, state: str) -> str:
        """The name of a state that may be given by its number."""
        for name, task_state in self.definition.states.items():
            if task_state.number == state:
                return name
        return state

    def has_rules(self, state: str) -> bool:
        """True if a state has rules for events."""
        task_state = self.definition.states.get(state)
        return task_state is not None and bool(task_state.rules)

    # --- calls ----------------------------------------------------------------------------------------

    def tell(
        self,
        signal: str,
        arguments: dict[str, Plain],
        elements: tuple[int, ...] = (),
        *,
        name: str = "",
        run: int = 0,
        purpose: str = "",
        answers: str = "",
    ) -> str:
        """Signal a run, else the server of a type; return the id of the call. With a `purpose` the instance
        waits for the call, and its result `answers` a signal.
        """
        identifier = self.identifier()
        if purpose:
            self.change(CallAsked(identifier, purpose, answers))
        target = name or self.definition.full_name
        self.command(commands.telling(identifier, target, self.part, signal, arguments, elements, run=run))
        return identifier

    def tell_state(self, **more: Plain) -> None:
        """Tell the server the state ("" if it has no rules) and the object."""
        run = self.state
        where = run.state if self.has_rules(run.state) else ""
        said: dict[str, Plain] = {"state": where, "object": run.object, "case": run.case}
        self.tell("at", {"instance": run.eid, **said, **more})

    @property
    def part(self) -> str:
        """The state, which is the step of calls."""
        return self.state.place or self.definition.name

    def call(
        self, identifier: str, kind: str, name: str, near: tuple[tuple[int, ...], ...], **more: Any
    ) -> None:
        """Call a definition; its inputs are sought `near` first. Raises ScriptFault."""
        self.command(commands.Call(identifier, kind, name, self.part, nearby=near, **more))

    def call_action(
        self, identifier: str, kind: str, name: str, near: tuple[tuple[int, ...], ...]
    ) -> tuple[int, ...]:
        """Call an action; return the elements that it will replace. Raises ScriptFault."""
        target = self.view.definition(kind, name)
        if target is None:
            raise ScriptFault("unknown-target", f"there is no {kind} named {name}")
        inputs, reserved = self._find_inputs(target, near)
        undoable = kind == Action.kind and target.undo != ""
        more = {"inputs": inputs, "listed": target.prototype.lists, "undoable": undoable}
        self.call(identifier, kind, target.full_name, near, **more)
        return reserved

    def made_of(self) -> tuple[int, ...]:
        """The sources of what follows from the event: the object, and the inputs of a call that returned."""
        event, of = self.event, self.state.object
        inputs = self.given_to(event.call) if isinstance(event, Returned) else ()
        return tuple(dict.fromkeys((of, *inputs) if of else inputs))

    def _find_inputs(self, target: Any, near: tuple[tuple[int, ...], ...]) -> tuple[Inputs, tuple[int, ...]]:
        prototype = target.prototype
        search = CandidateSearch(self.view, self.state.eid, near)
        slots = [
            Slot(
                slot.id,
                search.ranks(slot.condition.bind({}), None, newest=slot.newest),
                slot.optional,
                slot.list,
            )
            for slot in prototype.inputs
        ]
        assigned = assign(slots)
        if assigned.missing:
            missing = ", ".join(assigned.missing)
            raise ScriptFault("input-missing", f"{target.full_name}: nothing in memory fits {missing}")
        inputs = tuple((slot.id, eids) for slot in prototype.inputs if (eids := assigned.given.get(slot.id)))
        outdating = {slot.id for slot in prototype.inputs if slot.outdates}
        reserved = tuple(eid for name, eids in inputs if name in outdating for eid in eids)
        for name, eids in inputs:
            self.use_input(None, name in outdating, eids)
        return inputs, reserved

    def call_program(self, identifier: str, words: tuple[str, ...], values: dict[str, str], eid: int) -> None:
        """Call a program with the object on its standard input, and the run and values in its environment."""
        environment = (("NARVAL_TASK", str(self.state.eid)), *values.items())
        program = commands.Program(words, environment=environment)
        inputs: Inputs = (("", (eid,)),) if eid else ()
        self.command(
            commands.Call(identifier, commands.PROGRAM, words[0], self.part, inputs, ("",), program=program)
        )

    # --- answers --------------------------------------------------------------------------------------

    def answer_asker(self) -> None:
        """Answer the signal that asked for a move or an object, once everything that it caused is done."""
        state = self.state
        if state.asker:
            value: dict[str, Plain] = {"state": state.state, "object": state.object, "case": state.case}
            if state.why:
                value["why"] = state.why
            self.ask(commands.Answer(state.asker, value))
            self.change(AskerSet())

    def turn_down(self, signal: str, kind: str, message: str) -> None:
        """Refuse a signal that was kept."""
        self.ask(commands.Answer(signal, problem=Failure(kind, message)))
