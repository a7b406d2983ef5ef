"""Plans that call plans: frames, recursion, and its bounds (T34, T36, T37, TA34)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.engines.events import Failure
from narval.kinds.dataflow.engine.network.batches import TupleBatch
from narval.kinds.dataflow.engine.network.requests import FlowSettings, OperatorRequest
from tests.examples import examples
from tests.kinds.dataflow.engine.flows import FailedError, FlowDriver, flow

SEEKERS = """
PLAN Main {
  INPUT: String first
  OUTPUT: TupleStream houses
  BODY {
    formatrelation(first, "text" : page)
    stream(page : pages)
    t/Pages(pages : houses)
  }
}
PLAN Pages {
  INPUT: TupleStream page
  OUTPUT: TupleStream houses
  BODY {
    atleastone(page : valid, houses)
    query("details", valid : found)
    query("next", valid : following)
    t/Pages(following : others)
    union((found, others) : houses)
  }
}
"""


def site(pages: int) -> Any:
    """Pages of two houses, each of which but the last leads to the next."""

    def query(request: OperatorRequest) -> list[TupleBatch]:
        number = int(request.arguments["text"])
        if request.arguments["source"] == "details":
            return [TupleBatch(("house",), [(2 * number,), (2 * number + 1,)])]
        return [TupleBatch(("text",), [(str(number + 1),)])] if number + 1 < pages else []

    return query


@settings(max_examples=examples(40))
@given(st.one_of(st.none(), st.integers(0, 10**9)), st.integers(1, 12))
def test_T34_a_recursion_over_next_pages(seed: int | None, pages: int) -> None:
    driver = FlowDriver(flow(SEEKERS), {"query": site(pages)}, seed).give(first="0").run()
    assert driver.bag("houses") == Counter(frozenset({("house", at)}) for at in range(2 * pages))
    assert driver.ends == {"houses": "ended"}
    assert len(driver.made) == 2 * pages


def test_T34_the_first_houses_come_while_the_second_page_is_on_its_way() -> None:
    driver = FlowDriver(flow(SEEKERS), {"query": site(3)}).give(first="0")
    details = next(one for one in driver.waiting if one[0].arguments["source"] == "details")
    driver.network.answer(details[0].id, TupleBatch(("house",), [(0,)]))
    driver.listen()
    assert driver.rows == {"houses": [{"house": 0}]}
    assert [one[0].arguments["source"] for one in driver.waiting] == ["details", "next"]


def test_T34_a_deep_recursion_does_not_grow_the_stack() -> None:
    driver = FlowDriver(flow(SEEKERS), {"query": site(250)}).give(first="0").run()
    assert len(driver.rows["houses"]) == 500


def test_TA34_too_deep_a_recursion_is_an_error() -> None:
    driver = FlowDriver(flow(SEEKERS), {"query": site(50)}, settings=FlowSettings(depth=20))
    driver.give(first="0").run()
    assert driver.over is not None
    assert driver.over.failure is not None
    assert (driver.over.state, driver.over.failure.kind) == ("failed", "too-deep")


TAIL = """
PLAN Main {
  INPUT: TupleStream page
  OUTPUT: TupleStream last
  BODY {
    atleastone(page : valid, last)
    query("next", valid : following)
    t/Main(following : last)
  }
}
"""


@pytest.mark.parametrize("seed", [None, 5])
def test_T36_a_call_at_the_end_keeps_no_frames(seed: int | None) -> None:
    driver = FlowDriver(flow(TAIL), {"query": site(2_000)}, seed).feed("page", [{"text": "0"}]).end("page")
    most = 0
    while driver.answer_one():
        most = max(most, len(driver.network.frames.live))
    assert driver.over is not None
    assert (driver.over.state, driver.ends) == ("done", {"last": "ended"})
    assert most <= 40
    depths: list[int] = []
    for one in (above := driver.network.frames.above):
        depths.append(0)
        while (one := above.get(one)) is not None:
            depths[-1] += 1
    assert max(depths, default=0) <= 40, "whether a try counts is found in few steps"


def test_TA34_a_recursion_without_end_ends() -> None:
    def query(request: OperatorRequest) -> list[TupleBatch]:
        return [TupleBatch(("text",), [("0",)])]

    driver = FlowDriver(flow(TAIL), {"query": query}, settings=FlowSettings(frames=100))
    driver.feed("page", [{"text": "0"}]).end("page").run()
    assert driver.over is not None
    assert driver.over.failure is not None
    assert driver.over.failure.kind == "too-many-frames"
    assert driver.ends == {"last": "cancelled"}


def test_T37_mutual_recursion() -> None:
    text = """
    PLAN Main { INPUT: TupleStream n OUTPUT: TupleStream y BODY {
        atleastone(n : some, none) query("next", some : more) t/Other(more : y1)
        union((some, y1) : y2) select("text <> ''", y2 : y) select("text <> ''", none : y) } }
    PLAN Other { INPUT: TupleStream n OUTPUT: TupleStream y BODY {
        atleastone(n : some, y) query("next", some : more) t/Main(more : y1) union((some, y1) : y) } }
    """
    driver = FlowDriver(flow(text), {"query": site(7)}, 3).feed("n", [{"text": "0"}]).end("n").run()
    assert driver.bag("y") == Counter(frozenset({("text", str(at))}) for at in range(7))


def test_T34_no_stream_begins_no_frame() -> None:
    text = """
    PLAN Main { INPUT: TupleStream x OUTPUT: TupleStream y BODY { atleastone(x : some, y) t/Sub(some : y) } }
    PLAN Sub { INPUT: TupleStream a OUTPUT: TupleStream b BODY { select("n > 1", a : b) } }
    """
    driver = FlowDriver(flow(text)).end("x").run()
    assert (driver.ends, driver.network.machine.frames) == ({"y": "ended"}, 1)
    driver = FlowDriver(flow(text)).feed("x", [{"n": 1}, {"n": 2}]).end("x").run()
    assert (driver.rows, driver.network.machine.frames) == ({"y": [{"n": 2}]}, 2)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_TA7_a_plan_is_called_for_each_tuple(seed: int | None) -> None:
    text = """
    PLAN Main { INPUT: TupleStream x OUTPUT: TupleStream y BODY { t/Sub(x, "!" : y) } }
    PLAN Sub { INPUT: String a, String b OUTPUT: TupleStream r BODY {
        sprintf("%s%s", (a, b) : c) formatrelation(c, "c" : d) stream(d : e) query("q", e : r) } }
    """

    def query(request: OperatorRequest) -> list[TupleBatch]:
        return [TupleBatch(("v",), [(request.arguments["text"],)])]

    driver = FlowDriver(flow(text), {"query": query}, seed, FlowSettings(concurrency=2))
    driver.feed("x", [{"a": n % 4} for n in range(9)]).end("x").run()
    assert driver.bag("y") == Counter(frozenset({("v", f"{n % 4}!")}) for n in range(9))
    assert driver.ends == {"y": "ended"}
    assert driver.network.machine.frames == 10
    assert len({request.frame for request in driver.made}) == 9


# --- errors -----------------------------------------------------------------------------------------------

RETRY = """
PLAN Main {
  INPUT: TupleStream x
  OUTPUT: TupleStream y, TupleStream z
  BODY { query("good", x : y) query("bad", x : z) }
}
"""


class Site:
    """A source that fails so many times, with some of its tuples given before."""

    def __init__(self, failures: int, *, final: bool = False, before: int = 0) -> None:
        self.failures, self.final, self.before = failures, final, before

    def __call__(self, request: OperatorRequest) -> Any:
        return [TupleBatch(("v",), [(request.arguments["text"],), ("more",)])]


def driven(text: str, failing: str, failures: int, seed: int | None = None, **given: Any) -> FlowDriver:
    """A driver in which a source fails for the first times that a tuple is asked of it, halfway through."""
    left = [failures]
    driver = FlowDriver(flow(text), {"query": Site(0)}, seed, **given)
    driver.feed("x", [{"text": "a"}, {"text": "b"}]).end("x")
    while driver.over is None:
        for at, (request, answer) in enumerate(driver.waiting):
            if request.arguments["source"] == failing and left[0] and len(answer) and answer[0].rows:
                left[0] -= 1
                driver.network.answer(request.id, TupleBatch(("v",), [(request.arguments["text"],)]))
                driver.network.fail(request.id, Failure("gone", "it is gone"))
                driver.waiting = [one for n, one in enumerate(driver.waiting) if n != at]
                driver.listen()
                break
        else:
            assert driver.answer_one() or driver.over is not None
    return driver


@pytest.mark.parametrize("seed", [None, 1, 2, 3, 4])
def test_T43_an_error_that_passes_begins_again_and_nothing_is_given_twice(seed: int | None) -> None:
    driver = driven(RETRY, "bad", 3, seed)
    expected = Counter(
        {frozenset({("v", "a")}): 1, frozenset({("v", "b")}): 1, frozenset({("v", "more")}): 2}
    )
    assert driver.over is not None
    assert driver.over.state == "done"
    assert driver.bag("y") == expected
    assert driver.bag("z") == expected
    epochs = {request.epoch for request in driver.made}
    assert len(epochs) == 4
    assert len({request.frame for request in driver.made}) == 1


def test_T43_one_error_too_many_ends_it() -> None:
    driver = driven(RETRY, "bad", 4)
    assert driver.over is not None
    assert driver.over.state == "failed"
    assert driver.over.failure is not None
    assert driver.over.failure.kind == "gone"


def test_TA25_a_permanent_error_does_not_begin_again() -> None:
    def query(request: OperatorRequest) -> list[TupleBatch]:
        raise FailedError("no-such-table", final=True)

    driver = FlowDriver(flow(RETRY), {"query": query}).feed("x", [{"text": "a"}]).run()
    assert driver.restarts == []
    assert driver.over is not None
    assert driver.over.state == "failed"


INNER = """
PLAN Main {
  INPUT: TupleStream x
  OUTPUT: TupleStream y
  BODY { query("good", x : q) t/Sub(x : z) union((q, z) : y) }
}
PLAN Sub {
  INPUT: TupleStream x
  OUTPUT: TupleStream z
  BODY { query("bad", x : z) }
}
"""


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_T35_a_frame_begins_again_and_its_parent_does_not(seed: int | None) -> None:
    driver = driven(INNER, "bad", 2, seed)
    assert driver.over is not None
    assert driver.over.state == "done"
    assert driver.bag("y") == Counter(frozenset({("v", v)}) for v in ("a", "b", "more"))
    good = {request.epoch for request in driver.made if request.arguments["source"] == "good"}
    assert len(good) == 1


def test_T35_what_a_void_try_gave_its_parent_and_the_next_does_not_is_taken_back() -> None:
    tries = []

    def query(request: OperatorRequest) -> list[TupleBatch]:
        return [TupleBatch(("v",), [(f"try {len(tries)}",)])]

    driver = FlowDriver(flow(INNER.replace('query("good", x : q)', 'project("v", z : q)')), {"query": query})
    driver.feed("x", [{"text": "a"}, {"text": "b"}]).end("x")
    driver.answer_one()
    tries.append(1)
    driver.network.fail(driver.waiting.pop()[0].id, Failure("gone", "it is gone"))
    driver.listen()
    driver.run()
    assert driver.over is not None
    assert driver.over.state == "done"
    # The first try was shown outside, where it may stay; all that came after it is of one try.
    assert driver.bag("y") == Counter(frozenset({("v", v)}) for v in ("try 0", "try 1"))
    assert driver.retracted == {"y": [("try 0",)]}
    assert [one.depth for one in driver.made] == [1, 1, 1, 1, 1, 1]


def test_T44_void_and_restart_of_a_plan() -> None:
    text = """
    PLAN Main { INPUT: TupleStream x OUTPUT: TupleStream y BODY {
        query("bad", x : y) ON_ERROR: e  void(:) WAIT: e ENABLE: v  restart(:) WAIT: v } }
    """
    driver = driven(text, "bad", 2)
    assert driver.over is not None
    assert driver.over.state == "done"
    assert len({request.epoch for request in driver.made}) == 3


def test_T39_T44_void_ends_the_transaction() -> None:
    text = """
    PLAN Main { INPUT: TupleStream x OUTPUT: TupleStream y BODY {
        query("bad", x : y) ON_ERROR: e  void(:) WAIT: e } }
    """
    driver = driven(text, "bad", 1)
    assert driver.over is not None
    assert driver.over.state == "void"
    assert driver.ends == {"y": "cancelled"}


def test_T35_void_in_a_frame_gives_its_parent_nothing() -> None:
    text = """
    PLAN Main { INPUT: TupleStream x OUTPUT: TupleStream y BODY { t/Sub(x : z) merge((x, z) : y) } }
    PLAN Sub { INPUT: TupleStream x OUTPUT: TupleStream z BODY {
        query("bad", x : z) ON_ERROR: e  void(:) WAIT: e } }
    """
    driver = driven(text, "bad", 1)
    assert driver.over is not None
    assert driver.over.state == "done"
    assert driver.rows == {"y": [{"text": "a"}, {"text": "b"}]}
    assert driver.ends == {"y": "ended"}


def test_terminate_ends_outputs_with_what_they_have() -> None:
    text = """
    PLAN Main { INPUT: TupleStream x OUTPUT: TupleStream y BODY {
        select("n > 0", x : y) headtail(x : h, _) terminate(:) WAIT: h } }
    """
    driver = FlowDriver(flow(text)).feed("x", [{"n": 1}, {"n": 2}]).run()
    assert (driver.rows, driver.ends) == ({"y": [{"n": 1}, {"n": 2}]}, {"y": "ended"})
    assert driver.over is not None
    assert driver.over.state == "done"


VOID = """
PLAN Main { OUTPUT: TupleStream y BODY {
    t/Sub( : z) makestream2("[{\\"n\\": 1}]" : one) merge((z, one) : y) } }
