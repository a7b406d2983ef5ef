"""A slow reference of cases: the rules said once more, over plain lists, with nothing counted."""

from __future__ import annotations

from dataclasses import dataclass, field

COMPENSATORS = {"a": "undo_a", "b": "undo_b"}
COMPOSES = "join"
GOING = ("task", "event", "held")
ENDS = ("committed", "aborted", "withdrawn", "merged")


@dataclass
class Thing:
    """An object: where it is, and what it is part of."""

    parent: int = 0
    place: str = "task"
    type: str = ""
    parts: list[int] = field(default_factory=list)
    routes: list[tuple[str, int]] | None = None
    made: list[int] = field(default_factory=list)


@dataclass
class Passed:
    """A step of the trail, and what became of it."""

    thing: int
    type: str
    fate: str = "forwarded"


class CaseReference:
    """One case. `has_exception`: the group has a type for exceptions; `away` are the types not loaded."""

    def __init__(self, first: int, has_exception: bool) -> None:
        self.things: dict[int, Thing] = {first: Thing()}
        self.steps: list[Passed] = []
        self.undone: list[int] = []
        """The steps compensated, in the order in which that was done."""
        self.away: set[str] = set()
        self.has_exception = has_exception
        self.status = "active"
        self.is_cancelled = False
        self.running: int | None = None
        self.waits: list[int] = []
        self.committed_after_abort = False
        self.put(first, "a")

    # --- where things go --------------------------------------------------------------------------------

    def put(self, thing: int, type: str) -> None:
        found = self.things[thing]
        whole = self.things.get(found.parent)
        if type == COMPOSES and whole is not None and self._lost(found.parent):
            self.excepts(thing, type)
            return
        found.place, found.type, found.routes, found.made = "task", type, None, []
        if type in self.away:
            found.place = "held"

    def excepts(self, thing: int, type: str) -> None:
        if self.has_exception and type != "exception":
            self.put(thing, "exception")
        else:
            self.things[thing].place, self.things[thing].type = "held", type

    def _lost(self, whole: int) -> bool:
        """True if a part of an object ended, and did not become part of it again."""
        return any(self.things[part].place in ENDS[:3] for part in self.things[whole].parts)

    def forward(self, thing: int, routes: list[tuple[str, int]], parts: list[int]) -> None:
        found = self.things[thing]
        self.steps.append(Passed(thing, found.type))
        if found.place not in GOING:
            return
        self.follow(thing, routes, parts)
        if not parts and not routes:
            found.place, found.type = "held", ""

    def follow(self, thing: int, routes: list[tuple[str, int]], parts: list[int]) -> None:
        found = self.things[thing]
        if parts:
            found.place, found.parts = "parts", found.parts + parts
            for part in parts:
                self.things[part] = Thing(thing, "held", "")
        for type, one in routes:
            self.put(one, type)

    def commit(self, thing: int) -> None:
        found = self.things[thing]
        if found.place not in GOING:
            self.steps.append(Passed(thing, found.type))
            return
        self.end(thing, "committed")
        self.committed_after_abort = True

    def end(self, thing: int, how: str) -> None:
        found = self.things[thing]
        found.place = how
        if how == "committed":
            family = [thing]
            for one in family:
                family += [part for part in self.things[one].parts if self.things[part].place == "merged"]
            for step in self.steps:
                if step.thing in family and step.fate == "forwarded":
                    step.fate = "committed"
        whole = self.things.get(found.parent)
        if whole is None or whole.place != "parts":
            return
        left = [part for part in whole.parts if self.things[part].place not in ENDS]
        if left:
            if self.status in ("active", "held"):
                for part in left:
                    if self.things[part].place == "task" and self.things[part].type == COMPOSES:
                        self.excepts(part, COMPOSES)
            return
        hows = {self.things[part].place for part in whole.parts} - {"merged"}
        self.end(found.parent, how if len(hows) == 1 else "aborted")

    def merge(self, whole: int) -> None:
        for part in self.things[whole].parts:
            self.things[part].place = "merged"
        self.things[whole].place, self.things[whole].type = "task", COMPOSES

    # --- what is undone ---------------------------------------------------------------------------------

    def abort(self, thing: int | None) -> None:
        """An object comes to ABORT, or with None a person cancels the case."""
        first = self.status not in ("aborting", "blocked")
        if thing is None:
            self.is_cancelled = True
            if self.status == "blocked":
                for step in self.steps:
                    if step.fate in ("forwarded", "failed"):
                        step.fate = "given up"
                self.running = None
        else:
            self.things[thing].place = "aborting"
        if self.status != "blocked" or thing is None:
            self.status = "aborting"
        if first:
            self.committed_after_abort = False
            for one in list(self.things):
                found = self.things[one]
                if found.place in ("task", "event"):
                    found.place = "withdrawing"
                elif found.place in ("held", "leaving"):
                    self.end(one, "withdrawn")
        self.go_on()

    def withdrawn(self, thing: int) -> None:
        if self.things[thing].place == "withdrawing":
            self.end(thing, "withdrawn")
            self.go_on()

    def go_on(self) -> None:
        if self.status != "aborting" or self.running is not None:
            return
        if any(thing.place == "withdrawing" for thing in self.things.values()):
            return
        while True:
            open_steps = [at for at, step in enumerate(self.steps) if step.fate in ("forwarded", "failed")]
            if not open_steps:
                break
            at = open_steps[-1]
            if self.steps[at].type in COMPENSATORS:
                self.running = at
                self.steps[at].fate = "compensating"
                return
            self.steps[at].fate = "none"
        self.all_undone()

    def compensator_over(self, well: bool) -> None:
        at = self.running
        assert at is not None
        if well:
            self.steps[at].fate, self.running = "compensated", None
            self.undone.append(at)
            self.go_on()
        else:
            self.steps[at].fate, self.status = "failed", "blocked"

    def all_undone(self) -> None:
        if not self.is_cancelled:
            self.status = "active"
        for one in list(self.things):
            found = self.things[one]
            if found.place != "aborting":
                continue
            found.place = "leaving"
        for one in list(self.things):
            found = self.things[one]
            if found.place == "leaving" and found.routes and not self.is_cancelled:
                self.follow(one, found.routes, found.made)
            elif found.place == "leaving" and (self.is_cancelled or found.routes is not None):
                self.end(one, "aborted")

    def routed(self, thing: int, routes: list[tuple[str, int]], parts: list[int]) -> None:
        """The script of ABORT says where an object goes, or its parts."""
        found = self.things[thing]
        if found.place == "aborting":
            found.routes, found.made = routes, parts
        elif routes:
            self.follow(thing, routes, parts)
        else:
            self.end(thing, "aborted")

    # --- what holds -------------------------------------------------------------------------------------

    def expected_status(self) -> str:
        if self.status == "blocked":
            return "blocked"
        going = [thing for thing in self.things.values() if thing.place not in (*ENDS, "parts")]
        if self.status == "aborting":
            return "cancelled" if not going and self.running is None and self.is_cancelled else "aborting"
        if not going:
            return "committed" if self.committed_after_abort else "aborted"
        return "held" if any(thing.place == "held" for thing in going) else "active"
