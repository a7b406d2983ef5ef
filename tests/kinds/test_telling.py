"""The telling of definitions: whatever is changed in one is told (D1, D2)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from lxml import etree

from narval.core.definitions.library import Definition, Library
from narval.core.definitions.parsing import compose
from narval.core.definitions.reading.vocabulary import Words
from narval.core.definitions.telling.sentence import tell
from narval.core.elements.element import local_name
from narval.core.errors import NarvalError
from narval.core.kinds import KINDS
from narval.core.source.text import Source
from narval.files.agents.collections import parse_file
from narval.files.reading import load
from narval.kinds.recipe.language.definition import Recipe

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
SHIPPED = sorted(
    file
    for pattern in ("recipes/*", "recipes/examples/*", "agents/*/recipes/*")
    for file in REPOSITORY.glob(pattern)
    if file.suffix in (".xml", ".task", ".plan", ".xsl")
)
SPECIMENS = sorted((HERE / "specimens").iterdir())

Told = dict[tuple[str, str], tuple[str, object, list[tuple[int, str]]]]
"""The digest of definitions, the order of their ways, and their sentences, by kind and name."""

UNTOLD = {
    **{("process", word, place): "the editor's" for word in ("node", "external") for place in "xy"},
    ("recipe", "cookbook", "name"): "a name for people",
    ("recipe", "recipe", "group"): "it is that of the cookbook",
    ("recipe", "transition", "id"): "no other part has it",
    ("recipe", "recipe", "start_step"): "alone it is a fault: a step is never reached",
    ("automaton", "state", "name"): "alone it is a fault: transitions name it",
    ("recipe", "step", "id"): "alone it is a fault: transitions name it",
    **{
        ("recipe", word, name): "a step does not tighten it"
        for word, name in (
            ("input", "newest"),
            ("output", "unique"),
            ("output", "replaces"),
            ("output", "own"),
        )
    },
}
"""Attributes whose change is not told, and why."""

DEFAULTS = {"no", "false", "once", "retry", "eligible", "closed", "or", "string", "rubric"}
"""Values that say what is so without them."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    loaded = load(tmp_path_factory.mktemp("home"))
    references = [reference for file in SHIPPED for reference in parse_file(_read(file)).references]
    return loaded.with_shipped(references).library


def _read(file: Path, data: bytes | None = None) -> Source:
    return Source(str(file), file.read_bytes() if data is None else data)


def _told(library: Library, file: Path, data: bytes | None = None) -> Told | None:
    """What is told of a file, as it is or with other contents; None of one with faults."""
    try:
        parsed = parse_file(_read(file, data))
    except NarvalError:
        return None
    if parsed.faults:
        return None
    whole, _ = compose(library.replace(parsed.definitions))
    told = Told()
    for key in ((one.kind, one.full_name) for one in parsed.definitions):
        definition = whole.get(*key)
        assert definition is not None
        sentences = [(sentence.depth, sentence.text) for sentence in tell(definition, whole)]
        told[key] = *_behaviour(definition), sentences
    return told


def _behaviour(definition: Definition) -> tuple[str, object]:
    """What makes two versions of a definition different in what they do: of priorities, the order alone."""
    if not isinstance(definition, Recipe):
        return definition.digest, None
    xml = re.sub(rb' priority="-?[0-9]+"', b"", definition.xml)
    return hashlib.sha256(xml).hexdigest(), [
        [way.id for way in step.outs] for step in definition.steps.values()
    ]


def _is_told(before: Told, after: Told) -> bool:
    """True if nothing has changed, or if what has changed is told."""
    changed = [key for key in before if key in after and before[key][:2] != after[key][:2]]
    return (
        before.keys() != after.keys()
        or not changed
        or any(before[key][2] != after[key][2] for key in changed)
    )


# --- each attribute ---------------------------------------------------------------------------------------


_TURNED = {
    "yes": "no", "no": "yes", "true": "false", "false": "true", "memory": "plan", "plan": "memory",
    "text": "digest",
    "retry": "error", "error": "retry", "parallel": "yes", "once": "skip", "skip": "once", "eligible": "no",
    "closed": "open", "open": "closed", "and": "or", "or": "and", "digest": "text", "requester": "step:other",
    "string": "text", "decimal": "integer", "rubric": "xpath", "xpath": "rubric", "taken": "",
}  # fmt: skip


def _others(value: str, alike: list[str]) -> Iterator[str]:
    """Other values that an attribute might have."""
    if value in _TURNED:
        yield _TURNED[value]
    if number := re.search(r"\d+", value):
        yield value.replace(number[0], str(int(number[0]) + 1), 1)
        yield value.replace(number[0], str(max(int(number[0]) - 1, 1)), 1)
    yield from (other for other in alike if other != value)
    yield from (f"{value}x", f"{value}/x", value.rpartition(" ")[0])


