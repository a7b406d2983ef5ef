"""Judging definitions that are not accepted yet: faults, what they do in words, the findings of exploration,
their needs, and the acts outside that nobody has named.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import chain
from pathlib import Path, PurePath

import msgspec

from narval.ask.definitions.checking import HomeAsRead, check_texts, text_or_nothing
from narval.ask.definitions.definition import told
from narval.ask.definitions.home_faults import NewElements, OutOfReach, there_already
from narval.ask.definitions.written_places import UNNAMED, written_in
from narval.ask.json_forms import fault as form_of
from narval.core.definitions.library import Definition, Library, RunDefinition, named_by
from narval.core.definitions.people.approvals import unasked
from narval.core.definitions.telling.sentence import listed
from narval.core.elements.canonical import elements_of
from narval.core.errors import DefinitionError, ElementError, Fault, RequestError
from narval.core.source.text import Source
from narval.core.trust.grants import Decision, Grant
from narval.core.trust.needs import OUTSIDE, Need, needs_of
from narval.files.agents.collections import parse_file
from narval.files.check import faults_beside
from narval.files.found_files import RECIPES
from narval.files.grants import Standing
from narval.files.loaded import Loaded
from narval.files.memory_file import read_memory
from narval.files.proposals.folder import MEMORY, Form
from narval.trials.explore.findings import examine, is_explorable

SECONDS = 5.0
"""The time for exploring all definitions of a proposal."""

MOST_FAULTS = 100
"""The most faults kept for one proposal."""

GRAVEST = ("anything", "program")
"""The needs that are listed first."""

_WORD = r"(?<![\w.@+-]){}(?![\w@-]|\.\w)"


class Judgement(msgspec.Struct, frozen=True):
    """The results of judging the texts of a proposal without running them."""

    faults: list[Form]
    """All faults and warnings; the other fields are computed only if there are no faults but warnings."""
    sentences: list[Form] = msgspec.field(name="told", default_factory=list)
    """The sentences that say what the definitions do."""
    findings: list[Form] = []
    """The findings of exploring the definitions."""
    needs: list[Form] = []
    """The needs of each definition, outside and inside the home."""
    unnamed: list[str] = []
    """The sentences on work that agrees without a person, on acts outside that neither the wish nor the
    settings name, the gravest first, and on the effects of its elements on existing definitions.
    """
    is_explored: bool = msgspec.field(name="explored", default=True)
    """False if the time for exploring ran out."""

    @property
    def is_sound(self) -> bool:
        """True if there are no faults but warnings."""
        return all(fault["warning"] for fault in self.faults)

    @property
    def impossible(self) -> list[Form]:
        """The findings that prove an error."""
        return [finding for finding in self.findings if finding["severity"] == "error"]

    @property
    def first_fault(self) -> str:
        """The first fault that is not a warning, with its place; one exists unless `is_sound`."""
        first = next(fault for fault in self.faults if not fault["warning"])
        place = f"{first['path']}:{first['line']}:{first['column']}: " if first["path"] else ""
        return f"{place}{first['message']}"

    @property
    def outside(self) -> list[str]:
        """The needs outside of the home."""
        return list(dict.fromkeys(need["need"] for need in self.needs if need["outside"]))


class TextsBeside:
    """Texts of definitions and elements by the name of their file, as if they were added to a home; `changed`
    is the definition (`name`, `kind`, `path`) whose file one of them replaces.
    """

    def __init__(self, home: HomeAsRead, texts: Mapping[str, str], changed: Form | None = None) -> None:
        self._home, self._texts, self._changed = home, texts, changed

    def judge(self, wish: str = "", *, seconds: float | None = None) -> Judgement:
        """Judge them against a `wish`. Exploring takes at most `seconds`, by default SECONDS; with 0 nothing
        is explored.
        """
        try:
            check_texts(dict(self._texts))
        except RequestError as error:
            return Judgement([_fault(str(error))])
        faults = self._faults()
        is_sound = all(fault.warning for fault in faults)
        faults = sorted({*faults, *self._misfits(is_sound=is_sound), *self._out_of_reach()})
        forms = [{**form_of(one), "warning": one.warning} for one in faults[:MOST_FAULTS]]
        if any(not fault.warning for fault in faults):
            return Judgement(forms)
        library, until = self.loaded.library, time.monotonic() + (SECONDS if seconds is None else seconds)
        findings = list(_findings(self.definitions, library, until)) if seconds != 0 else []
        is_explored = seconds != 0 and time.monotonic() < until
        return Judgement(
            faults=forms,
            sentences=[
                {**row, "file": _file(row["file"])} for one in self.definitions for row in told(one, library)
            ],
            findings=findings,
            needs=[_need(one, need) for one in self._standings for need in one.needs],
            unnamed=list(
                dict.fromkeys(
                    [*unasked(library, self.definitions), *self._unnamed(wish), *self._new_elements.effects()]
                )
            ),
            is_explored=is_explored,
        )

    @property
    def loaded(self) -> Loaded:
        """Everything loaded, plus the definitions in these texts without faults."""
        return self._added[0]

    @property
    def definitions(self) -> list[Definition]:
        """The definitions in these texts without faults."""
        return self._added[1]

    def grants(self, by: str, at: float) -> dict[str, Grant]:
        """The grants of what their definitions need outside, by the names of their tables, as given by a
        person at a moment (seconds since 1970).
        """
        return {
            one.table: one.grant(self.loaded.library, by, at)
            for one in self._standings
            if any(need.is_outside for need in one.needs)
        }

    @cached_property
    def _added(self) -> tuple[Loaded, list[Definition]]:
        place = "" if self._changed is None else str(self._changed["path"])
        paths = {
            place if _file(place) == name else f"{RECIPES}/{name}": text
            for name, text in self._texts.items()
            if name != MEMORY
        }
        sources = [Source.of_text(path, text) for path, text in paths.items()]
        loaded, faulty = self._others.with_fitting(sources)
        added = [path for path in paths if path not in faulty]
        return loaded, [one for path in added for one in loaded.library if one.path == path]

    @cached_property
    def _others(self) -> Loaded:
        """Everything loaded, without the file that is changed."""
        loaded, without = self._home.loaded, [self._changed["path"]] if self._changed is not None else []
        return msgspec.structs.replace(loaded, library=loaded.library.replace((), without=without))

    @cached_property
    def elements(self) -> list[bytes]:
        """The elements that they declare."""
        try:
            return elements_of(self._texts[MEMORY]) if MEMORY in self._texts else []
        except ElementError:
            return []

    @cached_property
    def _new_elements(self) -> NewElements:
        return NewElements(self._home, self.elements)

    @cached_property
    def _standings(self) -> list[Standing]:
        """The needs of each of their runnable definitions, with the elements that they declare."""
        library, standings = self.loaded.library, list[Standing]()
        places, owned = self._home.places(self.elements), self._home.places()
        for one in self.definitions:
            if isinstance(one, RunDefinition):
                own = {need.text for need in needs_of(one, library, owned) if need.is_named}
                needs = [
                    msgspec.structs.replace(need, is_named=need.is_named and need.text in own)
                    for need in needs_of(one, library, places)
                ]
                standings.append(Standing(one, needs, Decision("asked")))
        return standings

    # --- faults ---------------------------------------------------------------------------------------------

    def _faults(self) -> list[Fault]:
        others = {name: text for name, text in self._texts.items() if name != MEMORY}
        faults = faults_beside(self._others, self._home.people, self._home.settings, others)
        if MEMORY in self._texts:
            with tempfile.TemporaryDirectory(prefix="narval-check-") as folder:
                (path := Path(folder) / MEMORY).write_text(self._texts[MEMORY], "utf-8", errors="replace")
                schemas, limits = self._home.snapshot.own.schemas, self._home.settings.own
                faults += read_memory(path, schemas, self.loaded.library, limits, shown=MEMORY)[1]
        return faults

    def _misfits(self, *, is_sound: bool) -> Iterator[Fault]:
        """The faults for existing definitions and elements of the home, and for those that a sound change
        removes: the changed definition, and others that are named.
        """
        there = {(one.kind, one.full_name): one for one in self._others.library}
        defined = set[tuple[str, str]]()
        for name, text in self._texts.items():
            if name == MEMORY:
                yield from self._new_elements.faults()
                continue
            with suppress(DefinitionError):
                for one in parse_file(Source.of_text(name, text)).definitions:
                    key = one.kind, one.full_name
                    if key in there:
                        what = f"there is {one.kind} {one.full_name} in {there[key].path} already"
                        yield Fault(name, one.line, 1, f"{what}; give this one another name")
                    if key in defined:
                        yield Fault(name, one.line, 1, f"{one.kind} {one.full_name} is there twice; drop one")
                    defined.add(key)
        if self._changed is not None and is_sound:
            yield from self._gone(next(iter(self._texts), ""), self._changed, defined)

    def _out_of_reach(self) -> Iterator[Fault]:
        """The faults of calls that cannot work in this home, with the elements that the texts declare."""
        hooks = (hook.element for hook in self._home.settings.hooks.values())
        there = (*self._home.places(self.elements).declared, *hooks)
        reach = OutOfReach(self._home.path, self.loaded.library, there)
        for one in self.definitions:
            if isinstance(one, RunDefinition):
                yield from reach.faults(one, _file(one.path))

    def _gone(self, name: str, changed: Form, defined: Container[tuple[str, str]]) -> Iterator[Fault]:
        """The faults of a text that replaces a file without some of its definitions."""
        library = self._home.loaded.library
        for one in library:
            what = f"expected {one.kind} {one.full_name}"
            if one.path != changed["path"] or (one.kind, one.full_name) in defined:
                continue
            if (one.kind, one.full_name) == (changed["kind"], changed["name"]):
                yield Fault(name, 1, 1, f"{what}, which is to be changed, found none")
            elif caller := _named_in(self._others.library, one, library):
                why = f"{caller.kind} {caller.full_name} in {caller.path} names it"
                yield Fault(name, 1, 1, f"{what}, for {why}, found it nowhere")

    # --- unnamed acts outside -------------------------------------------------------------------------------

    def _unnamed(self, wish: str) -> Iterator[str]:
        """The sentences on acts outside that neither the wish nor the owner's files name."""
        before = text_or_nothing(self._home.path / self._changed["path"]) if self._changed is not None else ""
        named = f"{wish}\n{self._home.written}\n{before}".lower()
        reached = list(_reached(self._standings))
        own = dict[str, str]()
        for name, sentence in chain(
            (fact for need, *fact in reached if need.what in GRAVEST),
            written_in(self._texts),
            (fact for need, *fact in reached if need.what not in GRAVEST),
        ):
            own.setdefault(name.lower(), sentence)
        for path in self._new_elements.paths():
            own.setdefault(path.lower(), f"Its elements have the path {path}, {UNNAMED}.")
        for name, sentence in chain(own.items(), self._reached_by_elements()):
            if not re.search(_WORD.format(re.escape(name.lower())), named):
                yield sentence

    def _reached_by_elements(self) -> Iterator[tuple[str, str]]:
        """The needs outside that the home's definitions get only from the new elements, with sentences."""
        if not self.elements:
            return
        library, owned = self._home.loaded.library, self._home.places()
        places = self._home.places(self.elements)
        needing = dict[tuple[str, str], dict[str, None]]()
        for one in library:
            if isinstance(one, RunDefinition):
                before = {need.text for need in needs_of(one, library, owned)}
                for need in needs_of(one, library, places):
                    if need.text not in before and need.what in OUTSIDE:
                        needing.setdefault((_named_by(need), need.text), {})[one.full_name] = None
        for (name, text), there in needing.items():
            what = f"{listed(there)}, {there_already(there)}, would need {text}"
            yield name, f"With its elements {what}, {UNNAMED}."


