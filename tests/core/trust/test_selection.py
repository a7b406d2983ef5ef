"""Which pieces of its variables an expression reads, by its text alone (F4)."""

from __future__ import annotations

import pytest

from narval.core.trust.selection import Piece, pieces_of, selected_by


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
