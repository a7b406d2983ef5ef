"""The library: name to definition, replaced whole (habit 8)."""

from __future__ import annotations

import pytest

from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Library, Parsed, Reference, check_targets
from narval.core.definitions.parsing import parse, suffixes
from narval.core.definitions.suggestions import closest, nearest
from narval.core.definitions.transform.definition import Transform
from narval.core.errors import DefinitionError, Fault
from narval.core.kinds import KINDS
from narval.core.source.text import Source

SEND = Action(group="mail", name="send", function="send", path="modules/mail.py")
FETCH = Action(group="mail", name="fetch", function="fetch", path="modules/mail.py")
PAGE = Transform(group="mail", name="page", path="recipes/mail.page.xsl")


def test_definitions_are_found_by_kind_and_name() -> None:
    library = Library([SEND, PAGE])
    assert library.get("action", "mail.send") is SEND
    assert library.get("transform", "mail.send") is None
    assert library.get("process", "mail.send") is None
    assert library.find("mail.page") is PAGE
    assert library.find("mail.none") is None
    assert dict(library.of("action")) == {"mail.send": SEND}
    assert set(library) == {SEND, PAGE}
    assert len(library) == 2
    assert {definition.path for definition in library} == {"modules/mail.py", "recipes/mail.page.xsl"}


def test_a_library_is_never_altered() -> None:
    library = Library([SEND])
    newer = Action(group="mail", name="send", function="send", path="modules/mail.py", digest="2")
    replaced = library.replace([newer, FETCH])
    assert library.get("action", "mail.send") is SEND
    assert replaced.get("action", "mail.send") is newer
    assert len(replaced) == 2
    with pytest.raises(TypeError):
        library.of("action")["mail.x"] = SEND  # type: ignore[index]


def test_all_that_a_file_had_can_be_left_out() -> None:
    library = Library([SEND, FETCH, PAGE]).replace([FETCH], without=["modules/mail.py"])
    assert set(library) == {FETCH, PAGE}


def test_a_reference_is_checked_against_the_library() -> None:
    def refuse(found: object) -> list[Fault]:
        return [Fault("r.xml", 9, 9, f"no {found.full_name}")]  # type: ignore[attr-defined]

    known = Reference("action", "mail.send", "step 'a'", "r.xml", 1, 2, refuse)
    unknown = Reference("action", "mail.snd", "step 'b'", "r.xml", 3, 4)
    told = [str(fault) for fault in check_targets([known, unknown], Library([SEND]))]
    assert told == [
        "r.xml:9:9: no mail.send",
        "r.xml:3:4: step 'b': there is no action 'mail.snd'; did you mean 'mail.send'?",
    ]


def test_what_a_file_gave_is_used_whole_or_not_at_all() -> None:
    assert Parsed((SEND,)).checked() == (SEND,)
    with pytest.raises(DefinitionError):
        Parsed((SEND,), faults=(Fault("r.xml", 1, 1, "wrong"),)).checked()


def test_the_table_of_kinds_says_who_reads_a_file() -> None:
    assert set(KINDS) >= {"action", "transform", "recipe"}
    assert {".xml", ".xsl", ".xslt"} <= suffixes()
    of = r"\.plan, \.task, \.tools, \.xml, \.xsl, \.xslt"
    with pytest.raises(DefinitionError, match=f"expected a file of {of}"):
        parse(Source("notes.txt", b"<recipe/>"))


def test_a_hint_is_the_word_meant_or_all_there_are() -> None:
    assert closest("stpe", ["step", "transition"]) == "; did you mean 'step'?"
    assert closest("xyz", ["step", "transition"]) == "; there is 'step', 'transition'"
    assert closest("xyz", []) == ""
    assert closest("xyz", [f"a{n}" for n in range(99)]) == ""
    assert nearest("step1", [f"step{n}" for n in range(5000)]) is None
