"""Secrets in texts are hidden, whatever surrounds them, and nothing else is."""

from __future__ import annotations

import time

import pytest

from narval.core.source.secrets import hide_secrets, without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see https://me:s3cr3t@x.example/a?b=c", "see https://me:…@x.example/a?b=c"),
        ("postgresql://me:p@ss@db/narval", "postgresql://me:…@db/narval"),
        ("https://x.example:443/a@b and ana@example.org", "https://x.example:443/a@b and ana@example.org"),
        ("?api_key=abc123&page=2", "?api_key=…&page=2"),
        ("password='two words', port=25", "password='…', port=25"),
        ('{"DB_PASSWORD": "abc", "user": "me"}', '{"DB_PASSWORD": "…", "user": "me"}'),
        ("--password=abc --user me", "--password=… --user me"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer …"),
        ("access_token=abc; secret=work-mail", "access_token=…; secret=work-mail"),
        (
            "token=4 node=bill, its secret is a file of etc/",
            "token=4 node=bill, its secret is a file of etc/",
        ),
        ("the password is wrong", "the password is wrong"),
        ("PA\u017f\u017fWORD=abc, Api-\u212aey: abc", "PA\u017f\u017fWORD=…, Api-\u212aey: …"),
        ("author\u0131zation: basic abc; PWD=abc", "author\u0131zation: basic …; PWD=…"),
    ],
)
def test_passwords_of_urls_and_what_is_named_a_secret_are_hidden(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_a_key_of_plain_data_names_a_secret_too() -> None:
    line = {"seq": 1, "attributes": {"api_key": "abc", "url": "http://a:b@c"}, "all": ["pwd=x", 3]}
    shown = {"seq": 1, "attributes": {"api_key": "…", "url": "http://a:…@c"}, "all": ["pwd=…", 3]}
    assert hide_secrets(line) == shown


@pytest.mark.parametrize("part", ["a_", "password ", "://a:", "authorization: ", "pwd=", "passw", "'="])
def test_a_hostile_text_takes_no_longer_than_it_is(part: str) -> None:
    began = time.process_time()
    without_secrets(part * 20_000)
    assert time.process_time() - began < 0.5
