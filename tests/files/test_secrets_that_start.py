"""A start-plan is no secret: what code gives under one name fits no pattern of another (F9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.core.trust.prospects import prospects
from narval.files.home import Home
from narval.files.reach import read_sources

MODULE = """
from narval import Input, Output, action

@action(outputs=[Output("word", "decision")], outside=False)
def ask(): pass

@action(inputs=[Input("call", "tool-call")], outputs=[Output("start", "start-plan")], outside=False)
def begin(call): pass

@action()
def post(): pass
"""
RECIPES = """<cookbook group="w">
<recipe name="asks" start_step="ask" end_step="begin">
  <step id="ask" type="action" target="m.ask"/><step id="begin" type="action" target="m.begin"/>
  <transition id="t"><in idref="ask"/><out idref="begin"/>
    <condition><match>{}</match></condition></transition>
</recipe>
<recipe name="posts" start_step="p" end_step="p"><step id="p" type="action" target="m.post"/></recipe>
</cookbook>"""


@pytest.mark.parametrize(
    ("condition", "labels"),
    [("$ask[@outcome='approve']", set()), ("*[@outcome='approve']", {"secret:health"})],
)
def test_what_is_begun_by_code_is_not_secret_for_that(
    tmp_path: Path, condition: str, labels: set[str]
) -> None:
    files = {
        "modules/m.py": MODULE,
        "recipes/w.xml": RECIPES.format(condition),
        "etc/trust.toml": "[secret]\nhealth = \"note[@topic='health']\"\n",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    sources = read_sources(Home(tmp_path))
    posts = next(one for one in sources.reach.definitions if one.full_name == "w.posts")
    (call,) = prospects(sources.reach.calls_of(posts), sources.rules)
    assert call.labels == labels
