"""Nobody is asked whether a call may be made that cannot be made."""

from __future__ import annotations

from pathlib import Path

import pytest

import narval
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
