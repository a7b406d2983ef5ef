"""Questions to the user's code: answered, bounded in time, their slips told to whom they concern."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from narval.agent.agent import AgentState
from narval.core.definitions.library import Library
from narval.core.errors import ActionError
from narval.files.found_files import ModuleText
from narval.files.modules import ModulePackage, key_of
from narval.kinds.process.calls.questions import MOST_GIVEN_UP, QuestionAnswerer

TOKEN = {
    "id": 5, "complete": False, "guard_action": None, "execution_type": "Forward",
    "node": {
        "name": "bill", "type": "task", "external": None, "custom": {"limit": "3"},
        "arcs": [{"name": "", "to": "ship"}], "external_environment": {},
    },
    "environment": {"sum": "7"}, "parents": [4],
    "sets": [
        {"name": "votes", "index": 1, "max_index": 2, "level": 1, "environment": {}, "member": {"who": "Kim"}}
    ],
    "process": {
        "run": 9, "name": "shop.order", "state": "executing", "environment": {"customer": "Pat", "sum": "1"}
    },
}  # fmt: skip
ASKED = {"token": 5}
ARRIVAL = {
    "node": "bill",
    "arc_token": 8,
    "waiting": [
        {"id": 7, "arc": "x", "from": "b", "parent": 4},
        {"id": 8, "arc": "", "from": "a", "parent": 5},
    ],
    "target": None,
}


def token_view(definition: object, state: object, token: int | None) -> dict[str, Any]:
    return TOKEN if token is not None else {"process": TOKEN["process"]}


Ask = Callable[[str, dict[str, Any]], Any]


@pytest.fixture
def asker() -> Iterator[Callable[..., Ask]]:
    """Makes of a module's text what answers questions to it."""
    made: list[QuestionAnswerer] = []

    def make(text: str, longest: float = 5.0, **names: Any) -> Ask:
        module = ModuleText.of("modules/shop.py", f"import time\nfrom narval import *\n{text}".encode())
        imported = ModulePackage(lambda group: iter([module]) if group == "shop" else None).load(["shop"])
        assert not imported.faults, imported.faults
        functions = imported.modules["shop"].functions
        imported.modules["shop"].module.__dict__.update(names)
        questions = QuestionAnswerer(
            lambda run, definition: functions.get(key_of(definition)), longest=longest
        )  # type: ignore[arg-type]
        made.append(questions)
        agent = AgentState(Library(imported.modules["shop"].found))
        engine = SimpleNamespace(token_view=token_view)
        run: Any = SimpleNamespace(
            library=None,
            engine=engine,
            definition=None,
            state=None,
            transient={},
            lease=imported.modules["shop"].lease,
        )

        def ask(function: str, arguments: dict[str, Any]) -> Any:
            return questions.ask(agent, run, function, arguments, 86400.0)

        ask.questions = questions  # type: ignore[attr-defined]
        return ask

    yield make
    for questions in made:
        questions.close()


def refusal(ask: Ask, function: str, arguments: dict[str, Any] | None = None) -> str:
    with pytest.raises(ActionError) as caught:
        ask(function, arguments or ASKED)
    return f"{caught.value.kind}: {caught.value}"


def answer(ask: Ask, function: str) -> Any:
    """Its answer; while the machine is busy it may come too late, and is asked for again."""
    while True:
        try:
            return ask(function, ASKED)
        except ActionError as error:
            if error.kind != "question-timeout":
                raise


def test_a_predicate_reads_the_token_it_is_asked_about(asker: Callable[..., Ask]) -> None:
    ask = asker(
        "@predicate\ndef dear(token):\n"
        "    assert (token.id, token.node.name, token.process.run) == (5, 'bill', 9)\n"
        "    assert token.environment['customer'] == 'Pat'\n"
        "    assert token.process.environment.get('sum', type=int) == 1\n"
        "    assert token.sets['votes'].member['who'] == 'Kim'\n"
        "    return token.environment.get('sum', 0, int) > 5\n"
    )
    assert ask("predicate:dear", ASKED) is True


def test_dates_and_strings_are_answered_as_plain_data(asker: Callable[..., Ask]) -> None:
    ask = asker(
        "from datetime import datetime, timezone\n"
        "@date_function\ndef due(token): return datetime(2026, 1, 1, tzinfo=timezone.utc)\n"
        "@date_function\ndef soon(token): return 12\n"
        "@date_function\ndef now(token): return token.now\n"
        "@string_function\ndef way(token): return 'late'\n"
    )
    assert ask("date:due", ASKED) == 1767225600.0
    assert ask("date:soon", ASKED) == 12.0
    assert ask("date:now", ASKED) == 86400.0
    assert ask("string:way", ASKED) == "late"


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("None", {"action": "AcceptToken"}),
        ("Accept", {"action": "AcceptToken"}),
        ("Discard()", {"action": "DiscardToken"}),
        ("Skip", {"action": "SkipNode", "arcs": [""]}),
        ("Skip('late')", {"action": "SkipNode", "arcs": ["late"]}),
        ("Delay(30)", {"action": "DelayUntil", "until": 30.0}),
    ],
)
def test_the_guard_of_a_node_type_says_what_a_guard_may(
    asker: Callable[..., Ask], said: str, wanted: object
) -> None:
    ask = asker(
        f"@node_type('task')\nclass Task:\n    limit: int = 0\n"
        f"    def guard(self, token):\n        assert self.limit == 3\n        return {said}\n"
    )
    assert ask("node:task:guard", ASKED) == wanted


