"""Kinds of chats: a table names the module of each, and what is missing is told (C1, C14)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from narval.core.errors import OperatorError
from narval.core.source.text import Source
from narval.files.outside.chats import CHAT_KINDS, ChatSettings
from narval.files.settings import FILE, parse_settings
from narval.surfaces.chat.contract import CAPABILITIES, open_chat
from tests.surfaces.chat.stand_in import STAND_IN, use_stand_in


def chats_in(text: str) -> tuple[ChatSettings, ...]:
    settings, faults = parse_settings(Source(FILE, text.encode()))
    assert faults == []
    assert settings is not None
    return settings.chats


def test_C1_a_table_is_read() -> None:
    (chat,) = chats_in(
        '[chats.phone]\nkind = "xmpp"\nserver = "example.org"\nuser = "home@example.org"\nsecret = "s"\n'
        'rooms = ["team@rooms.example.org"]\nstrangers = "element"\ncalled = "Jarvis"\nmodel = "near"\n'
        'allow = ["127.0.0.1"]\n[models.near]\nurl = "http://127.0.0.1:1/v1"\nmodel = "tiny"\n'
    )
    assert chat == ChatSettings(
        name="phone",
        kind="xmpp",
        server="example.org",
        user="home@example.org",
        secret="s",
        rooms=("team@rooms.example.org",),
        strangers="element",
        called="Jarvis",
        model="near",
        allow=("127.0.0.1",),
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[chats.Phone]\nkind = 'xmpp'", "1:8: chats.Phone: expected a name of at most 32 small letters"),
        ("[chats.phone]", '1:8: chats.phone: expected kind = "xmpp or matrix or telegram", found nothing'),
        ("[chats.phone]\nkind = 'smoke'", "2:8: chats.phone.kind: expected a kind of chat, xmpp or matrix"),
        (
            "[chats.phone]\nkind = 'telegram'",
            '1:8: chats.phone: expected also secret = "TELEGRAM_TOKEN", found kind',
        ),
        (
            "[chats.phone]\nkind = 'matrix'",
            '1:8: chats.phone: expected also server = "https://matrix.example.org" and secret = "CHAT_',
        ),
        (
            "[chats.phone]\nkind = 'matrix'\nstrangers = 'all'",
            "3:13: chats.phone.strangers: expected \"\" or element, found 'all'",
        ),
        ("[chats.phone]\nkind = 'xmpp'\nrooms = ['']", "3:10: chats.phone.rooms: expected a text, found"),
        (
            "[chats.phone]\nkind = 'matrix'\nserver = 'http://chat.example.org'",
            "3:10: chats.phone.server: expected https",
        ),
        ("[chats.phone]\nkind = 'xmpp'\nmodel = 'm'", "3:9: chats.phone.model: there is no model 'm'"),
        ("[chats.phone]\nkind = 'xmpp'\nallow = ['?']", "3:9: chats.phone.allow: expected"),
    ],
)
def test_C1_faults_have_their_place(text: str, fault: str) -> None:
    settings, faults = parse_settings(Source(FILE, text.encode()))
    assert settings is None
    assert [str(one).removeprefix(f"{FILE}:")[: len(fault)] for one in faults] == [fault]


def test_C14_a_kind_is_opened_by_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_stand_in(monkeypatch)
    chat = open_chat(ChatSettings(name="phone", kind=STAND_IN), tmp_path)
    assert chat.can <= CAPABILITIES
    with pytest.raises(OperatorError, match=r"\[chats.phone\] in etc/narval.toml: its secret is neither"):
        open_chat(ChatSettings(name="phone", kind=STAND_IN, secret="chat-phone"), tmp_path)


def test_C16_a_missing_library_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHAT_KINDS, "odd", "slixmpp.not_there")
    monkeypatch.setitem(sys.modules, "slixmpp", None)
    with pytest.raises(
        OperatorError, match=r"\[chats.phone\] needs the package slixmpp.*: pip install .*chat\]"
    ):
        open_chat(ChatSettings(name="phone", kind="odd"), tmp_path)
