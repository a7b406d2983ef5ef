"""The question whether a secret may go names where it goes, and not a harmless place beside that."""

from __future__ import annotations

from pathlib import Path

import pytest

import narval
from narval.files.shipped import shipped

MODULE = """
from narval import Input, action

@action(inputs=[Input("notice", "notice"), Input("way", "way"), Input("sender", "sender")],
        where=["way", "sender/@address"])
def tell(notice, way, sender):
    pass
"""
RECIPE = """<recipe group="w" name="tells" start_step="w" end_step="b">
  <step id="w" type="action" target="basic.nothing"/>
  <step id="b" type="action" target="m.tell"><arguments><notice>{{$n}}</notice>{}</arguments></step>
  <transition id="t"><in idref="w"/><out idref="b"/>
    <condition as="n"><match>note[@topic='health']</match></condition></transition></recipe>"""
MEMORY = '<memory><sender address="root@here.example"/><way by="desktop"/></memory>'
EVIL = '<way by="mail" to="evil@x.org"/>'


@pytest.mark.parametrize(
    ("ways", "title"),
    [
        (EVIL, "m.tell to mail and evil@x.org?"),
        (f'{EVIL}<sender address="eve@x.org"/>', "m.tell to mail, evil@x.org and eve@x.org?"),
        ("", "m.tell to root@here.example?"),
        ('<way by="mail" user="eve" password="hunter2"/>', "m.tell to mail and eve?"),
        ('<way to="smtp://eve:hunter2@x.org"/>', "m.tell to smtp://eve:…@x.org?"),
        (f'<way to="{"a" * 70}" cc="{"b" * 70}"/>', f"m.tell to {'a' * 70} and 1 more?"),
    ],
)
def test_a_question_names_the_places_that_the_owner_has_not_declared(
    tmp_path: Path, ways: str, title: str
) -> None:
    files = {
        "modules/m.py": MODULE,
        "recipes/w.xml": RECIPE.format(ways),
        "recipes/trust.xml": (shipped() / "recipes/trust.xml").read_text(),
        "data/memory.xml": MEMORY,
        "etc/people.toml": '[people.ann]\nweb = "operator"\n',
        "etc/trust.toml": "[secret]\nhealth = \"note[@topic='health']\"\n",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    with narval.open(tmp_path, by="ann") as agent:
        agent.add("<note topic='health'>HIV positive</note>")
        agent.start("w.tells")
        agent.until_idle()
        assert [row["title"] for row in agent.worklist()] == [title]
