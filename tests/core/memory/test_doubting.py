"""What was withdrawn is matched by nothing, and what has no other source than such is doubtful (F14)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from narval.agent.agent import AgentState
from narval.agent.transaction import Transaction
from narval.agent.withdrawing import confirm, withdraw
from narval.core.elements.element import Origin
from narval.core.elements.own_elements import NOTES
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import condition

PLAIN = [condition(text).bind() for text in ("*", "a", "b", "a[@n]", "*[@n='1']", "count(*) = 1", "a | b")]
ASKING = condition("*[@al:doubtful]").bind()
SURE = condition("*[not(@al:doubtful)]").bind()

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["add", "add", "add", "declare", "write", "write", "look", "withdraw", "cascade", "confirm"]
        ),
        st.lists(st.integers(1, 25), max_size=3),
        st.sampled_from(["a", "b"]),
    ),
    max_size=40,
)


class Model:
    """The rule as plain loops: what is bad, by what each element was made from."""

    def __init__(self) -> None:
        self.made_from: dict[int, set[int]] = {}
        self.declared = set[int]()
        self.written = set[int]()
        """Those that a step was given by the author of its recipe, perhaps made of others."""
        self.withdrawn = set[int]()
        self.confirmed = set[int]()
        self.doubtful = set[int]()

    def is_doubtful(self, eid: int) -> bool:
        bad = self.withdrawn | self.doubtful
        sources = self.made_from[eid]
        return bool(sources & bad) and not any(self.is_source(source) for source in sources - bad)

    def is_source(self, eid: int) -> bool:
        """True of what came from outside, or was made of such."""
        if eid in self.declared:
            return False
        return eid not in self.written or any(self.is_source(source) for source in self.made_from[eid])

    def after(self, eids: set[int]) -> set[int]:
        """What is doubtful because of these."""
        reached = set(eids)
        for eid in sorted(self.made_from):
            if eid in self.doubtful and self.made_from[eid] & reached:
                reached.add(eid)
        return reached & self.doubtful

    def settle(self, *, clears: bool = False) -> None:
        for eid in sorted(self.made_from):
            if eid in self.withdrawn:
                self.doubtful.discard(eid)
            elif self.is_doubtful(eid) and (eid not in self.confirmed):
                self.doubtful.add(eid)
            elif clears:
                self.doubtful.discard(eid)


@given(STEPS)
def test_F14_nothing_matches_what_was_withdrawn_and_what_was_made_of_it_alone_is_doubtful(
    steps: list[tuple[str, list[int], str]],
) -> None:
    transaction = Transaction(agent := AgentState())
    memory, model = agent.memory, Model()
    for what, eids, name in steps:
        there = tuple(eid for eid in dict.fromkeys(eids) if eid in model.made_from)
        if what in ("add", "declare", "write"):
            declared = "memory.xml:1" if what == "declare" else ""
            origin = Origin(1, "answer", inputs=there) if what == "write" else Origin(inputs=there)
            eid = transaction.add(f"<{name} n='{len(there)}'/>".encode(), origin, declared=declared)
            model.made_from[eid] = {*there}
            if what == "write":
                model.written.add(eid)
            if declared:
                model.declared.add(eid)
            model.settle()
        elif what == "look":  # conditions that are asked often have sets of their own
            for bound in PLAIN * 3:
                list(memory.matching(bound))
        elif what == "confirm":
            model.confirmed.update(model.doubtful.intersection(there))
            model.doubtful.difference_update(there)
            confirm(transaction, there, "")
            model.settle(clears=True)
        elif there:
            withdraw(transaction, there, "why", cascade=what == "cascade")
            model.withdrawn.update(there)
            model.settle()
            if what == "cascade":
                model.withdrawn |= model.after(set(there))
                model.settle()
        check(memory, model)


def check(memory: Memory, model: Model) -> None:
    notes = {eid for eid in memory if memory.elements.name(eid) in NOTES}
    assert memory.withdrawn.keys() == model.withdrawn
    assert memory.doubtful == model.doubtful
    sure = set(model.made_from) - model.withdrawn - model.doubtful
    for bound in PLAIN:
        assert set(memory.matching(bound)) - notes <= sure
        assert set(memory.among(model.made_from, bound, None)) <= sure
    assert set(memory.matching(PLAIN[0])) - notes == sure
    assert list(memory.matching(ASKING)) == sorted(model.doubtful)
    assert list(memory.matching(ASKING, newest_first=True)) == sorted(model.doubtful, reverse=True)
    assert set(memory.matching(SURE)) - notes == sure
    assert set(memory.select(ASKING)) == model.doubtful
