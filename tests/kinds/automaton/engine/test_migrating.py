"""Random runs of automata that go on with another version, at a random moment (issue 42)."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narval.core.definitions.parsing import parse
from narval.core.source.text import Source
from narval.kinds.automaton.language.definition import Automaton
from tests.core.engines.dialogue import Dialogue, recipes
from tests.examples import examples

SLOW = settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])


class Drawn(NamedTuple):
    """A state that was drawn: its command, and the states that lead to it, each by a label."""

    command: str
    ins: tuple[tuple[int, str], ...]


def drawn(random: Random, at: int) -> Drawn:
    label = random.choice(["0", "0", "0", "1"])
    return Drawn(random.choice(["true", "true", "date"]), tuple((origin, label) for origin in
        {random.randrange(at), random.randrange(at)}) if at else ())  # fmt: skip


def text(states: list[Drawn]) -> str:
    """An automaton without circles."""
    names = ["start", *(f"s{at}" for at in range(1, len(states)))]
    parts = [
        f'<state name="{name}" command="{one.command}"/>' for name, one in zip(names, states, strict=True)
    ]
    parts += [
        f'<transition from="{names[origin]}" label="{label}" to="{name}"/>'
        for name, one in zip(names, states, strict=True)
        for origin, label in one.ins
    ]
    return f'<automaton group="g" name="u">{"".join(parts)}</automaton>'


def versions(random: Random) -> tuple[str, str]:
    """An automaton, and another in which some states are others, more or fewer; neither has faults."""
    while True:
        texts = _drawn_versions(random)
        if not any(parse(Source("test.xml", xml.encode())).faults for xml in texts):
            return texts


def _drawn_versions(random: Random) -> tuple[str, str]:
    count = random.randint(3, 6)
    old = [drawn(random, at) for at in range(count)]
    larger = count + random.choice([-1, 0, 1, 1])
    odds = random.choice([0.1, 0.3])
    changes = (at >= count or (at and random.random() < odds) for at in range(larger))
    return text(old), text([drawn(random, at) if new else old[at] for at, new in enumerate(changes)])


def read(xml: str) -> Automaton:
    [definition] = recipes(xml)
    return definition  # type: ignore[no-any-return]


def ends(said: Dialogue, random: Random) -> tuple[str, int] | None:
    """A program ends, well or not: its state, and its status; None where none runs."""
    if not said.calls:
        return None
    call = random.choice([call for _, call in said.calls.values()])
    status = random.choice([0, 0, 0, 1])
    said.answer(call, value={"status": status})
    return call.step, status


@SLOW
@given(st.integers(0, 2**32))
def test_a_run_that_goes_on_with_its_own_text_behaves_as_if_it_never_was(seed: int) -> None:
    random = Random(seed)
    xml, _ = versions(random)
    stays, moves = Dialogue(xml), Dialogue(xml)
    run, same = (said.start("g.u", kind="automaton") for said in (stays, moves))
    for _ in range(8):
        if moves.state(same) == "running":
            plan = moves.migrate(same, read(xml))
            assert not plan.refused
            assert (plan.gone, plan.new) == ((), ())
            stays._next()
        chance = random.random()
        assert ends(stays, Random(chance)) == ends(moves, Random(chance))
        assert moves.states == stays.states
    assert run == same


@SLOW
@given(st.integers(0, 2**32))
def test_a_run_in_another_text_is_where_a_run_of_that_text_can_be(seed: int) -> None:
    random = Random(seed)
    old, other = versions(random)
    said, ended = Dialogue(old), list[tuple[str, int]]()
    run = said.start("g.u", kind="automaton")
    for _ in range(random.randint(0, 4)):
        if (end := ends(said, random)) is not None:
            ended.append(end)
    if said.state(run) != "running" or said.migrate(run, read(other)).refused:
        return
    for _ in range(5):
        again = Dialogue(other)
        same = again.start("g.u", kind="automaton")
        for state, status in ended:
            again.answer(again.call_of(state), value={"status": status})
        assert where(said.states[run]) == where(again.states[same])
        if (end := ends(said, random)) is None:
            break
        ended.append(end)


def where(state: Any) -> dict[str, Any]:
    """The states that were reached, how they ended, and which others they wait for."""
    return {"": state.status} | {
        name: (one.state, one.label, one.visits, sorted(state.missing(name)))
        for name, one in state.states.items()
    }
