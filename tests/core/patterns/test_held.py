"""What variables hold is a stranger's too: it does not keep the loop, whatever the pattern (N10)."""

from __future__ import annotations

import time

import pytest

from narval.core.elements.element import Element, Tree
from narval.core.patterns.pattern import condition

MANY = Element(1, b"<list>" + b"<b x='1' y='2'><c/></b>" * 40_000 + b"</list>")
LONG = Element(1, b"<list><b>" + b"a" * 900_000 + b"</b><b>" + b"a" * 900_000 + b"</b></list>")
NESTED = Element(1, b"<list>" + b"<b>" * 200 + b"a" * 2_000_000 + b"</b>" * 200 + b"</list>")
TRIED = Tree(Element(2, b"<a>" + b"<b x='3' y='4'>z</b>" * 5_000 + b"</a>"))


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("//b[@x = $list/b/@y]", MANY),
        ("//b[$list/b/@x = 'k']", MANY),
        ("//b[count($list/b) = 3]", MANY),
        ("//b[$list]/@z", MANY),
        ("$list//b[count(//b) > 100000]", MANY),
        ("$list/b[@x = $list/b/@y]", MANY),
        ("$list[b = b/@x]", MANY),
        ("a[b = $list/b/following-sibling::b]", MANY),
        ("$list//b//c = 'k'", MANY),
        ("$list/b/../b/@z = 1", MANY),
        ("a and $list/b/preceding::c", MANY),
        ("$list/b[following-sibling::b[preceding-sibling::c]]", MANY),
        ("($list/b | $list/b/c)[last()]/@q", MANY),
        ("//b[. = $list/b]", LONG),
        ("//b[contains($list, 'k')]", LONG),
        ("contains($list/b[1], $list/b[2])", LONG),
        ("//b[string-length($list) = 5]", LONG),
        ("$list//b[contains(., 'z')]", NESTED),
        ("$list//b[string-length() = 1]", NESTED),
        ("$list//b = 'z'", NESTED),
    ],
)
def test_what_would_take_long_does_not_match_and_says_so(text: str, held: Element) -> None:
    began = time.process_time()
    bound = condition(text).bind({"list": [held]})
    assert not bound.test(TRIED)
    mismatch = bound.explain(TRIED)
    assert mismatch is not None
    assert mismatch.value == "what its variables hold is too large for this pattern"
    assert time.process_time() - began < 1  # seconds to hours before


MAILS = [
    Element(
        eid,
        f"<email message-id='{eid}@x' from='a@x' to='b@x' subject='Hi' size='9'><body>{'x' * 4_000}</body>"
        f"<attachment name='a' type='b' size='1'/></email>".encode(),
    )
    for eid in range(1, 801)
]


@pytest.mark.parametrize(
    "text",
    [
        "email[@in-reply-to = $ask/@message-id]",
        "email[@in-reply-to = $ask/@message-id and @from = $ask/@to]",
        "email[$ask/@message-id = @in-reply-to or contains(body, 'x')]",
        "email[@in-reply-to = $ask[@subject = 'Hi']/@message-id]",
        "email[count($ask) = 800]",
        "email[$ask/attachment]",
        "email[$ask/body]",
        "email[@in-reply-to = $ask[attachment/@name = 'a']/@message-id]",
        "$ask/@message-id = email/@in-reply-to",
        "email/@in-reply-to = $ask/@message-id",
        "email[body = $ask/body]",
        "email[@in-reply-to = $ask//@message-id]",
    ],
)
def test_the_answer_to_one_of_many_is_still_found(text: str) -> None:
    answer = (
        b"<email in-reply-to='700@x' from='b@x' subject='Re: Hi'><body>" + b"x" * 4_000 + b"</body></email>"
    )
    assert condition(text).bind({"ask": MAILS}).test(Tree(Element(900, answer)))


def test_what_is_small_or_absent_leaves_all_room() -> None:
    small = [Element(1, b"<list><b y='4'/></list>")]
    assert condition("//b[@y = $list/b/@y]").bind({"list": small}).test(TRIED)
    assert condition("a[$list/b]").bind({"list": []}).room == (None,)
    assert condition("a[b]").bind({}).room == (None,)
