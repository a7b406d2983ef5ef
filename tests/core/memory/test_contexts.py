"""Contexts: the elements that each run holds (N3)."""

from hypothesis import given
from hypothesis import strategies as st

from narval.core.memory.contexts import Contexts


def contexts(**held: tuple[int, ...]) -> Contexts:
    made = Contexts()
    for run, eids in held.items():
        made.join(int(run.removeprefix("run")), eids)
    return made


def test_N3_one_element_may_be_in_many_contexts() -> None:
    made = contexts(run1=(5, 6), run2=(6,), run3=(6, 7))
    assert list(made.of(1)) == [5, 6]
    assert sorted(made.holders(6)) == [1, 2, 3]
    assert list(made.holders(5)) == [1]
    assert list(made.holders(9)) == []
    assert (made.holds(1, 5), made.holds(2, 5), made.holds(9, 5)) == (True, False, False)
    assert sorted(made.runs()) == [1, 2, 3]


def test_N3_a_context_is_a_set() -> None:
    made = contexts(run1=(5, 5))
    made.join(1, (5,))
    assert list(made.of(1)) == [5]
    assert list(made.holders(5)) == [1]


def test_N16_the_oldest_element_is_first_whenever_it_joined() -> None:
    made = contexts(run1=(8, 3))
    assert list(made.of(1)) == [3, 8]
    made.join(1, (5,))
    made.join(1, (9, 1))
    assert list(made.of(1)) == [1, 3, 5, 8, 9]


def test_N16_an_element_that_joins_again_before_a_younger_one_does_not_hide_their_order() -> None:
    made = contexts(run1=(1, 5))
    made.join(1, (1, 3))
    assert list(made.of(1)) == [1, 3, 5]


def test_elements_that_leave_are_held_by_the_others_still() -> None:
    made = contexts(run1=(5, 6), run2=(6,), run3=(6,))
    made.leave(1, (6, 7))
    assert list(made.of(1)) == [5]
    assert sorted(made.holders(6)) == [2, 3]
    made.leave(2, (6,))
    made.leave(3, (6,))
    assert list(made.holders(6)) == []
    assert list(made.runs()) == [1], "a context without elements is none"
    made.leave(9, (1,))


def test_N5_a_run_or_an_element_is_forgotten_everywhere() -> None:
    made = contexts(run1=(5, 6), run2=(6, 7))
    made.forget_run(1)
    assert (list(made.of(1)), list(made.holders(5)), list(made.holders(6))) == ([], [], [2])
    made.forget_element(6)
    assert (list(made.of(2)), list(made.holders(6))) == ([7], [])
    made.forget_run(9)


OPERATIONS = st.tuples(
    st.sampled_from(["join", "leave", "forget_run", "forget_element"]),
    st.integers(1, 3),
    st.lists(st.integers(1, 6), max_size=3),
)


@given(st.lists(OPERATIONS, max_size=30))
def test_contexts_are_a_relation_that_can_be_read_from_both_sides(
    operations: list[tuple[str, int, list[int]]],
) -> None:
    made, pairs = Contexts(), set[tuple[int, int]]()
    for name, run, eids in operations:
        if name == "join":
            made.join(run, eids)
            pairs |= {(run, eid) for eid in eids}
        elif name == "leave":
            made.leave(run, eids)
            pairs -= {(run, eid) for eid in eids}
        elif name == "forget_run":
            made.forget_run(run)
            pairs = {pair for pair in pairs if pair[0] != run}
        else:
            for eid in eids:
                made.forget_element(eid)
                pairs = {pair for pair in pairs if pair[1] != eid}
        for run in range(1, 4):
            assert list(made.of(run)) == sorted(eid for holder, eid in pairs if holder == run)
        for eid in range(1, 7):
            assert sorted(made.holders(eid)) == sorted(holder for holder, held in pairs if held == eid)
