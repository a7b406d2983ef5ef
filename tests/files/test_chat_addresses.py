"""Addresses at chats are added to etc/people.toml and taken away; all else of the file stays (C2, C14a)."""

from __future__ import annotations

import pytest

from narval.core.errors import RequestError
from narval.files.people_file import with_address, without_addresses

ANN = "xmpp:ann@example.org"
FILE = """# who there is
[people.ann]
name = "Ann"   # her name
[people.ben]
chat = [
  "telegram:12345",  # his ] telephone
]
[people]
eve = { name = "Eve" }
"""


def test_C2_an_address_is_added_and_all_else_stays() -> None:
    text = FILE.replace('[people]\neve = { name = "Eve" }\n', "")
    with_ann = with_address(text, "ann", ANN)
    assert with_ann == text.replace("[people.ann]\n", f'[people.ann]\nchat = ["{ANN}"]\n')
    again = with_address(with_ann, "ann", "matrix:@ann:example.org")
    assert f'chat = ["{ANN}", "matrix:@ann:example.org"]\nname = "Ann"   # her name\n' in again
    with_ben = with_address(text, "ben", "xmpp:ben@example.org")
    assert with_ben.endswith('[people.ben]\nchat = ["telegram:12345", "xmpp:ben@example.org"]\n')


def test_C14a_addresses_are_taken_away() -> None:
    text = with_address(with_address("[people.ann]\n", "ann", ANN), "ann", "telegram:1")
    assert without_addresses(text, "ann", "xmpp:ANN@example.org/phone") == (
        '[people.ann]\nchat = ["telegram:1"]\n',
        [ANN],
    )
    assert without_addresses(text, "ann") == ("[people.ann]\nchat = []\n", [ANN, "telegram:1"])


@pytest.mark.parametrize(
    ("text", "person", "address", "why"),
    [
        ("[people.ann]", "bob", ANN, r"there is no \[people.bob\] in etc/people.toml; there is 'ann'"),
        (
            "[people]\nann = { name = 'Ann' }",
            "ann",
            ANN,
            r"ann is in a line of .*: add there chat = \[",
        ),
        (f"[people.ann]\nchat = ['{ANN}']\n[people.ben]", "ben", ANN, "is that of ann already"),
        ("[people.ann]", "ann", "smoke:ann", "expected an address with its kind"),
    ],
)
def test_what_cannot_be_added_is_told(text: str, person: str, address: str, why: str) -> None:
    with pytest.raises(RequestError, match=why):
        with_address(text, person, address)


def test_what_is_not_there_is_not_taken_away() -> None:
    with pytest.raises(RequestError, match=r"ann does not have the address 'telegram:2' in etc/people.toml"):
        without_addresses("[people.ann]\nchat = ['telegram:1']", "ann", "telegram:2")
    with pytest.raises(RequestError, match="ann does not have an address at a chat"):
        without_addresses("[people.ann]", "ann")
