"""Every way in, with good examples of what comes there, and what may become of a bad one.

Each surface is a function that takes hostile input and returns; it raises what no input should bring about.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgpack
import msgspec
from elementpath import ElementPathError
from lxml import etree

from modules.feeds import reading as feeds_reading
from modules.mail import boxes as mail_boxes
from modules.mail import letters
from modules.mail.mailbox import Mailbox
from narval.ask.asker import Asker
from narval.ask.operations import OPERATIONS, invoke
from narval.calls.context import CallContext, Target
from narval.calls.conversion import answer_at_once
from narval.calls.record import Outcome
from narval.calls.workers import frames
from narval.core.elements.canonical import canonical, elements_of
from narval.core.elements.element import Element, Tree
from narval.core.engines.events import Failure, OutputElement
from narval.core.errors import ElementError, NarvalError, PatternError
from narval.core.patterns.budget import WorkError
from narval.core.patterns.pattern import condition
from narval.core.source.text import Source
from narval.daemon.daemon import Daemon
from narval.daemon.dropped import drop_folder
from narval.files.memory_file import read_memory
from narval.files.schemas import Schemas
from narval.files.settings import parse_settings
from narval.kinds.process.language import joinlang, rubric
from narval.surfaces.control import wire
from tests.core.definitions.test_hostile_files import (
    PROCESS,
    RECIPE,
    SHEET,
    TREE,
    all_have_places,
    read,
    read_tree,
)
from tests.fuzz.grammar import expression
from tests.fuzz.mutation import spoilt, text, value
from tests.kinds.process.language.writing import text_of_statement
from tests.places import ROOT

Try = Callable[[Random], None]


class Surface(NamedTuple):
    """A way in: what it is, and how one hostile input is tried on it."""

    about: str
    attempt: Try
    prepare: Callable[[Iterable[Random]], None] | None = None


AT_ONCE = 500
"""So many inputs are prepared together."""


def tried(name: str, first: int, count: int) -> int:
    """Try so many inputs on a surface. Raises AssertionError with the seed of the first that did harm."""
    surface = SURFACES[name]
    for seed in range(first, first + count):
        if surface.prepare is not None and (seed - first) % AT_ONCE == 0:
            surface.prepare(map(Random, range(seed, min(seed + AT_ONCE, first + count))))
        try:
            surface.attempt(Random(seed))
        except Exception as error:
            again = f"python -m tests.fuzz {name} --from {seed} --count 1"
            raise AssertionError(f"{type(error).__name__}: {error}; again: {again}") from error
    return count


def _has_place(line: int, column: int) -> None:
    assert line >= 1
    assert column >= 1


# --- what is read -----------------------------------------------------------------------------------------

ELEMENTS = (
    b"<mail from='a@example.org' n='1'>text &amp; more<part kind=\"x\"/><![CDATA[<>]]></mail>",
    b"<?xml version='1.0' encoding='latin-1'?><memory><a b='\xe9'/><!-- c --><?d e?><f/></memory>",
    b"<n:plan xmlns:n='http://www.logilab.org/namespaces/Narval/1.2' state='x'><n:step id='a'/></n:plan>",
    "<m é='ü'>𝄞</m>".encode("utf-16"),
)


def _element(chance: Random) -> None:
    data = spoilt(chance, ELEMENTS)
    try:
        kept = elements_of(data)
    except ElementError as error:
        _has_place(error.line, error.column)
        return
    for xml in kept:
        assert canonical(xml) == xml
        Tree(Element(1, xml))


def _definition(path: str, good: bytes) -> Try:
    def attempt(chance: Random) -> None:
        assert all_have_places(read(path, spoilt(chance, (good,))))

    return attempt


def _rubric(chance: Random) -> None:
    """A guard is a statement, or has slips within it."""
    text = spoilt(chance, (b"IF not a or (b and c) THEN Skip x ELSE DELAY UNTIL 5 business days before now",))
    written = text.decode("utf-8", "replace")
    found = rubric.parse(written)
    if (found.statement is None) is not bool(found.faults):
        raise AssertionError("expected a statement or slips")
    for slip in found.faults:
        _has_place(1, slip.at + 1)
    if found.statement is not None and rubric.parse(text_of_statement(found.statement)).faults:
        raise AssertionError("what was read cannot be written")


def _joinlang(chance: Random) -> None:
    """A join is a program, or has slips within it."""
    good = b'require node "a" when first or b require at least 2 arcs labelled default or require all arcs'
    found = joinlang.parse(spoilt(chance, (good,)).decode("utf-8", "replace"))
    if (found.join == ()) is not bool(found.faults):
        raise AssertionError("expected a join or slips")
    for slip in found.faults:
        _has_place(1, slip.at + 1)


def _module(chance: Random) -> None:
    assert all_have_places(read_tree(spoilt(chance, (TREE,))))


def _settings(chance: Random) -> None:
    good = (ROOT / "etc/narval.toml").read_bytes().replace(b"# ", b"")
    found, faults = parse_settings(Source("etc/narval.toml", spoilt(chance, (good, b"turn_limit = 3\n"))))
    assert (found is None) == bool(faults)
    assert all_have_places(faults)


def _memory_file(chance: Random) -> None:
    good = (ROOT / "data/memory.xml").read_bytes()
    with _file("memory.xml", spoilt(chance, (good, *ELEMENTS[:2]))) as path:
        elements, faults = read_memory(path, Schemas(None))
    assert elements is not None or faults
    assert all_have_places(faults)


def _dropped(chance: Random) -> None:
    with _file("dropped.xml", spoilt(chance, ELEMENTS)) as path:
        try:
            for xml in drop_folder.read(drop_folder.Claim(1, path.name, path))[0]:
                assert canonical(xml) == xml
        except ElementError as refusal:
            _has_place(refusal.line, refusal.column)


SCHEMA = b"""<element name="mail" xmlns="http://relaxng.org/ns/structure/1.0">
 <zeroOrMore><attribute><anyName/><text/></attribute></zeroOrMore><text/></element>"""
DTD = b"<!ELEMENT mail (#PCDATA|part)*><!ATTLIST mail n CDATA #REQUIRED><!ELEMENT part EMPTY>"


def _spoilt_schema(chance: Random) -> tuple[str, bytes]:
    name, good = chance.choice((("mail.rng", SCHEMA), ("mail.dtd", DTD)))
    return name, spoilt(chance, (good,))


def try_together(schemas: Iterable[tuple[str, bytes]]) -> None:
    """Have one child try all these schemas: the outcomes are remembered, and a child each costs most."""
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, data) in enumerate(schemas):
            Path(folder, f"n{number}{Path(name).suffix}").write_bytes(data)
        Schemas(Path(folder)).faults()


def _try_spoilt_schemas(chances: Iterable[Random]) -> None:
    try_together(map(_spoilt_schema, chances))


def _schema(chance: Random) -> None:
    with _file(*_spoilt_schema(chance)) as path:
        schemas = Schemas(path.parent)
        assert all_have_places(schemas.faults())
        refusal = schemas.refusal(b"<mail n='1'/>")
    assert refusal is None or refusal


PATTERNS = (
    b"email[@subject='Hi' and not(@list)]",
    b"mail[@n > 2 or count(part) = 3]/part[position() = last()]",
    b"plan[@state = ('failed', 'done')] | error[matches(@type, '^a+$')]",
    b"email[@in-reply-to = $ask/@message-id][some $x in part satisfies $x/@kind = 'x']",
    b"*[string-length(normalize-space(.)) * 2 >= number(@n)]",
)


def _pattern(chance: Random) -> None:
    try:
        found = condition(spoilt(chance, PATTERNS).decode("utf-8", "replace"))
        bound = found.bind({name: (Element(2, b"<x/>"),) for name in found.variables})
    except PatternError as error:
        _has_place(1, error.column)
        return
    for xml in (b"<mail n='3'><part kind='x'/></mail>", b"<error type='aaa'/>"):
        tree = Tree(Element(1, xml))
        if not bound.test(tree):
            bound.explain(tree)


TRIED = (
    b"<a n='3' x='b'><b n='1'>1</b><b x='y'>te xt<c/></b></a>",
    b"<b/>",
    b"<c xml:lang='de' n='-1.5'>2020-01-01</c>",
)
DYNAMIC = (ElementPathError, WorkError, ValueError, TypeError, ArithmeticError)
"""The errors of XPath 3.1 that depend on the values of an element, and explain themselves."""


def _expression(chance: Random) -> None:
    """Whatever is read is evaluated: by lxml without an error."""
    text = expression(chance)
    try:
        bound = condition(text).bind({"v": (Element(2, TRIED[0]),)})
    except PatternError as error:
        _has_place(1, error.column)
        return
    assert bound.keys is None or bound.sufficient is not None
    pattern, nodes = bound.patterns[0], bound.nodes()
    for xml in TRIED:
        tree = Tree(Element(1, xml))
        with contextlib.suppress(*(DYNAMIC if pattern.shape.xpath3 else ())):
            pattern.shape.truth(tree.context, **pattern.arguments(nodes))
        if not bound.test(tree):
            bound.explain(tree)


# --- what actions read ------------------------------------------------------------------------------------

MAILS = (
    b"""From: A <a@example.org>
