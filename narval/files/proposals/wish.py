"""A wish of a person, and the proposal that begins with it: its folder, before a model has answered."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import msgspec

from narval.core.errors import ActionError, RequestError
from narval.core.memory.labels import WHETHER
from narval.core.trust.parts import Part
from narval.core.trust.rules import Facts, Rules, Verdict, decide
from narval.files.home import Home
from narval.files.outside.services import LanguageModel, service_named
from narval.files.proposals.folder import DRAFTING, LISTS, Form, Proposal, check_name, check_wish, name_for
from narval.files.settings import Settings
from narval.files.trust_file import load_trust

NO_MODEL = """\
no model is set up to draft definitions. Write into etc/narval.toml, for example:
  [models.local]
  url = "http://127.0.0.1:11434/v1"
  model = "NAME"
  tokens = 200000
  [propose]
  model = "local"
By hand: `narval actions` lists what can be called, `narval take` copies an example that ships, and \
`narval check FILE --tell` says what a definition does"""
"""The message if no model is set up."""


class Example(msgspec.Struct, frozen=True):
    """An element that the person has chosen for the model, and its labels."""

    eid: int
    xml: str
    labels: tuple[str, ...] = ()


class Change(msgspec.Struct, frozen=True):
    """The definition to be changed, and its file."""

    name: str
    kind: str
    path: str
    text: str


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """A wish of a person, and everything that the model gets with it."""

    text: str
    """The wish in words."""
    model: str = ""
    """The name of the model of `[models]`; "": that of `[propose]`."""
    name: str = ""
    """The name of the proposal; "": one from the words of the wish."""
    change: Change | None = None
    """The definition to be changed; None: new ones are wished for."""
    examples: tuple[Example, ...] = ()
    """The elements for the model."""
    counts: Mapping[str, int] = {}
    """The number of elements of each name in memory."""
    by: str = ""
    """The person with the wish."""


def verdict_on(home: Home, labels: Iterable[str]) -> Verdict:
    """The verdict of the home's rules on showing a language model an element with these labels. Raises
    SettingsError.
    """
    prompt = Part("prompt", labels=tuple(label.removesuffix(WHETHER) for label in labels))
    facts = Facts("model.ask", "", (prompt,), holds=lambda rule, _: rule.then != "allow")
    return decide(load_trust(home.path) or Rules(), facts)


def change_of(home: Home, name: str, kind: str, path: str) -> Change:
    """The change of a definition that is loaded from a path. Raises RequestError unless it is in recipes/."""
    file = home.path / path
    if not path.startswith("recipes/") or not file.is_file():
        raise RequestError(
            f"{name} is in {path}, and only files in recipes/ of the home can be changed: `narval take` "
            "copies what ships"
        )
    return Change(name, kind, path, file.read_text(encoding="utf-8"))


def model_of(settings: Settings, name: str = "") -> LanguageModel:
    """The model that drafts, or the one of a name. Raises RequestError, which says how to set one up, and how
    to do without.
    """
    name = name or settings.propose.model or ""
    if not name:
        raise RequestError(NO_MODEL)
    try:
        return service_named(settings.services, LanguageModel, name)
    except ActionError as error:
        raise RequestError(str(error)) from None


def begin_proposal(home: Home, wish: Wish, model: LanguageModel) -> Proposal:
    """Make the folder of a new proposal. Raises RequestError for an invalid wish, or a taken name."""
    check_wish(wish.text)
    if not wish.text.strip():
        raise RequestError("expected a wish in words, got none")
    if wish.name:
        check_name(wish.name)
    base = wish.name or name_for(wish.text)
    names = [base] if wish.name else [base, *(f"{base}-{number}" for number in range(2, 1000))]
    now = datetime.fromtimestamp(time.time(), UTC)
    about: Form = {
        "by": wish.by,
        "at": now.isoformat(timespec="milliseconds"),
        "state": DRAFTING,
        "pid": os.getpid(),
        "why": None,
        "model": model.name,
        "rounds": 0,
        "tokens": 0,
        "money": 0.0,
        "change": msgspec.to_builtins(wish.change),
        "examples": [msgspec.to_builtins(one) for one in wish.examples],
        **{name: [] for name in LISTS},
        "labels": sorted({label for one in wish.examples for label in one.labels}),
    }
    try:
        for name in names:
            if (proposal := Proposal(home.path, name)).begin(about, wish.text):
                return proposal
    except OSError as error:
        raise RequestError(f"proposals/ cannot be written: {error.strerror}") from None
    raise RequestError(f"there is a proposal {base} already; choose another name, or drop it")


def wish_of(proposal: Proposal, counts: Mapping[str, int]) -> Wish:
    """The wish from which a proposal was made, as stored."""
    about = proposal.about()
    change = about.get("change")
    examples = tuple(
        Example(one["eid"], one["xml"], tuple(one["labels"])) for one in about.get("examples", ())
    )
    return Wish(
        text=proposal.wish(),
        model=str(about.get("model") or ""),
        name=proposal.name,
        change=Change(**change) if change else None,
        examples=examples,
        counts=counts,
        by=str(about.get("by") or ""),
    )
