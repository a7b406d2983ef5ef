"""Mails of dataflows: one for each value, for several people, a digest as one."""

from __future__ import annotations

from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from narval.calls.context import CallContext
from narval.files.settings import CurrentSettings, Settings
from narval.kinds.dataflow.calls.documents import relation_of
from narval.kinds.dataflow.calls.home_side import HomeSide
from narval.kinds.dataflow.engine.network.batches import TupleBatch
from narval.kinds.dataflow.engine.network.requests import TransactionOver
from tests.kinds.dataflow.calls.driving import drive

FLATS = relation_of(TupleBatch(("id", "price"), [("Elm Street 1", 700), ("Oak Road 2", 650)]), "flats")

DIGEST = """
relsprintf("text", "%id% for %price%", flats : told)
aggregate("text", "lines", told : digest)
notify(to, digest)
"""
EACH = """
relsprintf("text", "%id% for %price%", flats : told)
project("text", told : texts)
notify(to, texts)
"""


def sent(folder: Path, body: str, to: str, flats: Any = FLATS) -> tuple[TransactionOver, list[EmailMessage]]:
    settings = Settings(mail={"kind": "maildir", "path": "box", "from": "home@example.org"})
    agent: Any = SimpleNamespace(home=CurrentSettings(settings))
    side = HomeSide(agent, folder, 1, "news", (), AsyncMock())
    plan = f"PLAN P {{ INPUT: String to, TupleStream flats; BODY {{ {body} }} }}"
    within = CallContext("call-1", 1, "news", folder).context()
    over, _ = within.run(drive, folder, plan, inputs={"to": to, "flats": flats}, senders=side.senders)
    return over, sorted(letters(folder / "box" / "new"), key=lambda mail: str(mail["subject"]))


def letters(folder: Path) -> Iterator[EmailMessage]:
    for path in folder.glob("*"):
        yield message_from_bytes(path.read_bytes(), policy=policy.default)  # type: ignore[misc]


def test_TA22_each_tuple_with_one_attribute_is_a_mail_whose_text_it_is(tmp_path: Path) -> None:
    over, mails = sent(tmp_path, EACH, "mailto:me@example.org")
    assert over.state == "done", over
    assert [str(mail["subject"]) for mail in mails] == ["Elm Street 1 for 700", "Oak Road 2 for 650"]
    assert [mail.get_content().strip() for mail in mails] == ["Elm Street 1 for 700", "Oak Road 2 for 650"]
    assert len({mail["message-id"] for mail in mails}) == 2


def test_a_tuple_of_several_attributes_has_a_line_for_each(tmp_path: Path) -> None:
    _, mails = sent(tmp_path, "notify(to, flats)", "mailto:me@example.org")
    assert mails[0].get_content().strip() == "id: Elm Street 1\nprice: 700"
    assert mails[0]["subject"] == "id: Elm Street 1"


def test_a_digest_is_one_mail_for_several_people(tmp_path: Path) -> None:
    to = "mailto:me@example.org,you@example.org?subject=Flats%20of%20today"
    _, (mail,) = sent(tmp_path, DIGEST, to)
    assert (mail["subject"], mail["to"]) == ("Flats of today", "me@example.org, you@example.org")
    assert mail.get_content().splitlines() == ["Elm Street 1 for 700", "Oak Road 2 for 650"]


def test_a_digest_of_nothing_is_no_mail(tmp_path: Path) -> None:
    over, mails = sent(
        tmp_path, DIGEST, "mailto:me@example.org", relation_of(TupleBatch(("id",), []), "flats")
    )
    assert (over.state, mails) == ("done", [])


@pytest.mark.parametrize(
    ("to", "why"),
    [
        ("mailto:me", "expected addresses like name@example.org in to, got 'me'"),
        ("mailto:", "expected one address in from, and at least one in to"),
        (
            "mailto:me@example.org?bcc=you@example.org",
            "expected addresses, and ?subject= after them, found bcc in mailto:me@example.org?bcc=you",
        ),
    ],
)
def test_an_address_that_cannot_be_is_told(tmp_path: Path, to: str, why: str) -> None:
    over, mails = sent(tmp_path, EACH, to)
    assert over.failure is not None
    assert (why in over.failure.message, mails) == (True, []), over.failure
