"""Going back, compared with a slow reference that has no tokens going back: what followed is crossed out, and
what came from elsewhere arrives again (section 11).
"""

from __future__ import annotations

from collections import Counter, deque
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narval.kinds.process.engine.tokens.views import inputs, root
from tests.core.engines.dialogue import Dialogue, Refusal
from tests.examples import examples
from tests.kinds.process.engine.test_property import check

SLOW = settings(deadline=None, max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
GUARDS = {"Discard": None, "Skip": "", "Skip x": "x"}
"""The answers that end a visit at once, and the arcs that it then leaves on."""


class Visit:
    """A visit of a node, with the arrivals that it was made from."""

    def __init__(self, number: int, node: str, ins: list[Arrival]) -> None:
        self.number, self.node, self.ins = number, node, ins
        self.outs: list[Arrival] = []
        self.done = self.undone = False
        self.environment: dict[str, str] = {}
        for arrival in ins:
            self.environment.update(arrival.source.environment)


class Arrival:
    """What one visit sends to another; `at` is None while it waits."""

    def __init__(self, number: int, source: Visit, arc: Any) -> None:
        self.number, self.source, self.arc = number, source, arc
        self.at: Visit | None = None


class Reference:
    """A process as visits. Going back crosses visits out."""

    def __init__(self, definition: Any, guards: dict[str, str]) -> None:
        self.definition, self.guards = definition, guards
        self.visits: list[Visit] = []
        self.waiting: dict[int, list[Arrival]] = {arc.index: [] for arc in definition.arcs}
        self.queue: deque[Arrival] = deque()
        self.asked: Counter[str] = Counter()
        self.number = 0
        for node in definition.start_nodes:
            self.run(self.visit(node.id, []))
        self.flow()

    def count(self) -> int:
        self.number += 1
        return self.number

    def standing(self) -> list[Visit]:
        return [visit for visit in self.visits if not visit.undone]

    def visit(self, node: str, ins: list[Arrival]) -> Visit:
        self.visits.append(Visit(self.count(), node, ins))
        for arrival in ins:
            arrival.at = self.visits[-1]
        return self.visits[-1]

    def run(self, visit: Visit) -> None:
        if visit.node in self.guards and says_yes(self.asked, visit.node):
            self.leave(visit, GUARDS[self.guards[visit.node]])

    def leave(self, visit: Visit, name: str | None) -> None:
        """Leave on the arcs of a name; None for none."""
        arcs = [arc for arc in self.definition.nodes[visit.node].outs if arc.name == name]
        if any(arc.back for arc in arcs):
            ahead = [one for one in self.before(visit) if one.node == arcs[0].end.id]
            return self.back(ahead[0]) if ahead else None
        visit.done = True
        visit.outs += [Arrival(self.count(), visit, arc) for arc in arcs]
        self.queue += visit.outs
        return None

    def flow(self) -> None:
        while self.queue:
            self.arrive(self.queue.popleft())

    def arrive(self, arrival: Arrival) -> None:
        node = self.definition.nodes[arrival.arc.end.id]
        there = [visit for visit in self.standing() if visit.node == node.id]
        if node.join == "first" and there:
            arrival.at = there[-1]
            there[-1].ins.append(arrival)
            return
        joined = [arrival]
        if node.join in ("and", "labelAnd"):
            self.waiting[arrival.arc.index].append(arrival)
            arcs = [arc for arc in node.ins if node.join == "and" or arc.name == arrival.arc.name]
            if not all(self.waiting[arc.index] for arc in arcs):
                return
            joined = [self.waiting[arc.index].pop(0) for arc in arcs]
        self.run(self.visit(node.id, joined))

    def before(self, visit: Visit) -> list[Visit]:
        """What led to a visit, without what arrived at one that may have been over; the nearest first."""
        line = [visit]
        for one in line:
            sources = [arrival.source for arrival in one.ins if not one.done or arrival.number < one.number]
            line += [source for source in dict.fromkeys(sources) if source not in line]
        return line[1:]

    def back(self, target: Visit) -> None:
        before, undone = [target, *self.before(target)], [target]
        for visit in undone:
            for arrival in visit.outs:
                if arrival.at is None:
                    self.waiting[arrival.arc.index].remove(arrival)
                elif arrival.at in before:
                    arrival.at.ins.remove(arrival)
                elif arrival.at not in undone:
                    undone.append(arrival.at)
        for visit in sorted(undone, key=lambda visit: -visit.number):
            visit.undone = True
            if visit is not target:
                self.queue += [arrival for arrival in visit.ins if arrival.source not in undone]
        for arrival in self.queue:
            arrival.at, arrival.number = None, self.count()
        self.run(self.visit(target.node, target.ins))


def says_yes(asked: Counter[str], node: str) -> bool:
    """The answer of a predicate: true every third time that it is asked about a node."""
    asked[node] += 1
    return asked[node] % 3 == 0


def graph(random: Random, joins: list[str], guards: dict[str, str], circles: bool) -> str:
    """A process of waiting nodes; `guards` gets what its guards say."""
    names = "abcdefg"[: random.randint(3, 7)]
    nodes = []
    for at, name in enumerate(names):
        targets = names if circles and random.random() < 0.3 else names[at + 1 :]
        arcs = {(random.choice(["", "", "x"]), random.choice(targets)) for _ in "123" if targets}
        drawn = [
            f'<arc to="{to}" name="{arc}"/>' for arc, to in random.sample(sorted(arcs), min(2, len(arcs)))
        ]
        if at and random.random() < 0.3:
            drawn.append(f'<arc to="{random.choice(names[:at])}" name="r" back="true"/>')
        guard = ""
        if random.random() < 0.25:
            guards[name] = random.choice([*GUARDS])
            guard = f"<guard>IF p THEN {guards[name]} ELSE Accept</guard>"
        start = ' isStart="true"' if at == 0 or (at == 1 and random.random() < 0.3) else ""
        join = random.choice(joins)
        nodes.append(
            f'<node name="{name}" type="wait" joinType="{join}"{start}>{guard}{"".join(drawn)}</node>'
        )
    return f'<process-definition name="p">{"".join(nodes)}</process-definition>'


def compare(said: Dialogue, run: int, reference: Reference) -> dict[int, Visit]:
    """Assert that the living tokens are those of the reference, made from the same; return which is which."""
    state = said.states[run]
    tokens = [token for token in state.nodes.values() if token.execution_type == "Forward"]
    visits = reference.standing()
    assert [(token.node, token.completed is not None) for token in tokens] == [
        (visit.node, visit.done) for visit in visits
    ]
    number = {visit: token.id for token, visit in zip(tokens, visits, strict=True)}
    for token, visit in zip(tokens, visits, strict=True):
        assert token.environment == visit.environment, token
        sources = [root(state, arc).parent for arc in inputs(state, token)]
        assert sources == [number[arrival.source] for arrival in visit.ins], token
    assert Counter(arc.arc for arc in state.arcs.values() if not arc.complete) == Counter(
        {arc: len(arrivals) for arc, arrivals in reference.waiting.items() if arrivals}
    )
    return {token.id: visit for token, visit in zip(tokens, visits, strict=True)}


def go(seed: int, joins: list[str], circles: bool, steps: int = 14) -> int:
    """Complete and go back at random, in the engine and in the reference; return how often it went back."""
    random, guards, asked = Random(seed), dict[str, str](), Counter[str]()
    said = Dialogue(graph(random, joins, guards, circles))
    run = 0

    def answer(about: dict[str, int]) -> bool:
        return says_yes(asked, said.states[run].nodes[about["token"]].node)

    said.answers_to["predicate:p"] = answer
    run = said.memory.next_eid
    said.start("p", kind="process")
    reference, back = Reference(said.definitions[run], guards), 0
    for _ in range(steps):
        visits = compare(said, run, reference)
        check(said, run)
        if said.state(run) != "executing":
            assert said.state(run) == "completed"
            break
        done = [token for token, visit in visits.items() if visit.done]
        active = [token for token, visit in visits.items() if not visit.done]
        if done and (random.random() < 0.4 or not active):
            token, back = random.choice(done), back + 1
            said.says(run, "backtrack", token=token)
            reference.back(visits[token])
        elif active:
            token = random.choice(active)
            said.says(run, "environment", token=token, set={random.choice("uvw"): str(token)})
            visits[token].environment = dict(said.states[run].nodes[token].environment)
            name = random.choice(["!", *said.definitions[run].nodes[visits[token].node].outs_by_name, ""])
            try:
                said.says(run, "complete", token=token, arcs=[] if name == "!" else [name])
            except Refusal as refusal:
                if refusal.kind != "no-way-back":
                    raise
            reference.leave(visits[token], None if name == "!" else name)
        reference.flow()
    return back


@SLOW
@given(st.integers(0, 2**32), st.booleans())
@pytest.mark.parametrize("joins", [["or", "and"], ["or", "and", "labelAnd", "first"], ["or", "first"]])
def test_section_11_going_back_undoes_what_followed_and_nothing_else(
    joins: list[str], seed: int, circles: bool
) -> None:
    go(seed, joins, circles)


def node(name: str, *targets: str, join: str = "or", start: bool = False) -> str:
    arcs = "".join(f'<arc to="{target}"/>' for target in targets)
    return f'<node name="{name}" type="wait" joinType="{join}" isStart="{str(start).lower()}">{arcs}</node>'


MERGE = node("a", "d", start=True) + node("b", "d", start=True) + node("d", "e", join="first") + node("e")
LOOP = node("a", "b", start=True, join="first") + node("b", "a", "c") + node("c")
CASES = {
    "past a token that merged into an older one": (
        node("a", "c", start=True) + node("b", "e", start=True) + node("c", "d", "e") + node("d")
        + node("e", join="first"),
        "+b +a +c -c",
        "a! b! c e",
    ),
    "past a token that merged into one made by going back": (MERGE, "+a +d -d +b -a", "b! a d"),
    "past a token that merged into its own ancestor, which stays": (LOOP, "+a +b -b", "a! b"),
    "to a start that another had merged into since": (
        node("a", "e", start=True, join="first") + node("e", "a", start=True, join="first")
        + node("k", start=True),
        "+e +a -e",
        "k e",
    ),
    "to the ancestor that a token merged into": (LOOP, "+a +b -a", "a"),
    "along an arc to where what has merged came from": (
        node("a", "d", start=True) + node("b", "d", start=True)
        + '<node name="d" type="wait" joinType="first"><arc to="b" back="true"/></node>',
        "+a +b +d",
        "a! b d",
    ),
    "past a dead end that was gone back to": (
        node("a", "c", start=True) + node("c", "d") + node("d") + node("k", start=True),
        "+a +c -c .c -c -a",
        "k a",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_section_11_going_back(case: str) -> None:
    nodes, acts, standing = CASES[case]
    said = Dialogue(f'<process-definition name="p">{nodes}</process-definition>')
    run = said.start("p", kind="process")
    for act in acts.split():
        arcs = {"arcs": []} if act[0] == "." else {}
        said.says(run, "backtrack" if act[0] == "-" else "complete", node=act[1:], **arcs)
        check(said, run)
    tokens = [token for token in said.states[run].nodes.values() if token.execution_type == "Forward"]
    assert " ".join(token.node + "!" * (token.completed is not None) for token in tokens) == standing


def test_section_11_a_way_back_that_an_earlier_version_lost_is_refused_and_nothing_changes() -> None:
    said = Dialogue(f'<process-definition name="p">{node("a", "b", start=True) + node("b", "c") + node("c")}'
                    "</process-definition>")  # fmt: skip
    run = said.start("p", kind="process")
    for act in ("complete a", "complete b", "backtrack b"):
        said.says(run, act.split()[0], node=act.split()[1])
    for states in (said.states, said._replayed):
        states[run].nodes[max(states[run].nodes)].reverses = None
    with pytest.raises(Refusal, match="the way back from token 3 on b is lost") as caught:
        said.says(run, "backtrack", node="a")
    assert caught.value.kind == "not-backtrackable"
    assert not said.decided
