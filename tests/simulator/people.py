"""One seed is a home whose recipes ask people, who act on their items at random moments (P76, P84, P85).

A few people claim, release, save, answer, refuse, delegate, reassign and take back, some who may not; the
directory changes while the daemon is at work and while it is not; daemons are killed and clocks jump.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from narval.agent.run import Run
from narval.ask.asker import Asker
from narval.ask.operations import invoke
from narval.core.engines.commands import Answer
from narval.core.engines.events import Signalled
from narval.core.errors import DaemonGoneError, RequestError
from narval.daemon.daemon import Daemon
from narval.kinds.work.engine import changes as facts
from narval.kinds.work.engine.listing import right_to_answer
from tests.simulator.boundaries import Boundary
from tests.simulator.crash import Crashing
from tests.simulator.invariants import Ledger
from tests.simulator.simulation import Simulation
from tests.simulator.world import PATTERNS, World

NAMES = ("ann", "ben", "cid", "dan", "eva")
NOBODY = "zoe"
"""Who acts, and is in no directory."""
ROLES = ("clerk", "clerk", "head")
VOTED = "w.vote"
"""The work that two people must answer alike."""
ACTS = ("claim", "claim", "release", "save", "answer", "answer", "answer", "refuse", "delegate", "reassign",
        "take_back")  # fmt: skip


class PeopledWorld(World):
    """Recipes some of whose steps ask people, and a directory of a few."""

    patterns = (
        *PATTERNS,
        "decision[@outcome='yes']",
        "decision[@default='yes' or @outcome='no']",
        "work[@state='offered' and @overdue='yes']",
        "work[@state='claimed']",
    )
    asking = 0.35
    """How many of the steps ask people."""

    def cookbook(self) -> str:
        """The recipes, and what they ask."""
        works = "\n".join(self._work(name) for name in ("ask", "vote"))
        return super().cookbook().replace("</cookbook>", f"{works}\n</cookbook>")

    def directory(self) -> str:
        """A text of `etc/people.toml`: some of those who may be there, with what they may."""
        chance, lines = self.chance, ['[roles.head]\nabove = ["clerk"]']
        there = chance.sample(NAMES, chance.choice((1, 4, 5, 5)))
        for number, name in enumerate(there):
            lines.append(f'[people.{name}]\nroles = ["{chance.choice(ROLES)}"]')
            if number and chance.random() < 0.2:
                lines.append(f'away = {{ instead = "{there[number - 1]}" }}')
        if chance.random() < 0.7:
            lines.append(f'[admin]\npeople = ["{there[0]}"]')
        return "\n".join(lines) + "\n"

    def _step(self, at: int, others: tuple[str, ...]) -> str:
        chance = self.chance
        if chance.random() >= self.asking:
            return super()._step(at, others)
        each = chance.choice(("", "", "", " foreach='gift'", " timeout='900'"))
        return f"<step id='s{at}' type='work' target='w.{chance.choice(('ask', 'ask', 'vote'))}'{each}/>"

    def _work(self, name: str) -> str:
        chance = self.chance

        def some(share: float, *texts: str) -> str:
            return chance.choice(texts) if chance.random() < share else ""

        excluded = some(0.3, " not='requester'", " not='step:s0'", " not='step:s1 requester'")
        rules = some(0.3, " delegate='anyone'", " delegate='no'", " votes='open'")
        asked = some(0.7, *[" roles='clerk'"] * 6, " roles='head'", " roles='none'")
        needs, otherwise = (
            ("", "") if name == "ask" else (" needs='2'", some(0.5, "<otherwise outcome='no'/>"))
        )
        parts = (
            "<input id='gift'" + some(0.7, " optional='yes'") + "><match>gift</match></input>",
            f"<for{asked}{excluded}{rules}/>",
            f"<outcome name='yes'{needs}/><outcome name='no'{needs}/>",
            "<field name='comment' type='text'" + some(0.5, " required='no'") + ">Why</field>",
            some(0.5, "<claim for='5m'/>", "<claim for='1h'/>", "<claim for=''/>") if name == "ask" else "",
            some(0.6, "<remind after='5m' every='10m' times='2'/>", "<remind after='1h'/>"),
            some(0.25, "<escalate after='20m' roles='head'/>"),
            some(0.25, "<escalate after='25m' people='ann' instead='yes'/>"),
            some(0.6, "<deadline after='30m'/>", *["<deadline after='2h' outcome='yes'/>"] * 2),
            otherwise,
        )  # fmt: skip
        return f"<work group='w' name='{name}'><title>Well?</title>{''.join(parts)}</work>"


class PeopledLedger(Ledger):
    """The ledger of items besides: who has each, what each of several has answered, which acts count.

    An act is known by the session of who did it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.claims: dict[int, str] = {}
        self.votes: dict[int, dict[str, str]] = {}
        self.counted: set[str] = set()
        """The acts that were done."""
        self.names: dict[int, str] = {}

    def note(self, batches: Iterable[Any]) -> None:
        """Batches were committed."""
        batches = list(batches)
        for batch in batches:
            self.names.update((row.eid, row.name) for row in batch.runs if row.name)
        super().note(batches)

    def told(self, session: str, *, done: bool) -> None:
        """Who acted was told: what is confirmed counts, what is refused does not (P75, P76)."""
        assert (session in self.counted) == done, f"{session}: told {done}, and recorded otherwise"

    def _entry(self, run: int, seq: int, event: Any, decided: Iterable[Any], wished: Iterable[Any]) -> None:
        decided, wished = list(decided), list(wished)
        was_over = run in self.ended_runs
        super()._entry(run, seq, event, decided, wished)
        is_done = any(isinstance(each, Answer) and each.problem is None for each in wished)
        if is_done and isinstance(event, Signalled) and event.act is not None and event.act.session:
            assert event.act.session not in self.counted, f"{event.act.session} counts twice"
            self.counted.add(event.act.session)
        for fact in decided:
            if isinstance(fact, facts.WorkChange):
                assert not was_over, f"item {run} is over, and {fact} happens"
                self._of_item(run, fact)

    def _of_item(self, run: int, fact: Any) -> None:
        has, votes = self.claims.get(run), self.votes.setdefault(run, {})
        match fact:
            case facts.Claimed():
                assert has is None, f"item {run} is claimed by {fact.by}, and {has} has it"
                assert self.names.get(run) != VOTED, f"item {run} is answered by several, and claimed"
                self.claims[run] = fact.by
            case facts.Renewed():
                assert has == fact.by, f"the claim of item {run} is renewed by {fact.by}, and {has} has it"
            case facts.ClaimReleased():
                assert has == fact.of, f"item {run} is released for {fact.of}, and {has} has it"
                self.claims.pop(run)
            case facts.Delegated() | facts.LeaseEnded() | facts.DelegationEnded() | facts.Reassigned():
                self.claims.pop(run, None)
            case facts.Refused():
                assert has in (None, fact.by), f"{fact.by} refuses item {run}, which {has} has"
                self.claims.pop(run, None)
            case facts.Voted() | facts.VoteChanged():
                votes[fact.by] = fact.outcome
                if not fact.outcome:
                    votes.pop(fact.by)
            case facts.ItemAnswered():
                by = fact.by.split()
                assert has in (None, *by) or fact.default, f"{fact.by} answers item {run}, which {has} has"
                if by and self.names.get(run) == VOTED:
                    alike = {name for name, outcome in votes.items() if outcome == fact.outcome}
                    assert len(by) == len({*by}) >= 2, f"item {run} is answered by {by}"
                    assert {*by} <= alike, f"item {run} is answered by {by}, of {votes}"
                self.claims.pop(run, None)
            case facts.Expired() | facts.Withdrawn() | facts.GivenUp():
                self.claims.pop(run, None)


