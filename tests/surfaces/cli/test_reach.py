"""`narval check --trust` and `--from`: what can reach what goes outside, before it runs (F9)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from narval import open as open_home
from narval.ask.text import ways_in
from narval.files.shipped import shipped
from tests.files.test_reach import ANSWER, MODULE, READS, RULES, recipe, write
from tests.surfaces.cli.command_line import narval, well

SAFE = recipe("safe", "send m.send <arguments><letter to='me'/></arguments>")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    files = {
        "modules/m.py": MODULE,
        "recipes/answer.xml": ANSWER,
        "recipes/reads.xml": READS,
        "recipes/safe.xml": SAFE,
        "recipes/trust.xml": (shipped() / "recipes/trust.xml").read_text(),
        "etc/trust.toml": RULES,
    }
    for path, text in files.items():
        write(tmp_path, path, text)
    return tmp_path


def test_F9_all_that_goes_outside_is_told_and_what_is_allowed_in_a_line(home: Path) -> None:
    told = well(home, "check", "--trust").splitlines()
    assert told[:2] == [
        "recipe w.answer, in recipes/answer.xml",
        "  m.send at send (line 1): depends on what it says",
    ]
    assert "  m.send at send (line 1): allowed: nothing from outside comes to it" in told
    assert told[-1] == "2 calls can go outside: 1 allowed, 1 depending"


def test_warnings_do_not_hide_the_proof(home: Path) -> None:
    write(home, "etc/trust.toml", '[[rule]]\nfrom = "mail"\nthen = "refuse"\n')
    assert "warning" in well(home, "check")
    told = narval(home, "check", "--trust")
    assert told.stdout.startswith("recipe w.answer, in recipes/answer.xml")
    assert "warning" not in told.stdout
    assert "1 warning; `narval check` lists warnings" in told.stderr


def test_F9_what_allows_a_call_is_told(home: Path) -> None:
    """The rule of each label, or that none is about it; the path that is printed may be given anywhere."""
    write(
        home,
        "recipes/tells.xml",
        recipe("tells", "read m.read", "send m.send <arguments><letter to='me'>{$read}</letter></arguments>"),
    )
    write(home, "etc/trust.toml", '[[rule]]\nfrom = "mail"\npart = "what"\nthen = "allow"\n')
    told = well(home, "check", "--trust").splitlines()
    file = next(line for line in told if line.startswith("recipe w.tells")).rpartition(" ")[2]
    assert told[told.index(f"recipe w.tells, in {file}") + 1] == (
        "  m.send at send (line 1): allowed by the rule on line 1 or because no rule is about it, whatever "
        "comes to it from a stranger's mail (mail)"
    )
    assert [line for line in well(home, "check", "--trust", file).splitlines() if "allowed" in line][:3] == [
        "  m.send at send (line 1): allowed",
        "    letter/text() can come from a stranger's mail (mail): allowed by the rule on line 1",
        "    that it is called can be decided by a stranger's mail (mail): "
        "allowed because no rule is about it",
    ]


def test_F9_of_a_definition_and_a_file_it_is_told_how_each_label_comes(home: Path) -> None:
    by_name, by_file = (
        well(home, "check", "--trust", of) for of in ("w.answer", str(home / "recipes/answer.xml"))
    )
    assert by_name == by_file
    assert by_name.splitlines()[-5:-2] == [
        "      how mail comes to letter/@to:",
        "        the mail that m.read gives (w.reads, read)",
        "        @to of the letter that m.reply gives (w.answer, reply)",
    ]


def test_F9_a_way_that_leads_to_several_parts_or_calls_is_told_once(home: Path) -> None:
    write(home, "recipes/twice.xml", recipe("twice", "read m.read", "one m.send", "two m.send"))
    told = well(home, "check", "--trust", "w.twice").splitlines()
    ways = [line.strip() for line in told if line.startswith("      how ")]
    assert ways == ["how mail comes to letter/@to:", "how mail comes to letter/@to: as at one"]


def test_F9_a_way_that_leads_to_several_parts_is_told_with_all_of_them() -> None:
    label = {"label": "mail", "prospect": "asks", "way": ["the mail that m.read gives"]}
    parts = [{"input": "letter", "path": path, "labels": [label]} for path in ("@to", "@cc")]
    assert list(ways_in({"parts": parts}).values()) == [["letter/@to", "letter/@cc"]]


def test_F9_what_ships_depends_on_no_code(tmp_path: Path) -> None:
    well(tmp_path, "init", "--zone", "UTC")
    assert "code" not in well(tmp_path, "check", "--trust")


def test_F9_what_a_label_can_make_a_home_do_is_told_backwards(home: Path) -> None:
    told = well(home, "check", "--from", "mail").splitlines()
    assert told[0] == "What a stranger's mail (mail) can make this home do outside:"
    assert told[-1] == "1 call can go outside: 1 depending"
    refused = narval(home, "check", "--from", "mails")
    assert refused.exit_code == 1
    assert "nothing that comes in here has the label 'mails'; did you mean 'mail'?" in refused.output
    assert well(home, "check", "--from", "feed") == "feed: It can come to nothing that goes outside.\n"


def test_F9_scripts_get_calls_parts_labels_and_ends(home: Path) -> None:
    answer = json.loads(well(home, "check", "--trust", "w.answer", "--json"))
    (call,) = answer["reach"]
    assert (call["calls"], call["prospect"], call["depends"]) == ("m.send", "depends", "values")
    where = next(part for part in call["parts"] if part["path"] == "@to")
    assert where["is"] == "where"
    assert [(end["then"], end["rule"]) for end in where["labels"][0]["ends"]] == [("allow", 2), ("ask", 8)]


def test_F9_a_home_without_rules_says_so(home: Path) -> None:
    (home / "etc/trust.toml").unlink()
    assert "There is no etc/trust.toml" in well(home, "check", "--trust")


def test_F9_a_name_that_nothing_has_is_an_error_with_what_was_meant(home: Path) -> None:
    result = narval(home, "check", "--trust", "w.answr")
    assert result.exit_code != 0
    assert "did you mean 'w.answer'?" in result.stderr


def test_F9_of_a_definition_whose_file_has_a_fault_that_fault_is_told(home: Path) -> None:
    write(home, "recipes/answer.xml", ANSWER.replace("m.reply", "m.rply"))
    result = narval(home, "check", "--trust", "w.answer")
    assert result.exit_code == 1
    assert (
        "recipes/answer.xml did not load: line 1: step 'reply': there is no action 'm.rply'" in result.stderr
    )


def test_F9_trust_goes_with_neither_tell_nor_explore(home: Path) -> None:
    result = narval(home, "check", "--trust", "--tell")
    assert "one of them" in result.stderr


FLOWS = """
PLAN Stays {
  INPUT: String word
  BODY { elements("mail" : out)
    print(word)
    relsprintf("key", "%name%", out : keyed)
    remember("seen", "key", keyed : new)
    notify("element:exceeds", new) }
}
PLAN Leaves {
  INPUT: String word
  BODY { notify("file:told.txt", word) }
}
"""
ASKING = '[[rule]]\nfrom = "*"\npart = "where"\nthen = "ask"\nwhy = "it says where"\n'
ALLOWING = '[[rule]]\nfrom = "mail"\naction = "flow.Leaves"\nthen = "allow"\n'


def begins(name: str) -> str:
    """A recipe that reads a mail, and then begins a dataflow with who wrote it."""
    return f"""<recipe group="w" name="{name.lower()}" start_step="read" end_step="flow">
      <step id="read" type="action" target="m.read"/>
      <step id="flow" type="dataflow" target="flow.{name}"><arguments>
        <value name="word">{{$read/@from}}</value></arguments></step>
      <transition id="then"><in idref="read"/><out idref="flow"/></transition></recipe>"""


@pytest.mark.parametrize(
    ("rules", "prospect", "state"), [(ASKING, "asks", "failed"), (ALLOWING + ASKING, "allowed", "done")]
)
def test_F9_a_dataflow_that_goes_outside_is_told_as_it_will_be_judged(
    home: Path, rules: str, prospect: str, state: str
) -> None:
    write(home, "recipes/flow.plan", FLOWS)
    write(home, "recipes/begins.xml", f"<cookbook>{begins('Stays')}{begins('Leaves')}</cookbook>")
    write(home, "etc/trust.toml", rules)
    assert "flow" not in well(home, "check")
    assert f"flow.Leaves at notify (line 12): {prospect}" in well(home, "check", "--trust", "flow.Leaves")
    assert well(home, "check", "--trust", "flow.Stays") == "Nothing goes outside.\n"
    of_caller = well(home, "check", "--trust", "w.leaves").splitlines()
    assert of_caller[:2] == [
        "dataflow flow.Leaves, in recipes/flow.plan",
        f"  flow.Leaves at notify (line 12): {prospect}",
    ]
    assert any("how mail comes to inputs" in line for line in of_caller) is (prospect == "asks")
    assert well(home, "check", "--trust", "w.stays") == "Nothing goes outside.\n"
    with open_home(home) as agent:
        agent.stub("m.read", lambda: "<mail from='a'/>")
        runs = [agent.start("w.stays"), agent.start("w.leaves")]
        agent.until_idle()
        shown = [agent.ask("show", run=run) for run in runs]
    assert [run["state"] for run in shown] == ["done", state]
    if state == "failed":
        message = shown[1]["error"]["message"]
        assert "it says where (label mail)" in message
        assert '[[rule]] from = "mail" action = "flow.Leaves" then = "allow"' in message
