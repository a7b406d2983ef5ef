"""Rules of what may go where: the first that fits judges a label, the severest judgement counts (F6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narval.core.patterns.pattern import compile_pattern
from narval.core.trust.parts import Part
from narval.core.trust.rules import SEVERITY, Facts, Rule, Rules, Verdict, decide, unsaid, word_of

TO = Part("email", "@to", True, ("mail",))
BODY = Part("email", "body", False, ("mail", "model:near"))
WHETHER = Part("", labels=("feed",))


def judge(*rules: Rule, parts: tuple[Part, ...] = (TO, BODY), **facts: Any) -> Verdict:
    """The verdict on a call of `mail.send` by the recipe `assistant.reply`."""
    return decide(Rules(rules), Facts("mail.send", "assistant.reply", parts, **facts))


ALLOW = Rule("allow", ("*",))


def test_the_first_rule_that_fits_judges_a_label() -> None:
    ask, refuse = Rule("ask", ("mail",), part="where"), Rule("refuse", ("mail",))
    verdict = judge(ask, refuse, ALLOW, parts=(TO,))
    assert (verdict.then, verdict.rule, verdict.part) == ("ask", ask, TO)
    assert judge(refuse, ask, parts=(TO,)).then == "refuse"


def test_the_severest_of_all_judgements_counts() -> None:
    rules = (Rule("ask", ("mail",), part="where"), Rule("refuse", ("model:*",), why="no"), ALLOW)
    verdict = judge(*rules)
    assert (verdict.then, verdict.rule, verdict.part, verdict.why) == ("refuse", rules[1], BODY, "no")
    assert [(one.part, one.label, one.then) for one in verdict.judgements] == [
        (TO, "mail", "ask"),
        (BODY, "mail", "allow"),
        (BODY, "model:near", "refuse"),
    ]


def test_a_call_without_labels_is_allowed() -> None:
    assert judge(Rule("refuse", ("*",)), parts=(Part("email"), Part("", "", False))) == Verdict()


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        (Rule("refuse", ("mail",)), True),
        (Rule("refuse", ("mai",)), False),
        (Rule("refuse", ("m*",)), True),
        (Rule("refuse", ("feed", "mail")), True),
        (Rule("refuse", (), ("*",)), False),
        (Rule("refuse", ("*",), part="where"), True),
        (Rule("refuse", ("*",), part="what"), False),
        (Rule("refuse", ("*",), part="whether"), False),
        (Rule("refuse", ("*",), actions=("mail.send",)), True),
        (Rule("refuse", ("*",), actions=("mail.*",)), True),
        (Rule("refuse", ("*",), actions=("mail",)), False),
        (Rule("refuse", ("*",), actions=("http.get", "mail.send")), True),
        (Rule("refuse", ("*",), recipes=("assistant.*",)), True),
        (Rule("refuse", ("*",), recipes=("assistant.answer",)), False),
    ],
)
def test_what_a_rule_is_about(rule: Rule, fits: bool) -> None:
    assert judge(rule, ALLOW, parts=(TO,)).then == ("refuse" if fits else "allow")


def test_what_decided_is_a_part_of_its_own() -> None:
    assert word_of(WHETHER) == "whether"
    rules = (Rule("refuse", ("feed",), part="whether"), ALLOW)
    assert judge(*rules, parts=(WHETHER, TO)).part == WHETHER
    assert judge(*rules, parts=(TO,)).then == "allow"


@pytest.mark.parametrize("origin", ["mail", "hook:x", "*", "model:*"])
def test_unknown_fits_whatever_a_rule_has_in_from(origin: str) -> None:
    unknown = Part("email", "", True, ("unknown",))
    assert judge(Rule("refuse", (origin,)), parts=(unknown,)).then == "refuse"
    assert judge(Rule("refuse", (), ("*",)), parts=(unknown,)).rule is None


def test_secrets_are_named_by_themselves() -> None:
    secret = Part("email", "body", False, ("secret:health",))
    assert judge(Rule("refuse", (), ("health",)), parts=(secret,)).then == "refuse"
    assert judge(Rule("refuse", ("*",)), parts=(secret,)).rule is None


def test_without_a_rule_secrets_models_and_the_unknown_ask() -> None:
    asking = [
        label for label in ("mail", "web", "model:far", "secret:x", "unknown") if unsaid(label) == "ask"
    ]
    assert asking == ["model:far", "secret:x", "unknown"]
    assert judge(parts=(TO,)).then == "allow"
    verdict = judge(parts=(BODY,))
    assert (verdict.then, verdict.rule, verdict.why) == ("ask", None, "no rule is about it")


def test_what_only_memory_can_tell_is_asked_of_the_facts() -> None:
    rule = Rule("allow", ("mail",), to=compile_pattern("email[@to=$from/@from]"))
    assert judge(rule, Rule("ask", ("*",)), parts=(TO,)).then == "allow"
    assert judge(rule, Rule("ask", ("*",)), parts=(TO,), holds=lambda rule, part: False).then == "ask"
    asked: list[Rule] = []

    def holds(rule: Rule, part: Part) -> bool:
        asked.append(rule)
        return True

    judge(Rule("allow", ("web",), holds=("link",)), ALLOW, holds=holds)
    assert not asked, "of a rule that is not about the label nothing is asked"


def test_a_pattern_allows_only_the_addresses_that_it_looks_at() -> None:
    others = Rule("ask", ("*",))
    for pattern in (
        "email[@to='ann@x.org']",
        "email[@to='see @cc']",
        "email[@to=$from/@from or @to=$from/@cc]",
    ):
        rule = Rule("allow", ("mail",), to=compile_pattern(pattern))
        for path, then in (("@to", "allow"), ("@cc", "ask"), ("@to-all", "ask"), ("head/@to", "ask")):
            assert judge(rule, others, parts=(Part("email", path, True, ("mail",)),)).then == then, path
    assert judge(rule, others, parts=(Part("email", "body", False, ("mail",)),)).then == "allow"


labels = st.sampled_from(["mail", "feed", "model:a", "model:b", "unknown", "secret:s", "secret:t"])
parts = st.builds(
    Part,
    st.sampled_from(["", "email"]),
    st.just(""),
    st.booleans(),
    st.lists(labels, unique=True, max_size=3).map(tuple),
)
rules_of_files = st.builds(
    Rule,
    st.sampled_from(SEVERITY),
    st.lists(st.sampled_from(["mail", "feed", "model:*", "*"]), max_size=2).map(tuple),
    st.lists(st.sampled_from(["s", "t", "*"]), max_size=2).map(tuple),
    st.sampled_from(["any", "where", "what", "whether"]),
    st.sampled_from([(), ("mail.send",), ("http.*",)]),
    st.sampled_from([(), ("assistant.*",), ("other.recipe",)]),
)
files = st.lists(rules_of_files, max_size=6)
calls = st.lists(parts, max_size=4).map(tuple)


@given(files, calls)
def test_each_label_counts_by_its_first_rule_and_the_whole_by_the_severest(file: Any, call: Any) -> None:
    verdict = judge(*file, parts=call)
    expected = []
    for part in call:
        for label in part.labels:
            fitting = [rule for rule in file if rule.is_about("mail.send", "assistant.reply", part, label)]
            expected.append(fitting[0].then if fitting else unsaid(label))
    assert [one.then for one in verdict.judgements] == expected
    assert verdict.then == max(expected, key=SEVERITY.index, default="allow")
    assert verdict.judgement is None or verdict.judgement.then == verdict.then


@given(files, files, calls)
def test_rules_behind_change_nothing_where_those_before_judge_every_label(
    one: Any, other: Any, call: Any
) -> None:
    every = [Rule("ask", ("*",), ("*",))]
    assert judge(*one, *every, parts=call) == judge(*one, *every, *other, parts=call)


@given(files, calls, st.randoms(use_true_random=False))
def test_the_order_of_parts_and_labels_changes_nothing(file: Any, call: Any, random: Any) -> None:
    shuffled = list(call)
    random.shuffle(shuffled)
    assert judge(*file, parts=call).then == judge(*file, parts=tuple(shuffled)).then


@given(files, calls, parts)
def test_another_part_makes_no_verdict_milder(file: Any, call: Any, part: Part) -> None:
    before, after = judge(*file, parts=call).then, judge(*file, parts=(*call, part)).then
    assert SEVERITY.index(after) >= SEVERITY.index(before)
