"""Chats: the tables `[chats.NAME]` of the settings, the accounts with which people write to the home."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from narval.core.definitions.suggestions import closest
from narval.files import toml
from narval.files.outside.services import AnyService, LanguageModel, is_in_the_clear, services_of
from narval.system.secret import secret_named

CHATS = "chats"
"""The table of the settings with the chats."""

CHAT_KINDS: dict[str, str] = {
    "xmpp": "narval.surfaces.chat.kinds.xmpp",
    "matrix": "narval.surfaces.chat.kinds.matrix",
    "telegram": "narval.surfaces.chat.kinds.telegram",
}
"""The kinds of chats, with the module for the protocol of each. Only `narval chat` imports it."""

_SERVERS = {"telegram": "https://api.telegram.org"}
"""The servers of the kinds that have only one."""

NEEDED: dict[str, dict[str, str]] = {
    "xmpp": {"user": "narval@example.org", "secret": "CHAT_PASSWORD"},
    "matrix": {"server": "https://matrix.example.org", "secret": "CHAT_PASSWORD"},
    "telegram": {"secret": "TELEGRAM_TOKEN"},
}
"""The keys without which a kind cannot log in, each with an example. That of an access token of Matrix needs
no user.
"""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")

_name = toml.fitting(
    _NAME.fullmatch, "a name of at most 32 small letters, digits, - and _, which begins with a letter"
)
_kind = toml.fitting(CHAT_KINDS.__contains__, f"a kind of chat, {' or '.join(CHAT_KINDS)}")
_rooms = toml.listed(toml.text, 'rooms, such as ["team@rooms.example.org"]')


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An account of the assistant at a chat service, as in `[chats.NAME]` of the settings."""

    name: str
    """The name of the table, with which operations, elements and commands name the chat."""
    kind: Annotated[str, _kind]
    """The protocol, one of CHAT_KINDS."""
    server: Annotated[str, toml.text] = ""
    """The server: a host with or without a port, or an address of https; "": the usual one of the kind."""
    user: Annotated[str, toml.text] = ""
    """The account of the assistant there."""
    secret: Annotated[str, toml.text] = ""
    """The name of the secret with which it logs in: a variable, or a file in `etc/`."""
    called: Annotated[str, toml.text] = ""
    """The name with which lines in rooms address the assistant; "": that of the home's own agent."""
    rooms: Annotated[tuple[str, ...], _rooms] = ()
    """The rooms where it listens."""
    strangers: Annotated[Literal["", "element"], toml.one_of("", "element")] = ""
    """`element`: messages of unknown people become elements; "": they are ignored."""
    model: Annotated[str | None, toml.or_none(toml.text)] = None
    """The model of `[models]` that proposes commands for other messages; None: none does."""
    tls_ca: Annotated[str, toml.text] = ""
    """The file with the certificates that may sign those of the server; "": those of this machine."""
    allow: Annotated[tuple[str, ...], toml.places] = ()
    """The places of this machine and its networks that may be the server."""

    def __str__(self) -> str:
        return f"[{CHATS}.{self.name}]"

    @property
    def place(self) -> str:
        """The address or the host of its server."""
        at_home = _SERVERS.get(self.kind) or re.split("[@:]", self.user)[-1].partition("/")[0]
        return self.server or at_home

    def password(self, home: Path | None) -> str:
        """The secret itself, "" if none is named. Raises ValueError with the remedy."""
        if not self.secret:
            return ""
        try:
            return secret_named(self.secret, home)
        except ValueError as error:
            raise ValueError(f"{self} in etc/narval.toml: {error}") from None


def read_chats(file: toml.TomlFile, services: Sequence[AnyService]) -> tuple[ChatSettings, ...]:
    """The chats of a file of settings; faults are noted there."""
    chats = []
    models = [model.name for model in services_of(services, LanguageModel)]
    for name, values in file.named(CHATS, ChatSettings, "phone", _name):
        if "kind" not in values:
            keys = ", ".join(values) or "nothing"
            file.note(
                (CHATS, name), f'{CHATS}.{name}: expected kind = "{" or ".join(CHAT_KINDS)}", found {keys}'
            )
        elif is_in_the_clear(values.get("server", "")):
            needed = "https, since its secret and all messages would go through the net in the clear"
            file.note((CHATS, name, "server"), f"{CHATS}.{name}.server: expected {needed}", of_value=True)
        elif (model := values.get("model")) and model not in models:
            there = closest(model, models) or f"; write a table [models.{model}]"
            message = f"{CHATS}.{name}.model: there is no model {model!r:.80}{there}"
            file.note((CHATS, name, "model"), message, of_value=True)
        elif missing := {
            key: text for key, text in NEEDED.get(values["kind"], {}).items() if not values.get(key)
        }:
            examples = " and ".join(f'{key} = "{text}"' for key, text in missing.items())
            file.note((CHATS, name), f"{CHATS}.{name}: expected also {examples}, found {', '.join(values)}")
        else:
            chats.append(ChatSettings(name=name, **values))
    return tuple(chats)
