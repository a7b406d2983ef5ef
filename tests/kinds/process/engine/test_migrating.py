"""Random processes that go on with another version of their definition, at a random moment (issue 42)."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narval.kinds.process.language.definition import Process
from tests.core.engines.dialogue import Dialogue
from tests.examples import examples

INSIDE = (
    '<condition use="yes"><match>red</match></condition>',
    '<condition use="yes"><match>green</match></condition>',
    "<guard>DELAY UNTIL 1 day after now</guard>",
)
SLOW = settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])


class Drawn(NamedTuple):
    """A node that was drawn; `ins` are the nodes from which arcs lead to it."""

    type: str
    join: str
    inside: str
    ins: frozenset[int]


def drawn(random: Random, at: int) -> Drawn:
    ins = frozenset(random.choices(range(at), k=2)) if at else frozenset[int]()
    type = random.choice(["wait", "wait", "node"]) if at else "wait"
    inside = random.choice(INSIDE) if type == "wait" and random.random() < 0.4 else ""
    return Drawn(type, random.choice(["or", "and", "labelAnd"]), inside, ins)


def text(nodes: list[Drawn]) -> str:
    """A process without circles, which begins with its first node."""
    parts = []
    for at, node in enumerate(nodes):
        start = "" if at else ' isStart="true"'
        arcs = "".join(f'<arc to="n{to}"/>' for to, there in enumerate(nodes) if at in there.ins)
        parts.append(
            f'<node name="n{at}" joinType="{node.join}" type="{node.type}"{start}>{node.inside}{arcs}</node>'
        )
    return f'<process-definition name="p">{"".join(parts)}</process-definition>'


def versions(random: Random) -> tuple[str, str]:
    """A process, and another in which some nodes are others, more or fewer."""
    count = random.randint(3, 6)
    old = [drawn(random, at) for at in range(count)]
    larger = count + random.choice([-1, 0, 0, 1, 1])
    odds = random.choice([0.1, 0.3])
    changes = (at >= count or random.random() < odds for at in range(larger))
    return text(old), text([drawn(random, at) if new else old[at] for at, new in enumerate(changes)])


def dialogue(xml: str) -> Dialogue:
    said = Dialogue(xml)
    said.answers_to["date:now"] = 0.0
    return said


def read(xml: str) -> Process:
    definition: Process = dialogue(xml).definition("process", "p")
    return definition


def happens(said: Dialogue, run: int, random: Random, *, back: bool = False) -> None:
    """A token is completed, an element arrives, or, with `back`, the process goes back to a token."""
    state = said.states[run]
    if state.status != "executing":
        return
    done = [one.id for one in state.nodes.values() if one.completed is not None and not one.backtracked]
    chance = random.random()
    if back and done and chance < 0.3:
        said.says(run, "backtrack", token=random.choice(done))
    elif state.active_nodes and chance < 0.8:
        said.says(run, "complete", token=random.choice([*state.active_nodes]))
    else:
        said.arrives(random.choice(["<red/>", "<green/>"]))


@SLOW
@given(st.integers(0, 2**32))
def test_a_process_that_goes_on_with_its_own_text_behaves_as_if_it_never_was(seed: int) -> None:
    random = Random(seed)
    xml, _ = versions(random)
    stays, moves = dialogue(xml), dialogue(xml)
    runs = [one.start("p", kind="process") for one in (stays, moves)]
    for _ in range(12):
        if moves.states[runs[1]].status == "executing":
            plan = moves.migrate(runs[1], read(xml))
            assert not plan.refused
            assert (plan.gone, plan.new) == ((), ())
            stays._next()
        again = random.random()
        for said, run in zip((stays, moves), runs, strict=True):
            happens(said, run, Random(again), back=True)
        assert moves.states == stays.states
        assert (moves.watches.keys(), moves.wakes.keys()) == (stays.watches.keys(), stays.wakes.keys())


@SLOW
@given(st.integers(0, 2**32))
def test_a_process_in_another_text_is_where_a_process_of_that_text_can_be(seed: int) -> None:
    random = Random(seed)
    old, other = versions(random)
    new, said = read(other), dialogue(old)
    run = said.start("p", kind="process")
    for _ in range(random.randint(0, 4)):
        happens(said, run, random)
    if said.states[run].status != "executing" or said.migrate(run, new).refused:
        return
    for _ in range(6):
        assert where(said.states[run]) == where(led_there(other, said.states[run]))
        happens(said, run, random)


def where(state: Any) -> tuple[Counter[Any], Counter[Any]]:
    """The tokens on nodes, and those that wait on arcs."""
    nodes = Counter((one.node, one.completed is None) for one in state.nodes.values())
    return nodes, Counter(state.arcs[number].arc for number in state.active_arcs)


def led_there(xml: str, state: Any) -> Any:
    """The state of a process that began with a text, and whose tokens were completed on the same nodes."""
    said = dialogue(xml)
    run = said.start("p", kind="process")
    reached = said.states[run]
    to_complete = Counter(one.node for one in state.nodes.values() if one.completed is not None)
    while reached.status == "executing":
        passed = Counter(one.node for one in reached.nodes.values() if one.completed is not None)
        left = (one for one in reached.active_nodes if to_complete[reached.nodes[one].node]
                > passed[reached.nodes[one].node])  # fmt: skip
        token = next(left, None)
        if token is None:
            break
        said.says(run, "complete", token=token)
    return reached


SETS = """<process-definition name="p">
  <node name="s" type="maker" isStart="true"><arc to="a"/><arc to="b"/></node>
  <node name="a" type="wait"><arc to="c"/></node>
  <node name="b" type="wait"><arc to="c"/></node>
  <node name="c" joinType="labelAnd"><arc to="d"/></node>
  <node name="d" joinType="tokenSet"/>
