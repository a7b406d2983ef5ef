"""One advance of one case: where its objects go, and what cannot continue."""

from __future__ import annotations

from narval.core.engines import commands
from narval.core.engines.decision import Decision
from narval.core.engines.events import Plain
from narval.kinds.task.engine.case import changes
from narval.kinds.task.engine.case.changes import CaseChange
from narval.kinds.task.engine.case.state import UNDER_WAY, CaseState, Divisions, Routes
from narval.kinds.task.language.definition import TaskDefinition

MOST_VISITS = 100
"""The most times that an object, or a whole that it is part of, is put to one type (KA28)."""

EXCEPTION_TYPE = "exception"
"""The name of the group's type that receives objects which no EXCEPTION script routes (K29)."""


class CaseDecision(Decision[TaskDefinition, CaseState, CaseChange], kw_only=True, eq=False):
    """One advance of one case."""

    # --- where objects go -------------------------------------------------------------------------------

    def find_type(self, name: str, near: str = "") -> TaskDefinition | None:
        """The type that a name refers to at type `near`: in its group first, then by the name alone."""
        group = (near or self.definition.full_name).partition(".")[0]
        found = self.view.definition(TaskDefinition.kind, f"{group}.{name}")
        if found is None:
            found = self.view.definition(TaskDefinition.kind, name)
        return found if isinstance(found, TaskDefinition) else None

    def put(self, identity: int, name: str, *, by_hand: bool = False) -> None:
        """Put an object into the queue of a type, unless it has been there too often (K21, KA28)."""
        member = self.state.members[identity]
        definition = self.find_type(name, member.type)
        type = definition.full_name if definition is not None else name
        visits = self.visits(identity, type)
        if visits >= MOST_VISITS and not by_hand:
            why = f"it has been at {type} {visits} times; see why it comes back"
            self.except_from(identity, type, "visits", why)
            return
        composes = definition is not None and bool(definition.composed_from) and bool(member.parent)
        if composes and self.state.members[member.parent].missing:
            self.except_from(identity, type, "missing-part", self.missing_part(member.parent))
            return
        self.change(changes.ObjectPut(self.event.at, identity, type, composes))
        arguments: dict[str, Plain] = {
            "object": member.now,
            "case": self.state.eid,
            "parent": member.parent,
            "ordinal": member.ordinal,
            "count": member.count,
            "visits": visits + 1,
        }
        self.tell(identity, type, "put", arguments)

    def tell_version(self, identity: int, object: int) -> None:
        """Record that an object has another current version."""
        if object not in (identity, self.state.members[identity].now):
            self.change(changes.VersionTold(identity, object))

    def visits(self, identity: int, type: str) -> int:
        """The number of times that an object, or a whole that it is part of, was put to a type."""
        member, found = self.state.members[identity], 0
        while True:
            found += member.visits.get(type, 0)
            if not member.parent:
                return found
            member = self.state.members[member.parent]

    def tell(self, identity: int, type: str, signal: str, arguments: dict[str, Plain]) -> None:
        """Send the server of a type a signal about an object."""
        object = self.state.members[identity].now
        call = self.identifier()
        self.ask(commands.telling(call, type, str(identity), signal, arguments, (object,)))

    def follow(self, identity: int, divisions: Divisions, routes: Routes) -> bool:
        """Send an object on, and hold parts that no script has routed; True if the object itself stays."""
        objects, type = self.state.objects, self.state.members[identity].type
        for object, parts in divisions:
            self.change(changes.ObjectDivided(self.event.at, objects[object], parts))
        on_its_way = {objects[object] for object in (*dict(divisions), *(object for _, object in routes))}
        for to, object in routes:
            self.put(objects[object], to)
        for part in (part for _, parts in divisions for part in parts if part not in on_its_way):
            self.hold(part, "", "no-route", f"no script of {type} routes it; name the type where it goes")
        return identity not in on_its_way

    # --- what cannot continue ------------------------------------------------------------------------------

    def except_from(self, identity: int, type: str, kind: str, why: str) -> None:
        """Hand an object to the type `exception` of the group (K29); without that type, hold it."""
        taker = self.find_type(EXCEPTION_TYPE, type)
        if taker is None or taker.full_name == type:
            self.hold(identity, type, kind, why)
        else:
            self.put(identity, taker.full_name)

    def hold(self, identity: int, type: str, kind: str, why: str) -> None:
        """Hold an object that cannot continue by itself; a person must act."""
        member = self.state.members[identity]
        object, at = member.now, type or member.type
        message = f"object {object} is held at {at}: {why}"
        where: dict[str, str | int | None] = {"object": object, "type_of_task": type, "step": at}
        error = self.add_error_element(kind, message, str(identity), inputs=(object,), where=where)
        self.change(changes.ObjectHeld(self.event.at, identity, type, kind, why, error))

    def except_waiting(self, parent: int) -> None:
        """Make exceptions of the parts that wait for a part that will never come (K20)."""
        why = self.missing_part(parent)
        for part in self.state.members[parent].parts:
            member = self.state.members[part]
            if member.composes:
                self.tell(part, member.type, "withdraw", {"object": member.now, "why": why})
                self.except_from(part, member.type, "missing-part", why)

    def missing_part(self, parent: int) -> str:
        """A sentence about the part that will never come, with the reason."""
        members = self.state.members
        missing = members[members[parent].missing]
        return (
            f"part {missing.ordinal} of object {parent} (object {missing.now}) will not come: {missing.state}"
        )

    # --- the end ----------------------------------------------------------------------------------------

    def end_object(self, identity: int, end: str, why: str = "") -> None:
        """End an object's path, and that of its whole if no other part is under way."""
        members, at = self.state.members, self.event.at
        while True:
            member = members[identity]
            self.change(changes.ObjectEnded(at, identity, end, why))
            if end == "committed":
                self.command(commands.Outdate((member.now,)))
            whole = members.get(member.parent)
            if whole is None or whole.state != "parts":
                break
            if whole.open:
                if whole.composing and not self.state.is_undoing:
                    self.except_waiting(member.parent)
                break
            ends = {members[part].state for part in whole.parts} - {"merged"}
            identity, end = member.parent, end if len(ends) == 1 else "aborted"

    def settle(self) -> None:
        """End the case if none of its objects is under way."""
        state = self.state
        if not (state.open or state.over or state.is_undoing):
            self.end("committed" if state.committed else "aborted")

    def end(self, status: str, error: int | None = None) -> None:
        """End the case; its caller gets its objects, or the error."""
        self.change(changes.CaseOver(self.event.at, status, error))
        self.report_end((error,) if error is not None else self.state.first)

    def under_way(self) -> list[int]:
        """The objects whose path has not ended."""
        return [identity for identity, member in self.state.members.items() if member.state in UNDER_WAY]
