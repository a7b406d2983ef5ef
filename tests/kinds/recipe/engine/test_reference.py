"""Any plan does what a naive reference does (N15-N18, N22-N27).

The reference tries every assignment, looks through all of memory, and shares no code with the engine. It is
not specified which of two plans takes an element that both wait for: it is the one that has waited longest,
unless a related condition has renewed its watch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from narval.core.definitions.action.definition import Input, Output
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition
from tests.kinds.recipe.engine.conditions import condition

NAMES = ("red", "green", "blue")
WAITS = ("wait-step", "wait-condition")


class Thing(NamedTuple):
    """An element of memory."""

    eid: int
    name: str
    n: int


class Pattern(NamedTuple):
    """`red[@n > 1] | green[@n > 1]`, or `red[@n = $x/@n]`."""

    names: tuple[str, ...]
    least: int = 0
    variable: str = ""

    def __str__(self) -> str:
        test = f"[@n > {self.least}]" if self.least else ""
        test = f"[@n = ${self.variable}/@n]" if self.variable else test
        return " | ".join(name + test for name in self.names)

    def fits(self, thing: Thing, bound: dict[str, list[Thing]]) -> bool:
        if self.variable and thing.n not in [other.n for other in bound.get(self.variable, ())]:
            return False
        return thing.name in self.names and thing.n > self.least


class Slot(NamedTuple):
    """An input or a condition."""

    id: str
    pattern: Pattern
    use: bool = False
    list: bool = False
    optional: bool = False
    outdates: bool = False
    absent: bool = False


class Way(NamedTuple):
    """A transition; an in-step may be that of an error link."""

    id: str
    ins: tuple[tuple[str, bool], ...]
    outs: tuple[str, ...]
    conditions: tuple[Slot, ...]
    priority: int

    @property
    def names(self) -> set[str]:
        """The names of its conditions that others of them use."""
        return {slot.id for slot in self.conditions} & {slot.pattern.variable for slot in self.conditions}


class Drawn(NamedTuple):
    """A recipe: the inputs of its steps, and its transitions."""

    steps: dict[str, tuple[Slot, ...]]
    ways: tuple[Way, ...]
    end: str


Candidate = tuple[int, Thing]
"""An element, and its rank."""


def assigned(
    slots: list[Slot], candidates: list[list[Candidate]], *, any_rank: bool
) -> list[list[Thing]] | None:
    """The elements of each slot, of all possible assignments the best (N16); None if there is none."""
    mandatory = [at for at, slot in enumerate(slots) if not slot.optional]
    order = mandatory + [at for at, slot in enumerate(slots) if slot.optional and not slot.list]
    by_age = [at for at in order if not slots[at].list] + [at for at in order if slots[at].list]

    def choices(place: int, chosen: dict[int, Candidate]) -> Iterator[dict[int, Candidate]]:
        if place == len(order):
            yield chosen
            return
        at, taken = order[place], {thing for _, thing in chosen.values()}
        for rank, thing in candidates[at]:
            if thing not in taken:
                yield from choices(place + 1, {**chosen, at: (rank, thing)})
        if slots[at].optional:
            yield from choices(place + 1, chosen)

    def worth(chosen: dict[int, Candidate]) -> tuple[list[float], list[float]]:
        ranks = [chosen[at][0] if at in chosen else 99 for at in order if not (any_rank and slots[at].list)]
        return ranks, [candidates[at].index(chosen[at]) if at in chosen else 99 for at in by_age]

    best = min(choices(0, {}), key=worth, default=None)
    if best is None:
        return None
    given = [[best[at][1]] if at in best else [] for at in range(len(slots))]
    for at in sorted(range(len(slots)), key=lambda at: slots[at].optional):
        if slots[at].list:
            taken = {thing for other, things in enumerate(given) if other != at for thing in things}
            free = [(rank, thing) for rank, thing in candidates[at] if thing not in taken]
            nearest = best[at][0] if at in best else free[0][0] if free else 0
            given[at] = sorted(thing for rank, thing in free if any_rank or rank == nearest)
    return given


class Plan:
    """A plan as the specification has it; `world` is what all plans share."""

    def __init__(self, world: World, drawn: Drawn, first: Iterable[Thing]) -> None:
        self.world, self.drawn, self.status = world, drawn, "running"
        self.steps = dict.fromkeys(drawn.steps, "todo")
        self.ways = {way.id: "wait-step" for way in drawn.ways}
        self.context, self.products = set(first), {id: list[Thing]() for id in drawn.steps}
        self.via: dict[str, tuple[Way, list[Thing]]] = {}
        self.names: dict[str, list[Thing]] = {}
        self.given: dict[str, dict[str, list[Thing]]] = {}
        self.since: dict[str, int] = {}
        """The order in which transitions and steps began to wait."""
        self.steps["s0"] = "ready"
        self.run("s0")
        self.go_on()

    # --- steps ---

    def run(self, id: str) -> None:
        """Call the action of a ready step if its inputs have elements."""
        near = self.via.get(id)
        nearest = [near[1], self.made_before(near[0])] if near else []
        slots, ranks = list(self.drawn.steps[id]), [*nearest, self.context, self.world.things]
        given = assigned(
            slots, [self.candidates(slot, ranks, (id, slot.id)) for slot in slots], any_rank=False
        )
        if given is None:
            could = [self.candidates(slot, ranks, (id, slot.id), reserved=True) for slot in slots]
            if assigned(slots, could, any_rank=False) is not None:
                self.wait(id)
            else:
                self.steps[id], self.status = "failed", "failed-end"
            return
        self.steps[id], self.given[id] = "running", {}
        for slot, things in zip(slots, given, strict=True):
            self.given[id][slot.id] = things
            if slot.use:
                self.world.used |= {(id, slot.id, thing) for thing in things}
            if slot.outdates:
                self.world.reserved |= set(things)
            if slot.use or slot.outdates:
                self.context |= set(things)

    def returned(self, id: str, made: list[Thing]) -> None:
        """The call of a step returned, with these elements, or an error."""
        erred = any(thing.name == "error" for thing in made)
        self.context |= set(made)
        self.products[id] = made
        for slot in self.drawn.steps[id]:
            if slot.outdates:
                self.world.reserved -= set(self.given[id][slot.id])
                self.world.outdated |= set() if erred else set(self.given[id][slot.id])
        self.steps[id] = "error" if erred else "done"
        self.go_on()

    # --- transitions ---

    def go_on(self) -> None:
        """Fire what can fire; end, or fail."""
        while self.status == "running" and self.steps[self.drawn.end] != "done" and self.fired():
            pass
        if self.status == "running" and self.steps[self.drawn.end] == "done":
            self.status = "end"
        if self.status in ("end", "failed-end") and "running" not in self.steps.values():
            self.status = "done" if self.status == "end" else "failed"

    def fired(self) -> bool:
        """Fire one transition, that of the highest priority; False if none can fire."""
        self.spread()
        for way in self.drawn.ways:
            if self.ways[way.id] == "wait-step" and all(
                self.steps[id] == ("error" if on_error else "done") for id, on_error in way.ins
            ):
                self.ways[way.id] = "wait-condition"
                self.wait(way.id)
        waiting = [way for way in self.drawn.ways if self.ways[way.id] == "wait-condition"]
        for way in sorted(waiting, key=lambda way: -way.priority):
            taken = self.taken(way)
            if taken is not None:
                self.fire(way, taken)
                return True
        for way in waiting:
            if any(on_error for _, on_error in way.ins):
                self.ways[way.id] = "fail"
        self.spread()
        for id, state in self.steps.items():
            live = (way for way in self.drawn.ways if self.ways[way.id] in WAITS)
            if state == "error" and not any((id, True) in way.ins for way in live):
                self.status = "failed-end"
                return False
        if not {"ready", "running"} & {*self.steps.values()} and not {*WAITS} & {*self.ways.values()}:
            self.status = "failed-end"
        return False

    def spread(self) -> None:
        """What can be reached no more is impossible."""
        for _ in range(len(self.steps) + len(self.ways)):
            for way in self.drawn.ways:
                for id, on_error in way.ins:
                    gone = ("impossible", "failed", "history", "done" if on_error else "error")
                    if self.ways[way.id] in WAITS and self.steps[id] in gone:
                        self.ways[way.id] = "impossible"
            for id in self.steps:
                leads = [way for way in self.drawn.ways if id in way.outs and self.ways[way.id] in WAITS]
                if self.steps[id] == "todo" and not leads:
                    self.steps[id] = "impossible"

    def taken(self, way: Way) -> list[list[Thing]] | None:
        """The elements of the conditions: of the names that others use, the first that lets all hold."""
        ranks = [self.made_before(way), self.context, self.world.things]
        keys = [at for at, slot in enumerate(way.conditions) if slot.id in way.names]
        bound = {name: list[Thing]() for name in way.names}

        def candidates(at: int) -> list[Candidate]:
            return self.candidates(way.conditions[at], ranks, (way.id, "" if way.names else str(at)), bound)

        def choose(held: dict[int, list[Thing]]) -> list[list[Thing]] | None:
            if len(held) < len(keys):
                at = keys[len(held)]
                slot, taken = way.conditions[at], [thing for things in held.values() for thing in things]
                free = [thing for _, thing in candidates(at) if thing not in taken]
                for things in [free] if slot.list and free else [[thing] for thing in free]:
                    bound[slot.id] = things
                    if (chosen := choose({**held, at: things})) is not None:
                        return chosen
                    bound[slot.id] = []
                return None
            if any(slot.absent and candidates(at) for at, slot in enumerate(way.conditions)):
                return None
            wanting = [at for at, slot in enumerate(way.conditions) if not slot.absent]
            fitting = [[(0, thing) for thing in held[at]] if at in held else candidates(at) for at in wanting]
            given = assigned([way.conditions[at] for at in wanting], fitting, any_rank=True)
            if given is None:
                return None
            by_place = dict(zip(wanting, given, strict=True))
            return [by_place.get(at, []) for at in range(len(way.conditions))]

        return choose({})

    def fire(self, way: Way, taken: list[list[Thing]]) -> None:
        self.ways[way.id] = "fired"
        for at, (slot, things) in enumerate(zip(way.conditions, taken, strict=True)):
            self.context |= set(things)
            self.names[slot.id] = things
            if slot.use:
                self.world.used |= {(way.id, "" if way.names else str(at), thing) for thing in things}
        self.steps |= {id: "history" for id, _ in way.ins}
        ready = [id for id in way.outs if self.steps[id] == "todo"]
        for id in ready:
            self.steps[id], self.via[id] = "ready", (way, [thing for things in taken for thing in things])
        self.spread()
        for id in ready:
            if self.status == "running":
                self.run(id)

    # --- where elements are looked for ---

    def made_before(self, way: Way) -> list[Thing]:
        """What the in-steps of a transition produced."""
        return [thing for id, _ in way.ins for thing in self.products[id]]

    def candidates(
        self,
        slot: Slot,
        ranks: Sequence[Iterable[Thing]],
        marks: tuple[str, str],
        bound: dict[str, list[Thing]] | None = None,
        *,
        reserved: bool = False,
    ) -> list[Candidate]:
        """The elements that a slot may take, each at its nearest rank; nearest and oldest first."""
        world, values = self.world, {**self.products, **self.names, **(bound or {})}
        busy = set() if reserved or slot.absent else world.reserved
        nearest: dict[Thing, int] = {}
        for rank, things in enumerate(ranks):
            for thing in things:
                is_used = slot.use and (*marks, thing) in world.used
                is_free = not is_used and thing not in world.outdated | busy
                if is_free and slot.pattern.fits(thing, values):
                    nearest.setdefault(thing, rank)
        return sorted((rank, thing) for thing, rank in nearest.items())

    def wait(self, id: str) -> None:
        if id not in self.since:
            self.world.waits += 1
            self.since[id] = self.world.waits


class World:
    """What all plans share: memory and its marks."""

    def __init__(self) -> None:
        self.things: list[Thing] = []
        self.used: set[tuple[str, str, Thing]] = set()
        self.reserved: set[Thing] = set()
        self.outdated: set[Thing] = set()
        self.plans: dict[int, Plan] = {}
        self.waits = 0

    def wake(self) -> None:
        """Elements came or became free: the plan that has waited longest takes first."""
        while True:
            before = [(*plan.steps.values(), *plan.ways.values()) for plan in self.plans.values()]
            waiting = [(at, plan, id) for plan in self.plans.values() for id, at in plan.since.items()]
            for _, plan, id in sorted(waiting, key=lambda wait: wait[0]):
                if plan.status == "running" and plan.steps.get(id) == "ready":
                    plan.run(id)
                plan.go_on()
            if before == [(*plan.steps.values(), *plan.ways.values()) for plan in self.plans.values()]:
                return


# --- what is drawn ----------------------------------------------------------------------------------------


def pattern(chance: Random, variables: Iterable[str] = ()) -> Pattern:
    names = tuple(chance.sample(NAMES, chance.choice((1, 1, 2))))
    known = [*variables]
    if known and chance.random() < 0.4:
        return Pattern(names, variable=chance.choice(known))
    return Pattern(names, chance.choice((0, 0, 1, 2)))


def recipe_of(chance: Random) -> Drawn:
    """A recipe without circles whose steps can all be reached."""
    steps = {
        f"s{number}": tuple(
            Slot(
                f"i{at}",
                pattern(chance),
                use=chance.random() < 0.3,
                list=chance.random() < 0.25,
                optional=chance.random() < 0.4,
                outdates=chance.random() < 0.2,
            )
            for at in range(chance.choice((0, 0, 1, 2, 3)))
        )
        for number in range(chance.randint(2, 5))
    }
    ways: list[Way] = []
    for number in [
        *range(1, len(steps)),
        *(chance.randrange(1, len(steps)) for _ in range(chance.randint(0, 3))),
    ]:
        ins = chance.sample(range(number), min(number, chance.choice((1, 1, 1, 2))))
        outs = {
            f"s{number}",
            *(f"s{other}" for other in range(max(ins) + 1, len(steps)) if chance.random() < 0.1),
        }
        slots: list[Slot] = []
        for at in range(chance.choice((0, 0, 1, 2, 3, 3))):
            absent = chance.random() < 0.1
            known = [slot.id for slot in slots if not slot.absent] + ["s0"]
            slots.append(
                Slot(
                    f"n{len(ways)}{at}",
                    pattern(chance, known),
                    use=not absent and chance.random() < 0.5,
                    list=not absent and chance.random() < 0.25,
                    absent=absent,
                )
            )
        links = tuple((f"s{other}", chance.random() < 0.15) for other in ins)
        ways.append(
            Way(f"t{len(ways)}", links, tuple(sorted(outs)), tuple(slots), chance.choice((0, 0, 1, 2)))
        )
    return Drawn(steps, tuple(ways), f"s{chance.randint(len(steps) // 2, len(steps) - 1)}")


def told(drawn: Drawn) -> Dialogue:
    """The dialogue with that recipe."""
    made = [Output("any", "*", list=True, optional=True)]
    actions = [
        action(
            f"m.{id}",
            [Input(s.id, str(s.pattern), s.use, s.list, s.optional, s.outdates) for s in slots],
            made,
        )
        for id, slots in drawn.steps.items()
    ]
    ways = []
    for way in drawn.ways:
        inside = ""
        for slot in way.conditions:
            words = {"use": slot.use, "list": slot.list, "absent": slot.absent}
            named = {} if slot.absent else {"as_": slot.id}
            inside += condition(
                str(slot.pattern).replace(">", "&gt;"),
                **named,
                **{name: "yes" for name, is_set in words.items() if is_set},
            )
        ins = " ".join(id + "!" * on_error for id, on_error in way.ins)
        ways.append(transition(way.id, ins, " ".join(way.outs), inside=inside, priority=way.priority))
    steps = [step(id) for id in drawn.steps]
    return Dialogue(recipe("g.r", *steps, *ways, start="s0", end=drawn.end), *actions)


def things(said: Dialogue, after: int) -> list[Thing]:
    """The elements that came after that one."""
    elements = [element for name in (*NAMES, "error") for element in said.named(name)]
    return sorted(
        Thing(element.eid, element.name, int(element.attributes.get("n", 0)))
        for element in elements
        if element.eid > after
    )


def test_any_plan_does_what_the_reference_does() -> None:
    chance, compared = Random(6), 0
    for _ in range(100):
        drawn = recipe_of(chance)
        try:
            said = told(drawn)
        except AssertionError:
            continue  # a name that can only be empty where it is used is a fault
        world, last = World(), 0
        for _ in range(14):
            under_way = [
                (run, id)
                for run, plan in world.plans.items()
                for id, state in plan.steps.items()
                if state == "running"
            ]
            happens = chance.choice(("add", "start", "return", "return", "return"))
            if happens == "start" and len(world.plans) < 3:
                known = [thing for thing in world.things if thing.name in NAMES]
                first = sorted(chance.sample(known, min(len(known), chance.randint(0, 3))))
                run = said.start("g.r", [thing.eid for thing in first])
                world.plans[run] = Plan(world, drawn, first)
            elif happens == "return" and under_way:
                run, id = chance.choice(under_way)
                xml = [
                    f"<{chance.choice(NAMES)} n='{chance.randint(1, 3)}'/>"
                    for _ in range(chance.randint(0, 2))
                ]
                xml = ["<error/>"] if chance.random() < 0.15 else xml
                said.returned(id, *xml, run=run)
                made = things(said, last)[: len(xml)]  # errors of the engine's own come after them
                world.things += made
                world.plans[run].returned(id, made)
            else:
                said.arrives(f"<{chance.choice(NAMES)} n='{chance.randint(1, 3)}'/>")
                world.things += things(said, last)
            last = max(said.memory, default=0)
            world.wake()
            for run, plan in world.plans.items():
                assert (said.state(run), said.steps(run), said.transitions(run)) == (
                    plan.status,
                    plan.steps,
                    plan.ways,
                )
                for id in (id for id, state in plan.steps.items() if state == "running"):
                    given = plan.given[id]
                    inputs = {
                        name: tuple(thing.eid for thing in some) for name, some in given.items() if some
                    }
                    assert said.inputs(id, run) == inputs
            compared += 1
    assert compared > 200
