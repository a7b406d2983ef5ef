"""The page of the language that models are shown: short, whole, and its examples are right (D8)."""

from __future__ import annotations

import re
from pathlib import Path

from narval.calls.models.budget import tokens_of
from narval.core.kinds import KINDS
from narval.files.check import check_alone
from narval.trials.propose.language import MOST_TOKENS, language_page

PAGE = language_page()


def test_D8_it_is_short() -> None:
    assert tokens_of(PAGE) <= MOST_TOKENS


def test_D8_every_language_in_xml_is_in_it() -> None:
    named = [name for name, kind in KINDS.items() if kind.roots and f"\n{name}:\n" in PAGE]
    assert {"recipe", "work", "automaton", "process"} <= {*named}
    for word in ("start_step!", "on-error=yes|no", "restart=yes|no|parallel", "every=LENGTH"):
        assert word in PAGE


def test_D8_its_examples_have_no_faults(tmp_path: Path) -> None:
    examples = re.findall(r"```xml\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) == 2
    paths = []
    for number, text in enumerate(examples):
        paths.append(tmp_path / f"example{number}.xml")
        paths[-1].write_text(text)
    assert check_alone(paths) == []
