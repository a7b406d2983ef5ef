"""Dataflows of tests: read from their text, and driven by somebody who answers in any order.

A driver is given what each operator outside does: a function of its request that gives batches, or raises
`FailedError`. It answers one of the requests at a time, whichever its seed says, in as many batches as that
says, and holds the network to what it promises: outputs end once, nothing follows an end.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from narval.core.engines.events import Failure
from narval.core.source.text import Source
from narval.kinds.dataflow.engine.network.batches import Relation, Row, TupleBatch, batch_of
from narval.kinds.dataflow.engine.network.requests import (
    FlowEvent,
    FlowSettings,
    OperatorRequest,
    OutputOver,
    OutputRetracted,
    OutputTuples,
    OutputValue,
    RequestsWithdrawn,
    RestartRequest,
    TransactionOver,
)
from narval.kinds.dataflow.engine.network.transaction import Network
from narval.kinds.dataflow.engine.network.wiring import FlowPlan
from narval.kinds.dataflow.language.definition import DataflowDefinition
from narval.kinds.dataflow.language.parser import parse

Work = Callable[[OperatorRequest], Iterable[TupleBatch]]


class FailedError(Exception):
    """An operator outside fails."""

    def __init__(self, kind: str = "gone", *, final: bool = False) -> None:
        super().__init__(kind)
        self.failure = Failure(kind, "it is gone", final=final)


def definition(text: str, name: str = "Main") -> DataflowDefinition:
    """The dataflow of a name in the text of a file."""
    parsed = parse(Source.of_text("recipes/t.plan", text))
    errors = [fault for fault in parsed.faults if not fault.warning]
    assert errors == [], "\n".join(map(str, errors))
    found = next(one for one in parsed.definitions if one.name == name)
    assert isinstance(found, DataflowDefinition)
    return found


def flow(text: str, name: str = "Main") -> FlowPlan:
    """The wiring of a dataflow, given its text."""
    return FlowPlan(definition(text, name))


class FlowDriver:
    """Somebody who drives a network."""

    def __init__(
        self,
        plan: FlowPlan,
        work: Mapping[str, Work] | None = None,
        seed: int | None = None,
        settings: FlowSettings | None = None,
    ) -> None:
        self.network = Network(plan, settings, "t")
        self.work = work or {}
        self.chance = random.Random(seed)
        self.in_order = seed is None
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.values: dict[str, Any] = {}
        self.ends: dict[str, str] = {}
        self.over: TransactionOver | None = None
        self.waiting: list[tuple[OperatorRequest, list[TupleBatch] | Failure]] = []
        self.restarts: list[RestartRequest] = []
        self.retracted: dict[str, list[Row]] = {}
        self.is_one_try = True
        """No try has begun again, so nothing follows the end of an output."""
        self.made: list[OperatorRequest] = []
        self.withdrawn: list[RequestsWithdrawn] = []
        self.network.start()
        self.listen()

    def listen(self, turns: int = 1_000_000) -> None:
        """Let the network go on, and take note of what it tells."""
        while True:
            more = self.network.run(turns if self.in_order else self.chance.randint(1, 5))
            for event in self.network.take():
                self.hear(event)
            if not more:
                return

    def hear(self, event: FlowEvent) -> None:
        assert self.over is None, f"{event} after the end"
        if isinstance(event, OperatorRequest):
            self.made.append(event)
            try:
                answer: list[TupleBatch] | Failure = list(self.work[event.call.operator.name](event))
            except FailedError as error:
                answer = error.failure
            self.waiting.append((event, answer))
        elif isinstance(event, RestartRequest):
            self.restarts.append(event)
            self.is_one_try = False
        elif isinstance(event, RequestsWithdrawn):
            self.withdrawn.append(event)
            self.waiting = [one for one in self.waiting if one[0].id not in event.requests]
        elif isinstance(event, OutputTuples):
            assert event.output not in self.ends or not self.is_one_try
            schema, rows, _ = event.batch
            found = self.rows.setdefault(event.output, [])
            found += [dict(zip(schema, row, strict=True)) for row in rows]
        elif isinstance(event, OutputRetracted):
            self.retracted.setdefault(event.output, []).extend(event.batch.rows)
        elif isinstance(event, OutputValue):
            assert event.output not in self.ends or not self.is_one_try
            self.values[event.output] = event.value
        elif isinstance(event, OutputOver):
            assert event.output not in self.ends or not self.is_one_try
            self.ends[event.output] = "cancelled" if event.cancelled else "ended"
        else:
            self.over = event

    def feed(self, name: str, tuples: Iterable[Mapping[str, Any]], size: int = 1000) -> FlowDriver:
        """Give an input tuples in batches of a size, each with the attributes that are in it, and no end."""
        given = list(tuples)
        for at in range(0, len(given), size):
            self.network.feed(name, batch_of(given[at : at + size]))
            self.listen()
        return self

    def end(self, *names: str) -> FlowDriver:
        for name in names:
            self.network.end(name)
            self.listen()
        return self

    def give(self, **values: Any) -> FlowDriver:
        for name, value in values.items():
            self.network.give(name, value)
            self.listen()
        return self

    def answer_one(self) -> bool:
        """Answer something that waits; False if nothing does."""
        if self.restarts and (not self.waiting or self.chance.random() < 0.5):
            self.network.restart(self.restarts.pop(0).frame)
        elif self.waiting:
            place = 0 if self.in_order else self.chance.randrange(len(self.waiting))
            request, answer = self.waiting[place]
            if isinstance(answer, Failure):
                self.waiting.pop(place)
                self.network.fail(request.id, answer)
            elif answer:
                batch = answer.pop(0)
                self.network.answer(request.id, self.part_of(batch, answer))
            else:
                self.waiting.pop(place)
                self.network.done(request.id)
        else:
            return False
        self.listen()
        return True

    def part_of(self, batch: TupleBatch, rest: list[TupleBatch]) -> TupleBatch:
        """A part of a batch, the rest of which is put back."""
        if self.in_order or len(batch.rows) < 2:
            return batch
        cut = self.chance.randint(1, len(batch.rows))
        if cut < len(batch.rows):
            rest.insert(0, batch._replace(rows=batch.rows[cut:]))
        return batch._replace(rows=batch.rows[:cut])

    def run(self) -> FlowDriver:
        """Answer all there is, until the transaction is over."""
        self.listen()
        while self.answer_one():
            pass
        assert self.over is not None, f"nothing goes on; {self.ends}, {self.values}"
        return self

    def bag(self, output: str) -> Counter[Any]:
        """The tuples of an output, whatever their order."""
        return Counter(frozenset(row.items()) for row in self.rows.get(output, []))


def rows_of(relation: Relation) -> list[Row]:
    """All rows of a relation, in order."""
    return [row for batch in relation.batches() for row in batch.rows]


def tuples_of(relation: Relation) -> list[dict[str, Any]]:
    """All tuples of a relation, by attribute, in order."""
    return [dict(zip(relation.schema, row, strict=True)) for row in rows_of(relation)]