def _mutants(root: etree._Element, words: Words) -> Iterator[tuple[str, str, Iterator[bytes]]]:
    """The texts of a file with one attribute taken away or changed, with the word and the attribute."""
    for node in list(root.iter("*")):
        word = local_name(str(node.tag)) or str(node.tag)
        if word not in words or word == "description" or _is_foreign(node):
            continue
        for written, value in list(node.attrib.items()):
            name = words[word].attribute_named(str(written))
            if name is not None:
                before = dict(node.attrib)
                yield word, name, _altered(root, node, str(written), str(value))
                node.attrib.clear()
                node.attrib.update(before)
        yield word, "its text", _rewritten(root, node)
        yield word, "itself", _without(root, node)


def _rewritten(root: etree._Element, node: etree._Element) -> Iterator[bytes]:
    """The texts of a file with another text of an element, and other values within one of any words."""
    for inner in node.iter("*"):
        if inner is not node and (node.tag not in ("arguments", "custom") or not len(node)):
            return
        text = inner.text or ""
        for other in (f"{text.rstrip()} x", f"{text.rstrip()}[x]") if text.strip() else ():
            inner.text = other
            yield etree.tostring(root)
        inner.text = text
        for name, value in inner.attrib.items() if inner is not node else ():
            inner.set(name, f"{value}x")
            yield etree.tostring(root)
            inner.set(name, value)


def _without(root: etree._Element, node: etree._Element) -> Iterator[bytes]:
    """The text of a file without an element."""
    above = node.getparent()
    if above is not None:
        at = above.index(node)
        above.remove(node)
        yield etree.tostring(root)
        above.insert(at, node)


def _altered(root: etree._Element, node: etree._Element, name: str, value: str) -> Iterator[bytes]:
    alike = [str(other.get(name)) for other in root.iter(str(node.tag)) if other.get(name)]
    if value not in DEFAULTS:
        del node.attrib[name]
        yield etree.tostring(root)
    for other in dict.fromkeys(_others(value, alike)):
        if other != value:
            node.set(name, other)
            yield etree.tostring(root)


def _is_foreign(node: etree._Element) -> bool:
    """True of a node within what another kind or nobody has words for, or a process that is imported."""
    above = [local_name(str(one.tag)) or str(one.tag) for one in node.iterancestors()]
    inner = local_name(str(node.tag)) == "process-definition" and above
    return (
        bool(inner)
        or above.count("process-definition") > 1
        or any(word in ("arguments", "custom") or (word == "work" and above[-1] != "work") for word in above)
    )


def _kind_of(file: Path) -> str:
    root = etree.QName(etree.parse(file).getroot()).localname
    return {"cookbook": "recipe", "process-definition": "process"}.get(root, root)


XML = [file for file in (*SPECIMENS, *SHIPPED) if file.suffix == ".xml"]
XML_KINDS = ("recipe", "automaton", "process", "work")


@pytest.mark.parametrize("kind", XML_KINDS)
def test_D2_a_change_of_any_attribute_or_element_is_told(library: Library, kind: str) -> None:
    words: Words = import_module(f"{KINDS[kind].language}.vocabulary").WORDS
    held: set[tuple[str, str]] = set()
    untold: list[str] = []
    for file in (file for file in XML if _kind_of(file) == kind):
        before = _told(library, file)
        assert before is not None, file
        for word, name, texts in _mutants(etree.parse(file).getroot(), words):
            if ((word, name) in held and file not in SPECIMENS) or (kind, word, name) in UNTOLD:
                continue
            told = 0
            for data in texts:
                if told == ENOUGH or (after := _told(library, file, data)) is None:
                    continue
                told += 1
                held.add((word, name))
                if not _is_told(before, after):
                    untold.append(f"{file.name}: {word} {name}: {_difference(file, data)}")
    assert not untold, "\n".join(untold)
    every = {(word, name) for word in _written(words, kind) for name in words[word].attributes}
    assert {(word, name) for word, name in every - held if (kind, word, name) not in UNTOLD} == set()


def _written(words: Words, kind: str) -> set[str]:
    """The words that definitions of a kind may have, but for what their authors say."""
    line = [local_name(root) or root for root in KINDS[kind].roots if root in words]
    for word in line:
        line += [child for child in words[word].children or () if child in words and child not in line]
    return {word for word in line if word != "description" and not words[word].foreign}


ENOUGH = 2
"""So many changes of an attribute are looked at."""


def _difference(file: Path, data: bytes) -> str:
    """The node that was changed, before and after."""
    pairs = zip(etree.parse(file).iter("*"), etree.fromstring(data).iter("*"), strict=False)
    shown = ((old.tag, old.attrib, old.text, new.tag, new.attrib, new.text) for old, new in pairs)
    return next((f"{one[:3]} {one[3:]}" for one in shown if one[:3] != one[3:]), "")


