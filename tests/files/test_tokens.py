"""Tokens of programs elsewhere: whose one is, by digests alone."""

from __future__ import annotations

from narval.files.agents.senders import is_token, new_token, owner_of, same_tokens, token_digest


def test_a_token_is_known_by_its_digest_and_nobody_has_an_empty_one() -> None:
    token = new_token()
    digests = {"none": None, "shop": token_digest(token), "unset": token_digest("")}
    assert owner_of(token, digests) == "shop"
    assert owner_of(f"{token}x", digests) is owner_of("", digests) is None
    assert is_token(token, digests["shop"])
    assert not is_token("", digests["unset"])


def test_those_who_have_the_token_of_another_are_named_with_that_one() -> None:
    assert list(same_tokens({"a": "1", "b": None, "c": "2", "d": "1", "e": ""})) == [("d", "a")]
