"""The page of etc/trust.toml: its examples are rules, and it has every word of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from narval.core.source.text import Source
from narval.core.trust.rules import SEVERITY, Holding, PartWord
from narval.files.trust_file import RULE_READERS, TRUST_FILE, TRUST_READERS, parse_trust
from tests.surfaces.cli.command_line import well

ROOT = Path(__file__).parents[2]
PAGES = ("docs/reference/trust.md", "docs/explanation/strangers.md")


@pytest.mark.parametrize("page", PAGES)
def test_each_example_is_rules_without_faults(page: str) -> None:
    examples = re.findall(r"```toml\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert examples
    for example in examples:
        rules, faults = parse_trust(Source.of_text(page, example))
        assert faults == []
        assert rules is not None


def test_the_page_has_every_word() -> None:
    text = (ROOT / PAGES[0]).read_text()
    rows = re.findall(r"^\| `([a-z]+)` \|", text, re.MULTILINE)
    assert set(RULE_READERS) <= set(rows)
    words = (*get_args(PartWord), *get_args(Holding), *SEVERITY)
    assert [word for word in words if f'`"{word}"`' not in text] == []
    assert [word for word in TRUST_READERS if f"[{word}]" not in text] == []


def test_the_file_that_ships_has_no_faults() -> None:
    rules, faults = parse_trust(Source.of_text(TRUST_FILE, (ROOT / TRUST_FILE).read_text()))
    assert faults == []
    assert rules is not None
    assert [rule.then for rule in rules.rules] == ["allow", "ask", "ask", "allow", "ask"]


def test_the_example_of_the_proof_is_what_narval_says_of_it(tmp_path: Path) -> None:
    text = (ROOT / PAGES[0]).read_text().partition("## What can come where, before it runs")[2]
    recipes, rules = (re.search(rf"```{word}\n(.*?)```", text, re.DOTALL) for word in ("xml", "toml"))
    assert recipes
    assert rules
    for path, example in (("recipes/office.xml", recipes), ("etc/trust.toml", rules)):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(example[1])
    (tmp_path / "recipes/trust.xml").write_text((ROOT / "recipes/trust.xml").read_text())
    whole, of_one = re.findall(r"```console\n\$ narval (check .*?)\n(.*?)```", text, re.DOTALL)[:2]
    assert well(tmp_path, *whole[0].split()) == whole[1]
    assert of_one[1].removeprefix("…\n") in well(tmp_path, *of_one[0].split())
    said = re.findall(r"^\| `(.*?)` ", text, re.MULTILINE)
    assert {"allowed", "depends on what it says", "depends on memory", "depends on code"} <= {*said}