# --- kinds that are written as text -----------------------------------------------------------------------


_TOKENS = re.compile(r"/\*.*?\*/|//[^\n]*|\"[^\"]*\"|[\w.-]+|==|!=|<=|>=|[<>]", re.DOTALL)
_WORDS = {
    "MANUAL": "AUTO", "AUTO": "MANUAL", "EXPOSED": "INTERNAL", "SYNC": "ASYNC", "ASYNC": "SYNC",
    "WITHIN": "AFTER", "AFTER": "WITHIN", "AND": "OR", "OR": "AND", "HRS": "MINS", "MINS": "HRS", "==": "!=",
    "<": ">", ">": "<", "USERS": "ROLES", "ROLES": "USERS", "ABSOLUTE": "RELATIVE", "exec": "launch",
    "FORWARD": "ABORT", "COMMIT": "FORWARD", "ABORT": "FORWARD", "PERIODIC": "AUTO", "EVERY": "",
    "WAIT": "ENABLE", "ENABLE": "WAIT", "STARTED": "ENABLE", "String": "Number", "Number": "String",
}  # fmt: skip


def _rewordings(text: str) -> Iterator[tuple[str, str]]:
    """The texts of a file with a word changed or left out, each with the word; comments stay."""
    for found in _TOKENS.finditer(text):
        token = found[0]
        if token.startswith(("/*", "//")):
            continue
        others = [_WORDS.get(token, ""), f"{token[:-1]}x{chr(34)}" if token[0] == chr(34) else f"{token}x"]
        others += [str(int(token) + 1)] if token.isdecimal() else []
        for other in others:
            yield token, f"{text[: found.start()]}{other}{text[found.end() :]}"


TEXTS = [file for file in SPECIMENS if file.suffix in (".task", ".plan")]


@pytest.mark.parametrize("file", TEXTS, ids=lambda file: file.name)
def test_D2_a_change_of_any_word_is_told(library: Library, file: Path) -> None:
    before, untold = _told(library, file), []
    assert before is not None
    for word, text in _rewordings(file.read_text()):
        after = _told(library, file, text.encode())
        if after is not None and not _is_told(before, after):
            untold.append(word)
    assert not untold


# --- wrong changes of what ships --------------------------------------------------------------------------


