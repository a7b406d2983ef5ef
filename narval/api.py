"""What modules of actions share with narval: texts, elements, JSON, mail, models, programs, folders.

The modules that ship import these names and those of `narval`, and no others. Each is imported when first
asked for, so that a module pays for what it uses alone. Names stay, with what they take and give, within a
major version (docs/reference/api.md).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from narval.calls.models import Budget as Budget
    from narval.calls.models import Reply as Reply
    from narval.calls.models import ask_model as ask_model
    from narval.calls.programs.spawn import CannotStartError as CannotStartError
    from narval.calls.refusals import refusals as refusals
    from narval.core.definitions.appointment import read_date as read_date
    from narval.core.definitions.reminder import iso_moment as iso_moment
    from narval.core.definitions.reminder import next_reminder as next_reminder
    from narval.core.elements.canonical import elements_of as elements_of
    from narval.core.elements.element import text_within as text_within
    from narval.core.elements.json_mapping import JsonError as JsonError
    from narval.core.elements.json_mapping import element_of_json as element_of_json
    from narval.core.elements.json_mapping import json_of_element as json_of_element
    from narval.core.elements.json_mapping import parse_json as parse_json
    from narval.core.elements.names import has_meaning as has_meaning
    from narval.core.elements.names import is_reserved as is_reserved
    from narval.core.elements.own_elements import xml_safe as xml_safe
    from narval.files.allowed_files import reachable as reachable
    from narval.files.outside.services import Calendar as Calendar
    from narval.files.outside.services import Command as Command
    from narval.files.outside.services import LanguageModel as LanguageModel
    from narval.files.outside.services import Mailbox as Mailbox
    from narval.files.outside.services import WebService as WebService
    from narval.files.toml import size as size
    from narval.people.chat.outbox import send_by_chat as send_by_chat
    from narval.people.mail.account import MailAccount as MailAccount
    from narval.people.mail.writing import SentMail as SentMail
    from narval.people.mail.writing import compose_mail as compose_mail
    from narval.people.mail.writing import one_line as one_line
    from narval.people.mail.writing import send_mail as send_mail
    from narval.people.mail.writing import timestamp as timestamp
    from narval.system.fetch import is_web as is_web
    from narval.system.file_events import FolderWatch as FolderWatch

SUBJECTS = {
    "Texts": {
        "xml_safe": "narval.core.elements.own_elements.xml_safe",
        "one_line": "narval.people.mail.writing.one_line",
        "timestamp": "narval.people.mail.writing.timestamp",
        "read_date": "narval.core.definitions.appointment.read_date",
        "iso_moment": "narval.core.definitions.reminder.iso_moment",
        "next_reminder": "narval.core.definitions.reminder.next_reminder",
        "size": "narval.files.toml.size",
        "is_web": "narval.system.fetch.is_web",
    },
    "Elements": {
        "text_within": "narval.core.elements.element.text_within",
        "elements_of": "narval.core.elements.canonical.elements_of",
        "has_meaning": "narval.core.elements.names.has_meaning",
        "is_reserved": "narval.core.elements.names.is_reserved",
        "refusals": "narval.calls.refusals.refusals",
    },
    "JSON": {
        "parse_json": "narval.core.elements.json_mapping.parse_json",
        "element_of_json": "narval.core.elements.json_mapping.element_of_json",
        "json_of_element": "narval.core.elements.json_mapping.json_of_element",
        "JsonError": "narval.core.elements.json_mapping.JsonError",
    },
    "Chat": {
        "send_by_chat": "narval.people.chat.outbox.send_by_chat",
    },
    "Mail": {
        "MailAccount": "narval.people.mail.account.MailAccount",
        "compose_mail": "narval.people.mail.writing.compose_mail",
        "send_mail": "narval.people.mail.writing.send_mail",
        "SentMail": "narval.people.mail.writing.SentMail",
    },
    "Services": {
        "WebService": "narval.files.outside.services.WebService",
        "Calendar": "narval.files.outside.services.Calendar",
        "LanguageModel": "narval.files.outside.services.LanguageModel",
        "Mailbox": "narval.files.outside.services.Mailbox",
        "Command": "narval.files.outside.services.Command",
    },
    "Language models": {
        "ask_model": "narval.calls.models.ask_model",
        "Reply": "narval.calls.models.Reply",
        "Budget": "narval.calls.models.Budget",
    },
    "Programs and folders": {
        "CannotStartError": "narval.calls.programs.spawn.CannotStartError",
        "FolderWatch": "narval.system.file_events.FolderWatch",
        "reachable": "narval.files.allowed_files.reachable",
    },
}
"""The names by subject, and where each is defined."""

_WHERE = {name: where for names in SUBJECTS.values() for name, where in names.items()}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'narval.api' has no attribute {name!r}")
    module, _, defined = _WHERE[name].rpartition(".")
    return getattr(import_module(module), defined)


def __dir__() -> list[str]:
    return sorted(_WHERE)
