"""Which element goes to which input: every sentence of N15 and N16, and a comparison with brute force."""

import itertools
import math
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.engines.assignment import Assignment, Slot, assign, candidates_of, in_six_passes, uncontested
from tests.examples import examples


def slot(name: str, *ranks: list[int], optional: bool = False, list: bool = False) -> Slot:
    return Slot(name, lambda: iter(ranks), optional=optional, list=list)


def watched(name: str, *ranks: list[int], read: list[int]) -> Slot:
    """A slot that notes in `read` each candidate somebody looks at."""

    def spy(rank: list[int]) -> Iterator[int]:
        for eid in rank:
            read.append(eid)
            yield eid

    return Slot(name, lambda: (spy(rank) for rank in ranks))


# --- N15: ranks -------------------------------------------------------------------------------------------


def test_N15_the_nearest_rank_is_preferred_over_an_older_element() -> None:
    assert assign([slot("mail", [], [9], [3], [1])]).given == {"mail": (9,)}


def test_N15_the_search_goes_on_outward_to_the_whole_memory() -> None:
    assert assign([slot("mail", [], [], [], [], [], [4])]).given == {"mail": (4,)}


def test_N15_callers_may_nest_to_any_depth() -> None:
    assert assign([slot("mail", *[[]] * 40, [7])]).given == {"mail": (7,)}


def test_N15_an_element_found_at_several_ranks_counts_at_its_nearest() -> None:
    # 1 is in the context too, so that rank holds only 2: the list is rank 1, alone
    assert assign([slot("mails", [1], [1, 2], [1, 2, 3], list=True)]).given == {"mails": (1,)}


def test_N15_an_element_given_twice_within_a_rank_is_one_element() -> None:
    assert assign([slot("mails", [5, 5, 6, 5], list=True)]).given == {"mails": (5, 6)}


# --- N16: the matching ------------------------------------------------------------------------------------


def test_N16_each_element_goes_to_at_most_one_input() -> None:
    assert assign([slot("first", [1, 2]), slot("second", [1, 2])]).given == {"first": (1,), "second": (2,)}


def test_N16_mandatory_inputs_are_satisfied_whenever_possible() -> None:
    # a first-come loop would give 1 to "any" and leave "only" empty
    assert assign([slot("any", [1, 2]), slot("only", [1])]).given == {"any": (2,), "only": (1,)}


def test_N16_a_chain_of_inputs_moves_over_to_satisfy_the_last() -> None:
    chain = [slot(str(n), [n, n + 1]) for n in range(30)] + [slot("last", [0])]
    found = assign(chain)
    assert found.given == {**{str(n): (n + 1,) for n in range(30)}, "last": (0,)}


def test_N16_inputs_in_declaration_order_take_the_nearest_rank() -> None:
    near, far = [1], [2]
    assert assign([slot("a", near, far), slot("b", near, far)]).given == {"a": (1,), "b": (2,)}
    assert assign([slot("b", near, far), slot("a", near, far)]).given == {"b": (1,), "a": (2,)}


def test_N16_within_a_rank_the_oldest_element_is_taken() -> None:
    assert assign([slot("mail", [], [4, 8, 15])]).given == {"mail": (4,)}


def test_N16_an_earlier_input_gives_way_no_further_than_it_must() -> None:
    # "a" must leave 1; its next best is 2, though 3 would do too
    assert assign([slot("a", [1], [2, 3]), slot("b", [1])]).given == {"a": (2,), "b": (1,)}


def test_N16_an_earlier_input_is_not_made_worse_for_the_rank_of_a_later_one() -> None:
    found = assign([slot("a", [1], [2]), slot("b", [1], [], [3])])
    assert found.given == {"a": (1,), "b": (3,)}


def test_N16_a_list_takes_every_candidate_of_its_best_rank() -> None:
    assert assign([slot("mails", [], [3, 5], [1, 2, 9], list=True)]).given == {"mails": (3, 5)}


def test_N16_a_list_never_mixes_ranks() -> None:
    found = assign([slot("mails", [1], [2, 3], list=True), slot("mail", [1])])
    assert found.given == {"mail": (1,), "mails": (2, 3)}


def test_N16_a_list_is_served_after_the_plain_inputs_wherever_it_is_declared() -> None:
    mails, mail = slot("mails", [1, 2, 3], list=True), slot("mail", [1, 2, 3])
    for order in ([mails, mail], [mail, mails]):
        assert assign(order).given == {"mail": (1,), "mails": (2, 3)}


def test_N16_a_list_is_served_after_the_optional_plain_inputs_too() -> None:
    found = assign([slot("mails", [1, 2], list=True), slot("signature", [1], optional=True)])
    assert found.given == {"mails": (2,), "signature": (1,)}


