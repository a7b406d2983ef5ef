"""Labels of homes of before, from what is recorded; and the owner's own labels of what is secret (F1)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import narval
from narval.surfaces.python.agent import Agent

MODULE = """
from narval import Input, Output, action

@action(outputs=[Output("page", "page")], label="web", outside=False)
def fetch():
    return "<page>theirs</page>"

@action(inputs=[Input("note", "note", optional=True)], outputs=[Output("copy", "copy")], pure=True)
def copy(note):
    return "<copy/>"
"""
RECIPES = """<cookbook group="w">
  <recipe name="reads" start_step="fetch" end_step="copy">
    <step id="fetch" type="action" target="m.fetch"/>
    <step id="copy" type="action" target="m.copy"><arguments><note>{$fetch}</note></arguments></step>
    <transition id="t"><in idref="fetch"/><out idref="copy"/></transition>
  </recipe>
  <recipe name="copies" start_step="copy" end_step="copy">
    <step id="copy" type="action" target="m.copy"/>
  </recipe>
</cookbook>"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home that fetches a page and copies it."""
    for name, text in (("modules/m.py", MODULE), ("recipes/w.xml", RECIPES)):
        file = tmp_path / "home" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "home"


def labels(agent: Agent, pattern: str) -> list[str]:
    """The labels of the newest element that fits, those of what decided that it came to be behind a `?`."""
    told = agent.ask("trust", eid=agent.memory(pattern)[-1].eid)
    return [*told["labels"], *(f"?{name}" for name in told["decided_by"])]


def forget_labels(home: Path) -> None:
    """Let the home be one of before there were labels."""
    with closing(sqlite3.connect(home / "var/store.db")) as store, store:
        assert store.execute("DELETE FROM labels").rowcount
        assert store.execute("DELETE FROM meta WHERE key = 'labels'").rowcount == 1


def test_a_home_of_before_has_the_labels_that_its_origins_tell(home: Path) -> None:
    with narval.open(home) as agent:
        agent.start("w.reads")
        agent.until_idle()
        agent.add("<mine/>")
        before = {name: labels(agent, name) for name in ("page", "note", "copy", "mine")}
        assert before["page"] == ["web"]
    forget_labels(home)
    with narval.open(home) as agent:
        assert {name: labels(agent, name) for name in before} == before
        agent.start("w.copies")
        agent.until_idle()
    with narval.open(home) as agent:
        assert labels(agent, "page") == ["web"], "they are stored"


@pytest.mark.filterwarnings("ignore::narval.FaultWarning")
def test_what_cannot_be_told_is_unknown(home: Path) -> None:
    with narval.open(home) as agent:
        agent.start("w.reads")
        agent.until_idle()
    forget_labels(home)
    (home / "modules/m.py").write_text("")
    with narval.open(home) as agent:
        assert labels(agent, "page") == ["unknown"]
        assert "unknown" in labels(agent, "note"), "what was made of it too"


def test_a_new_home_gets_no_labels_so(home: Path) -> None:
    with narval.open(home) as agent:
        agent.start("w.copies")
        agent.until_idle()
    with narval.open(home) as agent:
        assert labels(agent, "copy") == []


def test_what_the_owner_calls_secret_has_a_label_and_so_has_what_is_made_of_it(home: Path) -> None:
    (home / "etc").mkdir(exist_ok=True)
    with narval.open(home) as agent:
        agent.add("<note topic='health'>old</note>")
        agent.until_idle()
    (home / "etc/trust.toml").write_text("""[secret]\nhealth = "note[@topic='health'] | lab-result"\n""")
    with narval.open(home) as agent:
        assert labels(agent, "note") == ["secret:health"], "it was there before the rule"
        agent.add("<lab-result/>")
        agent.add("<note topic='garden'/>")
        assert labels(agent, "lab-result") == ["secret:health"]
        assert labels(agent, "note[@topic='garden']") == []
        agent.add("<note topic='health'>new</note>")
        agent.start("w.copies")
        agent.until_idle()
        assert labels(agent, "copy") == ["secret:health"]
