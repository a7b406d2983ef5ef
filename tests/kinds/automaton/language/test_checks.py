"""Joins that can never be met (A11): told where it is certain, and only there."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from narval.kinds.automaton.language.checks import never_started, unmet_joins
from narval.kinds.automaton.language.definition import SUCCESS, State, link

Arrow = tuple[str, str, str]
NAMES = ("start", "a", "b", "c", "d")


def graph(*arrows: Arrow) -> dict[str, State]:
    """The states that these transitions name, each `from`, `label`, `to`."""
    names = dict.fromkeys(["start", *(name for before, _, after in arrows for name in (before, after))])
    states = {name: State(name) for name in names}
    follow: dict[str, dict[str, list[State]]] = {name: {} for name in names}
    for before, label, after in arrows:
        follow[before].setdefault(label, []).append(states[after])
    link(states, follow)
    return states


def never(*arrows: Arrow) -> dict[str, str]:
    return {state.name: message for state, message in never_started(graph(*arrows))}


def test_A11_a_join_that_needs_two_ends_of_one_state_is_never_met() -> None:
    told = never(("start", "0", "v"), ("start", "*", "b"), ("b", "0", "v"), ("v", "0", "w"))
    assert told["v"] == (
        "state 'v' can never start: it waits for 0 of 'start', 'b', and for that 'start', which starts once, "
        "would have to end with '*' and '0'"
    )
    assert told["w"] == "state 'w' can never start: only 'v' leads there, which cannot start"


def test_A11_two_branches_of_a_choice_that_join_further_on_are_never_met() -> None:
    arrows = (("start", "0", "a"), ("start", "1", "b"), ("a", "0", "c"), ("c", "0", "v"), ("b", "0", "v"))
    assert list(never(*arrows)) == ["v"]
    assert never(*arrows, ("b", "1", "v")) == {}, "something else starts it"
    assert list(unmet_joins(graph(*arrows, ("b", "1", "v")))) == ["v"], "which is worth a warning"


def test_A11_what_may_run_again_may_end_with_both_labels() -> None:
    assert never(("start", "0", "v"), ("start", "*", "b"), ("b", "0", "v"), ("b", "1", "start")) == {}
    assert never(("start", "0", "a"), ("start", "0", "b"), ("a", "0", "v"), ("b", "0", "v")) == {}


def started(states: dict[str, State]) -> set[str]:
    """The states that some course of events starts, where nothing is ever killed."""
    first = (frozenset({"start"}), frozenset[tuple[str, str]]())
    seen, pending = {first}, [first]
    while pending:
        running, had = pending.pop()
        for name in running:
            for label, successors in states[name].follow.items():
                now, met = set(running - {name}), set(had)
                for successor in successors:
                    if label == SUCCESS:
                        met.add((successor.name, name))
                        if any((successor.name, before) not in met for before in successor.awaits):
                            continue
                    met -= {(successor.name, before) for before in successor.awaits}
                    now.add(successor.name)
                reached = (frozenset(now), frozenset(met))
                if reached not in seen:
                    seen.add(reached)
                    pending.append(reached)
    return {name for running, _ in seen for name in running}


@given(
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(["0", "1", "*"]), st.sampled_from(NAMES)),
        min_size=1,
        max_size=9,
        unique=True,
    )
)
def test_A11_what_is_told_never_to_start_never_does(arrows: list[Arrow]) -> None:
    states = graph(*arrows)
    assert started(states).isdisjoint(state.name for state, _ in never_started(states))
