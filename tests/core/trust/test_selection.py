"""Which pieces of its variables an expression reads, by its text alone (F4)."""

from __future__ import annotations

import pytest

from narval.core.trust.selection import Piece, looked_at, looks_at, pieces_of, selected_by


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("$mail", {Piece("mail")}),
        ("$mail/@from", {Piece("mail", "@from")}),
        ("$mail/body", {Piece("mail", "body")}),
        ("$mail/part/@name", {Piece("mail", "part/@name")}),
        ("$mail/text()", {Piece("mail", "text()")}),
        ("$mails[1]/@from", {Piece("mails", "@from")}),
        ("concat($mail/@from, ' ', $contact/@name)", {Piece("mail", "@from"), Piece("contact", "@name")}),
        ("count($order/item)", {Piece("order", "item")}),
        ("$mail/@from | $mail/@to", {Piece("mail", "@from"), Piece("mail", "@to")}),
        ("$mail[@urgent]/@from", {Piece("mail")}),
        ("$mails[@from = $boss/@mail]/@subject", {Piece("mails"), Piece("boss", "@mail")}),
        ("$order/item[@n='1']/@price", {Piece("order")}),
        ("$mail/@*", {Piece("mail")}),
        ("$mail/part/*", {Piece("mail", "part")}),
        ("$mail//part", {Piece("mail")}),
        ("$mail/part/..", {Piece("mail")}),
        ("name($mail)", {Piece("mail")}),
    ],
)
def test_F4_a_value_reads_what_it_selects_and_all_where_that_depends_on_more(
    text: str, pieces: set[Piece]
) -> None:
    assert pieces_of(text) == pieces


def test_F4_what_is_repeated_are_the_elements_that_are_selected() -> None:
    assert selected_by("$order/item") == {Piece("order", "item")}
    assert selected_by("$orders[position() < 3]/item") == {Piece("orders", "item")}


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("email[not(@cc) and @to=$from/@from]", {"@cc", "@to"}),
        ("email[@to=$from/@from or @to=$from/@cc]", {"@to"}),
        ("email[not(@cc) and (@to=$from/@from or (@to=$from/@return-path))]", {"@cc", "@to"}),
        ("email[@to='see @cc']", {"@to"}),
        ("email[head/@to=$known.people]", {"head", "head/@to"}),
        ("email[head[@to=$from/@cc]]", {"head", "head/@to"}),
        ("email[@to[.=$from/@from]][/email/@cc]", {"@to", "@cc"}),
        ("(email | letter)[./@to='a']", set()),
        ("email[@to='a'] | letter[string(text())='b']", {"@to", "text()"}),
        ("*[@to='a']", {"@to"}),
        ("email[$from[@cc]]", set()),
        ("email[($from | .)/@cc]", set()),
        ("email[.//@cc or @*]", set()),
        ("url[.='https://x.org']", {"."}),
        ("//email[@cc]", set()),
    ],
)
def test_F6_a_pattern_looks_at_parts_of_what_it_is_tried_on_and_at_none_behind_a_variable(
    text: str, paths: set[str]
) -> None:
    assert looked_at(text) == paths


@pytest.mark.parametrize(
    ("text", "path", "looks"),
    [
        ("letter[@to='a']", "@to", True),
        ("letter[@to='a']", "@cc", False),
        ("letter[@to='a']", "text()", False),
        ("letter[.='so']", "a/text()", True),
        ("letter[.='so']", "a/@b", False),
        ("letter[a='so']", "a/c/text()", True),
        ("letter[a='so']", "a/@b", False),
        ("letter[a='so']", "text()", False),
    ],
)
def test_F6_a_pattern_looks_at_a_text_by_what_it_is_within(text: str, path: str, looks: bool) -> None:
    assert looks_at(text, path) is looks
