"""The index against an oracle: every condition tried on every element by lxml."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from narval.core.elements.element import Element, Tree
from narval.core.index.index import Index
from narval.core.patterns.pattern import Bound, condition
from tests.core.patterns.expressions import NAMESPACES, Oracle, elements, patterns, xpath3_patterns
from tests.counting import CountedCalls
from tests.examples import examples


def tree(xml: str, eid: int = 0) -> Tree:
    return Tree(Element(eid, xml.encode()))


def waiting(*texts: str, **variables: Sequence[Element]) -> Bound:
    return condition(*texts, namespaces=NAMESPACES).bind(variables)


def filled(*texts: str) -> Index[str]:
    """An index in which each pattern is awaited by its own text."""
    index: Index[str] = Index()
    for text in texts:
        index.add(text, waiting(text))
    return index


def test_who_waits_for_two_values_is_filed_under_the_one_that_fewest_share() -> None:
    index: Index[int] = Index()
    for number in range(300):
        asked = Element(number + 1, f"<asked order='7' seller='s{number}'/>".encode())
        index.add(number, waiting("bid[@order = $ask/@order and @seller = $ask/@seller]", ask=(asked,)))
    with CountedCalls() as one:
        assert index.wakes(tree("<bid order='7' seller='s3'/>")) == [3]
    assert one.number < 100
    assert index.wakes(tree("<bid order='7' seller='s0'/>")) == [0]
    assert index.wakes(tree("<bid order='8' seller='s3'/>")) == []


# --- nothing missed, nothing imagined -------------------------------------------------------------------


@settings(max_examples=examples(70), deadline=None)
@given(
    texts=st.lists(st.lists(patterns(), min_size=1, max_size=2), min_size=1, max_size=12),
    asked=st.lists(elements(), max_size=2),
    arriving=st.lists(elements(), min_size=1, max_size=6),
)
def test_the_index_never_disagrees_with_trying_every_condition_by_lxml(
    texts: list[list[str]], asked: list[Element], arriving: list[Element]
) -> None:
    variables = {"ask": asked, "none": []}
    index: Index[int] = Index()
    oracles = []
    for watcher, patterns_of_one in enumerate(texts):
        index.add(watcher, waiting(*patterns_of_one, **variables))
        oracles.append(Oracle(patterns_of_one, variables))
    for element in arriving:
        found = Tree(element)
        expected = [watcher for watcher, oracle in enumerate(oracles) if oracle.holds(found)]
        assert index.wakes(found) == expected


@settings(max_examples=examples(30), deadline=None)
@given(
    texts=st.lists(xpath3_patterns(), min_size=1, max_size=4),
    asked=st.lists(elements(), max_size=1),
    arriving=st.lists(elements(), min_size=1, max_size=3),
)
def test_N10_the_index_never_disagrees_with_trying_every_xpath_3_pattern(
    texts: list[str], asked: list[Element], arriving: list[Element]
) -> None:
    index: Index[int] = Index()
    bounds = [waiting(text, ask=asked, none=[]) for text in texts]
    for watcher, bound in enumerate(bounds):
        index.add(watcher, bound)
    for element in arriving:
        found = Tree(element)
        assert index.wakes(found) == [at for at, bound in enumerate(bounds) if bound.test(found)]


class Waiting(RuleBasedStateMachine):
    """Watchers are added and removed in any order; those left wake, and no others."""

    texts = (
        "email[@a='x']",
        "email[@a='x' and @b='y']",
        "email[@a='x' and @size > 5]",
        "email[@size > 5]",
        "email[@size >= 10 or @size < 0]",
        "email[@size <= 9.5]",
        "email[@size = 10]",
        "email[contains(@a, 'x')]",
        "email[starts-with(@a, 'Re')]",
        "email[starts-with(@a, '')]",
        "email[b = 'x']",
        "email",
        "*[@a='x']",
        "//b",
        "email[@a='x'] | note",
        "email[false()]",
        "p:email[not(@a)]",
    )

    def __init__(self) -> None:
        super().__init__()
        self.index: Index[int] = Index()
        self.held: dict[int, dict[str, None]] = {}
        self.oracles = {text: Oracle([text], {}) for text in self.texts}

    @rule(watcher=st.integers(0, 7), text=st.sampled_from(texts))
    def add(self, watcher: int, text: str) -> None:
        self.index.add(watcher, waiting(text))
        self.held.setdefault(watcher, {})[text] = None

    @rule(watcher=st.integers(0, 7))
    def discard(self, watcher: int) -> None:
        self.index.discard(watcher)
        self.held.pop(watcher, None)

    @rule(element=elements())
    def arrives(self, element: Element) -> None:
        found = Tree(element)
        expected = [
            watcher
            for watcher, texts in self.held.items()
            if any(self.oracles[text].holds(found) for text in texts)
        ]
        assert self.index.wakes(found) == expected

    @invariant()
    def counts_watchers(self) -> None:
        assert len(self.index) == len(self.held)

    def teardown(self) -> None:
        for watcher in list(self.held):
            self.index.discard(watcher)
        assert not self.index.interested("email")
        assert self.index.wakes(tree("<email a='x' size='10'/>")) == []


TestWaiting = Waiting.TestCase
TestWaiting.settings = settings(max_examples=examples(25), stateful_step_count=30, deadline=None)


# --- order and sharing ----------------------------------------------------------------------------------


def test_watchers_wake_in_the_order_they_came_each_once() -> None:
    index: Index[str] = Index()
    index.add("second condition first", waiting("email[@a='x']"))
    index.add("b", waiting("email"))
    index.add("a", waiting("email[@size > 3]"))
    index.add("second condition first", waiting("email[@size > 4]"))
    assert index.wakes(tree("<email a='x' size='9'/>")) == ["second condition first", "b", "a"]


def test_a_watcher_that_comes_back_is_the_last() -> None:
    index: Index[str] = Index()
    for watcher in ("a", "b"):
        index.add(watcher, waiting("email"))
    index.discard("a")
    index.add("a", waiting("email"))
    assert index.wakes(tree("<email/>")) == ["b", "a"]


def test_a_condition_shared_by_a_thousand_is_evaluated_once() -> None:
    index: Index[int] = Index()
    for watcher in range(1000):
        index.add(watcher, waiting("email[string-length(@subject) > 3]"))
    assert index.wakes(tree("<email subject='long enough'/>")) == list(range(1000))
    assert index.tried == 1
    for watcher in range(0, 1000, 2):
        index.discard(watcher)
    assert index.wakes(tree("<email subject='long enough'/>")) == list(range(1, 1000, 2))


def test_adding_the_same_condition_twice_is_adding_it_once() -> None:
    index: Index[str] = Index()
    index.add("a", waiting("email"))
    index.add("a", waiting("email"))
    assert len(index) == 1
    index.discard("a")
    assert index.wakes(tree("<email/>")) == []


def test_discarding_who_does_not_wait_is_nothing() -> None:
    index: Index[str] = Index()
    index.discard("unknown")
    assert len(index) == 0


def test_any_hashable_may_watch() -> None:
    index: Index[object] = Index()
    index.add((7, "watch"), waiting("email"))
    index.add("seven", waiting("email"))
    assert index.wakes(tree("<email/>")) == [(7, "watch"), "seven"]


# --- work -----------------------------------------------------------------------------------------------


def considered(index: Index[str], found: Tree) -> int:
    """The most watchers that the index looks at for an element: those it wakes, and those it tries."""
    before = index.tried
    return len(index.wakes(found)) + index.tried - before


def test_adding_an_element_does_not_look_at_conditions_that_cannot_match_it() -> None:
    index = filled(
        *(f"email[@subject='s{n}']" for n in range(500)),
        *(f"email[number(@size) > {n} and @sender='a{n % 10}']" for n in range(500)),
        *(f"email[@message-id='m{n}' and contains(@subject, 'x')]" for n in range(500)),
        *(f"note{n}[@subject='s1']" for n in range(500)),
        *(f"email[starts-with(@subject, 'list-{n}:')]" for n in range(500)),
        *(f"email[part/name='f{n}']" for n in range(500)),
    )
    found = tree("<email subject='s7' size='100' sender='a3'/>")
    assert len(index.wakes(found)) == 1 + len(range(3, 100, 10))
    assert index.tried == 0


def test_conditions_that_keys_decide_alone_are_never_evaluated() -> None:
    index = filled(
        "email[@a='x']",
        "email[@a='x' and not(@b)]",
        "email[@size >= 10][@size < 20]",
        "email[number(@size) = 10]",
        "note | email[@a]",
        "email/@a = 'x'",
        "email[@a='y' or @a='x']",
        "email[contains(@a, 'x') and starts-with(@a, 'x')]",
        "email[b/c = 'x']",
        "email[@a != 'y']",
        "*[self::email]/@size > 9",
        "/memory/email[not(@size > 10 or @b)]",
    )
    assert len(index.wakes(tree("<email a='x' size='10'><b><c>x</c></b></email>"))) == 12
    assert index.tried == 0


def test_conditions_that_keys_leave_open_are_evaluated_on_candidates_only() -> None:
    index = filled(*(f"email[@subject='s{n}' and string-length(@body) > 3]" for n in range(100)))
    assert index.wakes(tree("<email subject='s5' body='long'/>")) == [
        "email[@subject='s5' and string-length(@body) > 3]"
    ]
    assert index.tried == 1


def test_a_condition_is_filed_where_fewest_are() -> None:
    index = filled(*(f"email[@folder='inbox' and @thread='t{n}' and @size > 3]" for n in range(100)))
    assert considered(index, tree("<email folder='inbox' thread='t9' size='4'/>")) <= 2


def test_an_exact_alternative_spares_the_evaluation_of_another() -> None:
    index = filled("email[@a='x' or string-length(@b) > 1]")
    assert index.wakes(tree("<email a='x' b='long'/>")) != []
    assert index.tried == 0


def test_interest_is_known_by_name() -> None:
    index = filled("email[@a='x']", "note[false()]", "p:email")
    assert index.interested("email")
    assert index.interested("{urn:p}email")
    assert not index.interested("note")
    assert not index.interested("plan")
    index.add("any", waiting("*[@a='x']"))
    assert index.interested("plan")
    index.discard("any")
    assert not index.interested("plan")


# --- numbers --------------------------------------------------------------------------------------------


def test_thresholds_wake_exactly_those_beyond() -> None:
    operators = {
        ">": float.__gt__,
        ">=": float.__ge__,
        "<": float.__lt__,
        "<=": float.__le__,
        "=": float.__eq__,
    }
    bounds = [random.Random(1).randrange(-50, 50) for _ in range(60)]
    index = filled(*{f"email[@size {sign} {number}]" for sign in operators for number in bounds})
    for size in range(-52, 52, 4):
        woken = set(index.wakes(tree(f"<email size='{size}'/>")))
        expected = {
            f"email[@size {sign} {number}]"
            for sign, holds in operators.items()
            for number in bounds
            if holds(float(size), float(number))
        }
        assert woken == expected
    assert index.tried == 0


def test_many_conditions_may_share_a_threshold_and_leave_in_any_order() -> None:
    index: Index[int] = Index()
    count = 3000
    for watcher in range(count):
        index.add(watcher, waiting(f"email[@size > {watcher % 3} and contains(@subject, 'w{watcher}.')]"))
    leaving = list(range(count))
    random.Random(2).shuffle(leaving)
    for watcher in leaving[:-5]:
        index.discard(watcher)
    left = sorted(leaving[-5:])
    subject = " ".join(f"w{watcher}." for watcher in range(count))
    assert index.wakes(tree(f"<email size='9' subject='{subject}'/>")) == left


def test_a_text_that_is_no_number_never_compares() -> None:
    index = filled("email[@size > 0]", "email[@size < 0]", "email[@size = 0]", "email[@size >= 'x']")
    for size in ("", "x", "NaN", "- 5", "+5", "0x1"):
        assert index.wakes(tree(f"<email size='{size}'/>")) == []


# --- variables ------------------------------------------------------------------------------------------


def test_N10_waiting_for_this_answer_is_a_hash_key() -> None:
    index: Index[int] = Index()
    pattern = "email[@in-reply-to = $ask/@message-id]"
    for n in range(200):
        index.add(n, waiting(pattern, ask=[Element(n + 1, f"<email message-id='m{n}'/>".encode())]))
    assert index.wakes(tree("<email in-reply-to='m42'/>")) == [42]
    assert index.tried == 0


def test_N10_each_of_several_values_may_match_and_none_never_does() -> None:
    index: Index[str] = Index()
    asked = [Element(n, f"<email message-id='m{n}'/>".encode()) for n in (1, 2, 3)]
    index.add("several", waiting("email[@in-reply-to = $ask/@message-id]", ask=asked))
    index.add("never", waiting("email[@in-reply-to = $ask/@message-id]", ask=[]))
    index.add("unless", waiting("email[not(@in-reply-to = $ask/@message-id)]", ask=asked))
    assert index.wakes(tree("<email in-reply-to='m2'/>")) == ["several"]
    assert index.wakes(tree("<email in-reply-to='m9'/>")) == ["unless"]
    assert index.wakes(tree("<email/>")) == ["unless"]


def test_N10_a_number_of_several_nodes_compares_with_the_nearest() -> None:
    index: Index[str] = Index()
    sizes = [Element(n, f"<limit size='{size}'/>".encode()) for n, size in enumerate(("30", "20", "x"), 1)]
    index.add("above one", waiting("email[@size > $limit/@size]", limit=sizes))
    index.add("above none", waiting("email[@size > $limit/@size]", limit=sizes[2:]))
    assert index.wakes(tree("<email size='21'/>")) == ["above one"]
    assert index.wakes(tree("<email size='20'/>")) == []
    assert index.tried == 0