PLAN Sub { OUTPUT: TupleStream z BODY { makestream2("[{\\"n\\": 2}]" : z) %s() WAIT: z } }
"""


@pytest.mark.parametrize(("act", "rows"), [("void", [1]), ("terminate", [1, 2])])
@pytest.mark.parametrize("name", ["Main", "Sub"])
def test_T35_what_ends_a_frame_acts_when_its_tuple_has_reached_everything(
    act: str, rows: list[int], name: str
) -> None:
    driver = FlowDriver(flow(VOID % act, name)).run()
    assert driver.over is not None
    if name == "Sub":
        rows = [2] if act == "terminate" else rows
        assert [row["n"] for row in driver.rows["z"]] == [2]
        assert driver.ends == {"z": "ended" if act == "terminate" else "cancelled"}
    else:
        assert sorted(row["n"] for row in driver.rows["y"]) == rows
        assert driver.over.state == "done"


def test_T43_a_value_and_tuples_of_a_void_try_are_retracted() -> None:
    tries = []

    def query(request: OperatorRequest) -> list[TupleBatch]:
        if request.arguments["source"] == "bad" and len(tries) == 1:
            raise FailedError
        tries.append(1)
        return [TupleBatch(("v",), [(len(tries),), (0,)])]

    body = 'query("good", x : y) query("bad", y : z) aggregate("v", "max", y : m)'
    outputs = "TupleStream y, TupleStream z, Number m"
    driver = FlowDriver(
        flow(f"PLAN Main {{ INPUT: String x OUTPUT: {outputs} BODY {{ {body} }} }}"), {"query": query}
    )
    driver.give(x="a").run()
    assert driver.over is not None
    assert driver.over.state == "done"
    assert driver.rows["y"] == [{"v": 1}, {"v": 0}, {"v": 2}]
    assert driver.retracted == {"y": [(1,)]}
    assert driver.values == {"m": 2}


def test_TA27_late_answers_are_dropped() -> None:
    driver = FlowDriver(flow(RETRY), {"query": Site(0)}).feed("x", [{"text": "a"}])
    request = driver.waiting[0][0]
    driver.network.stop()
    driver.listen()
    assert driver.over is not None
    assert driver.over.state == "void"
    driver.network.answer(request.id, TupleBatch(("v",), [(1,)]))
    driver.network.done(request.id)
    driver.listen()
    assert driver.rows == {}


def test_T35_a_frame_that_was_to_begin_again_does_not_outlive_its_parent() -> None:
    text = """
    PLAN Main { INPUT: TupleStream x OUTPUT: TupleStream y BODY { query("good", x : q) t/Sub(q : y) } }
    PLAN Sub { INPUT: TupleStream a OUTPUT: TupleStream b BODY { query("bad", a : b) } }
    """

    def query(request: OperatorRequest) -> list[TupleBatch]:
        return [TupleBatch(("text",), [(request.arguments["text"],)])]

    driver = FlowDriver(flow(text), {"query": query}).feed("x", [{"text": "a"}, {"text": "b"}])
    first, second = [request for request, _ in driver.waiting]
    driver.network.answer(first.id, TupleBatch(("text",), [("a",)]))
    driver.listen()
    inner = driver.waiting.pop()[0]
    driver.network.fail(inner.id, Failure("gone", "it is gone"))
    driver.network.fail(second.id, Failure("gone", "it is gone"))
    driver.listen()
    driver.network.restart(driver.restarts.pop(0).frame)
    driver.listen()
    assert len(driver.network.frames.live) == 1
    driver.end("x").run()
    assert driver.rows == {"y": [{"text": "a"}, {"text": "b"}]}


# --- operators of modules ---------------------------------------------------------------------------------

DECLARED = """
OPERATOR choose {
  INPUT: TupleStream a, TupleStream b;  OUTPUT: TupleStream yes, TupleStream no;  CONDITIONAL: yes; }
