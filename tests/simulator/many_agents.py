"""One seed is many agents: 3 to 30 in one daemon, over one store (G96, G97).

They become active and passive at random turns, break down, are refused by the store, suspended, resumed,
removed and made anew under their names; the daemon is killed at random commits. What must hold of a single
agent must hold of each, and its ledger is its own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from narval.agent.agent import AgentState
from narval.agent.loop import Loop
from narval.agent.transaction import Transaction
from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.core.errors import InternalError, RefusedRowsError, RequestError
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.daemon import Daemon
from narval.store.batch import HOME_AGENT, PASSIVE, SUSPENDED, AgentRow, Batch
from narval.store.database import Database
from tests.simulator import invariants
from tests.simulator.boundaries import Boundary
from tests.simulator.crash import Crashing
from tests.simulator.invariants import Ledger
from tests.simulator.post import Letters, PostalWorld
from tests.simulator.simulation import Simulation
from tests.simulator.world import World

LEAST, MOST = 3, 30
"""So many agents there are."""
COOKBOOKS = ("w", "v", "u")
"""The groups of random recipes: an agent follows those of one."""
TOLD_TWICE = "narval broke down twice"


class AgentsLedger(Ledger):
    """The ledgers of all agents: each is that of one id, under the number that it has."""

    def __init__(self) -> None:
        super().__init__()
        self._by_number: dict[int, Ledger] = {HOME_AGENT: Ledger()}
        self._by_id: dict[str, Ledger] = {}
        self._gone: set[str] = set()
        self._ids: dict[int, str] = {}
        """The ids of agents, by the number that each has or had last."""
        self.letters = Letters(lambda number: self._ids.get(number, f"the home's own ({number})"))

    def of(self, number: int) -> Ledger:
        """That of the agent which has a number now."""
        return self._by_number[number]

    def note(self, batches: Iterable[Batch]) -> None:
        """Batches were committed."""
        self.commits += 1
        for batch in batches:
            for row in batch.agents:
                self._register(row)
            self._by_number[batch.agent].note([batch])
            self.letters.note(batch)
            for number in batch.removed_agents:
                ledger = self._by_number.pop(number)
                self._gone.update(id for id, known in self._by_id.items() if known is ledger)

    def contents(self) -> list[tuple[int, bytes]]:
        """All elements there ever were, of all agents."""
        return [each for ledger in self._all() for each in ledger.contents()]

    def calls(self) -> int:
        """How often calls were asked for, by all agents."""
        return sum(ledger.calls() for ledger in self._all())

    def messages(self) -> int:
        """How many messages agents have sent one another."""
        return self.letters.many

    def _all(self) -> list[Ledger]:
        return [self._by_number[HOME_AGENT], *self._by_id.values()]

    def _register(self, row: AgentRow) -> None:
        assert row.id not in self._gone, f"agent {row.name} is registered after it was removed"
        if row.agent != HOME_AGENT and row.id not in self._by_id:
            assert row.agent not in self._by_number, f"number {row.agent} is that of another agent"
            self._by_number[row.agent] = self._by_id[row.id] = Ledger()
            self._ids[row.agent] = row.id

    def _of_call(self, call: str) -> Ledger:
        id = call.partition(".")[0]
        assert id not in self._gone, f"call {call} is made for an agent that was removed"
        return self._by_id.get(id, self._by_number[HOME_AGENT])

    def begun(self, call: str) -> None:
        """A call is made."""
        self._of_call(call).begun(call)

    def went(self, call: str) -> None:
        """The code of a call that must not be made twice runs."""
        self._of_call(call).went(call)


class Refusing(Crashing):
    """A scene whose store refuses the next rows of some agents."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.refused: set[int] = set()

    def commit(self, write: Any, store: Database, batches: tuple[Batch, ...]) -> None:
        """As the scene has it, unless one is refused."""
        if refused := self.refused.intersection(batch.agent for batch in batches):
            if len(batches) == 1:
                self.refused -= refused
            raise RefusedRowsError("it does not take these")
        super().commit(write, store, batches)


