"""The contract of backends, which answer calls, and the queues of calls that wait for room (N33, G14).

Agents take turns, and within an agent its families of runs, so that none starves the others. A run may make
ten thousand calls at once. If calls were answered in order of arrival, the single call of another run would
wait for all of them. Here it waits for one of each waiting family, and for one of each agent. In a home with
several agents none has all slots, however long its calls take.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import chain

from narval.calls.record import ABANDONED, CallRecord, Outcome

_WITHOUT_SLOT = frozenset({"source", "inline"})


class Backend(ABC):
    """Answers the calls of some targets. Used on the loop's thread only."""

    @property
    def queued(self) -> int:
        """The number of calls that wait for room."""
        return 0

    @property
    def given_up(self) -> int:
        """The number of abandoned calls whose code still runs."""
        return 0

    def waits_for(self, record: CallRecord) -> str:
        """The reason why a call waits; "" if it does not."""
        return ""

    @abstractmethod
    def start(self, record: CallRecord) -> None:
        """Answer a call, now or when there is room."""

    @abstractmethod
    def go(self, record: CallRecord) -> None:
        """Do the work of a call that has begun: at once, or as soon as its start is recorded."""

    @abstractmethod
    def abandon(self, record: CallRecord) -> None:
        """Give up a call: stop it if possible, and answer that it was abandoned."""

    @abstractmethod
    async def close(self) -> None:
        """Stop everything that can be stopped; nothing more is answered."""


class FairQueue:
    """Waiting calls, taken in turn by agent, and within an agent by family. The cost of each operation does
    not grow with their number.
    """

    def __init__(self) -> None:
        self._agents: OrderedDict[str, OrderedDict[int, OrderedDict[CallRecord, None]]] = OrderedDict()
        """The calls by agent and family, the next in turn first; no entry is empty."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[CallRecord]:
        return (
            record for families in self._agents.values() for calls in families.values() for record in calls
        )

    def __contains__(self, record: CallRecord) -> bool:
        families = self._agents.get(record.call.agent)
        return families is not None and record in families.get(record.call.family, ())

    def add(self, record: CallRecord) -> None:
        """Add a call behind those of its agent and family."""
        self._count += 1
        families = self._agents.setdefault(record.call.agent, OrderedDict())
        families.setdefault(record.call.family, OrderedDict())[record] = None

    def has_but(self, agents: Container[str]) -> bool:
        """True if a call of an agent other than these waits."""
        return any(agent not in agents for agent in self._agents)

    def first(self, but: Container[str] = ()) -> CallRecord:
        """The next call in turn, of agents other than these."""
        families = next(families for agent, families in self._agents.items() if agent not in but)
        return next(iter(next(iter(families.values()))))

    def next(self, but: Container[str] = ()) -> CallRecord:
        """Remove and return the next call in turn, of agents other than these; then it is the turn of the
        agent's next family, and of the next agent.
        """
        record = self.first(but)
        agent, family = record.call.agent, record.call.family
        self._agents.move_to_end(agent)
        self._agents[agent].move_to_end(family)
        self.remove(record)
        return record

    def remove(self, record: CallRecord) -> None:
        """Remove a call that no longer waits."""
        agent, family = record.call.agent, record.call.family
        families = self._agents[agent]
        del families[family][record]
        self._count -= 1
        if not families[family]:
            del families[family]
        if not families:
            del self._agents[agent]

    def clear(self) -> None:
        """Remove all calls."""
        self._agents.clear()
        self._count = 0


class Slots:
    """The slots of one agent. Its calls beyond their number wait (G14).

    Sources, which run continuously, and inline calls take none.
    """

    def __init__(self) -> None:
        self._most: int | None = None
        self._taken: set[CallRecord] = set()
        self._waiting = FairQueue()
        self._is_held = False

    @property
    def taken(self) -> int:
        """The number of slots that are taken."""
        return len(self._taken)

    @property
    def queued(self) -> int:
        """The number of calls that wait for a slot."""
        return len(self._waiting)

    def limit(self, most: int | None) -> None:
        """Let at most `most` calls have a slot from now on; None for any number."""
        self._most = most

    def hold(self) -> None:
        """Give no call a slot until `release`."""
        self._is_held = True

    def release(self) -> None:
        """Give slots again."""
        self._is_held = False

    def take(self, record: CallRecord) -> bool:
        """Take a slot for a call; False if it waits for one."""
        if record.call.target.where in _WITHOUT_SLOT:
            return True
        if self._has_room():
            self._taken.add(record)
            return True
        self._waiting.add(record)
        return False

    def next(self) -> CallRecord | None:
        """Give a slot to the next waiting call, and return it; None if none waits or no slot is free."""
        if not self._waiting or not self._has_room():
            return None
        record = self._waiting.next()
        self._taken.add(record)
        return record

    def awaited_by(self, record: CallRecord) -> bool:
        """True while a call waits for a slot taken by other calls of its agent."""
        return record in self._waiting

    def waits_for(self, record: CallRecord) -> str:
        """The reason why a call waits for a slot; "" if it does not."""
        if record not in self._waiting:
            return ""
        if self._is_held:
            return f"{record.call.agent} is about to go on at another daemon"
        return f"{len(self._taken)} of {self._most} calls of {record.call.agent} are under way"

    def free(self, record: CallRecord) -> None:
        """Free the slot of a call that has ended, or remove it from the queue."""
        if record in self._taken:
            self._taken.discard(record)
        elif record in self._waiting:
            self._waiting.remove(record)

    def _has_room(self) -> bool:
        return not self._is_held and (self._most is None or len(self._taken) < self._most)


class Behind:
    """The calls of one agent that wait until no call of some runs is under way, such as calls that undo those
    runs.

    They also wait for code that cannot be stopped, until `wait_no_more` is called. `records` are all calls of
    the agent.
    """

    def __init__(self, records: Mapping[str, CallRecord]) -> None:
        self._records = records
        self._waiting: dict[CallRecord, Container[int]] = {}
        self._outliving: set[CallRecord] = set()
        """The ended calls whose code could not be stopped, and still runs."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, record: CallRecord) -> bool:
        return record in self._waiting

    @property
    def has_all_ended(self) -> bool:
        """True if no code of an ended call still runs."""
        return not self._outliving

    def is_under_way(self, runs: Container[int]) -> bool:
        """True while a call of some of these runs is under way, or its code still runs after it was given
        up.
        """
        if not runs:
            return False
        going_on = (record for record in self._records.values() if not record.is_over)
        return any(record.call.run in runs for record in chain(going_on, self._outliving))

    def add(self, record: CallRecord, runs: Container[int]) -> None:
        """Make a call wait until no call of these runs is under way."""
        self._waiting[record] = runs

    def over(self, record: CallRecord) -> list[CallRecord]:
        """Record the end of a call, or that its code still runs; return the calls that need not wait now."""
        self._waiting.pop(record, None)
        if record.outlives:
            self._outliving.add(record)
        else:
            self._outliving.discard(record)
        return self._freed() if self._waiting else []

    def wait_no_more(self, record: CallRecord) -> list[CallRecord]:
        """Stop waiting for code that still runs after its call; return the calls that need not wait now."""
        self._outliving.discard(record)
        return self._freed()

    def _freed(self) -> list[CallRecord]:
        freed = [waiting for waiting, runs in self._waiting.items() if not self.is_under_way(runs)]
        for record in freed:
            del self._waiting[record]
        return freed


