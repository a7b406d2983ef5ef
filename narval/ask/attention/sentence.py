"""Sentences that say what needs attention."""

from __future__ import annotations

from narval.ask import json_forms
from narval.ask.registry import Form
from narval.ask.text import shortened

SHOWN = 10
"""The most of one sort that get a sentence each."""

LONGEST = 300
"""The most characters of a sentence."""


def item(what: str, grave: str, text: str, link: Form, since: float | None = None) -> Form:
    """One thing that needs attention, in a sentence."""
    return {
        "what": what,
        "grave": grave,
        "text": shortened(text, LONGEST),
        "link": link,
        "since": json_forms.moment(since),
    }
