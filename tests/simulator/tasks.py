"""One seed is a home with random task types, whose objects go their ways whatever fails meanwhile.

Objects are put, events are raised, instances are stopped, moved and finished by hand, cases cancelled and
retried, specifications edited; code fails, time passes, daemons are killed. An object is in one place, an
event ends once, and each forwarded step of what was aborted is compensated once or named as impossible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from narval.agent.loop import Delivery
from narval.agent.replay import state_of
from narval.agent.run import Run
from narval.ask.asker import Asker
from narval.ask.operations import invoke
from narval.core.elements.element import CONTROL
from narval.core.engines.events import PersonsAct, Plain, Signalled
from narval.core.errors import DaemonGoneError, RequestError
from narval.daemon.daemon import Daemon
from narval.kinds.task.engine.case import changes as of_cases
from narval.kinds.task.engine.server import changes as of_servers
from tests.simulator.boundaries import Boundary
from tests.simulator.crash import Crashing
from tests.simulator.invariants import Ledger
from tests.simulator.simulation import Simulation
from tests.simulator.world import LEAF, World

WINDOWS = ("",) * 4 + (
    "WITHIN 30 SECS",
    "AFTER 5 SECS AND BEFORE 1 MINS",
    "AT 7 SECS",
    "AFTER 2 SECS",
    "BEFORE 10 SECS OR AT 60 SECS",
)
CONDITIONS = ('""', '"$object/@n > 3"', '"gift"', '"false"', '"not($object)"')
CODES = ("nothing", "note", "stumble", "look", "")
OUTSIDE = "stands for a person"
MOST_CALM = 2
"""So many rounds pass in which all goes well, before cases that have not ended are cancelled."""
PEOPLE = """[people.ann]
roles = ["clerk"]
[people.ben]
roles = ["clerk"]
[admin]
people = ["ann"]
"""


class TaskedWorld(World):
    """Task types that lead to one another, and the objects that are put to them."""

    def __init__(self, chance: Random) -> None:
        super().__init__(chance)
        self.types: list[str] = []
        self._undone: set[int] = set()
        self._hearing: set[int] = set()

    def cookbook(self) -> str:
        """The recipes beside the tasks: small ones."""
        names = ("inner", "outer", "always")
        one = '<step id="s0" type="action" target="w.nothing"/>'
        small = (
            f'<recipe group="w" name="{name}" start_step="s0" end_step="s0">{one}</recipe>' for name in names
        )
        return f"<cookbook>\n{LEAF}\n{''.join(small)}\n</cookbook>"

    def specification(self) -> str:
        """A text of `bank.task`: types t0, t1, …, each of which leads to later ones."""
        chance = self.chance
        self.types = [f"t{at}" for at in range(chance.choice((2, 3, 3, 4, 5)))]
        composer = len(self.types) - 1 if len(self.types) > 2 and chance.random() < 0.5 else None
        self._hearing = {at for at in range(len(self.types)) if chance.random() < 0.7}
        found = [self._type(at, composer) for at in range(len(self.types))]
        found += [self._compensator(at) for at in sorted(self._undone)]
        if chance.random() < 0.5:
            found.append(self._exception())
        if chance.random() < 0.3:
            found.append(self._global())
        return "\n\n".join(found) + "\n"

    def arrival(self) -> bytes:
        """An object for a type, or an element that conditions look for."""
        self._arrived += 1
        n, chance = self._arrived, self.chance
        if chance.random() < 0.15:
            return chance.choice((f"<gift n='{n}'/>", f"<mail n='{n}' kind='a'/>")).encode()
        name = chance.choice((*self.types[:2], "t0", "t0", "none") if chance.random() < 0.1 else ("t0", "t1"))
        parts = "".join(f"<part n='{at}'/>" for at in range(chance.choice((0, 2, 3))))
        inside = f"<loan n='{n}'>{parts}</loan>"
        return f"<al:task-object xmlns:al='{CONTROL}' type='bank.{name}'>{inside}</al:task-object>".encode()

    # --- types ----------------------------------------------------------------------------------------

    def _type(self, at: int, composer: int | None) -> str:
        chance, later = self.chance, self.types[at + 1 :]
        if at == 0:
            self._undone = {each for each in range(len(self.types)) if chance.random() < 0.85}
        code = chance.choice(CODES)
        asks = chance.random() < 0.15
        ends = ["FORWARD"] if later else ["COMMIT"]
        if chance.random() < 0.4:
            ends.append(chance.choice(("ABORT", "ABORT", "COMMIT", "EXCEPTION")))
        if at and chance.random() < 0.35:
            ends = ["ABORT"]
        splits = composer is not None and at < composer - 1 and chance.random() < 0.6
        if at == composer:
            ends = ["COMMIT"]
        lines = [f"TASK TYPE t{at}"]
        if asks:
            code = ""
            lines.append(chance.choice(("USERS: ann", "ROLES: clerk", "USERS: ann, ben")))
        lines.append("INVOCATION: " + chance.choice(("AUTO",) * 6 + ("PERIODIC 20", "MANUAL")))
        if at in self._undone and at != composer and "COMMIT" not in ends:
            lines.append(f"COMPENSATED BY c{at}")
        else:
            self._undone.discard(at)
        if at == composer:
            lines.append(f"COMPOSED FROM t{at - 1}")
        if code:
            lines.append(f'TASK CODE "w.{code}"')
        lines.append(f"INITIAL working FINAL {' '.join(dict.fromkeys(ends))}")
        lines += self._state(code, ends, splits=splits, hears=at in self._hearing)
        if "FORWARD" in ends:
            lines.append(f"ON FORWARD {self._routing(at, later, composer, splits=splits)}")
        if "ABORT" in ends and later and chance.random() < 0.15:
            lines.append(f"ON ABORT route({later[0]});")
        return "\n  ".join(lines)

    def _state(self, code: str, ends: list[str], *, splits: bool, hears: bool) -> Iterator[str]:
        chance = self.chance
        done = []
        if splits:
            done.append('split("part");')
        if not code and chance.random() < 0.6:
            done.append(f"assert({chance.choice(ends)});")
        elif code and chance.random() < 0.2:
            done.append("w.note();")
        yield "STATE working EXPOSED"
        if done:
            yield f"  ON ASSERT {{ {' '.join(done)} }}"
        if chance.random() < 0.1:
            yield "  ON LEAVING { w.stumble(); }"
        for number, end in enumerate(ends):
            yield f"  ON EVENT go{number} GOTO {end}"
        rules = dict[str, None]()
        for _ in range(chance.choice((1, 1, 2)) if hears else 0):
            action = chance.choice(("", f"assert({ends[0]});", "w.note();", "w.stumble();"))
            mode = chance.choice(("", "SYNC ", "ASYNC "))
            before, after = chance.choice(WINDOWS), chance.choice(WINDOWS)
            condition = f"CONDITION {chance.choice(CONDITIONS)}"
            rules[f"  ON EVENT hey {mode}{before} {condition} {after} ACTION {{ {action} }}"] = None
        yield from rules

    def _routing(self, at: int, later: list[str], composer: int | None, *, splits: bool) -> str:
        chance = self.chance
        if splits and composer is not None:
            return f'route(t{composer - 1}, "*");'
        heard = chance.choice(sorted(self._hearing)) if self._hearing and chance.random() < 0.15 else None
        raised = f"raise(t{heard}, hey); " if heard is not None else ""
        if len(later) > 1 and chance.random() < 0.5:
            one, other = chance.sample(later, 2)
            return chance.choice(
                (f"if (n > 4) route({one}); else route({other});", f"{raised}route({one}); route({other});")
            )
        return f"{raised}route({later[0]});"

    def _compensator(self, at: int) -> str:
        code = self.chance.choice(("nothing", "note", "stumble"))
        return (
            f"TASK TYPE c{at}\n  INVOCATION: COMPENSATION\n  COMPENSATION TO t{at}\n"
            f'  TASK CODE "w.{code}"\n  INITIAL working FINAL FORWARD\n'
            "  STATE working EXPOSED ON EVENT go GOTO FORWARD"
        )

    def _exception(self) -> str:
        route = f"route({self.types[0]});" if self.chance.random() < 0.3 else f"route({self.types[-1]});"
        return (
            'TASK TYPE exception\n  TASK CODE "w.nothing"\n  INITIAL working FINAL FORWARD\n'
            f"  STATE working EXPOSED ON EVENT go GOTO FORWARD\n  ON FORWARD {route}"
        )

    def _global(self) -> str:
        every = self.chance.choice(("", " EVERY 30 SECS"))
        return f'GLOBAL EVENT night{every} CONDITION "" ACTION {{ w.note(); }}'


class TaskedLedger(Ledger):
    """What was committed of tasks: events that are over, links that are done."""

    def __init__(self) -> None:
        super().__init__()
        self.events: set[tuple[int, int]] = set()
        self.raised: set[tuple[int, int]] = set()
        self.links: Counter[tuple[int, int]] = Counter()

    def _entry(self, run: int, seq: int, event: Any, decided: Any, wished: Any) -> None:
        super()._entry(run, seq, event, decided, wished)
        for change in decided:
            match change:
                case of_servers.EventRaised():
                    assert (run, change.event) not in self.raised, f"event {change.event} is raised twice"
                    self.raised.add((run, change.event))
                case of_servers.EventOver():
                    assert (run, change.event) in self.raised, f"event {change.event} was never raised"
                    assert (run, change.event) not in self.events, f"event {change.event} ends twice"
                    self.events.add((run, change.event))
                case of_cases.LinkDone():
                    self.links[run, change.step] += 1
                    assert self.links[run, change.step] == 1, f"step {change.step} of {run} is undone twice"


class Tasked(Simulation):
    """A home with tasks."""

    option = "--tasks "
    lengths = (1.0, 7.0, 30.0, 400.0, 4_000.0)

    def __init__(self, seed: int, folder: Path, *rest: Any) -> None:
        super().__init__(seed, folder, *rest)
        self.ledger = self.known = TaskedLedger()
        self._handles: list[str] = []
        self._calm = 0
        self.scene = Crashing(
            folder, limit=self.world.limit, settings=self.world.settings(), ledger=self.ledger
        )

    def story(self, error: BaseException) -> str:
        """With the specification."""
        return f"{super().story(error)}\n{(self.scene.home.path / 'recipes/bank.task').read_text()}"

    def _new_world(self, chance: Random) -> World:
        return TaskedWorld(chance)

    def _write_recipes(self) -> None:
        super()._write_recipes()
        assert isinstance(self.world, TaskedWorld)
        self.scene.write("recipes/bank.task", self.world.specification())
        self.scene.write("etc/people.toml", PEOPLE)

    # --- what happens ---------------------------------------------------------------------------------

    def _ways(self) -> dict[Callable[[Daemon], Any], int]:
        return super()._ways() | {
            self._raise: 4,
            self._by_hand: 4,
            self._of_a_case: 2,
            self._begin: 1,
            self._program: 5,
            self._someone_answers: 4,
            self._query: 1,
        }

    async def _cancel(self, daemon: Daemon) -> None:
        """As a person asks it, who may not end a standing run."""
        if active := sorted(daemon.agent.runs.active):
            await self._ask(daemon, "cancel", run=self.chance.choice(active))

    async def _begin(self, daemon: Daemon) -> None:
        """An instance of the top level, as `narval start` begins it."""
        await self._ask(daemon, "start", name=f"bank.t{self.chance.randrange(3)}")

    async def _raise(self, daemon: Daemon) -> None:
        servers = _of(daemon, "task-server")
        if servers:
            mode = self.chance.choice(("", "sync", "async"))
            given: dict[str, Plain] = {"event": self.chance.choice(("hey", "hey", "hey", "night", "none"))}
            self._say(daemon, self.chance.choice(servers), "raise", {**given, "mode": mode})
            await self._perhaps_a_few_turns(daemon)

    async def _by_hand(self, daemon: Daemon) -> None:
        """Somebody moves an instance, or stops it (K16)."""
        instances = _of(daemon, "task")
        if instances:
            name = self.chance.choice(("raise-edge", "raise-edge", "assert", "stop", "finish"))
            state = self.chance.choice(("FORWARD", "COMMIT", "ABORT", "EXCEPTION", "working"))
            event = self.chance.choice(("go0", "go1", "go", "nothing"))
            given: dict[str, Plain] = {"state": state, "event": event, "why": "by hand"}
            self._say(daemon, self.chance.choice(instances), name, given)
            await self._perhaps_a_few_turns(daemon)

    async def _program(self, daemon: Daemon) -> None:
        """A program that works as a task begins, asks for an object, moves, raises, or is not heard of."""
        if not self._handles or self.chance.random() < 0.3:
            name = f"bank.t{self.chance.randrange(3)}"
            found = await self._asked_by_ann(
                daemon, "task_init", name=name, lease=self.chance.choice((60, 9e9))
            )
            self._handles += [found["task"]] if found is not None else []
            return
        given = {"task": self.chance.choice(self._handles)}
        state = self.chance.choice(("FORWARD", "COMMIT", "ABORT", "EXCEPTION"))
        what, more = self.chance.choice(
            (
                ("task_get", {"wait": 0.0}),
                ("task_get", {"wait": 0.0}),
                ("task_assert", {"state": state, "wait": 0.0}),
                ("task_raise", {"event": "go0", "wait": 0.0}),
                ("task_raise", {"event": "hey", "name": "bank.t1", "mode": "sync", "wait": 0.0}),
                ("task_raise", {"event": "hey", "name": "bank.t1", "with_object": True, "wait": 0.0}),
                ("task_wait", {"event": "hey", "wait": 0.0}),
                ("task_down", {}),
            )
        )
        await self._asked_by_ann(daemon, what, **given, **more)

    async def _someone_answers(self, daemon: Daemon) -> None:
        """Ann does work that a task asks for, in one way or another."""
        for item in _of(daemon, "work")[: self.chance.choice((1, 3))]:
            ways = [*item.definition.outcomes] if item.definition is not None else ["done"]
            name = getattr(self.chance.choice(ways), "name", "done")
            await self._asked_by_ann(daemon, "answer", item=item.eid, outcome=name)

    async def _query(self, daemon: Daemon) -> None:
        """What there is to know of tasks is asked."""
        objects = [eid for case in _of(daemon, "task-case") for eid in case.state.members]
        for name in ("tasks", "task_events", "task_log"):
            await self._ask(daemon, name)
        await self._ask(daemon, "task_queue", name="bank.t0")
        await self._ask(daemon, "task_time", name="bank.t0")
        for eid in objects[:1]:
            await self._ask(daemon, "task_where", object=eid)
            await self._ask(daemon, "task_passed", object=eid)

    async def _asked_by_ann(self, daemon: Daemon, operation: str, **arguments: Any) -> Any:
        """The answer to what a person asks; None where that is refused."""
        self._note(f"ann: {operation} { ({**arguments, 'task': 0} if 'task' in arguments else arguments) }")
        try:
            return await invoke(daemon, Asker("ann", way="python"), operation, arguments)
        except RequestError as error:
            self._note(f"refused: {error}"[:60])
        except DaemonGoneError:
            assert self.scene.alive is None or self.scene.alive.rounds.gone is not None
        return None

    async def _come_to_rest(self, daemon: Daemon) -> bool:
        """Besides, people do what they are asked, and programs are done."""
        for handle in self._handles:
            await self._asked_by_ann(daemon, "task_down", task=handle)
        self._handles.clear()
        asked = bool(_of(daemon, "work"))
        for item in _of(daemon, "work"):
            await self._asked_by_ann(
                daemon, "answer", item=item.eid, outcome=item.definition.outcomes[0].name
            )
        goes_on = await super()._come_to_rest(daemon)
        self._calm += 1
        if self._calm <= MOST_CALM and (goes_on or asked):
            return True
        for case in _of(daemon, "task-case"):  # what does not end by itself is undone
            is_tried = case.state.status == "blocked" and self._calm % 2
            self._say(daemon, case, "retry" if is_tried else "cancel", {})
        await daemon.main_loop.until_idle()
        return bool(_of(daemon, "task-case"))

    async def _at_rest(self, daemon: Daemon) -> None:
        """In the end each object has come to its end."""
        await super()._at_rest(daemon)
        left = {case.eid: case.state.status for case in _of(daemon, "task-case")}
        assert not left, f"cases do not end though they are cancelled: {left}"

    async def _of_a_case(self, daemon: Daemon) -> None:
        cases = _of(daemon, "task-case")
        if cases:
            name = self.chance.choice(("retry", "retry", "cancel"))
            self._say(daemon, self.chance.choice(cases), name, {})
            await self._perhaps_a_few_turns(daemon)

    async def _perhaps_a_few_turns(self, daemon: Daemon) -> None:
        if self.chance.random() < 0.5:
            await self._a_few_turns(daemon)

    def _say(self, daemon: Daemon, run: Run, name: str, arguments: dict[str, Plain]) -> None:
        """Tell a run something, as an operation does that knows who asks."""
        self._note(f"{name} {arguments} to {run.kind} {run.eid} of {run.name}")
        act = PersonsAct("task", OUTSIDE)
        told = Signalled(0, 0.0, f"s{len(self.happened)}", name, arguments=arguments, by="ann", act=act)
        daemon.host.post(Delivery(run.eid, told))

    # --- what must hold -------------------------------------------------------------------------------

    def _check_rest(self, daemon: Daemon) -> None:
        super()._check_rest(daemon)
        if not daemon.host.loop.has_work():
            check_places(daemon)
            check_chains(daemon)
            check_events(daemon, self.known)


def _of(daemon: Daemon, kind: str) -> list[Run]:
    """The runs of a kind that are under way, oldest first."""
    return [run for _, run in sorted(daemon.agent.runs.active.items()) if run.kind == kind]


def check_places(daemon: Daemon) -> None:
    """Each object is in one place: a queue, an event, an instance, or held by its case (K21, K39)."""
    places: dict[int, list[str]] = {}
    for server in _of(daemon, "task-server"):
        state = server.state
        for eid in state.objects:
            places.setdefault(eid, []).append(f"in the queue of {server.name}")
        for eid, event in state.carried.items():
            places.setdefault(eid, []).append(f"with event {event} of {server.name}")
        for eid, key in state.given.items():
            if not _is_done(daemon, key):
                places.setdefault(eid, []).append(f"given by {server.name} to {key}")
    wrong = {eid: found for eid, found in places.items() if len(found) > 1}
    assert not wrong, f"objects are in several places: {wrong}"
    for case in _of(daemon, "task-case"):
        by_identity: dict[int, list[str]] = {}
        for eid, identity in case.state.objects.items():
            by_identity.setdefault(identity, []).extend(places.get(eid, ()))
        for identity, member in case.state.members.items():
            found = by_identity.get(identity, [])
            what = f"object {identity} of case {case.eid}, {member.state} at {member.type}: {found}"
            if member.state in ("task", "event"):
                assert len(found) == 1 or _is_missing_type(daemon, member.type), f"{what} is in no one place"
            elif member.state not in ("withdrawing", "aborting", "leaving"):
                assert not found, f"{what} is somewhere"


def _is_done(daemon: Daemon, key: str) -> bool:
    """True if the instance that was given an object has told of its end, and waits for what it gave up."""
    runs = daemon.agent.runs
    run = runs.get(runs.by_call.get(key, 0)) or runs.get(int(key) if key.isdecimal() else 0)
    if run is None or run.state is None:
        return False
    state = run.state
    has_none = state.stage == "" and state.passed > 0 and not state.object
    return state.stage in ("told", "after") or has_none or (bool(state.outcome) and not state.gives_back)


def _is_missing_type(daemon: Daemon, name: str) -> bool:
    return daemon.agent.library.get("task", name) is None


def check_chains(daemon: Daemon) -> None:
    """Of what was undone, each step that was forwarded is compensated, or named as one that cannot be."""
    for run in daemon.agent.runs.values():
        if run.kind != "task-case" or run.status not in ("blocked", "aborted", "cancelled"):
            continue
        trail = state_of(daemon.agent, run).trail
        states = Counter(step.state for step in trail)
        if run.status == "blocked":
            assert states["failed"] == 1, f"case {run.eid} is blocked: {states}"
        else:
            left = [step for step in trail if step.state in ("forwarded", "compensating")]
            assert not left or states["failed"], f"case {run.eid} is {run.status}, and is not undone: {left}"


def check_events(daemon: Daemon, known: TaskedLedger) -> None:
    """The events that are not over are those that a server has, and no other."""
    for server in _of(daemon, "task-server"):
        open_ones = {event for run, event in known.raised - known.events if run == server.eid}
        assert open_ones == set(server.state.events), f"{server.name}: {open_ones ^ set(server.state.events)}"


class TaskedBoundary(Boundary, Tasked):
    """A home with tasks, whose daemon is killed at one commit, and at no other."""

    option = "--tasks --every-commit "
