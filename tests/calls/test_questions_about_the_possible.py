"""Nobody is asked whether a call may be made that cannot be made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import narval
from narval.calls.confining import beyond_files
from narval.calls.context import Target
from narval.core.definitions.action.needs import Needs
from narval.core.elements.element import Element
from narval.files.shipped import shipped
from tests.ask.test_grants import MEMORY, SENDS, written
from tests.calls.test_rules import ASKS, MODULE, asked, play, step_after_fetch

WRITES = step_after_fetch(
    "writes",
    """<step id="go" type="action" target="files.write">
      <arguments><text path="{concat('PATH', $fetch/@from)}">{$fetch/body}</text></arguments></step>""",
)
SAVES = step_after_fetch(
    "writes",
    """<step id="go" type="action" target="http.request">
      <arguments><request url="http://h.example/"><target path="{concat('PATH', $fetch/@from)}"/></request>
      </arguments></step>""",
)


@pytest.mark.parametrize("recipe", [WRITES, SAVES], ids=["own", "child"])
@pytest.mark.parametrize(("path", "error"), [("/srv/", "outside"), ("etc/", "outside"), ("data/", None)])
def test_nobody_is_asked_about_a_file_out_of_reach(
    tmp_path: Path, recipe: str, path: str, error: str | None
) -> None:
    text = recipe.replace("PATH", path)
    files = {
        "etc/narval.toml": "",
        "modules/m.py": MODULE,
        "recipes/writes.xml": f'<cookbook group="w">{text}</cookbook>',
        "recipes/trust.xml": (shipped() / "recipes/trust.xml").read_text(),
        "etc/trust.toml": ASKS.replace('part = "where"\n', ""),
    }
    written(tmp_path, files)
    with narval.open(tmp_path, by="ann") as agent:
        play(agent, "writes")
        assert len(asked(agent)) == (0 if error else 1)
        assert [found.attributes["type"] for found in agent.memory("error")] == ([error] if error else [])


def test_nobody_is_asked_about_a_call_that_is_not_granted(tmp_path: Path) -> None:
    other = "</arguments><input id='outbox'><match>outbox[@port='25']</match></input>"
    send = SENDS.replace("</arguments>", other)
    asks = '<work group="home" name="allow"><title>ok?</title><outcome name="approve"/></work>'
    files = {"etc/people.toml": '[[approval]]\naction = "mail.write"\nwork = "home.allow"\n'}
    files |= {"data/memory.xml": MEMORY, "recipes/send.xml": send, "recipes/allow.xml": asks}
    written(tmp_path, files)
    with narval.open(tmp_path) as agent:
        agent.ask("grant", name="post.send")
        agent.until_idle()
        agent.add("<outbox host='evil.example.org' port='25'/>")
        agent.add("<go/>")
        agent.until_idle()
        assert agent.worklist() == []
        types = [error.attributes["type"] for error in agent.memory("error") if "step" in error.attributes]
        assert types == ["not-granted"]


def test_a_path_is_judged_by_its_words_before_anybody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that does not answer would stop the daemon; the action follows the links."""

    def asked(path: object, **_: object) -> str:
        assert path == tmp_path, "the disk that an element names was asked"
        return str(tmp_path)

    needs = Needs(folders=["[home] rw", "{text/@folder} rw"])
    target = Target(needs=needs)
    monkeypatch.setattr(os.path, "realpath", asked)
    for attributes, error in (
        ("path='data/a'", None),
        ("path='data/../etc/a'", "outside"),
        ("path='../a'", "outside"),
        ("path='data/memory.xml'", "outside"),
        ("folder='/net/dead' path='/net/dead/a'", None),
        ("path='/net/dead/a'", "outside"),
    ):
        element = Element(1, f"<text {attributes}/>".encode(), 0.0)
        failure = beyond_files(target, {"text": element}, tmp_path)
        assert (failure and failure.kind) == error, attributes