WRONG = [
    ("recipes/mail.xml", '<condition use="yes"><match>email', "<condition><match>email",
     'When there is an email that has "mailbox" and that has no "kind", it goes on with "judge".'),
    ("recipes/mail.xml", "email[@mailbox and not(@kind)]", "email[@mailbox]",
     'When there is an email that has "mailbox", which no run has taken here before, it goes on with '
     '"judge".'),
    ("recipes/mail.xml", ' approve="mail.ask"', "", ""),
    ("recipes/mail.xml", 'id="doubted" priority="2"', 'id="doubted"',
     'When there is an email whose kind is "ack" and whose message-id is the message-id of "answer", it '
     'goes on with '
     '"send".'),
    ("recipes/mail.xml", 'as="html"', 'as="text"',
     'It is given a target (path: "var/digest.html"; as: "text").'),
    ("recipes/mail.xml", 'name="digest" start_step="listen" end_step="save" restart="yes"',
     'name="digest" start_step="listen" end_step="save" restart="no"',
     "It begins when a person or a program starts it."),
    ("recipes/mail.xml", '<in idref="offer" on-error="yes"/>', '<in idref="offer"/>',
     "If a step fails, the run has failed."),
    ("recipes/notify.xml", "not(starts-with(@name, 'notify.'))", "starts-with(@name, 'notify.')",
     'When there is a failure that has "run" and whose name begins with "notify.", which no run has '
     'taken here '
     'before, it goes on with "note".'),
    ("recipes/notify.xml", 'retries="12"', 'retries="1"',
     "If it fails, it is tried once more, first after 30 seconds, then after ever longer."),
    ("recipes/backup.xml", 'max-visits="3"', "", ""),
    ("recipes/backup.xml", 'timeout="14400" retries="2"', 'timeout="1440" retries="2"',
     "It may take 24 minutes; then it has failed."),
    ("recipes/backup.xml", '<transition from="verify" label="1" to="archive">',
     '<transition from="verify" label="1" to="name">',
     'When it has ended with 1, "name" follows.'),
    ("recipes/examples/month.xml", 'monthdays="-1"', 'monthdays="1"',
     'At 18:00 on the 1st day of the month, it goes on with "remind".'),
    ("recipes/examples/briefing.xml", 'list="yes" use="yes"', 'use="yes"',
     'There is an email that has "mailbox" and that has no "list", which no run has taken here before '
     '(called "mails" '
     "from then on)."),
    ("recipes/examples/invoice.xml", 'every="7d"', 'every="7h"', None),
    ("recipes/examples/invoice.xml", 'after="1d 9h"', 'before="1d 9h"',
     '1 day 9 hours before the due of "invoice", it goes on with "remind".'),
    ("recipes/examples/vacation.xml", '<condition absent="yes">', "<condition>",
     'There is an email whose kind is "ack", for which `contains(., $vacation/@until)` holds and whose '
     'to is the from '
     'of "mail" or the return-path of "mail".'),
    ("recipes/examples/vacation.xml", 'restart="yes"', 'restart="parallel"',
     "It begins when it is started. As soon as a run has left its first step, another begins beside it."),
    ("recipes/examples/approval.xml", 'to="{$request/@deputy}"', 'to="{$request/@approver}"', None),
    ("recipes/examples/reminder.xml", ' priority="1"', "",
     'At the start of "event", it goes on with "end".'),
    ("recipes/examples/purchase.xml", 'not="requester" requester', "requester",
     'As those who asked for it count the by of "request" too.'),
    ("recipes/examples/purchase.xml", 'needs="2"', 'needs="3"',
     '"approve" counts when 3 different people have answered so.'),
    ("recipes/examples/purchase.xml", '<deadline after="5d" outcome="reject">',
     '<deadline after="5d" outcome="approve">',
     'If no person has answered after 5 days, the answer is "approve" '
     '("comment": "nobody answered in time").'),
    ("recipes/examples/purchase.xml", "asks for it.</description>", "needs it.</description>",
     'Below it: "{the by of "request"} needs it."'),
    ("recipes/examples/purchase.xml", "[amount > 1000]", "[amount > 10000]",
     'When there is a request whose outcome, if there is one, is not "drop" and in which an amount is '
     'more than 10000, '
     'which no run has taken here before, it goes on with "ask-two".'),
    ("recipes/examples/purchase.process.xml", '<arc to="change" name="reject"/>',
     '<arc to="order" name="reject"/>',
     'When it ends with "reject", it goes on with "order".'),
    ("recipes/orders.xml", ' joinType="and"', "", ""),
    ("recipes/examples/bank.task", "INVOCATION: MANUAL", "INVOCATION: AUTO",
     "One begins by itself when an object has come, and another when it is done."),
    ("recipes/examples/bank.task", "WITHIN 72 HRS", "WITHIN 7 HRS", None),
    ("recipes/examples/bank.task", "ON EVENT forged GOTO ABORT", "ON EVENT forged GOTO COMMIT",
     'On "forged" it goes to "COMMIT": all is done, and the object\'s way is over.'),
    ("recipes/examples/flats.plan", "price < was_price", "price > was_price",
     '`join` makes "fallen" from `"link = link AND price > was_price"`, "changed" and "changed".'),
]  # fmt: skip
"""A file, a wrong change of it, and the sentence told then: "" where one is gone, None where it is long."""


@pytest.mark.parametrize(("file", "old", "new", "sentence"), WRONG)
def test_D2_a_wrong_change_is_told(
    library: Library, file: str, old: str, new: str, sentence: str | None
) -> None:
    path = REPOSITORY / file
    text = path.read_text()
    assert old in text
    before, after = _told(library, path), _told(library, path, text.replace(old, new, 1).encode())
    assert before is not None
    assert after is not None
    then, now = ([one for _, _, told in of.values() for _, one in told] for of in (before, after))
    assert then != now
    if sentence:
        assert sentence in now
        assert then.count(sentence) < now.count(sentence) or then.index(sentence) != now.index(sentence)
    elif sentence is not None:
        assert len(now) < len(then)


def test_D2_what_ships_is_told_without_a_word_of_xml(library: Library) -> None:
    for file in SHIPPED:
        told = _told(library, file)
        assert told is not None, file
        for _, _, sentences in told.values():
            assert sentences
            for _, text in sentences:
                words = re.sub(r"`[^`]*`", "", text)
                assert not re.search(r"</|/>|(?<!\w)@[a-z]", re.sub(r'"[^"]*"', "", words)), text
                assert text[0] in '"`' or not text[0].islower()


def test_D1_what_it_has_others_do_outside_is_told(library: Library) -> None:
    parsed = parse_file(_read(REPOSITORY / "recipes" / "notify.xml")).definitions
    whole = library.replace(parsed)
    failures = whole.get("recipe", "notify.failures")
    assert failures is not None
    told = [sentence.text for sentence in tell(failures, whole)]
    assert told[-1] == "By what it runs it acts outside the home too: by notify.tell."


def test_D1_what_has_no_words_of_its_own_is_told_by_its_code(library: Library) -> None:
    send = library.get("action", "mail.send")
    assert send is not None
    assert "What it does can be seen outside the home." in [sentence.text for sentence in tell(send)]
