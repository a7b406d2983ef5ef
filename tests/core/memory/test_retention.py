"""The elements and runs that are due to be forgotten, and those that never are (N5)."""

from narval.core.elements import changes
from narval.core.elements.element import Element
from narval.core.memory.memory import Memory
from narval.core.memory.retention import IdleTracker, next_chunk


def memory(count: int = 6) -> Memory:
    made = Memory()
    for eid in range(1, count + 1):
        made.apply(changes.Added(Element(eid, b"<mail/>")))
    return made


def with_runs(made: Memory, **held: tuple[int, ...]) -> Memory:
    for run, eids in held.items():
        number = int(run.removeprefix("run"))
        made.show_run(number, "plan", lambda number=number: Element(number, b"<plan/>"))
        made.apply(changes.Held(number, eids))
    return made


# --- runs that have ended -------------------------------------------------------------------------------


def alone(run: int) -> bool:
    return False


def nobody(eid: int) -> bool:
    return False


def test_N5_a_plan_is_forgotten_with_each_element_of_its_context() -> None:
    made = with_runs(memory(), run10=(1, 2))
    assert next_chunk(made, 10, alone, nobody, 100) == ((1, 2), (), True)


def test_N5_an_element_that_another_run_holds_stays() -> None:
    made = with_runs(memory(), run10=(1, 2), run11=(2, 3))
    assert next_chunk(made, 10, alone, nobody, 100) == ((1,), (2,), True)


def test_N5_an_element_goes_when_all_runs_that_hold_it_go() -> None:
    made = with_runs(memory(), run10=(1, 2), run11=(2, 3))
    assert next_chunk(made, 10, {10, 11}.__contains__, nobody, 100) == ((1, 2), (), True)


def test_N5_an_element_declared_or_reserved_stays() -> None:
    made = memory()
    made.apply(changes.Added(Element(7, b"<user/>"), declared="memory.xml:1"))
    made = with_runs(made, run10=(1, 2, 7))
    made.apply(changes.Reserved((1,)))
    assert next_chunk(made, 10, alone, nobody, 100) == ((2,), (1, 7), True)


def test_N5_an_element_that_is_still_to_be_used_stays() -> None:
    made = with_runs(memory(), run10=(1, 2))
    assert next_chunk(made, 10, alone, {2}.__contains__, 100) == ((1,), (2,), True)


def test_N5_a_run_in_a_context_is_no_element_to_forget() -> None:
    made = with_runs(memory(), run10=(), run11=(1, 10))
    assert next_chunk(made, 11, alone, nobody, 100) == ((1,), (10,), True)


def test_N5_a_long_context_goes_in_chunks() -> None:
    made = with_runs(memory(), run10=(1, 2, 3, 4, 5), run11=(2,))
    assert next_chunk(made, 10, alone, nobody, 2) == ((1,), (2,), False)
    made.apply(changes.Forgotten((1,)))
    made.apply(changes.Unheld(10, (2,)))
    assert next_chunk(made, 10, alone, nobody, 3) == ((3, 4, 5), (), True)


# --- idle elements --------------------------------------------------------------------------------------


def never(run: int) -> bool:
    return False


def idle(after: float, *eids: int, at: float = 0.0) -> IdleTracker:
    made = IdleTracker(after)
    for eid in eids:
        made.added(eid, at)
    return made


def test_N5_an_element_that_no_plan_used_for_long_is_forgotten() -> None:
    waiting = idle(60.0, 1, 2)
    waiting.added(3, 30.0)
    assert waiting.next() == 60.0
    assert not list(waiting.due(memory(), 59.0, never))
    assert list(waiting.due(memory(), 60.0, never)) == [1, 2]
    assert waiting.next() == 90.0


def test_N5_a_use_puts_it_off() -> None:
    waiting = idle(60.0, 1, 2)
    waiting.used((1,), 50.0)
    assert list(waiting.due(memory(), 60.0, never)) == [2]
    assert waiting.next() == 110.0
    assert list(waiting.due(memory(), 110.0, never)) == [1]
    assert waiting.next() is None


def test_N5_the_last_use_counts() -> None:
    waiting = idle(60.0, 1)
    waiting.used((1,), 10.0)
    waiting.used((1,), 40.0)
    assert not list(waiting.due(memory(), 60.0, never))
    assert not list(waiting.due(memory(), 99.0, never))
    assert list(waiting.due(memory(), 100.0, never)) == [1]


def test_N5_an_element_held_by_an_active_run_is_not_idle() -> None:
    made, active = with_runs(memory(), run10=(1,)), {10}
    waiting = idle(60.0, 1)
    assert not list(waiting.due(made, 60.0, active.__contains__))
    active.clear()
    assert list(waiting.due(made, 120.0, active.__contains__)) == [1]


def test_N5_an_element_declared_or_reserved_is_looked_at_again_later() -> None:
    made = memory()
    made.apply(changes.Added(Element(7, b"<user/>"), declared="memory.xml:1"))
    made.apply(changes.Reserved((1,)))
    waiting = idle(60.0, 1, 2, 7)
    assert list(waiting.due(made, 60.0, never)) == [2]
    waiting.put_off(2, 60.0)
    made.apply(changes.Released((1,)))
    made.apply(changes.Undeclared((7,)))
    assert list(waiting.due(made, 120.0, never)) == [1, 2, 7]


def test_N5_a_forgotten_element_is_not_due_again() -> None:
    made, waiting = memory(), idle(60.0, 1, 2)
    waiting.used((1,), 10.0)
    made.apply(changes.Forgotten((1, 2)))
    assert not list(waiting.due(made, 60.0, never))
    assert waiting.next() is None


def test_N5_no_more_elements_are_looked_at_than_asked_for() -> None:
    made, waiting = memory(), idle(60.0, 1, 2, 3, 4)
    waiting.used((1,), 50.0)
    assert list(waiting.due(made, 60.0, never, 2)) == [2]
    assert waiting.next() == 60.0
    assert list(waiting.due(made, 60.0, never, 2)) == [3, 4]
    assert waiting.next() == 110.0


def test_N5_a_clock_that_is_set_back_hides_nothing() -> None:
    waiting = idle(60.0, 1, at=100.0)
    waiting.added(2, 50.0)
    waiting.added(3, 100.0)
    assert waiting.next() == 110.0
    assert list(waiting.due(memory(), 110.0, never)) == [2]
    assert list(waiting.due(memory(), 160.0, never)) == [1, 3]


def test_N5_a_run_is_idle_when_it_is_over_and_no_live_context_holds_it() -> None:
    made, active = with_runs(memory(), run10=(), run11=(10,), run12=()), {11, 12}
    waiting = idle(60.0, 10, 12)
    assert not list(waiting.due(made, 60.0, active.__contains__))
    active.clear()
    assert list(waiting.due(made, 120.0, active.__contains__)) == [10, 12]
