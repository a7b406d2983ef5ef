"""Judging definitions that nobody accepted yet: faults, what they do in words, what they may come to, what
they need, and where they would act outside in ways that nobody has named.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePath

import msgspec

from narval.ask.definitions.checking import check_texts, faults_beside
from narval.ask.definitions.telling import told
from narval.ask.json_forms import fault as form_of
from narval.core.definitions.library import Definition, Library, RunDefinition, named_by
from narval.core.definitions.people.directory import Directory
from narval.core.elements.canonical import elements_of
from narval.core.elements.element import Element, identity
from narval.core.errors import DefinitionError, ElementError, Fault, RequestError
from narval.core.source.text import Source
from narval.core.source.xml import read_xml
from narval.core.trust.grants import Decision, Grant
from narval.core.trust.needs import OUTSIDE, Need, needs_of
from narval.files.agents.collections import parse_file
from narval.files.found_files import RECIPES
from narval.files.grants import Standing, named_places
from narval.files.home import Home
from narval.files.loaded import Loaded
from narval.files.memory_file import SHOWN as DECLARED
from narval.files.memory_file import read_memory
from narval.files.people_file import PEOPLE_FILE, read_people
from narval.files.proposals.folder import MEMORY, Form
from narval.files.reading import Reading
from narval.files.settings import FILE, Settings
from narval.files.snapshot import Snapshot
from narval.files.trust_file import TRUST_FILE
from narval.trials.explore.findings import examine, is_explorable

SECONDS = 5.0
"""The time for exploring all definitions of a proposal."""

MOST_FAULTS = 100
"""The most faults that are kept of one proposal."""

_ADDRESS = re.compile(r"[\w.+-]+@(?:[\w-]+\.)*[\w-]+|[\w.+-]+@(?=['\"])")
_PLACE = re.compile(r"\w+://(?:[^/?#@\s]*@)?(\[[^\]]*\]|[^/?#:\s'\"{}]+)")
_MADE = re.compile(r"['\"][^'\"@]*@[^'\"]*['\"]")
_WORD = r"(?<![\w.@+-]){}(?![\w@-]|\.\w)"


class Judgement(msgspec.Struct, frozen=True):
    """All that is known of the texts of a proposal, without running them."""

    faults: list[Form]
    """All faults, and warnings; with none but warnings the rest is known."""
    sentences: list[Form] = msgspec.field(name="told", default_factory=list)
    """The sentences that say what they do."""
    findings: list[Form] = []
    """The findings of exploring them."""
    needs: list[Form] = []
    """The needs of each definition, outside of the home and within."""
    unnamed: list[str] = []
    """The sentences on what they would do outside in ways that neither the wish nor the settings name."""
    is_explored: bool = msgspec.field(name="explored", default=True)
    """False if the time ended the exploring before there was nothing new."""

    @property
    def is_sound(self) -> bool:
        """True if nothing is wrong but what warnings tell."""
        return all(fault["warning"] for fault in self.faults)

    @property
    def impossible(self) -> list[Form]:
        """The findings that prove that something cannot be."""
        return [finding for finding in self.findings if finding["severity"] == "error"]

    @property
    def first_fault(self) -> str:
        """The first fault that is no warning, with its place. One is there unless it is sound."""
        first = next(fault for fault in self.faults if not fault["warning"])
        place = f"{first['path']}:{first['line']}:{first['column']}: " if first["path"] else ""
        return f"{place}{first['message']}"

    @property
    def outside(self) -> list[str]:
        """The needs outside of the home."""
        return list(dict.fromkeys(need["need"] for need in self.needs if need["outside"]))


class HomeAsRead:
    """The files of a home at one moment, beside which texts are judged that are not among them."""

    def __init__(self, path: Path, settings: Settings, snapshot: Snapshot, people: Directory | None) -> None:
        self.path, self.settings, self.snapshot, self.people = path, settings, snapshot, people

    @classmethod
    def of(cls, home: Home) -> HomeAsRead:
        """The files of a home as they are, read now. Raises SettingsError."""
        settings, (people, _) = Settings.load(home.path), read_people(home.path)
        snapshot = Reading(home.path).snapshot(settings, people or Directory())
        return cls(home.path, settings, snapshot, people)

    @property
    def loaded(self) -> Loaded:
        """The definitions that are loaded for the home's own agent."""
        return self.snapshot.own.loaded

    @cached_property
    def written(self) -> str:
        """All that the owner has written about places and people: settings, rules, declared elements."""
        return "\n".join(_read(self.path / name) for name in (FILE, PEOPLE_FILE, TRUST_FILE, DECLARED))

    def judge(
        self,
        texts: Mapping[str, str],
        wish: str = "",
        changed: Form | None = None,
        *,
        seconds: float | None = None,
    ) -> Judgement:
        """Judge texts by the name of their file, as if they were added to the home; `changed` is the
        definition (`name`, `kind`, `path`) whose file one of them takes the place of. Exploring takes so many
        `seconds` at most, usually SECONDS; with 0 nothing is explored.
        """
        try:
            check_texts(dict(texts))
        except RequestError as error:
            return Judgement([_fault("", str(error))])
        faults = self._faults(texts, changed)
        is_sound = all(fault.warning for fault in faults)
        faults = sorted({*faults, *self._misfits(texts, changed, is_sound=is_sound)})
        if any(not fault.warning for fault in faults):
            return Judgement([{**form_of(one), "warning": one.warning} for one in faults[:MOST_FAULTS]])
        loaded, definitions = self.added(texts, changed)
        library, until = loaded.library, time.monotonic() + (SECONDS if seconds is None else seconds)
        findings = list(_findings(definitions, library, until)) if seconds != 0 else []
        is_explored = seconds != 0 and time.monotonic() < until
        return Judgement(
            faults=[{**form_of(one), "warning": one.warning} for one in faults[:MOST_FAULTS]],
            sentences=[
                {**row, "file": _file(row["file"])} for one in definitions for row in told(one, library)
            ],
            findings=findings,
            needs=[
                _need(one, need) for one in self.standings(loaded, definitions, texts) for need in one.needs
            ],
            unnamed=list(self._unnamed(loaded, definitions, texts, wish, changed)),
            is_explored=is_explored,
        )

    def added(self, texts: Mapping[str, str], changed: Form | None = None) -> tuple[Loaded, list[Definition]]:
        """All that is loaded with texts added that have no faults, and the definitions of these."""
        place = "" if changed is None else str(changed["path"])
        paths = {
            place if _file(place) == name else f"{RECIPES}/{name}": text
            for name, text in texts.items()
            if name != MEMORY
        }
        sources = [Source.of_text(path, text) for path, text in paths.items()]
        loaded, faulty = self._others(changed).with_fitting(sources)
        added = [path for path in paths if path not in faulty]
        return loaded, [one for path in added for one in loaded.library if one.path == path]

    def grants(self, texts: Mapping[str, str], changed: Form | None, by: str, at: float) -> dict[str, Grant]:
        """The grants of what the definitions of texts need outside, by the names of their tables, as somebody
        gives them at a moment (seconds since 1970).
        """
        loaded, definitions = self.added(texts, changed)
        return {
            one.table: one.grant(loaded.library, by, at)
            for one in self.standings(loaded, definitions, texts)
            if any(need.is_outside for need in one.needs)
        }

    def _others(self, changed: Form | None) -> Loaded:
        """All that is loaded, without the file that is changed."""
        without = [changed["path"]] if changed is not None else []
        return msgspec.structs.replace(self.loaded, library=self.loaded.library.replace((), without=without))

    def standings(
        self, loaded: Loaded, definitions: Iterable[Definition], texts: Mapping[str, str]
    ) -> Iterator[Standing]:
        """The needs of each definition of a proposal that can be run, with the elements that it declares."""
        declared = [*(self.snapshot.own.declared or ()), *_elements(texts)]
        places = named_places(msgspec.structs.replace(self.snapshot.own, declared=declared), self.settings)
        owned = named_places(self.snapshot.own, self.settings)
        for one in definitions:
            if isinstance(one, RunDefinition):
                own = {need.text for need in needs_of(one, loaded.library, owned) if need.is_named}
                needs = [
                    msgspec.structs.replace(need, is_named=need.is_named and need.text in own)
                    for need in needs_of(one, loaded.library, places)
                ]
                yield Standing(one, needs, Decision("asked"))

    # --- faults ---------------------------------------------------------------------------------------------

    def _faults(self, texts: Mapping[str, str], changed: Form | None) -> list[Fault]:
        others = {name: text for name, text in texts.items() if name != MEMORY}
        faults = faults_beside(self._others(changed), self.people, others)
        if MEMORY in texts:
            with tempfile.TemporaryDirectory(prefix="narval-check-") as folder:
                (path := Path(folder) / MEMORY).write_text(texts[MEMORY], "utf-8", errors="replace")
                own, library = self.snapshot.own, self.added(texts, changed)[0].library
                faults += read_memory(path, own.schemas, library, self.settings.own, shown=MEMORY)[1]
        return faults

    def _misfits(self, texts: Mapping[str, str], changed: Form | None, *, is_sound: bool) -> Iterator[Fault]:
        """The faults of definitions and elements that the home has already, and of those that a sound change
        takes away: the one that is changed, and others that are named.
        """
        there = {(one.kind, one.full_name): one for one in self._others(changed).library}
        defined = set[tuple[str, str]]()
        for name, text in texts.items():
            if name == MEMORY:
                yield from self._declared_already(text)
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
        if changed is not None and is_sound:
            yield from self._gone(next(iter(texts), ""), changed, defined)

    def _gone(self, name: str, changed: Form, defined: Container[tuple[str, str]]) -> Iterator[Fault]:
        """The faults of a text that takes the place of a file without some of its definitions."""
        library, others = self.loaded.library, self._others(changed).library
        for one in library:
            what = f"expected {one.kind} {one.full_name}"
            if one.path != changed["path"] or (one.kind, one.full_name) in defined:
                continue
            if (one.kind, one.full_name) == (changed["kind"], changed["name"]):
                yield Fault(name, 1, 1, f"{what}, which is to be changed, found it nowhere")
            elif caller := _named_in(others, one, library):
                why = f"{caller.kind} {caller.full_name} in {caller.path} names it"
                yield Fault(name, 1, 1, f"{what}, for {why}, found it nowhere")

    def _declared_already(self, text: str) -> Iterator[Fault]:
        identities = {identity(Element(0, xml)) for xml in self.snapshot.own.declared or ()} - {None}
        for xml in _elements({MEMORY: text}):
            element = Element(0, xml)
            if identity(element) in identities or xml in (self.snapshot.own.declared or ()):
                what = f"{DECLARED} has {xml.decode('utf-8', 'replace')[:80]} already, or another of its name"
                yield Fault(MEMORY, 1, 1, f"{what}; leave it out, or give it another name")

    # --- what nobody named ----------------------------------------------------------------------------------

    def _unnamed(
        self,
        loaded: Loaded,
        definitions: Iterable[Definition],
        texts: Mapping[str, str],
        wish: str,
        changed: Form | None,
    ) -> Iterator[str]:
        """The sentences on acts outside in ways that neither the wish nor the owner's files name."""
        before = _read(self.path / changed["path"]) if changed is not None else ""
        named = f"{wish}\n{self.written}\n{before}".lower()
        seen = set[str]()

        def is_new(value: str) -> bool:
            is_unnamed = not re.search(_WORD.format(re.escape(value.lower())), named)
            is_first = value.lower() not in seen
            seen.add(value.lower())
            return is_unnamed and is_first

        for value in _values(texts):
            for address in _ADDRESS.findall(value):
                if is_new(address):
                    yield f"It has the address {address}, which neither the wish nor the settings name."
            if not _ADDRESS.search(value) and (part := _MADE.search(value)) and is_new(part[0]):
                yield f"It makes addresses while it runs: {value:.80}"
            for host in _PLACE.findall(value):
                if is_new(host):
                    yield f"It has an address at {host}, which neither the wish nor the settings name."
        for one, need in self._reached_by_elements(texts):
            if is_new(_named_by(need)):
                what = f"{one.full_name}, which is there already, would need {need.text}"
                yield f"With its elements {what}, which neither the wish nor the settings name."
        needs = [need for one in self.standings(loaded, definitions, texts) for need in one.needs]
        for need in needs:
            if need.is_outside and (sentence := _of_need(need)) and is_new(_named_by(need)):
                yield sentence

    def _reached_by_elements(self, texts: Mapping[str, str]) -> Iterator[tuple[Definition, Need]]:
        """The needs outside that definitions of the home would have by the elements of a proposal alone."""
        if not (elements := _elements(texts)):
            return
        declared = [*(self.snapshot.own.declared or ()), *elements]
        places = named_places(msgspec.structs.replace(self.snapshot.own, declared=declared), self.settings)
        owned = named_places(self.snapshot.own, self.settings)
        for one in self.loaded.library:
            if isinstance(one, RunDefinition):
                before = {need.text for need in needs_of(one, self.loaded.library, owned)}
                for need in needs_of(one, self.loaded.library, places):
                    if need.text not in before and need.what in OUTSIDE:
                        yield one, need


