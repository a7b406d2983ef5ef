"""What is due to be forgotten, and what never is (N5)."""

from narval.memory import change as changes
from narval.memory.decay import Idle, forget_runs
from narval.memory.element import Element
from narval.memory.tree import Memory


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


# --- runs that have ended ---------------------------------------------------------------------------------


def test_N5_a_plan_is_forgotten_with_each_element_of_its_context() -> None:
    made = with_runs(memory(), run10=(1, 2))
    assert forget_runs(made, (10,)) == changes.Forgotten((1, 2), (10,))


def test_N5_an_element_that_another_run_holds_stays() -> None:
    made = with_runs(memory(), run10=(1, 2), run11=(2, 3))
    assert forget_runs(made, (10,)).eids == (1,)


def test_N5_a_family_goes_together() -> None:
    made = with_runs(memory(), run10=(1, 2), run11=(2, 3), run12=(3,))
    assert forget_runs(made, (10, 11)) == changes.Forgotten((1, 2), (10, 11))
    assert forget_runs(made, (10, 11, 12)).eids == (1, 2, 3)


def test_N5_what_is_declared_stays() -> None:
    made = with_runs(memory(), run10=(1, 7))
    made.apply(changes.Added(Element(7, b"<user/>"), declared="memory.xml:1"))
    assert forget_runs(made, (10,)).eids == (1,)


def test_N5_what_is_in_use_stays() -> None:
    made = with_runs(memory(), run10=(1, 2, 3))
    made.apply(changes.Reserved((1,)))
    assert forget_runs(made, (10,), in_use={2}).eids == (3,)


def test_N5_a_run_in_a_context_is_no_element_to_forget() -> None:
    made = with_runs(memory(), run10=(), run11=(10, 1))
    assert forget_runs(made, (11,)) == changes.Forgotten((1,), (11,))


# --- elements that nobody used for long -------------------------------------------------------------------


def never(run: int) -> bool:
    return False


def idle(after: float, *eids: int, at: float = 0.0) -> Idle:
    made = Idle(after)
    for eid in eids:
        made.added(eid, at)
    return made


def test_N5_an_element_that_no_plan_used_for_long_is_forgotten() -> None:
    waiting = idle(60.0, 1, 2)
    waiting.added(3, 30.0)
    assert waiting.next() == 60.0
    assert waiting.due(memory(), 59.0, never).eids == ()
    assert waiting.due(memory(), 60.0, never).eids == (1, 2)
    assert waiting.next() == 90.0


def test_N5_a_use_puts_it_off() -> None:
    waiting = idle(60.0, 1, 2)
    waiting.used((1,), 50.0)
    assert waiting.due(memory(), 60.0, never).eids == (2,)
    assert waiting.next() == 110.0
    assert waiting.due(memory(), 110.0, never).eids == (1,)
    assert waiting.next() is None


def test_N5_the_last_use_counts() -> None:
    waiting = idle(60.0, 1)
    waiting.used((1,), 10.0)
    waiting.used((1,), 40.0)
    assert waiting.due(memory(), 60.0, never).eids == ()
    assert waiting.due(memory(), 99.0, never).eids == ()
    assert waiting.due(memory(), 100.0, never).eids == (1,)


def test_N5_what_a_live_context_holds_is_not_idle() -> None:
    made, active = with_runs(memory(), run10=(1,)), {10}
    waiting = idle(60.0, 1)
    assert waiting.due(made, 60.0, active.__contains__).eids == ()
    active.clear()
    assert waiting.due(made, 120.0, active.__contains__).eids == (1,)


def test_N5_what_is_declared_or_in_use_is_looked_at_again_later() -> None:
    made = memory()
    made.apply(changes.Added(Element(7, b"<user/>"), declared="memory.xml:1"))
    made.apply(changes.Reserved((1,)))
    waiting = idle(60.0, 1, 2, 7)
    assert waiting.due(made, 60.0, never, in_use={2}).eids == ()
    made.apply(changes.Released((1,)))
    made.apply(changes.Undeclared((7,)))
    assert waiting.due(made, 120.0, never).eids == (1, 2, 7)


def test_N5_what_is_gone_already_is_not_forgotten_twice() -> None:
    made, waiting = memory(), idle(60.0, 1, 2)
    waiting.used((1,), 10.0)
    made.apply(changes.Forgotten((1, 2)))
    assert waiting.due(made, 60.0, never).eids == ()
    assert waiting.next() is None