def test_N16_a_mandatory_list_reserves_one_element_in_the_matching() -> None:
    assert assign([slot("mails", [1], list=True), slot("extra", [1], optional=True)]).given == {"mails": (1,)}
    found = assign([slot("mail", [1, 2]), slot("mails", [1], list=True)])
    assert found.given == {"mail": (2,), "mails": (1,)}


def test_N16_a_mandatory_list_keeps_the_nearest_rank_its_place_in_the_declaration_earns() -> None:
    mails, mail = slot("mails", [1], [2, 3], list=True), slot("mail", [1], [2])
    assert assign([mails, mail]).given == {"mails": (1,), "mail": (2,)}
    assert assign([mail, mails]).given == {"mail": (1,), "mails": (2, 3)}


def test_N16_a_list_takes_no_element_reserved_for_another_mandatory_list() -> None:
    found = assign([slot("a", [1, 2, 3], list=True), slot("b", [3], list=True)])
    assert found.given == {"a": (1, 2), "b": (3,)}


def test_N16_a_list_that_gave_way_goes_back_to_its_rank_when_others_can_move_on() -> None:
    found = assign([slot("a", [1], [2], list=True), slot("c", [3, 4]), slot("b", [1, 3])])
    assert found.given == {"a": (1,), "c": (4,), "b": (3,)}


def test_N16_two_lists_that_want_the_same_share_it_in_declaration_order() -> None:
    found = assign([slot("a", [1, 2, 3, 4], list=True), slot("b", [1, 2, 3, 4], list=True)])
    assert found.given == {"a": (1, 3, 4), "b": (2,)}


def test_N16_an_optional_list_takes_what_mandatory_lists_leave() -> None:
    found = assign([slot("rest", [1, 2], [3, 4], optional=True, list=True), slot("all", [1, 2], list=True)])
    assert found.given == {"all": (1, 2), "rest": (3, 4)}


def test_N16_optional_inputs_come_last_in_declaration_order() -> None:
    slots = [slot("o", [1, 2], optional=True), slot("p", [1, 2], optional=True), slot("m", [1, 2])]
    assert assign(slots).given == {"m": (1,), "o": (2,)}


def test_N16_ranks_come_before_ages() -> None:
    near, far = [1, 2], [3]
    assert assign([slot("a", near), slot("b", [1], far)]).given == {"a": (2,), "b": (1,)}
    assert assign([slot("a", near), slot("b", [1], optional=True)]).given == {"a": (2,), "b": (1,)}


def test_N16_an_optional_input_left_empty_is_not_given() -> None:
    assert assign([slot("signature", [], [], optional=True)]) == Assignment({})
    assert assign([slot("mails", [], optional=True, list=True)]) == Assignment({})


def test_N17_nothing_is_given_when_a_mandatory_input_stays_empty() -> None:
    found = assign([slot("mail", [1]), slot("account", []), slot("signature", [2], optional=True)])
    assert found == Assignment({}, ("account",))


def test_N17_the_missing_inputs_are_those_that_a_matching_preferring_earlier_ones_leaves_empty() -> None:
    slots = [slot("a", [1, 2]), slot("b", [1]), slot("c", [1, 2]), slot("d", [], list=True), slot("e", [3])]
    assert assign(slots) == Assignment({}, ("c", "d"))


def test_nothing_wanted_is_nothing_given() -> None:
    assert assign([]) == Assignment({})


# --- laziness ---------------------------------------------------------------------------------------------


def test_N16_a_candidate_that_settles_the_matter_is_the_last_one_read() -> None:
    read: list[int] = []
    assign([watched("mail", [], [7], range(1000), read=read)])
    assert read == [7]


def test_N16_with_k_inputs_no_input_reads_more_than_k_candidates() -> None:
    read: list[list[int]] = [[] for _ in range(5)]
    assign([watched(str(n), [], list(range(100_000)), read=read[n]) for n in range(5)])
    assert [len(eids) for eids in read] == [1, 2, 3, 4, 5]
    read.append([])
    optional = Slot("o", watched("o", [], list(range(100_000)), read=read[5]).ranks, optional=True)
    assert assign([slot("m", [], [0, 1, 2]), optional]).given == {"m": (0,), "o": (1,)}
    assert read[5] == [0, 1]


def test_N16_a_list_reads_nothing_beyond_its_rank() -> None:
    read: list[int] = []
    spied = watched("mails", [], [1, 2, 3], [4, 5], read=read)
    assert assign([Slot("mails", spied.ranks, list=True)]).given == {"mails": (1, 2, 3)}
    assert read == [1, 2, 3]