To: b@example.org
Subject: =?utf-8?q?caf=C3=A9?=
Date: Mon, 1 Jan 2026 10:00:00 +0100
Message-ID: <1@example.org>
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/plain; charset=latin-1
Content-Transfer-Encoding: base64

aGVsbG8=
--b
Content-Type: text/html

<p>hi &eacute;</p>
--b--
""",
    b"From: x\nReferences: <a> <b>\nList-Id: <l>\nAuto-Submitted: auto-replied\n\nbody\n",
)


def _mail(chance: Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        box = Mailbox({"name": "demo", "account": "you"}, Path(folder))
        xml = mail_boxes.element_of(box, letters.Letter.bounded("1", "new/1", spoilt(chance, MAILS)))
    assert canonical(xml)


@cache
def _feeds() -> tuple[bytes, ...]:
    return tuple(path.read_bytes()[:20_000] for path in sorted((ROOT / "data/demo/feeds").iterdir()))


def _feed(chance: Random) -> None:
    with contextlib.suppress(feeds_reading.FeedError):
        for item in feeds_reading.items_of(spoilt(chance, _feeds()), "demo"):
            canonical(etree.tostring(item))


# --- what actions give back -------------------------------------------------------------------------------


class _HostileError(Exception):
    def __init__(self, chance: Random) -> None:
        super().__init__()
        self.chance = chance

    def __str__(self) -> str:
        return self._told()

    __repr__ = __str__

    def _told(self) -> str:
        if self.chance.random() < 0.5:
            raise ValueError("not even its text")
        return text(self.chance)


def _deep(chance: Random) -> etree._Element:
    root = node = etree.Element("a")
    for _ in range(chance.choice((10, 300, 3000))):
        node = etree.SubElement(node, "a")
    return root


def _things(chance: Random) -> Any:
    """What an action may give back, meant or not."""
    ways: tuple[Callable[[], Any], ...] = (
        lambda: spoilt(chance, ELEMENTS),
        lambda: spoilt(chance, ELEMENTS).decode("utf-8", "surrogateescape"),
        lambda: value(chance),
        lambda: _deep(chance),
        lambda: etree.Comment("no element"),
        lambda: (each for each in ("<a/>", "<b/>")),
        lambda: _HostileError(chance),
        lambda: Element(1, spoilt(chance, ELEMENTS)),
        lambda: "<a>" + "x" * chance.choice((10, 10**6)) + "</a>",
        lambda: type,
        lambda: b"<!DOCTYPE l [<!ENTITY a 'ha'>" + b"<!ENTITY b '&a;&a;&a;'>" + b"]><l>&b;</l>",
    )
    made = chance.choice(ways)()
    wrapped = chance.random()
    if wrapped < 0.2:
        return [made, *(chance.choice(ways)() for _ in range(chance.randrange(3)))]
    return {chance.choice(("out", "", 3, None)): made} if wrapped < 0.3 else made


def _answer(chance: Random) -> None:
    def act() -> Any:
        if chance.random() < 0.2:
            raise chance.choice(
                (_HostileError(chance), SystemExit(text(chance)), RecursionError(), MemoryError())
            )
        return _things(chance)

    outcome = answer_at_once(
        CallContext("1", 1, "s", target=Target(action="w.act", where="inline", function=act))
    )
    assert (outcome.problem is None) or not outcome.elements
    for raw in outcome.elements:
        assert canonical(raw.xml) == raw.xml


# --- what travels -----------------------------------------------------------------------------------------


def _frame(chance: Random) -> None:
    good = tuple(
        msgpack.packb([wire.REQUEST, number, name, {}, *asking])
        for number, name in enumerate(("status", "add", "why"))
        for asking in ([], [{"agent": "narval", "as": "ann", "session": "7"}])
    )
    body = spoilt(chance, good) if chance.random() < 0.7 else msgpack.packb(_fields(chance))
    try:
        asked = wire.request(body)
    except wire.WireError:
        return
    assert isinstance(asked.number, int)
    assert isinstance(asked.params, dict)
    assert all(isinstance(name, str) for name in (asked.method, asked.agent, asked.acting_as))


def _fields(chance: Random) -> list[Any]:
    return [_packable(value(chance)) for _ in range(chance.choice((3, 4, 4, 5)))]


def _packable(given: Any) -> Any:
    """The same without lone surrogates, which msgpack does not write."""
    if isinstance(given, str):
        return given.encode("utf-8", "replace").decode()
    if isinstance(given, list):
        return [_packable(each) for each in given]
    if isinstance(given, dict):
        return {_packable(key): _packable(each) for key, each in given.items()}
    return given


def _worker(chance: Random) -> None:
    said = (
        frames.pack(frames.Ready()),
        frames.pack(frames.Progressed("1", 1.0, None)),
        frames.pack(frames.Answered("1", Outcome([OutputElement(b"<a/>", "out")]))),
        frames.pack(frames.Answered("1", Outcome(problem=Failure("kind", "message", "detail")))),
    )
    reader = frames.FrameReader()
    with contextlib.suppress(frames.FrameError):
        for body in reader.feed(spoilt(chance, said)):
            message = frames.read_message(body)
            assert isinstance(message, msgspec.Struct)


WAITER = """<recipe group="w" name="note" start_step="a" end_step="b">
<step id="a" type="action" target="basic.nothing"/><step id="b" type="action" target="basic.nothing"/>
<transition id="t"><in idref="a"/><out idref="b"/><condition><match>mail[@n]</match></condition></transition>
</recipe>"""


_ASKED = ("run", "name")
"""What most operations cannot do without."""


class _Asked:
    """Any operation with any arguments, asked of one daemon in memory that must outlive them all."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.daemon = self.runner.run(Daemon.open(None))
        self.runner.run(self.daemon.reloader.load(ROOT / "modules/basic.py"))
        self.runner.run(self.daemon.reloader.load(WAITER))

    def __call__(self, chance: Random) -> None:
        names = [name for name in OPERATIONS if name not in ("stop", "log", "wait", "reload")]
        name = chance.choice(names) if chance.random() < 0.95 else text(chance)
        known = OPERATIONS[name].parameters if name in OPERATIONS else {}
        arguments = {
            key: self._argument(chance, key) for key in known if key in _ASKED or chance.random() < 0.3
        }
        if chance.random() < 0.1:
            arguments[text(chance)] = value(chance)
        for slow in ("wait", "timeout"):
            arguments.pop(slow, None)
        asker = Asker(text(chance), 0, "socket", agent=chance.choice(("", "", "narval", text(chance))))
        self.runner.run(self._ask(asker, name, arguments))

    def _argument(self, chance: Random, key: str) -> Any:
        """Mostly what might do for a parameter of that name, else anything."""
        runs = [*self.daemon.agent.runs, 1]
        likely: dict[str, Callable[[], Any]] = {
            "run": lambda: chance.choice(runs[-8:]),
            "context": lambda: chance.choice(runs[-8:]),
            "elements": lambda: [spoilt(chance, ELEMENTS) for _ in range(chance.choice((0, 1, 1, 2)))],
            "name": lambda: chance.choice(("w.note", "w.note", "go", text(chance))),
            "xpath": lambda: spoilt(chance, PATTERNS).decode("utf-8", "replace"),
            "state": lambda: chance.choice(("running", "done", text(chance))),
            "id": lambda: chance.choice(("a", "t", text(chance))),
            "step": lambda: chance.choice(("a", "b", text(chance))),
        }
        if key in likely and chance.random() < 0.8:
            return likely[key]()
        return value(chance)

    async def _ask(self, asker: Asker, name: str, arguments: dict[str, Any]) -> None:
        try:
            result = await invoke(self.daemon, asker, name, arguments)
            for part in wire.answer(1, result):
                assert part
        except NarvalError as error:
            wire.frame(wire.REPLY, 1, wire.error_form(error), None)
        await self.daemon.main_loop.until_idle()


