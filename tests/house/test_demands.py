"""Each demand is met by tests that cite it, or its row says why none does; the page names the tests."""

from __future__ import annotations

from tests.house.pages import demands


def test_each_demand_is_cited_by_a_test_or_says_why_not() -> None:
    cited = demands.tests_of()
    uncited = {row.number for row in demands.rows() if row.number not in cited and not row.is_excused}
    assert sorted(uncited) == [], "cite each in the name or text of a test, or strike it with a reason"


def test_the_tests_of_a_demand_are_those_that_cite_it() -> None:
    cited = demands.tests_of()
    assert "house/test_citations" in cited["N16"]
    assert not any("test_demands" in name for names in cited.values() for name in names)


def test_what_is_struck_or_measured_says_so() -> None:
    text = demands.text_with_tests(
        "| T1 | ~~A plan.~~ Struck: why. |\n| T2 | It is so. | `x` |\n| a | b |\n", {}
    )
    assert text == "| T1 | ~~A plan.~~ Struck: why. | |\n| T2 | It is so. | |\n| a | b |\n"
    assert demands.text_with_tests("| T2 | It is so. | |\n", {"T2": ["a/test_b", "c"]}) == (
        "| T2 | It is so. | `a/test_b`, `c` |\n"
    )
    many = [f"t{at}" for at in range(9)]
    assert (
        demands.text_with_tests("| T2 | So. | |\n", {"T2": many})
        == "| T2 | So. | `t0`, `t1`, `t2`, and 6 |\n"
    )
