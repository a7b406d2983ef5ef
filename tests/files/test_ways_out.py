"""What can go to other homes is told as all calls that go outside, before it runs (F9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.core.trust.prospects import prospects
from narval.core.trust.telling import lines_of_call
from narval.files.home import Home
from narval.files.reach import read_sources
from narval.files.shipped import shipped

WAIT = """<step id="w" type="action" target="basic.nothing"/>
  <transition id="t"><in idref="w"/><out idref="b"/>
    <condition as="n"><match>{}</match></condition></transition>"""
RECIPE = '<recipe group="g" name="goes" start_step="w" end_step="b">{}{}</recipe>'
NOTE = "note[@topic='health']"
SECRETS = f'[secret]\nhealth = "{NOTE}"\n'
RULE = '[[rule]]\nsecret = "*"\naction = "agent:shop@office"\nthen = "refuse"\n'
PEERS = f'[office]\ntoken_sha256 = "{"0" * 64}"\nagents = ["*"]\n'
WHERE = '[[rule]]\nfrom = "*"\npart = "where"\nthen = "ask"\n'
FEED = """<recipe group="g" name="mails" start_step="b" end_step="b">
  <step id="b" type="action" target="mail.read"/></recipe>"""


def told(
    home: Path,
    of: str,
    step: str,
    trust: str = SECRETS,
    more: str = "",
    peers: str = PEERS,
    kind: str = "away",
) -> list[str]:
    """The lines about what leaves a home with a recipe that waits for an element."""
    files = {
        "etc/trust.toml": trust,
        "etc/peers.toml": peers,
        "recipes/g.xml": f"<cookbook>{RECIPE.format(WAIT.format(of), step)}{more}</cookbook>",
    }
    for path, text in files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    sources = read_sources(Home(home))
    calls = (call for one in sources.reach.definitions for call in sources.reach.calls_of(one))
    away = [call for call in prospects(calls, sources.rules) if call.call.call.kind == kind]
    return [line.text for call in away for line in lines_of_call(call)]


@pytest.mark.parametrize(
    "step",
    [
        '<step id="b" type="send" to="shop@office shelf">{}</step>',
        '<step id="b" type="recipe" agent="shop@office" target="in.take">{}</step>',
    ],
)
def test_what_goes_to_an_agent_of_another_home_is_told(tmp_path: Path, step: str) -> None:
    step = step.format('<input id="x"><match>note</match></input>')
    first, *others = told(tmp_path, NOTE, step)
    assert first == "agent:shop@office at b (line 3): asks"
    assert any("x can come from what is secret (secret:health): asks" in line for line in others), others
    assert told(tmp_path, NOTE, step, f"{SECRETS}{RULE}")[0] == "agent:shop@office at b (line 3): refused"


def test_what_stays_in_the_home_is_not_told(tmp_path: Path) -> None:
    step = '<step id="b" type="send" to="shelf"><input id="x"><match>note</match></input></step>'
    assert told(tmp_path, NOTE, step) == []


def test_that_a_mail_can_name_the_home_is_told_where_there_are_others(tmp_path: Path) -> None:
    step = """<step id="b" type="send" to-select="email/@subject">
      <input id="x"><match>email</match></input></step>"""
    first, *others = told(tmp_path, "email", step, WHERE, FEED)
    assert first == "agent:* at b (line 3): asks"
    assert any("x/@subject (where it goes) can come from a stranger's mail" in line for line in others), (
        others
    )
    assert not any(line.startswith("x and x") for line in others)
    assert told(tmp_path, "email", step, WHERE, FEED, peers="") == []


def test_an_answer_to_another_home_is_told(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/narval.toml").write_text('[agent]\noffers = {"g.goes" = ["*@office"]}\n')
    step = '<step id="b" type="action" target="basic.copy"><arguments><note>{$n}</note></arguments></step>'
    first, *_ = told(tmp_path, NOTE, step)
    assert first.startswith("agent:*@office at answer (line 1): asks")
    assert "depends" in told(tmp_path, NOTE, step, f"{SECRETS}{RULE.replace('refuse', 'allow')}")[0]


LOOK = """<work group="g" name="look"><title>{{$note}}</title><input id="note"><match>note</match></input>
  <outcome name="ok"/><ways names="terminal {}"/></work>"""
MAILS = "[mail]\nfrom = 'narval@example.org'\npath = 'out'\n"


@pytest.mark.parametrize(
    ("ways", "settings", "rule", "outlook"),
    [
        ("mail", MAILS, "", "asks"),
        ("mail", MAILS, RULE.replace("agent:shop@office", "work:g.look"), "refused"),
        ("mail", MAILS, RULE.replace("agent:shop@office", "work:*").replace("refuse", "allow"), "allowed"),
        ("mail", "", "", ""),
        ("web", MAILS, "", ""),
    ],
)
def test_what_people_are_written_about_work_is_told(
    tmp_path: Path, ways: str, settings: str, rule: str, outlook: str
) -> None:
    step = '<step id="b" type="work" target="g.look"/>'
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/narval.toml").write_text(settings)
    lines = told(tmp_path, NOTE, step, f"{SECRETS}{rule}", LOOK.format(ways), kind="notice")
    assert lines[:1] == [f"work:g.look at mail (line 3): {outlook}"] * bool(outlook)
    says = [line for line in lines if "text and values can come from what is secret (secret:health)" in line]
    assert len(says) == bool(outlook)
    assert ("it says the number of the item alone" in str(lines)) == (outlook in ("asks", "refused"))


APPROVED = """<work group="g" name="may"><title>May it?</title><outcome name="approve"/><outcome name="no"/>
  <ways names="mail"/></work>"""


def test_the_work_that_asks_about_a_call_shows_what_the_call_is_given(tmp_path: Path) -> None:
    step = '<step id="b" type="action" target="mail.send" approve="g.may"/>'
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/narval.toml").write_text(MAILS)
    trust = (shipped() / "recipes/trust.xml").read_text()
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/trust.xml").write_text(trust)
    lines = told(tmp_path, NOTE, step, SECRETS, APPROVED, kind="notice")
    heads = [line for line in lines if line.startswith("work:")]
    assert heads == [
        "work:g.may at mail (line 3): asks",
        "work:trust.ask at mail (line 10): asks",
        "work:trust.grant at mail (line 17): allowed",
    ]