def _reached(standings: Iterable[Standing]) -> Iterator[tuple[Need, str, str]]:
    """The needs outside of definitions: with a name and a sentence each."""
    for need in (need for one in standings for need in one.needs):
        if need.is_outside and (sentence := _of_need(need)):
            yield need, _named_by(need), sentence


def _named_in(library: Library, definition: Definition, whole: Library) -> Definition | None:
    """A definition of a library that names another one of the whole library."""
    callers = (
        caller
        for caller in library
        for reference in caller.references
        if reference.target.endswith(definition.name) and named_by(reference, whole)[0] is definition
    )
    return next(callers, None)


def _of_need(need: Need) -> str:
    """The sentence on a need that nobody has named."""
    value = "that elements name while it runs" if "{" in need.value else need.value
    sentences = {
        "host": f"It reaches the host {value}, {UNNAMED}.",
        "folder": f"It reaches the folder {value}, {UNNAMED}.",
        "program": f"It runs the program {value}, {UNNAMED}.",
        "secret": f"It uses the secret {value}, {UNNAMED}.",
        "agent": f"It sends to the agent {value}, {UNNAMED}.",
        "anything": f"It calls {need.by or need.part}, which may reach anything: its code says no limits.",
    }
    return sentences[need.what]


def _named_by(need: Need) -> str:
    """The part of a need that a person would write: a host without its port, a folder without rights."""
    if need.what == "host":
        return re.sub(r":\d+$", "", need.value)
    if need.what == "folder":
        return need.value.rpartition(" ")[0] or need.value
    if need.what == "program":
        return PurePath(need.value).name
    return need.value or need.by or need.part


def _findings(definitions: Iterable[Definition], library: Library, until: float) -> Iterator[Form]:
    """The findings of exploring definitions until a time of the monotonic clock."""
    for one in definitions:
        if is_explorable(one):
            examined = examine(one, library, enough=lambda states: time.monotonic() > until)
            for finding in examined.findings:
                form = msgspec.to_builtins(finding)
                yield {"definition": one.full_name, **form, "path": _file(finding.path)}


def _need(standing: Standing, need: Need) -> Form:
    return {
        "definition": standing.definition.full_name,
        "kind": standing.definition.kind,
        "need": need.text,
        "outside": need.is_outside,
        "part": need.part,
        "code": need.by or None,
        "line": need.line,
    }


def _file(path: str) -> str:
    return PurePath(path).name if path else path


def _fault(message: str) -> Form:
    return {"path": "", "line": 1, "column": 1, "message": message, "warning": False}