class QueuedBackend(Backend):
    """A backend with a number of slots. The calls beyond it wait in a fair queue.

    `slots` is the word for the slots, as shown to people. One agent cannot have all of them while `is_shared`
    says that there are others.
    """

    def __init__(self, slots: str, is_shared: Callable[[], bool]) -> None:
        self._waiting = FairQueue()
        self._slots = slots
        self._busy: set[CallRecord] = set()
        """The calls that have a slot."""
        self._is_shared = is_shared

    def waits_for(self, record: CallRecord) -> str:
        """The reason why a call waits for a slot; "" if it has begun."""
        if record.has_room:
            return ""
        agent = record.call.agent
        if agent in self._full():
            most = self._most_of_one()
            return f"{most} of {most} {self._slots} that an agent may have are taken by calls of {agent}"
        return f"all {self._most()} {self._slots} are taken"

    @property
    def queued(self) -> int:
        """The number of calls that wait for room."""
        return len(self._waiting)

    def abandon(self, record: CallRecord) -> None:
        """Take a call out of the queue, or stop it if it has begun."""
        if record.has_room:
            self._stop(record, ABANDONED)
        else:
            self._waiting.remove(record)
            record.answer(ABANDONED)

    def _full(self) -> Container[str]:
        """The agents that have as many slots as one may: all but one slot, if there are other agents."""
        if not self._is_shared():
            return ()
        most, taken = self._most_of_one(), Counter(record.call.agent for record in self._taken())
        return {agent for agent, count in taken.items() if count >= most}

    def _most_of_one(self) -> int:
        return max(1, self._most() - 1)

    def _taken(self) -> Iterable[CallRecord]:
        """The calls that have a slot."""
        return self._busy

    @abstractmethod
    def _most(self) -> int:
        """The number of slots."""

    @abstractmethod
    def _stop(self, record: CallRecord, outcome: Outcome) -> None:
        """Stop a call that has begun, and answer it."""

    def _expire(self, record: CallRecord) -> None:
        self._stop(record, record.expired())