class Peopled(Simulation):
    """A home that asks people."""

    option = "--people "
    lengths = (1.0, 30.0, 400.0, 1_300.0, 8_000.0, 90_000.0)

    def __init__(self, seed: int, folder: Path, *rest: Any) -> None:
        super().__init__(seed, folder, *rest)
        self.ledger = self.items = PeopledLedger()
        self.scene = Crashing(
            folder, limit=self.world.limit, settings=self.world.settings(), ledger=self.ledger
        )
        self._acts = 0

    def _new_world(self, chance: Random) -> World:
        return PeopledWorld(chance)

    def _write_recipes(self) -> None:
        super()._write_recipes()
        self._write_people()

    def _write_people(self) -> None:
        assert isinstance(self.world, PeopledWorld)
        self.scene.write("etc/people.toml", self.world.directory())

    # --- what happens ---------------------------------------------------------------------------------

    def _ways(self) -> dict[Callable[[Daemon], Any], int]:
        return super()._ways() | {self._someone_acts: 14, self._someone_starts: 3, self._save_people: 1}

    async def _someone_acts(self, daemon: Daemon) -> None:
        for _ in range(self.chance.choice((1, 1, 2, 5))):
            every = [eid for eid, run in daemon.agent.runs.items() if run.engine.definition_kind == "work"]
            open_ones = [run.eid for run in _open_items(daemon)]
            if not every:
                return
            item = self.chance.choice(open_ones if open_ones and self.chance.random() < 0.9 else every)
            run, who = daemon.agent.runs[item], (*NAMES, NOBODY)
            if item in open_ones and self.chance.random() < 0.6:
                who = tuple(name for name in NAMES if self._may(daemon, run, name)) or who
            await self._act(daemon, self.chance.choice(who), self.chance.choice(ACTS), item)

    async def _act(self, daemon: Daemon, person: str, act: str, item: int) -> None:
        """A person acts; what they are told is what is recorded."""
        self._acts += 1
        session = f"act {self._acts}"
        given: dict[str, Any] = {
            "answer": {"outcome": self.chance.choice(("yes",) * 4 + ("no", "no", "maybe"))},
            "delegate": {"to": self.chance.choice(NAMES)},
            "reassign": {"to": self.chance.sample(NAMES, 2)},
        }.get(act, {})
        if act == "answer" and self.chance.random() < 0.5:
            given["fields"] = {"comment": "why not"}
        self._note(f"{session}: {person} {act} {item} {given}")
        try:
            asker = Asker(person, way="python", session=session)
            answer = await invoke(daemon, asker, act, {"item": item, **given})
        except RequestError as error:
            self._note(f"refused: {error}")
            self.items.told(session, done=False)
        except DaemonGoneError:
            assert self.scene.alive is None or self.scene.alive.rounds.gone is not None
        else:
            self._note(f"told: {answer}")
            self.items.told(session, done=True)

    async def _someone_starts(self, daemon: Daemon) -> None:
        """Who starts a run has asked for what it asks (P30)."""
        name = self.chance.choice(("w.outer", "w.inner", "w.ask", "w.vote"))
        person = self.chance.choice(NAMES)
        self._note(f"{person} starts {name}")
        try:
            await invoke(
                daemon, Asker(person, way="python"), "start", {"name": name, "elements": [b"<gift/>"]}
            )
        except RequestError as error:
            self._note(f"refused: {error}")
        except DaemonGoneError:
            assert self.scene.alive is None or self.scene.alive.rounds.gone is not None

    async def _save_people(self, daemon: Daemon) -> None:
        self._note("the directory is another")
        self._write_people()
        if self.chance.random() < 0.3:
            await self._end()
            return
        await daemon.reloader.reload()
        self._check_faults(daemon)

    async def _come_to_rest(self, daemon: Daemon) -> bool:
        """Besides, whoever may answer does."""
        answered = False
        for run in list(_open_items(daemon)):
            for name in NAMES:
                if run.active and self._may(daemon, run, name):
                    await self._act(daemon, name, "answer", run.eid)
                    answered = True
        return await super()._come_to_rest(daemon) or answered

    # --- what must hold -------------------------------------------------------------------------------

    def _check_rest(self, daemon: Daemon) -> None:
        super()._check_rest(daemon)
        if not daemon.host.loop.has_work():
            self._check_items(daemon)

    def _check_items(self, daemon: Daemon) -> None:
        """Every item is over, or waits for people; who has it is one, who may, and as recorded."""
        for run in daemon.agent.runs.values():
            if run.engine.definition_kind != "work" or not run.active:
                continue
            state, known = run.state, self.items
            assert state.status in ("offered", "claimed"), f"item {run.eid} is {state.status}"
            has = state.claim.by if state.claim is not None else None
            assert has == known.claims.get(run.eid), f"item {run.eid}: {has}, not {known.claims.get(run.eid)}"
            votes = {vote.by: vote.outcome for vote in state.votes.values()}
            assert votes == known.votes.get(run.eid, {}), f"item {run.eid} has {votes}"
            if not run.definition.rules.steps:  # who answers such a step meanwhile is told so at the next act
                assert has is None or self._may(daemon, run, has), f"{has} has item {run.eid}, and may not"
            if state.wake_at is not None:
                assert run.wakes, f"item {run.eid} waits for {state.wake_at}, and nothing wakes it"

    def _may(self, daemon: Daemon, run: Run, name: str) -> bool:
        at, view = daemon.rounds.clock.now(), daemon.host.loop.view
        return right_to_answer(run.definition, run.state, name, at, view) is not None


def _open_items(daemon: Daemon) -> Iterator[Run]:
    return (
        run
        for run in daemon.agent.runs.active.values()
        if run.engine.definition_kind == "work" and run.state.status != "ready"
    )


class PeopledBoundary(Boundary, Peopled):
    """A home that asks people, whose daemon is killed at one commit, and at no other."""

    option = "--people --every-commit "