PLAN Main { INPUT: TupleStream x, TupleStream z OUTPUT: TupleStream y, TupleStream n BODY {
  atleastone(z : some, _) choose(x, some : y, n) } }
"""


@pytest.mark.parametrize(
    ("answers", "ends"),
    [
        ([("no", [(1,)])], {"y": "cancelled", "n": "ended"}),
        ([("yes", [(1,)])], {"y": "ended", "n": "cancelled"}),
        ([("yes", [])], {"y": "ended", "n": "cancelled"}),
        ([], {"y": "cancelled", "n": "ended"}),
    ],
)
def test_T40_a_conditional_operator_of_a_module_uses_one_output(
    answers: list[tuple[str, list[tuple[int]]]], ends: dict[str, str]
) -> None:
    driver = FlowDriver(flow(DECLARED), {"choose": lambda request: []})
    driver.feed("x", [{"n": 1}])
    for port, rows in answers:
        driver.network.answer(driver.waiting[0][0].id, TupleBatch(("n",), rows), port)
    driver.end("z", "x").run()
    assert driver.ends == ends
    assert [(one.phase, one.port) for one in driver.made] == [("batch", "a"), ("eos", "b"), ("eos", "a")]


def test_T40_TA38_a_second_output_is_an_error() -> None:
    driver = FlowDriver(flow(DECLARED), {"choose": lambda request: []}).feed("x", [{"n": 1}])
    for port in ("yes", "no"):
        driver.network.answer(driver.waiting[0][0].id, TupleBatch(("n",), [(1,)]), port)
    driver.listen()
    assert driver.over is not None
    assert driver.over.failure is not None
    assert driver.over.failure.kind == "no-output"
    assert "found 'no'; a conditional operator gives to" in driver.over.failure.message


def test_T10_the_error_of_a_called_plan_is_that_of_the_call() -> None:
    text = """
    PLAN Main { INPUT: TupleStream x OUTPUT: TupleStream y, TupleStream z BODY {
        t/Sub(x : y) ON_ERROR: e  select("text > ''", x : z) WAIT: e } }
    PLAN Sub { INPUT: TupleStream a OUTPUT: TupleStream b BODY { query("bad", a : b) } }
    """
    driver = driven(text, "bad", 4)
    assert driver.over is not None
    assert driver.over.state == "done"
    assert driver.ends == {"y": "cancelled", "z": "ended"}
    assert driver.rows["z"] == [{"text": "a"}, {"text": "b"}]


def test_T43_restarts_can_be_switched_off() -> None:
    driver = driven(RETRY, "bad", 1, settings=FlowSettings(restarts=0))
    assert driver.over is not None
    assert (driver.over.state, driver.restarts) == ("failed", [])
    assert driver.ends == {"y": "cancelled", "z": "cancelled"}


def test_TA23_a_plan_that_restarts_itself_for_ever_ends() -> None:
    body = "noop() WAIT: a ENABLE: b restart() WAIT: b"
    text = f"PLAN Main {{ INPUT: String a OUTPUT: Enablement b BODY {{ {body} }} }}"
    driver = FlowDriver(flow(text)).give(a="x").run()
    assert driver.over is not None
    assert driver.over.state == "failed"
    assert driver.over.failure is not None
    assert driver.over.failure.kind == "restart"


SUB = """
PLAN Main {
  INPUT: TupleStream rows, Number go
  OUTPUT: TupleStream out, Object word
  BODY { t/Sub(rows, go : out, word) }
}
PLAN Sub {
  INPUT: TupleStream rows, Number go
  OUTPUT: TupleStream out, Object word
  BODY { %s }
}
"""
ONES = 'makestream2("[{\\"n\\": 1}, {\\"n\\": 2}]" : ones)'


@pytest.mark.parametrize(
    ("body", "gives"),
    [
        ('sprintf("%s", (go) : word) merge((rows) : out)', [7, 8]),
        (f'{ONES} sprintf("now", () : word) merge((ones, rows) : out) noop() WAIT: go', [1, 2, 7, 8]),
        ('sprintf("now", () : word) accumulate(rows : all) stream(all : out) terminate() WAIT: go', []),
        ('compare(go, 1, "=" : _, no) merge((rows) : out) WAIT: no sprintf("now", () : word)', []),
    ],
)
@pytest.mark.parametrize("value_first", [True, False])
def test_T34_a_plan_may_give_and_end_before_its_stream_comes(
    body: str, gives: list[int], value_first: bool
) -> None:
    driver = FlowDriver(flow(SUB % body))
    if value_first:
        driver.give(go=1)
    driver.feed("rows", [{"n": 7}])
    if not value_first:
        driver.give(go=1)
    driver.feed("rows", [{"n": 8}]).end("rows").run()
    assert driver.over is not None
    assert driver.over.state == "done", driver.over
    assert sorted(row["n"] for row in driver.rows.get("out", [])) == gives


@pytest.mark.parametrize("is_late", [False, True])
def test_T34_no_end_overtakes_the_tuples_of_a_stream_that_waited_for_a_value(is_late: bool) -> None:
    plan = flow(
        "PLAN Main { INPUT: TupleStream x, String v OUTPUT: TupleStream here, TupleStream there, String v2"
        " BODY { t/Sub(x, v : here, there, v2) } }\n"
        "PLAN Sub { INPUT: TupleStream x, String v OUTPUT: TupleStream here, TupleStream there, String v2"
        ' BODY { sprintf("%s", (v) : v2) join("n = n", x, x : here) select("n > 0", x : there) } }'
    )
    driver = FlowDriver(plan)
    if is_late:
        driver.feed("x", [{"n": 1}]).end("x").give(v="late").run()
    else:
        driver.give(v="early").feed("x", [{"n": 1}]).end("x").run()
    assert driver.bag("here") == driver.bag("there") == Counter([frozenset({("n", 1)})])