@cache
def _asked() -> _Asked:
    return _Asked()


def _operation(chance: Random) -> None:
    _asked()(chance)


@contextlib.contextmanager
def _file(name: str, data: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(data)
        yield path


SURFACES: dict[str, Surface] = {
    "element": Surface("an element from outside: `narval add`, the socket, a mail's", _element),
    "recipe": Surface("a file in recipes/", _definition("recipes/mail.xml", RECIPE)),
    "process": Surface("a process in recipes/", _definition("recipes/shop.wf.xml", PROCESS)),
    "rubric": Surface("a guard", _rubric),
    "joinlang": Surface("a join", _joinlang),
    "transform": Surface("a stylesheet in recipes/", _definition("recipes/mail.page.xsl", SHEET)),
    "module": Surface("the MODULE_XML of a module", _module),
    "settings": Surface("etc/narval.toml", _settings),
    "memory": Surface("data/memory.xml", _memory_file),
    "inbox": Surface("a file dropped into inbox/", _dropped),
    "schema": Surface("a file in etc/schemas/", _schema, _try_spoilt_schemas),
    "pattern": Surface("an XPath pattern, tried on elements and explained", _pattern),
    "expression": Surface("an XPath expression from a grammar, tried on elements and explained", _expression),
    "mail": Surface("a mail in a mailbox", _mail),
    "feed": Surface("a feed", _feed),
    "answer": Surface("what an action gives back, or raises", _answer),
    "frame": Surface("a frame at the control socket", _frame),
    "operation": Surface("any operation with any arguments", _operation),
    "worker": Surface("frames from a worker", _worker),
}
