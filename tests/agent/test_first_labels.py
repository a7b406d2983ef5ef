"""Labels of homes of before, from what is recorded; and the owner's own labels of what is secret (F1)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import narval
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import Bound
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


WRITES = """
from pathlib import Path
from narval import ActionError, Input, Output, action, call

@action(inputs=[Input("text", "text")], outputs=[Output("done", "done[@path]")], where=["text/@path"])
def put(text):
    path = Path(call().home) / text.attributes["path"]
    path.parent.mkdir(exist_ok=True)
    path.write_text(text.text)
    if "half" in path.name:
        raise ActionError("the disk is full")
    return f"<done path='{text.attributes['path']}'/>"

@action(inputs=[Input("file", "file[@path]")], outputs=[Output("text", "text")], label="file", outside=False)
def get(file):
    path = file.attributes["path"]
    return f"<text path='{path}'>{(Path(call().home) / path).name}</text>"
"""


def writing(path: str, of: str, then: str = "") -> str:
    """A recipe that writes what it fetched into a file, and goes on whatever becomes of that."""
    more = (
        """<transition id="u"><in idref="put" on-error="yes"/><out idref="then"/></transition>"""
        if then
        else ""
    )
    return f"""<recipe group="w" name="writes" start_step="fetch" end_step="{"then" if then else "put"}">
    <step id="fetch" type="action" target="m.fetch"/>
    <step id="put" type="action" target="m.put"><arguments><text path="{path}">{of}</text></arguments></step>
    {then}<transition id="t"><in idref="fetch"/><out idref="put"/></transition>{more}</recipe>"""


def test_what_an_action_wrote_into_the_file_of_memory_keeps_its_labels(home: Path) -> None:
    (home / "modules/m.py").write_text(MODULE + WRITES)
    contact = "&lt;memory&gt;&lt;contact mail='{$fetch}'/&gt;&lt;/memory&gt;"
    (home / "recipes/w.xml").write_text(writing("data/memory.xml", contact))
    with narval.open(home) as agent:
        agent.start("w.writes")
        agent.until_idle()
        agent.ask("reload")
        agent.until_idle()
        assert labels(agent, "contact[@mail='theirs']") == ["web"]


def test_what_a_call_may_have_written_that_failed_keeps_its_labels(home: Path) -> None:
    (home / "modules/m.py").write_text(MODULE + WRITES)
    file = """<arguments><file path="half.txt"/></arguments>"""
    then = f"""<step id="then" type="action" target="m.get">{file}</step>"""
    (home / "recipes/w.xml").write_text(writing("half.txt", "{$fetch}", then))
    with narval.open(home) as agent:
        agent.start("w.writes")
        agent.until_idle()
        (text,) = agent.memory("text[.='half.txt']")
        assert agent.ask("trust", eid=text.eid)["labels"] == ["file", "web"]


def test_what_is_secret_from_now_on_is_so_where_it_is_replaced_or_held(home: Path) -> None:
    with narval.open(home) as agent:
        eid = agent.add("<note topic='health'>old</note>")
        agent.add("<note topic='health'>new</note>", replace=eid)
    (home / "etc").mkdir(exist_ok=True)
    (home / "etc/trust.toml").write_text("""[secret]\nhealth = "note[@topic='health']"\n""")
    with narval.open(home) as agent:
        assert agent.ask("trust", eid=eid)["labels"] == ["secret:health"]


def test_memory_is_looked_through_once_for_what_is_secret(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    select = Memory.select

    def looking(self: Memory, bound: Bound) -> Iterator[int]:
        looked.append(bound.text)
        return select(self, bound)

    monkeypatch.setattr(Memory, "select", looking)
    (home / "etc").mkdir(exist_ok=True)
    (home / "etc/trust.toml").write_text("[secret]\nhealth = 'note'\n")
    for _ in "ab":
        with narval.open(home) as agent:
            agent.ask("reload")
    assert looked.count("note") == 1
    (home / "etc/trust.toml").write_text("[secret]\nhealth = 'note | lab'\n")
    with narval.open(home):
        assert looked.count("note | lab") == 1