# --- against brute force ----------------------------------------------------------------------------------

Ranks = list[list[int]]


@st.composite
def problems(draw: st.DrawFn) -> list[Slot]:
    elements = range(1, draw(st.integers(0, 5)) + 1)
    slots = []
    for name in "abcd"[: draw(st.integers(1, 4))]:
        ranks: Ranks = [[], [], []]
        for eid in elements:
            for rank in draw(st.sets(st.sampled_from([0, 0, 1, 2]), max_size=2)):
                ranks[rank].append(eid)
        slots.append(slot(name, *ranks, optional=draw(st.booleans()), list=draw(st.integers(0, 2)) == 0))
    return slots


def ranks_of(slot: Slot) -> dict[int, int]:
    nearest: dict[int, int] = {}
    for rank, eids in enumerate(slot.ranks()):
        for eid in eids:
            nearest.setdefault(eid, rank)
    return nearest


def every_assignment(slots: list[Slot]) -> Iterator[list[tuple[int, ...]]]:
    """All ways to give elements to slots that N16 allows, mandatory slots satisfied or not."""
    fits = [ranks_of(slot) for slot in slots]
    elements = sorted({eid for fitting in fits for eid in fitting})
    takers = [[None, *(n for n, fitting in enumerate(fits) if eid in fitting)] for eid in elements]
    for choice in itertools.product(*takers):
        given: list[tuple[int, ...]] = [
            tuple(eid for eid, taker in zip(elements, choice, strict=True) if taker == n)
            for n in range(len(slots))
        ]
        if all(
            len({fits[n][eid] for eid in eids}) <= 1 if slots[n].list else len(eids) <= 1
            for n, eids in enumerate(given)
        ):
            yield given


def worth(slots: list[Slot], given: list[tuple[int, ...]]) -> list[tuple[float, ...]]:
    """What N16 minimises, in lexicographic order."""
    nothing = (math.inf, math.inf)
    fits = [ranks_of(slot) for slot in slots]
    best = [min((fits[n][eid], eid) for eid in eids) if eids else nothing for n, eids in enumerate(given)]
    key: list[tuple[float, ...]] = [best[n][:1] for n, slot in enumerate(slots) if not slot.optional]
    key += [best[n][:1] for n, slot in enumerate(slots) if slot.optional and not slot.list]
    key += [best[n] for n, slot in enumerate(slots) if not slot.optional and not slot.list]
    key += [best[n] for n, slot in enumerate(slots) if slot.optional and not slot.list]
    key += [best[n] for n, slot in enumerate(slots) if not slot.optional and slot.list]
    key += [(-len(given[n]),) for n, slot in enumerate(slots) if not slot.optional and slot.list]
    key += [(best[n][0], -len(given[n])) for n, slot in enumerate(slots) if slot.optional and slot.list]
    return key


@settings(max_examples=examples(200), deadline=None)
@given(problems())
def test_N16_the_assignment_is_the_best_of_all_that_satisfy_every_mandatory_input(slots: list[Slot]) -> None:
    satisfying = [
        given
        for given in every_assignment(slots)
        if all(eids or slot.optional for slot, eids in zip(slots, given, strict=True))
    ]
    found = assign(slots)
    if not satisfying:
        assert found.given == {}
        assert found.missing
        return
    best = min(satisfying, key=lambda given: worth(slots, given))
    assert found.missing == ()
    assert found.given == {slot.id: eids for slot, eids in zip(slots, best, strict=True) if eids}


@settings(max_examples=examples(200), deadline=None)
@given(problems())
def test_N17_the_missing_inputs_are_the_latest_ones_that_brute_force_must_leave_empty(
    slots: list[Slot],
) -> None:
    empty = [
        tuple(not eids and not slot.optional for slot, eids in zip(slots, given, strict=True))
        for given in every_assignment(slots)
    ]
    fewest = min(empty, key=lambda flags: (sum(flags), flags))
    assert assign(slots).missing == tuple(slot.id for slot, flag in zip(slots, fewest, strict=True) if flag)


@settings(max_examples=examples(250), deadline=None)
@given(problems())
def test_N16_where_no_two_want_the_same_the_straight_way_comes_to_what_the_six_passes_do(
    slots: list[Slot],
) -> None:
    passes = in_six_passes(slots, candidates_of(slots))
    straight = uncontested(slots, candidates_of(slots))
    assert straight in (None, passes)
    assert assign(slots) == passes
    for slot in slots:
        assert assign([slot]) == in_six_passes([slot], candidates_of([slot]))