</process-definition>"""


def test_tokens_of_sets_and_calls_under_way_are_there_by_new_names() -> None:
    said = Dialogue(SETS)
    said.node_types = {"maker": frozenset({"execute"})}
    run = said.start("p", kind="process")
    new = read(SETS.replace('"a"', '"first"').replace('"s"', '"make"').replace('"c"', '"both"'))
    names = {"a": "first", "s": "make", "c": "both"}
    plan = said.migrate(run, new, names)
    assert [(part.part, part.name, part.state) for part in plan.keeps] == [("s", "make", "active")]
    made = {"do": "complete-with-new-token-set", "arcs": [""], "name": "set", "count": 2}
    said.answer(next(call for _, call in said.calls.values()), value={"effects": [made]})
    for token in (*said.states[run].standing["b"],):
        said.says(run, "complete", token=token)
    older = read(SETS.replace('<node name="d"', '<node name="e" type="wait"/><node name="d"'))
    assert said.migrate(run, older, {new: old for old, new in names.items()}).new == ("e",)
    for token in (*said.states[run].standing["a"],):
        said.says(run, "complete", token=token)
    assert said.state(run) == "completed"
    assert Counter(one.node for one in said.states[run].nodes.values()) == {
        "s": 1, "a": 2, "b": 2, "c": 2, "d": 1
    }  # fmt: skip


BEFORE = """<process-definition name="p"><node name="s" type="wait" isStart="true">{}<arc to="e"/></node>
<node name="e"/></process-definition>"""


def test_what_waits_and_has_changed_is_decided_anew() -> None:
    later = "<guard>DELAY UNTIL {} days after now</guard>"
    said = dialogue(BEFORE.format(later.format(1)))
    run = said.start("p", kind="process")
    (before,) = said.wakes
    said.migrate(run, read(BEFORE.format(later.format(2))))
    assert [wake.at for _, wake in said.wakes.values()] == [2 * 86_400.0]
    assert before not in said.wakes
    said.migrate(run, read(BEFORE.format("")))
    assert not said.wakes
    said.migrate(run, read(BEFORE.format(INSIDE[0])))
    assert len(said.watches) == 1
    said.migrate(run, read(BEFORE.format(INSIDE[1])))
    said.arrives("<red/>")
    assert said.state(run) == "executing"
    said.arrives("<green/>")
    assert said.state(run) == "completed"
