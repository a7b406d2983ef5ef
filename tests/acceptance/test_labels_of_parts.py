"""A mail to an address of memory.xml, about what a stranger wrote: the address is the home's own (F4)."""

from __future__ import annotations

from pathlib import Path

import pytest

import narval
from narval.surfaces.python.agent import Agent
from tests.acceptance.home import Narval

MEMORY = """<memory>
  <contact name="boss" mail="boss@example.org"/>
  <contact name="bank" mail="bank@example.org"/>
  <identity name="Me" address="me@example.org"/>
  <outbox kind="maildir" path="var/outbox"/>
  <mailbox name="mine" kind="maildir" path="var/mail"/>
</memory>"""
RECIPE = """<recipe group="tell" name="boss" start_step="read" end_step="send">
  <step id="read" type="action" target="mail.read"/>
  <step id="write" type="action" target="mail.compose">
    <arguments><draft to="{$who[@name='boss']/@mail}" subject="{$read[1]/@subject}">See
 <from>{$read[1]/@from}</from></draft></arguments>
  </step>
  <step id="send" type="action" target="mail.send"/>
  <transition id="known"><in idref="read"/><out idref="write"/>
    <condition as="who" list="yes"><match>contact</match></condition></transition>
  <transition id="written"><in idref="write"/><out idref="send"/></transition>
</recipe>"""
LETTER = (
    b"From: stranger@example.net\nTo: me@example.org\nSubject: Pay me\nMessage-ID: <1@example.net>\n\nNow.\n"
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a mail of a stranger."""
    path = tmp_path / "home"
    written = Narval(path)
    written.write("data/memory.xml", MEMORY)
    written.write("recipes/tell.xml", RECIPE)
    for folder in ("new", "cur", "tmp"):
        (path / "var/mail" / folder).mkdir(parents=True)
    written.write("var/mail/new/1.mail", LETTER)
    return path


def parts(agent: Agent, pattern: str) -> dict[str, list[str]]:
    """The labels of the parts of the one element that fits."""
    (element,) = agent.memory(pattern)
    told: dict[str, list[str]] = agent.ask("trust", eid=element.eid)["parts"]
    return told


def test_the_address_has_no_label_and_the_subject_that_of_the_mail(home: Path) -> None:
    with narval.open(home) as agent:
        agent.start("tell.boss")
        agent.until_idle()
        assert not agent.memory("error")
        assert parts(agent, "draft") == {"@subject": ["mail"], "from/text()": ["mail"], "": []}
        assert agent.ask("trust", eid=agent.memory("draft")[0].eid)["labels"] == ["mail"]
        sent = parts(agent, "email[@kind='new']")
        assert (sent["@to"], sent["@from"], sent["@subject"], sent["body"]) == ([], [], ["mail"], ["mail"])
        assert sent["@kind"] == [], "what the action itself writes says nothing of the mail"
        assert parts(agent, "email[@from='stranger@example.net']")["@mailbox"] == []
    with narval.open(home) as agent:
        assert parts(agent, "draft") == {"@subject": ["mail"], "from/text()": ["mail"], "": []}, (
            "it is stored"
        )
        (draft,) = agent.memory("draft")
        made_from = agent.ask("trust", eid=draft.eid)["by"]
        assert [before["name"] for before in made_from] == ["contact", "email", "tell.boss"]
    assert (home / "var/outbox/new").is_dir()


def test_narval_trust_shows_the_parts(home: Path) -> None:
    with narval.open(home) as agent:
        agent.start("tell.boss")
        agent.until_idle()
        (draft,) = agent.memory("draft")
    shown = Narval(home)("trust", str(draft.eid)).stdout.decode()
    assert f"{draft.eid} draft: mail" in shown
    assert "  @subject: mail\n" in shown
    assert "  (the rest): no labels\n" in shown


FILES = """<cookbook group="f">
  <recipe name="save" start_step="read" end_step="write">
    <step id="read" type="action" target="mail.read"/>
    <step id="write" type="action" target="files.write">
      <arguments><text path="var/saved.txt">{$read/@subject}</text></arguments></step>
    <transition id="t"><in idref="read"/><out idref="write"/></transition>
  </recipe>
  <recipe name="copy" start_step="copy" end_step="copy">
    <step id="copy" type="action" target="files.copy">
      <arguments><file path="var/saved.txt"/><to path="var/again.txt"/></arguments></step>
  </recipe>
  <recipe name="load" start_step="load" end_step="load">
    <step id="load" type="action" target="files.read_text">
      <arguments><file path="HOME/var/../var/again.txt"/></arguments></step>
  </recipe>
</cookbook>"""


def test_a_file_that_narval_wrote_has_its_labels_when_it_is_read_again(home: Path) -> None:
    (home / "recipes/files.xml").write_text(FILES.replace("HOME", str(home)))
    for recipe in ("f.save", "f.copy", "f.load"):
        with narval.open(home) as agent:  # each time anew: what files have is stored
            agent.start(recipe)
            agent.until_idle()
            assert not agent.memory("error")
    with narval.open(home) as agent:
        text = agent.memory("text")[-1]
        assert text.text.strip() == "Pay me"
        assert agent.ask("trust", eid=text.eid)["labels"] == ["file", "mail"]
