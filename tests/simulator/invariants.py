"""What must hold of any run of the simulation, and the ledger that it is held against.

The ledger is kept from what is committed alone, row by row, apart from the code it is to judge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import permutations
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.recovery import at_once, blank, restoring
from narval.agent.replay import definition_of, state_of
from narval.agent.run import Run
from narval.ask import why
from narval.core.definitions.schedule import schedule_of
from narval.core.elements.changes import MarkScope
from narval.core.elements.element import SIGNAL, local_name
from narval.core.elements.own_elements import read_error
from narval.core.engines import commands as asked
from narval.core.engines.events import Returned, TimerFired
from narval.daemon.daemon import Daemon
from narval.kinds.recipe.engine.changes import (
    CallMade,
    PlanRedefined,
    PlanResumed,
    StepDone,
    StepErred,
    StepFailed,
    StepRunning,
    TriesReset,
)
from narval.store.batch import Batch
from narval.store.store import AgentStore, RunHistory
from tests.daemon.at_work import portrait

_ENDED = (StepDone, StepErred, StepFailed)


class Ledger:
    """All that was ever committed, as far as the invariants need it."""

    def __init__(self) -> None:
        self.elements: dict[int, bytes] = {}
        self.runs: set[int] = set()
        self.forgotten: set[int] = set()
        self.confirmed: set[int] = set()
        """Eids that somebody was told of."""
        self.returned: set[str] = set()
        """Calls whose return is recorded, and which have not been asked for once more since (N29)."""
        self.tries: dict[str, int] = {}
        self.made_once: set[tuple[str, int]] = set()
        """Calls whose code ran though it must not run twice, with the number of the try."""
        self.resumed: dict[int, int] = {}
        """Runs that go on from another one."""
        self.uses: dict[tuple[MarkScope, int], tuple[int, int]] = {}
        """Who used an element there: the run and the event."""
        self.kept_by: dict[int, int] = {}
        self.outdated: set[int] = set()
        self.ended_steps: set[tuple[int, str]] = set()
        self.ended_runs: set[int] = set()
        self.highest = 0
        self.entries = self.commits = 0

    def contents(self) -> list[tuple[int, bytes]]:
        """All elements there ever were."""
        return sorted(self.elements.items())

    def messages(self) -> int:
        """How many messages agents have sent one another."""
        return 0

    def calls(self) -> int:
        """How often calls were asked for."""
        return sum(self.tries.values())

    # --- what the executor and the surfaces tell ------------------------------------------------------

    def begun(self, call: str) -> None:
        """A call is made: never after its return (N35)."""
        inside = call.partition(".")[2]
        assert inside in self.tries, f"call {inside} is made, and that it is asked for is not recorded"
        assert inside not in self.returned, f"call {inside} is made again after its return was recorded"

    def went(self, call: str) -> None:
        """The code of a call that must not be made twice runs: once for each time it is asked (N29)."""
        inside = call.partition(".")[2]
        at = (inside, self.tries.get(inside, 0))
        assert at not in self.made_once, f"call {inside} must not be made twice, and is"
        self.made_once.add(at)

    def confirm(self, eids: Iterable[int]) -> None:
        """Somebody was told that these are in memory: they are recorded."""
        for eid in eids:
            assert eid in self.elements or eid in self.runs, f"{eid} was confirmed and is not recorded"
            self.confirmed.add(eid)

    # --- what is committed ----------------------------------------------------------------------------

    def note(self, batches: Iterable[Batch]) -> None:
        """Batches were committed."""
        self.commits += 1
        for batch in batches:
            for added in (*batch.elements, *batch.shared):
                self._arrived(added.element.eid)
                self.elements[added.element.eid] = added.element.xml
            for row in batch.runs:
                if row.eid not in self.runs:
                    self._arrived(row.eid)
                    self.runs.add(row.eid)
            for each in batch.journal:
                self.entries += 1
                self._entry(each.run, each.seq, each.event, each.changes, each.commands)
            self.forgotten.update(batch.forgotten_elements, batch.forgotten_runs)

    def _arrived(self, eid: int) -> None:
        """An eid is never given twice (N1); within a turn elements and runs may be recorded in any order."""
        assert eid not in self.elements, f"eid {eid} is given twice"
        assert eid not in self.runs, f"eid {eid} is given twice"
        self.highest = max(self.highest, eid)

    def _entry(self, run: int, seq: int, event: Any, decided: Iterable[Any], wished: Iterable[Any]) -> None:
        where = f"run {run}, event {seq} ({type(event).__name__})"
        assert run not in self.ended_runs, f"{where}: the run is over"
        if isinstance(event, Returned):
            assert event.call not in self.returned, f"{where}: call {event.call} returns twice"
            self.returned.add(event.call)
        for change in decided:
            if isinstance(change, StepRunning | CallMade):
                assert (run, change.step) not in self.ended_steps, f"{where}: {change.step} runs again"
            if isinstance(change, PlanRedefined):  # it begins anew, for it has taken nothing
                self.ended_steps = {(of, step) for of, step in self.ended_steps if of != run}
            if isinstance(change, PlanResumed):
                self.resumed[run] = change.of
            if isinstance(change, TriesReset):  # its tries are counted from the beginning
                self.tries[change.call] = 1
                self.made_once = {(call, at) for call, at in self.made_once if call != change.call or at < 2}
            if isinstance(change, _ENDED):
                assert (run, change.step) not in self.ended_steps, f"{where}: {change.step} ends twice"
                self.ended_steps.add((run, change.step))
        for command in wished:
            self._wish(run, seq, where, command)

    def _wish(self, run: int, seq: int, where: str, command: Any) -> None:
        if isinstance(command, asked.MarkUsed):
            for eid in command.eids:
                user = self.uses.get((command.scope, eid), (run, seq))
                own = user == (run, seq) or self._resumes(run, user[0])
                assert own, f"{where}: {eid} is used by {command.scope}, as by {user} before"
                self.uses[command.scope, eid] = (run, seq)
        elif isinstance(command, asked.Reserve):
            for eid in command.eids:
                assert self.kept_by.get(eid, run) == run, f"{where}: {eid} is reserved by {self.kept_by[eid]}"
                assert eid not in self.outdated, f"{where}: {eid} is replaced, and reserved again"
                self.kept_by[eid] = run
        elif isinstance(command, asked.Release):
            self._let_go(run, where, command.eids)
        elif isinstance(command, asked.Outdate):
            self._let_go(run, where, command.eids)
            self.outdated.update(command.eids)
        elif isinstance(command, asked.Call):
            before = self.tries.get(command.call, 0)
            assert command.attempt == before + 1, f"{where}: try {command.attempt} follows upon try {before}"
            self.tries[command.call] = command.attempt
            self.returned.discard(command.call)
            taken = {eid for _, eids in command.inputs for eid in eids}
            replaced = taken & self.outdated if command.attempt == 1 else set()  # a retry keeps what it has
            assert not replaced, f"{where}: a call is given what was replaced: {replaced}"
            assert taken.isdisjoint(self.forgotten), f"{where}: a call is given what was forgotten: {taken}"
        elif isinstance(command, asked.Finish):
            self.ended_runs.add(run)
            self.kept_by = {eid: owner for eid, owner in self.kept_by.items() if owner != run}

    def _resumes(self, run: int, other: int) -> bool:
        """Whether a run may take again what another had taken: it goes on from that one, or both from one."""
        return not self._line(run).isdisjoint(self._line(other))

    def _line(self, run: int) -> set[int]:
        """A run, and those from which it goes on."""
        line = {run}
        while run in self.resumed:
            run = self.resumed[run]
            line.add(run)
        return line

    def _let_go(self, run: int, where: str, eids: Iterable[int]) -> None:
        for eid in eids:
            owner = self.kept_by.pop(eid, run)
            assert owner == run, f"{where}: {eid} is let go, and run {owner} had reserved it"


class VolatileLedger(Ledger):
    """Without a disk nothing has to be recorded before it is performed: how often a call was made is compared
    with how often it was asked for when both are known.
    """

    def __init__(self) -> None:
        super().__init__()
        self._made: Counter[str] = Counter()

    def begun(self, call: str) -> None:
        self._made[call.partition(".")[2]] += 1

    def note(self, batches: Iterable[Batch]) -> None:
        super().note(batches)
        for call, made in self._made.items():
            asked_for = self.tries.get(call, 0)
            assert made <= asked_for, f"call {call} is made {made} times, and was asked for {asked_for} times"


# --- at any moment when all is recorded -----------------------------------------------------------------


def check_memory(ledger: Ledger, agent: AgentState) -> None:
    """Nothing confirmed is lost, nothing comes from nowhere: memory is what was committed."""
    memory = agent.memory
    known = {eid for eid in memory if not memory.is_run(eid)}
    kept = ledger.elements.keys() - ledger.forgotten
    assert known == kept, f"lost: {sorted(kept - known)}; from nowhere: {sorted(known - kept)}"
    for eid in known:
        element = memory.element(eid)
        assert element is not None
        assert element.xml == ledger.elements[eid], f"element {eid} is not as it was recorded"
    runs = ledger.runs - ledger.forgotten
    assert set(agent.runs) == runs, f"runs lost or from nowhere: {set(agent.runs) ^ runs}"
    assert ledger.confirmed <= known | runs | ledger.forgotten


def check_recovered(agent: AgentState, *, over: bool = True, moments: bool = True) -> None:
    """Who opened the store now would know what this agent knows, to the number."""
    again = blank(agent.library, agent.store)
    at_once(restoring(again))
    again.numbers.resume(agent.numbers.last)
    found, expected = portrait(again, over=over), portrait(agent, over=over)
    # dates that are to be worked out anew are waited for no more, and their runs have still to be told
    moments = moments and not any(isinstance(event, TimerFired) for _, _, event in agent.queue)
    for part in () if moments else ("moments", "wakes"):
        del found[part], expected[part]
    for part, value in expected.items():
        assert found[part] == value, f"after a restart {part} differ: {_differing(value, found[part])}"


def _differing(before: Any, after: Any) -> str:
    if not isinstance(before, dict):
        return f"{before} before, {after} after"
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    return "\n".join(f"  {key}: {before.get(key)}\n  and: {after.get(key)}" for key in keys[:5])


def check_replayed(agent: AgentState) -> None:
    """The state of a run is what its whole journal says, whatever snapshots there are."""
    whole = blank(agent.library, _WithoutSnapshots(agent.store))  # type: ignore[arg-type]
    at_once(restoring(whole))
    for eid, run in agent.runs.active.items():
        assert whole.runs.active[eid].state == run.state, f"run {eid} is not what its journal says"
        assert whole.runs.active[eid].calls == run.calls, f"run {eid} has other calls than its journal says"


def check_rebuilt(agent: AgentState) -> None:
    """A run whose advance raises would be rebuilt from the store as it is (§1.4.3)."""
    for eid, run in agent.runs.active.items():
        again = Run(eid, run.engine, run.name, run.digest, run.started, run.caller, run.attempt)
        again.load(run.definition)
        assert state_of(agent, again) == run.state, f"run {eid} is not what its journal says"


class _WithoutSnapshots:
    """A store that lost its snapshots: the journal is all there is."""

    def __init__(self, store: AgentStore) -> None:
        self._store = store

    def snapshot(self, run: int) -> None:
        """None is kept."""

    def under_way(self, first: int, last: int) -> dict[int, RunHistory]:
        """None is read before it is wanted."""
        return {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


# --- when nothing can go on by itself -------------------------------------------------------------------


def check_waiting(daemon: Daemon, held: Iterable[str]) -> None:
    """Every run is over, or waits for something that `why` can name and that is not there."""
    agent = daemon.agent
    under_way = set(held)
    for run in agent.runs.active.values():
        _check_calls(daemon, run, under_way)
        definition = definition_of(agent, run)
        now, state = daemon.rounds.clock.now(), state_of(agent, run)
        told = why.explain(agent, now, run, definition, state, None)["waiting"]
        assert told, f"run {run.eid} of {run.name} is {run.status}, and why names nothing that it waits for"
        waits = run.engine.waiting_for(definition, run.state, run.watches)
        for wait in waits:
            if wait.what == "condition" and wait.conditions and wait.until is None:
                _check_unmet(agent, run, wait)
    owners = {call for run in agent.runs.active.values() for call in run.calls}
    for call, run in agent.runs.by_call.items():
        caller = agent.runs[run].caller
        assert call in owners or (caller is not None and caller.agent), f"nobody waits for call {call}"


def check_dates(daemon: Daemon) -> None:
    """Each date that is waited for is the next that fits, on the clock on the wall (N25, N41)."""
    agent, now = daemon.agent, daemon.rounds.clock.now()
    for run in agent.runs.active.values():
        definition = definition_of(agent, run)
        for wait in run.engine.waiting_for(definition, run.state, run.watches):
            if wait.what == "time":
                zone, transition = agent.clockwork.zone, definition.transitions[wait.id]
                since = run.state.transition(wait.id).since
                moments = [each.moment(since, zone) for each in transition.appointments]
                moments += [schedule_of(transition.times, zone).next(now)] if transition.times else []
                expected = min(moment for moment in moments if moment is not None and moment > now)
                assert wait.until == expected, (
                    f"run {run.eid}: {wait.id} waits for {wait.until}, not {expected}"
                )


def _check_calls(daemon: Daemon, run: Run, under_way: set[str]) -> None:
    """Each call of a run is being answered."""
    for call, asked_for in run.calls.items():
        if asked_for.agent or asked_for.kind == asked.SEND:  # another agent answers, or is waited for
            continue
        if asked_for.kind == asked.SIGNAL:
            hearer = daemon.agent.signals.hearer(asked_for)
            assert hearer in daemon.agent.runs.active, f"run {run.eid} waits for {hearer}, which is over"
            continue
        answered = daemon.host.dispatcher.external_id(call) in under_way or call in daemon.agent.runs.by_call
        assert answered, f"run {run.eid} of {run.name} waits for call {call}, and nobody answers it"


def _check_unmet(agent: AgentState, run: Run, wait: Any) -> None:
    """A condition that sleeps has no elements that would satisfy it."""
    found = [
        {eid for eid in agent.memory.matching(bound, scope) if _may_see(agent, run, eid)}
        for bound, scope in zip(wait.conditions, wait.scopes, strict=True)
    ]
    if len(found) > 3 or any(len(each) > 20 for each in found):
        met = False
    else:
        every = sorted(set().union(*found)) if found else []
        met = any(
            all(eid in fitting for eid, fitting in zip(chosen, found, strict=True))
            for chosen in permutations(every, len(found))
        )
    assert not met, f"run {run.eid} of {run.name}: {wait.id} sleeps beside what it waits for: {found}"


def _may_see(agent: AgentState, run: Run, eid: int) -> bool:
    """Whether an element is for the run: a signal is for whom it was said to, and the runs that calls."""
    element = agent.memory.element(eid)
    if element is None or local_name(element.name) != SIGNAL:
        return True
    seen: Run | None = run
    while seen is not None:
        if agent.memory.contexts.holds(seen.eid, eid):
            return True
        seen = agent.runs.get(seen.caller.run) if seen.caller is not None else None
    return False


def check_errors(agent: AgentState) -> None:
    """No run broke down: that would be a bug of narval."""
    for eid in agent.memory.named(["error"]):
        element = agent.memory.element(eid)
        assert element is not None
        kind, message, _ = read_error(element)
        assert kind != "internal-error", message
