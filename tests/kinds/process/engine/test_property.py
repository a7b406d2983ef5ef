"""Whatever is done to whatever graph: no token is lost, and what was recorded makes the same state again.

That recorded changes make the same state, and that it can be stored, `Dialogue` checks after every event.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narval.kinds.process.engine.state import FORWARD
from tests.core.engines.dialogue import Dialogue, Refusal
from tests.examples import examples

SLOW = settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])


def graph(random: Random, join: str, kinds: tuple[str, ...] = ("wait", "wait", "node")) -> str:
    """A process without circles: arcs lead to later nodes only, and what none leads to is a start."""
    count = random.randint(2, 7)
    ends = [[to for to in range(at + 1, count) if random.random() < 0.4] for at in range(count)]
    reached = {to for targets in ends for to in targets}
    nodes = []
    for at in range(count):
        start = "" if at in reached else ' isStart="true"'
        arcs = "".join(f'<arc to="n{to}"/>' for to in ends[at])
        nodes.append(
            f'<node name="n{at}" joinType="{join}" type="{random.choice(kinds)}"{start}>{arcs}</node>'
        )
    return f'<process-definition name="p">{"".join(nodes)}</process-definition>'


def check(said: Dialogue, run: int) -> None:
    """Every token is somewhere, once."""
    state = said.states[run]
    for token in state.nodes.values():
        assert (token.completed is None) == (token.id in state.active_nodes), token
        assert (token.id in state.standing.get(token.node, {})) == (token.id in state.active_nodes), token
        assert all(state.arcs[number].child == token.id for number in token.parents), token
        assert all(state.arcs[number].parent == token.id for number in token.children), token
    pending = set(state.queue.all(lambda number: state.arcs[number].pending))
    for arc in state.arcs.values():
        places = [arc.complete, arc.id in state.active_arcs, arc.pending]
        assert sum(places) == 1, arc
        assert arc.pending == (arc.id in pending), arc
        assert arc.complete == (arc.child is not None), arc
    for token_set in state.sets.values():
        assert set(token_set.nodes) == {
            t.id for t in state.nodes.values() if token_set.id in t.sets and t.completed is None
        }
        assert set(token_set.arcs) == {
            t.id for t in state.arcs.values() if token_set.id in t.sets and not t.complete
        }
        assert token_set.heading == Counter(state.arcs[token].to for token in token_set.arcs)
    lined = Counter(token for line in state.waiting.values() for token in line.all(state.waits_in_line))
    for token, times in lined.items():
        assert times == 1 + max(1, len(state.arcs[token].sets)), token
    if state.status == "executing" and not state.paused:
        assert state.active_nodes or state.active_arcs or pending or state.calls


def live(said: Dialogue, run: int) -> Counter[str]:
    """How often each node was passed, what was gone back from left out."""
    nodes = said.states[run].nodes.values()
    return Counter(token.node for token in nodes if token.execution_type in FORWARD)


def to_complete(said: Dialogue, run: int) -> list[int]:
    """The tokens that wait for somebody; those on `s` make a set when their call is back."""
    return [number for number in said.states[run].active_nodes if said.states[run].nodes[number].node != "s"]


def finish(said: Dialogue, run: int, random: Random) -> None:
    """Complete whatever waits, in any order, until nothing does."""
    while said.state(run) == "executing":
        active = to_complete(said, run)
        if not active:
            break
        said.says(run, "complete", token=random.choice(active))
        check(said, run)


def wander(said: Dialogue, run: int, random: Random, steps: int) -> int:
    """Complete, and go back, at random; how often it went back."""
    back = 0
    for _ in range(steps):
        state = said.states[run]
        if state.status != "executing":
            break
        done = [t.id for t in state.nodes.values() if t.completed is not None and not t.backtracked]
        active = to_complete(said, run)
        if done and (random.random() < 0.4 or not active):
            said.says(run, "backtrack", token=random.choice(done))
            back += 1
        elif active:
            said.says(run, "complete", token=random.choice(active))
        check(said, run)
    return back


@SLOW
@given(st.integers(0, 2**32), st.sampled_from(["labelAnd", "and", "or"]))
def test_section_11_after_going_back_anywhere_every_node_is_passed_as_often_as_without(
    seed: int, join: str
) -> None:
    random = Random(seed)
    text = graph(random, join)
    straight = Dialogue(text)
    finish(straight, straight.start("p", kind="process"), random)
    said = Dialogue(text)
    run = said.start("p", kind="process")
    check(said, run)
    wander(said, run, random, 12)
    finish(said, run, random)
    assert said.state(run) == "completed"
    assert live(said, run) == live(straight, run)


SETS = """<process-definition name="p">
  <node name="s" type="maker" isStart="true"><arc to="a"/><arc to="b"/></node>
  <node name="a" type="{a}"><arc to="c"/></node>
  <node name="b" type="wait"><arc to="c"/></node>
  <node name="c" type="{c}" joinType="{inner}"><arc to="d"/></node>
  <node name="d" type="wait" joinType="tokenSet"><arc to="e"/></node>
  <node name="e" type="wait"/>
</process-definition>"""


def makes(run: int, said: Dialogue, count: int) -> None:
    """Whatever waits to make a set of tokens makes one."""
    for call in said.calls_of("s", run):
        wish: Any = {"do": "complete-with-new-token-set", "arcs": [""], "name": "set", "count": count}
        said.answer(call, value={"effects": [wish]})


@SLOW
@given(
    st.integers(0, 2**32),
    st.integers(1, 4),
    st.sampled_from(["labelAnd", "or"]),
    st.sampled_from(["wait", "node"]),
    st.sampled_from(["wait", "node"]),
)
def test_section_17_going_back_with_several_tokens_on_one_arc_finds_each_its_own(
    seed: int, count: int, inner: str, a: str, c: str
) -> None:
    random = Random(seed)
    said = Dialogue(SETS.format(inner=inner, a=a, c=c))
    said.node_types = {"maker": frozenset({"execute"})}
    run = said.start("p", kind="process")
    for _ in range(4):
        makes(run, said, count)
        wander(said, run, random, 5)
    while said.state(run) == "executing":
        makes(run, said, count)
        finish(said, run, random)
    assert said.state(run) == "completed"
    passed = live(said, run)
    members = count if inner == "labelAnd" else 2 * count
    assert passed == {"s": 1, "a": count, "b": count, "c": members, "d": 1, "e": 1}


@pytest.mark.parametrize("seed", range(3))
def test_no_token_of_another_process_is_taken(seed: int) -> None:
    said = Dialogue(graph(Random(seed), "or", ("wait",)))
    first, second = said.start("p", kind="process"), said.start("p", kind="process")
    highest = max(said.states[first].nodes)
    with pytest.raises(Refusal, match="not one of its tokens") as caught:
        said.says(second, "complete", token=highest + 1000)
    assert caught.value.kind == "no-token"