class ManyAgents(Simulation):
    """Several agents, of which each thing that happens concerns one."""

    happenings = (20, 60)
    option = "--agents "

    def __init__(self, seed: int, folder: Path, *rest: Any) -> None:
        super().__init__(seed, folder, *rest)
        self.ledgers = self.ledger = AgentsLedger()
        self.scene = Refusing(
            folder, limit=self.world.limit, settings=self.world.settings(), ledger=self.ledger
        )
        self.names = [f"a{number}" for number in range(self.chance.choice((LEAST, 4, 6, 10, MOST)) - 1)]
        """The agents that there are to be besides the home's own."""
        self._fragile: dict[int, str] = {}
        """The agents whose next turn breaks down, by number, and when in it."""

    def _new_world(self, chance: Random) -> World:
        return PostalWorld(chance)

    def _write_recipes(self) -> None:
        for group in COOKBOOKS:
            text = re.sub(r"w\.(leaf|inner|outer|always)\b", rf"{group}.\1", self.world.cookbook())
            self.scene.write(f"recipes/{group}.xml", text.replace('group="w"', f'group="{group}"'))

    @contextmanager
    def apart(self) -> Any:
        """As ever, and turns that break down."""
        decide, add = Loop.decide, Transaction.add

        def decided(loop: Loop, *given: Any) -> Any:
            self._break(loop.agent, "before")
            made = decide(loop, *given)
            self._break(loop.agent, "after")
            return made

        def performed(loop: Loop, turn: Any) -> None:
            self._break(loop.agent, "recorded")
            perform(loop, turn)
            self._break(loop.agent, "performed")

        def added(transaction: Transaction, *given: Any, **named: Any) -> int:
            eid = add(transaction, *given, **named)
            self._break(transaction.agent, "added")
            return eid

        ids = Random(self.seed + 4)
        with super().apart(), pytest.MonkeyPatch.context() as patch:
            perform = Loop.perform
            patch.setattr("secrets.token_hex", lambda count: ids.randbytes(count).hex())
            patch.setattr(Loop, "decide", decided)
            patch.setattr(Loop, "perform", performed)
            patch.setattr(Transaction, "add", added)
            yield

    def _break(self, agent: AgentState, when: str) -> None:
        if self._fragile.get(agent.store.agent) == when:
            del self._fragile[agent.store.agent]
            raise RecursionError(f"{when} it was decided")

    # --- what happens ---------------------------------------------------------------------------------

    def _happening(self) -> Callable[[Daemon], Any]:
        way = super()._happening()
        if way == self._send:
            return partial(self._of_one, way, self.chance.choice([*self.names, ""]))
        if way not in super()._ways() or way in (self._jump, self._stop, self._vanish, self._edit):
            return way
        return partial(self._of_one, way, self.chance.choice([*self.names, *self.names, ""]))

    def _ways(self) -> dict[Callable[[Daemon], Any], int]:
        return super()._ways() | {
            self._passivate: 2,
            self._suspend: 1,
            self._resume: 1,
            self._remove: 1,
            self._poison: 3,
            self._send: 4,
        }

    async def _of_one(self, way: Callable[[Daemon], Any], name: str, daemon: Daemon) -> None:
        """Something happens that concerns one agent; it may be broken down, or break down over it."""
        if not name or way == self._ask_without_a_daemon:
            await way(daemon)
            return
        self._note(f"of {name}:")
        self._asked = name
        try:
            async with daemon.of(name) as seen:
                await way(seen)
        except (RequestError, InternalError) as error:
            if daemon.rounds.gone is not None:
                raise
            self._note(f"refused: {error}")
        finally:
            self._asked = ""

    async def _asking(self, daemon: Daemon, operation: str, **arguments: Any) -> None:
        """An operation on an agent; calls that it waits for come to an end meanwhile."""
        self._note(f"{operation} {arguments}")
        executor = self.executor
        assert executor is not None
        asked = asyncio.create_task(invoke(daemon, PROGRAM, operation, arguments))
        while not asked.done():
            await asyncio.sleep(0)
            for call in list(executor.given_up_calls):
                executor.answer(call)
        try:
            await asked
        except (RequestError, InternalError) as error:
            if daemon.rounds.gone is not None:
                raise
            self._note(f"refused: {error}")

    async def _passivate(self, daemon: Daemon) -> None:
        for name in self.chance.sample(self.names, self.chance.randint(1, len(self.names))):
            await self._asking(daemon, "passivate", name=name)

    async def _suspend(self, daemon: Daemon) -> None:
        await self._asking(daemon, "suspend", name=self.chance.choice(self.names), reason="on leave")

    async def _resume(self, daemon: Daemon) -> None:
        for row in daemon.agents.rows.all():
            if row.state == SUSPENDED:
                await self._asking(daemon, "resume", name=row.name)

    async def _remove(self, daemon: Daemon) -> None:
        """An agent goes, and another comes under its name."""
        name = self.chance.choice(self.names)
        await self._asking(daemon, "remove_agent", name=name, now=True)
        await self._asking(daemon, "add_agent", name=name)

    async def _poison(self, daemon: Daemon) -> None:
        number = daemon.agents.rows[self.chance.choice(self.names)].agent
        when = self.chance.choice(("before", "after", "recorded", "performed", "added", "added", "refused"))
        self._note(f"the next turn of agent {number} is to break down: {when}")
        if when == "refused":
            self.scene.refused.add(number)
        else:
            self._fragile[number] = when

    def _next_moment(self, daemon: Daemon) -> float | None:
        return daemon.rounds.next_moment()

    async def _send(self, daemon: Daemon) -> None:
        """One agent sends another something, or one that there is not."""
        assert isinstance(self.world, PostalWorld)
        elements = [self.world.letter() for _ in range(self.chance.choice((1, 1, 3)))]
        await self._ask(daemon, "send", to=self.chance.choice(self.world.receivers), elements=elements)

    async def _come_to_rest(self, daemon: Daemon) -> bool:
        self._fragile.clear()
        self.scene.refused.clear()
        await self._resume(daemon)
        return await super()._come_to_rest(daemon)

    # --- daemons, one after the other -----------------------------------------------------------------

    async def _open(self, calm: bool) -> Daemon:
        self._fragile.clear()
        self.scene.refused.clear()
        daemon = await super()._open(calm)
        for name in self.names:
            if name not in daemon.agents.rows:
                await invoke(daemon, PROGRAM, "add_agent", {"name": name})
        for seen in self._at_work(daemon):
            invariants.check_memory(self._ledger_of(seen), seen.agent)
        return daemon

    # --- what must hold -------------------------------------------------------------------------------

    def _as_asked(self, daemon: Daemon, text: bytes) -> bytes:
        group = COOKBOOKS[daemon.agent.store.agent % len(COOKBOOKS)].encode()
        return re.sub(rb"w\.(leaf|inner|outer|always)\b", group + rb".\1", text)

    def _ledger_of(self, daemon: Daemon) -> Ledger:
        return self.ledgers.of(daemon.agent.store.agent)

    def _at_work(self, daemon: Daemon) -> Iterator[Daemon]:
        """The daemon as each agent sees it that acts now."""
        hosts = [daemon.agents.own, *map(daemon.agents.supervisor.host, self.names)]
        for host in hosts:
            if host is not None and not host.loop.record_only:
                yield _seen_by(daemon, host)

    def _check_rest(self, daemon: Daemon) -> None:
        for seen in self._at_work(daemon):
            super()._check_rest(seen)

    async def _at_rest(self, daemon: Daemon) -> None:
        await self._rest(daemon)
        now = self.scene.clock.now()
        for row in daemon.agents.rows.all():
            assert row.state != SUSPENDED
            if daemon.agents.supervisor.host(row.name) is None:
                self._check_passive(daemon, row, now)
        self.ledgers.letters.check_taken({row.id for row in daemon.agents.rows.all()})
        for name in ("", *self.names):
            if name:
                async with daemon.of(name) as seen:
                    await self._at_rest_of(seen)
            else:
                await self._at_rest_of(daemon)

    async def _at_rest_of(self, daemon: Daemon) -> None:
        await daemon.main_loop.until_idle()
        self._compare(daemon.agent)
        ledger = self._ledger_of(daemon)
        given = ledger.elements.keys() | ledger.runs
        assert given == set(range(1, len(given) + 1)), f"eids have gaps: {sorted(given)}"

    def _check_passive(self, daemon: Daemon, row: AgentRow, now: float) -> None:
        """Who is not at work has nothing to do."""
        has_calls = any(call.startswith(row.id) for call in self._held())
        assert row.state == PASSIVE or has_calls, f"{row.name} is {row.state}, and is not at work"
        self._check_nothing_left(daemon, row, now)

    def _check_nothing_left(self, daemon: Daemon, row: AgentRow, now: float) -> None:
        left = daemon.store.of(row.agent).queue()
        assert not left, f"{row.name} is passive, and has to be told {left}"
        assert row.wake_at is None or row.wake_at > now, f"{row.name} is passive since its moment came"


def _seen_by(daemon: Daemon, host: AgentHost) -> Daemon:
    seen = copy(daemon)
    seen.host = host
    return seen


class AgentsBoundary(Boundary, ManyAgents):
    """Many agents, whose daemon is killed at one commit, and at no other."""

    option = "--agents --every-commit "