def test_a_node_type_says_whether_it_can_be_gone_back_from(asker: Callable[..., Ask]) -> None:
    ask = asker(
        "@node_type('task')\nclass Task:\n    limit: int = 0\n"
        "    def is_backtrackable(self, t): return False\n"
    )
    assert ask("node:task:is_backtrackable", ASKED) is False


def test_a_join_says_which_of_those_that_wait_are_joined(asker: Callable[..., Ask]) -> None:
    ask = asker(
        "@join\ndef both(arrival):\n    return arrival.join() if len(arrival.waiting) == 2 else None\n"
        "@join\nclass Own:\n    def join(self, arrival):\n        return [arrival.token]\n"
        "@join\ndef foreign(arrival): return {'join': [99]}\n"
        "@join\ndef merging(arrival): return arrival.merge()\n"
    )
    assert ask("join:both", ARRIVAL) == {"join": [7, 8]}
    assert ask("join:both", {**ARRIVAL, "waiting": ARRIVAL["waiting"][:1]}) is None
    assert ask("join:Own", ARRIVAL) == {"join": [8]}
    assert refusal(ask, "join:foreign", ARRIVAL) == (
        "bad-answer: expected tokens that wait at the node, each once, got list [99]"
    )
    assert "there is no token on the node to merge into" in refusal(ask, "join:merging", ARRIVAL)


def test_a_listener_hears_and_may_delay(asker: Callable[..., Ask]) -> None:
    ask = asker(
        "heard = []\n"
        "@listener\nclass Log:\n    def notify(self, event):\n"
        "        heard.append((event.type, event.token and event.token.id, event.process.run))\n"
        "        return 'DELAY_NODE_EXECUTION'\n"
        "@predicate\ndef was_heard(token): return len(heard) == 2\n"
    )
    assert ask("listener:Log", {"event": "NODE_TOKEN_ACCEPTED", "token": 5}) == ["DELAY_NODE_EXECUTION"]
    # other combinations have no effect (section 3)
    assert ask("listener:Log", {"event": "PROCESS_STARTED"}) == []
    assert ask("predicate:was_heard", ASKED) is True


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("return 1", "bad-answer: expected True or False, got int 1"),
        ("raise KeyError('sum')", "KeyError: predicate 'p' of modules/shop.py: 'sum'"),
        (
            "raise SystemExit(3)",
            "SystemExit: predicate 'p' of modules/shop.py: the action called sys.exit(3)",
        ),
        (
            "token.set('a', 1)",
            "RequestError: predicate 'p' of modules/shop.py: the attribute 'a' cannot be set here",
        ),
        (
            "token.complete()",
            "RequestError: predicate 'p' of modules/shop.py: token 5 can only be looked at here",
        ),
    ],
)
def test_what_goes_wrong_is_the_authors_to_hear_of(asker: Callable[..., Ask], body: str, wanted: str) -> None:
    assert refusal(asker(f"@predicate\ndef p(token):\n    {body}\n"), "predicate:p").startswith(wanted)


def test_a_name_that_nobody_gave_is_refused(asker: Callable[..., Ask]) -> None:
    ask = asker("@predicate\ndef p(token): return True\n")
    assert refusal(ask, "predicate:q") == "unknown-function: there is no predicate named 'q' in modules/"
    assert refusal(ask, "date:p") == "unknown-function: there is no date-function named 'p' in modules/"


def test_a_question_that_takes_too_long_is_given_up_and_the_next_is_answered(
    asker: Callable[..., Ask],
) -> None:
    ask = asker(
        "@predicate\ndef endless(token):\n    while True: pass\n@predicate\ndef quick(token): return True\n",
        longest=0.05,
    )
    assert refusal(ask, "predicate:endless") == (
        "question-timeout: predicate 'endless' did not answer within 0.05 s"
    )
    assert answer(ask, "predicate:quick") is True
    questions: QuestionAnswerer = ask.questions  # type: ignore[attr-defined]
    while questions.given_up:  # Python code is ended where it stands
        time.sleep(0.01)


def test_too_many_that_cannot_be_ended_are_not_asked_after(asker: Callable[..., Ask]) -> None:
    gate = threading.Event()
    ask = asker(
        "@predicate\ndef stuck(token): return wait()\n@predicate\ndef p(token): return True\n",
        longest=0.02,
        wait=gate.wait,
    )
    questions: QuestionAnswerer = ask.questions  # type: ignore[attr-defined]
    for _ in range(MOST_GIVEN_UP):
        assert refusal(ask, "predicate:stuck").startswith("question-timeout")
    assert refusal(ask, "predicate:p").startswith("question-refused: 8 questions did not come back")
    gate.set()
    while questions.given_up:
        time.sleep(0.01)
    assert answer(ask, "predicate:p") is True
