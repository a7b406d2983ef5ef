"""The page of wishes: the examples that ship by subject, each with what a person says who wishes it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter

from narval.core.kinds import KINDS
from narval.files.alterations import example_files, shipped_library
from narval.files.examples import examples
from tests.house.pages.tables import table
from tests.wishes.wishes import WISHES

PATH = "reference/wishes.md"

HEAD = """\
# Wishes

What people wish of an assistant, in their words, and the example that does it. All examples ship with narval:
`narval take --about WORDS` lists those of a subject, or with some words in what they do, and
`narval take examples/unanswered` copies one into your home, with its scenarios. Then:

- `narval tell examples.unanswered` says in plain sentences what it does;
- `narval simulate examples/unanswered` plays its scenario, and calls nothing outside;
- replace its addresses and names by yours, and start it: `narval start examples.unanswered`, or
  `<start-plan recipe="examples.unanswered"/>` in `data/memory.xml`.

In a home that [asks](grants.md), you grant what an example needs outside when it starts. Those that write
mails use the `identity` and the `outbox` of your memory ([mail](modules/mail.md#accounts)); those that tell
you something, each `notify` of it ([notify](modules/notify.md#the-user-is-told)). [Another page](examples.md)
explains some of them.

This page is made from the files by `python -m tests.house.pages`; a test compares.
"""


def lines() -> Iterator[str]:
    """The lines of the page."""
    yield HEAD
    says = {wish.example: wish.says for wish in WISHES}
    for subject, listed in groupby(examples(), attrgetter("subject")):
        yield f"## {subject.capitalize()}\n"
        names = ((example.name.partition("/")[2], example.about) for example in listed)
        rows = ((says.get(name, ""), f"`examples/{name}`", kinds(name), about) for name, about in names)
        yield from table(("wish", "example", "made of", "what it does"), rows)
        yield ""


def kinds(name: str) -> str:
    """The kinds of the definitions of an example."""
    paths = set(example_files()[f"examples/{name}"])
    present = {definition.kind for definition in shipped_library() if definition.path in paths}
    return ", ".join(kind for kind in KINDS if kind in present) or "agents"
