"""What the page on tasks shows of the language is so: its types load, its words are those of the language."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from narval.files.reading import load
from narval.kinds.task.language.definition import FUNCTIONS, PREDEFINED, TaskDefinition
from narval.kinds.task.language.words import CLAUSES, OPERATORS, QUALIFIERS, SINGLE, UNITS
from tests.places import ROOT

PAGE = (ROOT / "docs" / "reference" / "tasks.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_K70_the_types_of_the_page_make_a_home(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "bank.task").write_text("\n".join(blocks("task")), encoding="utf-8")
    loaded = load(tmp_path)
    assert [str(fault) for fault in loaded.faults] == []
    tasks = {found.name: found for found in loaded.library if isinstance(found, TaskDefinition)}
    assert set(tasks) == {"scan", "privileged", "clerk", "book", "fax_event", "ticket"}
    assert tasks["scan"].way_to("scanning", "FORWARD") == ("processing", "store", "FORWARD")
    assert tasks["fax_event"].is_global


@pytest.mark.parametrize(
    "word", sorted({*CLAUSES, *OPERATORS, *QUALIFIERS, *UNITS, *SINGLE, *FUNCTIONS, *PREDEFINED})
)
def test_K70_each_word_of_the_language_is_on_the_page(word: str) -> None:
    assert re.search(rf"\b{word}\b", PAGE) or re.search(rf"\b{word.lower()}\b", PAGE)