def _named_in(library: Library, definition: Definition, whole: Library) -> Definition | None:
    """A definition of a library that names another one, of the whole."""
    callers = (
        caller
        for caller in library
        for reference in caller.references
        if reference.target.endswith(definition.name) and named_by(reference, whole)[0] is definition
    )
    return next(callers, None)


def _of_need(need: Need) -> str:
    """The sentence on a need that nobody has named."""
    value = need.value
    sentences = {
        "host": f"It reaches the host {value}, which neither the wish nor the settings name.",
        "folder": f"It reaches the folder {value}, which neither the wish nor the settings name.",
        "program": f"It runs the program {value}, which neither the wish nor the settings name.",
        "secret": f"It uses the secret {value}, which neither the wish nor the settings name.",
        "agent": f"It sends to the agent {value}, which neither the wish nor the settings name.",
        "anything": f"It calls {need.by or need.part}, which may reach anything: its code says no limits.",
    }
    return sentences[need.what]


def _named_by(need: Need) -> str:
    """The part of a need that a person would name: a host without its port, a folder without rights."""
    if need.what == "host":
        return re.sub(r":\d+$", "", need.value)
    if need.what == "folder":
        return need.value.rpartition(" ")[0] or need.value
    if need.what == "program":
        return PurePath(need.value).name
    return need.value or need.by or need.part


def _values(texts: Mapping[str, str]) -> Iterator[str]:
    """All attributes and texts of XML, as they are read, and other texts as they are."""
    for name, text in texts.items():
        try:
            root = read_xml(Source.of_text(name, text))
        except DefinitionError:
            yield text
            continue
        for node in root.walk():
            yield from node.attributes.values()
            yield node.text


def _findings(definitions: Iterable[Definition], library: Library, until: float) -> Iterator[Form]:
    """The findings of exploring definitions until a moment of the monotonic clock."""
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


def _elements(texts: Mapping[str, str]) -> list[bytes]:
    """The elements that a proposal declares."""
    try:
        return elements_of(texts[MEMORY].encode("utf-8", "replace")) if MEMORY in texts else []
    except ElementError:
        return []


def _fault(file: str, message: str) -> Form:
    return {"path": file, "line": 1, "column": 1, "message": message, "warning": False}


def _file(path: str) -> str:
    return PurePath(path).name if path else path


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
