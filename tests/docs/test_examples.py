"""Each example of the pages on recipes and modules is complete: it loads without a fault."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from narval.runtime.home.loader import Loader
from tests.places import ROOT

DOCS = ROOT / "docs"
OTHERS = """from narval import Input, Output, action
@action(inputs=[Input("to", "address"), Input("text", "text")], outputs=[Output("mail", "email")])
def write(to, text): ...
"""


def examples(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def test_the_pages_have_examples() -> None:
    assert len(examples("recipe.md", "xml")) == 3
    assert len(examples("module.md", "python")) == 5
    assert len(examples("module.md", "xml")) == 1


@pytest.mark.parametrize("form", [0, 1], ids=["decorated", "in XML"])
def test_the_examples_make_a_home(tmp_path: Path, form: int) -> None:
    modules = examples("module.md", "python")
    files = {
        "recipes/mail.xml": examples("recipe.md", "xml")[0],
        "recipes/desk.xml": examples("recipe.md", "xml")[1],
        "recipes/logins.xml": examples("recipe.md", "xml")[2],
        "recipes/desk.page.xsl": examples("module.md", "xml")[0],
        "modules/mail.py": modules[form],
        "modules/desk.py": OTHERS,
        "modules/clock.py": modules[2],
        "modules/web.py": modules[3],
        "modules/basic.py": "from narval import action\n@action\ndef nothing(): ...\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    loaded = Loader(tmp_path).load()
    assert [str(fault) for fault in loaded.faults] == []
    assert {definition.full_name for definition in loaded.library} == {
        "basic.nothing",
        "clock.ticks",
        "desk.apologise",
        "desk.ask",
        "desk.logins",
        "desk.page",
        "desk.write",
        "mail.acknowledge",
        "web.look",
    }


def test_the_two_forms_of_the_page_are_one_prototype(tmp_path: Path) -> None:
    decorated, in_xml, *_ = examples("module.md", "python")
    found = []
    for number, text in enumerate((decorated, in_xml)):
        home = tmp_path / str(number)
        (home / "modules").mkdir(parents=True)
        (home / "modules" / "mail.py").write_text(text)
        found.append(Loader(home).load().library.get("action", "mail.acknowledge"))
    assert found[0].prototype == found[1].prototype
