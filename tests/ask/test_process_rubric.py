"""Properties that are written in Rubric: read at load, evaluated when the node runs (section 18)."""

from __future__ import annotations

from pathlib import Path

import pytest

import narval
from narval.core.errors import DefinitionError, TokenError
from tests.ask.processes import HEAD, At, problem, standing, state

CODE = """
from datetime import date

class Reminder:
    text: Rubric[str] = "none"
    after: Rubric[date] = None

@node_type("task", runs="RUNS")
class Task:
    title: Rubric[str] = "untitled"
    days: Rubric[int] = 3
    due: Rubric[date] | None = None
    reminder: Reminder = None
    plain: str = ""

    def guard(self, token): return Discard if self.days < 0 else Accept

    def execute(self, token):
        note = token.process.environment.set
        note("title", self.title)
        note("days", self.days)
        note("plain", self.plain)
        if self.due is not None: note("due", self.due.isoformat())
        if self.reminder is not None: note("reminder", f"{self.reminder.text} {self.reminder.after:%H:%M}")
        token.complete()

@predicate("isUrgent")
def urgent(token): return token.environment.get("urgent", False, bool)

@date_function
def now(token): return 0.0

@string_function
def customer(token): return token.environment["customer"]
"""


def task(custom: str) -> str:
    return f"<node name='a' type='task' isStart='true'><custom>{custom}</custom></node>"


@pytest.mark.parametrize("runs", ["thread", "inline", "worker"])
def test_a_property_has_the_value_that_its_text_comes_to(at: At, runs: str) -> None:
    custom = (
        '<title>IF isUrgent THEN @customer ELSE "Someday"</title>'
        "<days>IF isUrgent THEN 1 ELSE 30</days><due>IF isUrgent THEN (2 hours after now) ELSE (now)</due>"
        '<reminder><text>"Look"</text><after>(30 minutes after now)</after></reminder>'
        "<plain>IF isUrgent</plain>"
    )
    agent, run = at(task(custom), CODE, runs, urgent="true", customer="Ann")
    found = agent.environment(run)
    assert (found["title"], found["days"], found["plain"]) == ("Ann", "1", "IF isUrgent")
    assert found["due"] == "1970-01-01T02:00:00+00:00"
    assert found["reminder"] == "Look 00:30"
    assert state(agent, run) == "completed"


def test_what_it_comes_to_depends_on_the_token_and_is_known_to_the_guard(at: At) -> None:
    custom = "<days>IF isUrgent THEN -1 ELSE 30</days>"
    agent, run = at(task(custom), CODE, urgent="true")
    assert standing(agent, run) == [("a", "discarded")]
    agent, run = at(task(custom), CODE)
    assert agent.environment(run)["days"] == "30"


def test_where_it_cannot_be_evaluated_the_token_stays(at: At) -> None:
    agent, run = at(task("<title>@customer</title>"), CODE)
    _, message = problem(agent, run)
    assert "customer" in message
    agent.environment(run, values={"customer": "Ann"})
    agent.rerun(run, node="a")
    agent.until_idle()
    assert (state(agent, run), agent.environment(run)["title"]) == ("completed", "Ann")


def test_a_node_that_cannot_be_told_it_was_gone_back_from_holds_nothing_up(at: At) -> None:
    agent, run = at(
        "<node name='a' type='undone' isStart='true'><arc to='b'/><custom><title>@customer</title></custom>"
        "</node><node name='b' type='wait'/>",
        CODE + "\n@node_type('undone')\nclass Undone(Task):\n    def backtrack(self, token): ...\n",
        customer="Ann",
    )
    agent.environment(run, values={"customer": None})
    with pytest.raises(TokenError):  # whoever asked is told that what was gone back to fails
        agent.backtrack(run, node="a")
    agent.until_idle()
    assert [error.attributes["type"] for error in agent.memory("error")] == ["KeyError"] * 2
    agent.environment(run, values={"customer": "Bob"})
    agent.rerun(run, node="a")
    agent.until_idle()
    assert (standing(agent, run)[-1], agent.environment(run)["title"]) == (("b", "active"), "Bob")


@pytest.mark.parametrize(
    ("custom", "column", "message"),
    [
        ("<title>approved</title>", 8, "expected a string, a string function or IF, found 'approved'"),
        ("<title>5</title>", 8, "expected a string or a string function as the result, found a number"),
        ("<days>@customer</days>", 7, "expected a number as the result, found a string function"),
        ("<days>IF isUrgent\n THEN x ELSE 1</days>", 7, "expected a number or IF, found 'x'"),
        ("<due>5</due>", 6, "expected a date in parentheses as the result, found a number"),
        ("<due>Accept</due>", 6, "expected a date in parentheses as the result, found Accept"),
        ("<reminder><text>x</text></reminder>", 17, "the property 'reminder.text': expected a string"),
    ],
)
def test_a_fault_in_it_is_told_at_load_at_its_character(
    tmp_path: Path, custom: str, column: int, message: str
) -> None:
    (tmp_path / "w.py").write_text(HEAD + CODE.replace("RUNS", "thread"))
    text = f"<process-definition name='p'><node name='a' type='task'><custom>\n{custom}</custom></node>"
    text += "</process-definition>"
    (tmp_path / "w.xml").write_text(text)
    with narval.open() as agent:
        agent.load(tmp_path / "w.py")
        with pytest.raises(DefinitionError) as refused:
            agent.load(tmp_path / "w.xml")
    (fault,) = refused.value.faults
    assert message in fault.message
    assert (fault.line, fault.column) == (2 + custom.count("\n"), column)


def test_a_property_of_another_type_cannot_be_written_in_it(tmp_path: Path) -> None:
    (tmp_path / "w.py").write_text(HEAD + "@node_type('t')\nclass T:\n    size: Rubric[float] = 0.0\n")
    with (
        narval.open() as agent,
        pytest.raises(DefinitionError, match=r"expected Rubric\[str\], \[int\] or \[date\]"),
    ):
        agent.load(tmp_path / "w.py")
