"""The page of the language that models are shown: short, whole, and its examples are right (D8, D13)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from narval.calls.models import tokens_of
from narval.core.kinds import KINDS
from narval.core.source.text import Source
from narval.core.source.xml import XmlNode, read_xml
from narval.files.check import check_alone
from narval.trials.propose.language import MOST_TOKENS, language_page
from narval.trials.propose.protocol import FORM
from tests.wishes.wishes import WISHES, Wish, files_of

PAGE = language_page()


def test_D8_it_is_short() -> None:
    """By the estimate that budgets count by: a token for three bytes, which is rather too many."""
    assert tokens_of(PAGE) <= MOST_TOKENS
    assert tokens_of("abc" * 100) >= 100


def test_D8_every_language_is_in_it() -> None:
    named = {name for name, kind in KINDS.items() if kind.roots and f"\n{name}:\n" in PAGE}
    assert named == {"recipe", "work", "automaton", "process"}
    for word in ("start_step!", "on-error=yes|no", "restart=yes|no|parallel", "every=LENGTH"):
        assert word in PAGE
    suffixes = {suffix for kind in KINDS.values() for suffix in kind.suffixes}
    for suffix in suffixes - {".xslt", ".tools"}:
        assert suffix in PAGE + FORM, suffix


def test_D8_its_examples_have_no_faults(tmp_path: Path) -> None:
    examples = re.findall(r"```(xml|task|plan|xsl)\n(.*?)```", PAGE, re.DOTALL)
    assert [kind for kind, _ in examples] == ["xml", "xml", "xsl", "xml", "xml", "task", "plan"]
    paths = []
    for number, (kind, text) in enumerate(examples):
        paths.append(tmp_path / f"example{number}{'.made' if kind == 'xsl' else ''}.{kind}")
        paths[-1].write_text(text)
    assert check_alone(paths) == []


# --- measured by the wishes ---------------------------------------------------------------------------------


def words_of_page() -> dict[str, dict[str, tuple[set[str], bool]]]:
    """By kind, "" for all, the elements on the page: their attributes, and if they hold anything."""
    kind, words = "", defaultdict[str, dict[str, tuple[set[str], bool]]](dict)
    for line in PAGE.partition("## All words")[2].splitlines():
        if re.fullmatch(r"\w+:", line):
            kind = line[:-1]
        elif row := re.fullmatch(r"- ([\w-]+): (.*)\{(.*)\}", line):
            attributes = {re.split("[!=]", word)[0] for word in row[2].split()}
            words[kind][row[1]] = attributes, row[3] == "anything"
    return words


def missing_of(node: XmlNode, kind: str, words: dict[str, dict[str, tuple[set[str], bool]]]) -> Iterator[str]:
    """The elements and attributes of a definition that are not on the page."""
    kind = "work" if node.tag == "work" else kind
    attributes, is_open = {**words[""], **words[kind]}.get(node.tag, (set(), True))
    if node.tag not in {**words[""], **words[kind]}:
        yield f"{kind}: {node.tag}"
    yield from (f"{kind}: {node.tag}/@{name}" for name in node.attributes if name not in attributes)
    for child in () if is_open else node.children:
        yield from missing_of(child, kind, words)


def called(texts: Iterable[str]) -> set[str]:
    """The functions that are called in expressions."""
    plain = (re.sub(r"'[^']*'", "''", text) for text in texts)
    return {name for text in plain for name in re.findall(r"([A-Za-z][\w-]*)\(", text)}


def is_on_page(word: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", PAGE) is not None


@pytest.mark.parametrize("wish", WISHES, ids=[wish.example for wish in WISHES])
def test_D13_every_word_of_the_right_definitions_of_a_wish_stands_on_it(wish: Wish) -> None:
    words = words_of_page()
    for path in files_of(wish, "recipes/"):
        text = path.read_text("utf-8")
        if path.suffix == ".xml":
            root = read_xml(Source.of_text(path.name, text))
            kind = {"cookbook": "recipe", "process-definition": "process"}.get(root.tag, root.tag)
            assert list(missing_of(root, kind, words)) == [], path.name
            values = [value for node in root.walk() for value in (*node.attributes.values(), node.text)]
            patterns = [value for value in values if re.search(r"[\[{$]", value)]
            assert [name for name in called(patterns) if not is_on_page(name)] == [], path.name
        elif path.suffix == ".task":
            plain = re.sub(
                r'/\*.*?\*/|<work.*?</work>|"[^"]*"|(TYPE|EVENT) \w+', r"\1", text, flags=re.DOTALL
            )
            keywords = set(re.findall(r"\b[A-Z]{2,}\b", plain))
            on_page = {*re.findall(r"\w+", PAGE)}
            assert keywords | called([plain]) <= on_page, path.name
        else:
            assert path.suffix in (".xsl", ".sh"), path.name
            assert path.suffix == ".sh" or 'version="1.0"' in text
