"""Runs and the newer version of their file: what took nothing follows it, others are told and renewed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.core.errors import RequestError
from narval.surfaces.cli.render import answers, reasons
from narval.surfaces.python.agent import Agent

MODULE = """from narval import Input, Output, action

@action(runs="inline", pure=True)
def nothing(): pass

@action(runs="inline")
def seen(): pass

@action(inputs=[Input("mail", "*")], outputs=[Output("note", "note")], runs="inline")
def note(mail):
    return f"<note of='{mail.attributes['n']}' by='WORD'/>"
"""
LISTENS = """<recipe group="r" name="listen" start_step="wait" end_step="end"{restart}>
  <step id="wait" type="action" target="m.nothing"/>
  <step id="note" type="action" target="m.note"/>
  <step id="end" type="action" target="m.nothing"/>
  <transition id="comes"><in idref="wait"/><out idref="note"/>
    <condition use="yes" as="mail"><match>{mail}</match></condition></transition>
  <transition id="agreed"><in idref="note"/><out idref="end"/>
    <condition><match>agreed[@to = $mail/@n]</match></condition></transition>
</recipe>"""


class Home:
    """A home with one recipe whose file is written anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write("modules/m.py", MODULE)

    def write(self, path: str, text: str) -> None:
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def listens(self, mail: str, restart: str = "") -> None:
        self.write("recipes/r.xml", LISTENS.format(mail=mail, restart=restart and f' restart="{restart}"'))

    def open(self) -> Agent:
        return narval.open(self.path)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    made.listens("mail")
    return made


@pytest.fixture
def agent(home: Home) -> Iterator[Agent]:
    with home.open() as agent:
        yield agent


def reloaded(agent: Agent) -> None:
    assert agent.ask("reload")["changed"]
    agent.until_idle()


def started(agent: Agent) -> int:
    run = agent.start("r.listen")
    agent.until_idle()
    return run


def took(agent: Agent, run: int, xml: str = "<mail n='1'/>") -> None:
    """The run takes an element, and waits for another."""
    agent.add(xml)
    agent.until_idle()
    assert agent.run(run)["transitions"][0]["state"] == "fired"


def patterns(agent: Agent, run: int) -> list[str]:
    return [one["pattern"] for wait in agent.why(run)["waiting"] for one in wait["conditions"]]


def told(agent: Agent, run: int) -> str:
    return "\n".join(reasons.why(agent.why(run)))


def test_N31_what_took_nothing_goes_on_with_the_new_version_of_its_file(home: Home) -> None:
    with home.open() as agent:
        run = started(agent)
        home.listens("letter")
        reloaded(agent)
        assert patterns(agent, run) == ["letter"]
        assert "newer" not in agent.run(run)
        agent.add("<mail n='1'/>")
        agent.until_idle()
        assert not agent.memory("note"), "the old version waits no more"
        assert [line["what"] for line in agent.history(run)].count("Redefined") == 1
    with home.open() as agent:  # its state is replayed
        assert patterns(agent, run) == ["letter"]
        took(agent, run, "<letter n='2'/>")
        agent.add("<agreed to='2'/>")
        agent.until_idle()
        assert agent.run(run)["state"] == "done"


def test_N31_a_file_that_changed_between_two_starts_is_followed_too(home: Home) -> None:
    with home.open() as agent:
        run = started(agent)
    home.listens("letter")
    with home.open() as agent:
        assert patterns(agent, run) == ["letter"]


def test_N31_what_a_run_calls_that_took_nothing_is_of_the_new_version_too(home: Home, agent: Agent) -> None:
    run = started(agent)
    home.write("modules/m.py", MODULE.replace("WORD", "the new one"))
    reloaded(agent)
    took(agent, run)
    assert [note.attributes["by"] for note in agent.memory("note")] == ["the new one"]


def test_N28_of_parallel_plans_that_which_listens_follows_the_file(home: Home) -> None:
    home.listens("mail", "parallel")
    with home.open() as agent:
        first = started(agent)
        took(agent, first)
        (listening,) = (row["eid"] for row in agent.runs() if row["eid"] != first)
        home.listens("letter", "parallel")
        reloaded(agent)
        assert patterns(agent, listening) == ["letter"]
        assert patterns(agent, first) == ["agreed[@to = $mail/@n]"]
        assert {row["eid"] for row in agent.runs() if "newer" in row} == {first}
        with pytest.raises(RequestError, match=f"waits in its place: .*narval retry {first} --from"):
            agent.renew(first)


def test_N31_any_other_is_told_by_all_that_show_it(
    home: Home, agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    run = started(agent)
    took(agent, run)
    assert "newer" not in agent.why(run)
    home.listens("letter")
    reloaded(agent)
    shown, [row] = agent.run(run), agent.runs()
    assert shown["newer"] == row["newer"] == agent.why(run)["newer"]
    assert shown["newer"]["definition"] == agent.ask("definition", name="r.listen")["digest"]
    assert f"; the file is newer; `narval renew {run}` restarts it" in told(agent, run)
    answers.run(shown)
    answers.runs([row], lambda rows: None)
    written = capsys.readouterr().out
    assert written.count("waits with the version of ") == 2
    agent.cancel(run)
    assert "newer" not in agent.run(run)


def test_N31_renew_begins_a_run_anew_with_what_it_was_given_first(home: Home, agent: Agent) -> None:
    run = agent.start("r.listen", "<given/>")
    agent.until_idle()
    took(agent, run)
    home.listens("*[self::mail or self::letter]")
    reloaded(agent)
    answer = agent.renew(run, "the rules are others")
    agent.until_idle()
    again = answer["run"]
    assert answer == {"run": again, "instead_of": run, "name": "r.listen"}
    assert agent.run(run)["phase"] == "cancelled"
    assert f"restarted as {again}: the rules are others" in agent.why(run)["reason"]
    assert patterns(agent, again) == ["*[self::mail or self::letter]"], "what was used stays used"
    assert [agent.element(eid).name for eid in agent.run(again)["context"]] == ["given"]
    took(agent, again, "<letter n='2'/>")
    with pytest.raises(RequestError, match="is over already"):
        agent.renew(run)


FAILS = """<recipe group="r" name="fails" start_step="a" end_step="a">
  <step id="a" type="action" target="n.breaks" retries="5" backoff="3600"/></recipe>"""
BREAKS = """from narval import action

@action(runs="inline")
def breaks(): raise ValueError("WORD")
"""


def test_a_run_that_is_tried_again_says_that_the_file_of_its_module_is_newer(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    home.write("modules/n.py", BREAKS)
    home.write("recipes/f.xml", FAILS)
    with home.open() as agent:
        run = agent.start("r.fails")
        agent.until_idle()
        assert "newer_code" not in agent.why(run).keys() | agent.run(run).keys()
        home.write("modules/n.py", BREAKS.replace("WORD", "mended"))
        reloaded(agent)
        assert agent.why(run)["newer_code"] == agent.run(run)["newer_code"] == ["modules/n.py"]
        sentence = f"keeps modules/n.py as read when it began; the file is newer: `narval renew {run}`"
        assert f"it {sentence}" in told(agent, run)
        answers.run(agent.run(run))
        assert sentence in capsys.readouterr().out
        (line,) = agent.ask("attention")
        assert ("will be tried again" in line["text"], f"; it {sentence}" in line["text"]) == (True, True)
        again = agent.renew(run, "it is mended")["run"]
        agent.until_idle()
        assert "newer_code" not in agent.why(again)


CALLS = """<cookbook group="c"><recipe name="calls" start_step="a" end_step="z">
<step id="a" type="{kind}" target="{name}"/><step id="z" type="action" target="m.nothing"/>
<transition id="t"><in idref="a"/><out idref="z"/></transition></recipe></cookbook>"""
AUTOMATON = """<AUTOMATON group="r" name="kind"><state name="start" command="true"><wait signal="go"/></state>
</AUTOMATON>"""
PROCESS = """<process-definition group="r" name="kind"><node name="a" type="wait" isStart="true">
<condition><match>never</match></condition></node></process-definition>"""
KINDS: dict[str, tuple[str, str]] = {
    "recipe": ("recipes/k.xml", LISTENS.replace("listen", "kind").format(mail="mail", restart="")),
    "automaton": ("recipes/k.xml", AUTOMATON),
    "process": ("recipes/k.xml", PROCESS),
    "work": ("recipes/k.xml", '<work group="r" name="kind"><title>Look</title></work>'),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_called_run_of_any_kind_is_renewed_under_the_call_that_waits_for_it(
    home: Home, agent: Agent, kind: str
) -> None:
    path, text = KINDS[kind]
    home.write(path, text)
    home.write("recipes/c.xml", CALLS.format(kind=kind, name="r.kind"))
    reloaded(agent)
    caller = agent.start("c.calls")
    agent.until_idle()
    called = called_by(agent, caller)
    agent.renew(called)
    agent.until_idle()
    again = called_by(agent, caller)
    assert (again > called, agent.run(called)["phase"]) == (True, "cancelled")
    agent.cancel(again)
    agent.until_idle()
    assert agent.run(caller)["phase"] == "failed"


def test_a_process_that_is_renewed_has_the_attributes_that_it_began_with(home: Home, agent: Agent) -> None:
    home.write("recipes/k.xml", PROCESS)
    reloaded(agent)
    run = agent.start("r.kind", environment={"of": "today"})
    agent.until_idle()
    again = agent.renew(run)["run"]
    agent.until_idle()
    assert agent.environment(again) == {"of": "today"}


WAITS = """<recipe group="r" name="listen" start_step="wait" end_step="end">
  <step id="wait" type="action" target="{target}"/>
  <step id="end" type="action" target="m.nothing"/>
  <transition id="comes"><in idref="wait"/><out idref="end"/>{time}
    <condition><match>{match}</match></condition></transition>
</recipe>"""


@pytest.mark.parametrize(
    ("target", "time", "follows"),
    [
        ("m.nothing", "", True),
        ("m.nothing", '<time hours="7" minutes="0" seconds="0"/>', True),
        ("m.nothing", '<time after="3d"/>', False),
        ("m.seen", "", False),
    ],
    ids=["a condition", "a date that has not come", "an appointment, which counts", "a call with effects"],
)
def test_N31_what_a_plan_may_have_done_that_goes_on_with_a_new_version(
    home: Home, target: str, time: str, follows: bool
) -> None:
    home.write("recipes/r.xml", WAITS.format(target=target, time=time, match="old"))
    with home.open() as agent:
        run = started(agent)
        home.write("recipes/r.xml", WAITS.format(target=target, time=time, match="new"))
        reloaded(agent)
        assert ("newer" in agent.run(run)) is not follows


def called_by(agent: Agent, caller: int) -> int:
    """The run that the first step of a plan waits for."""
    waiting: list[dict[str, Any]] = agent.why(caller)["waiting"]
    (run,) = waiting[0]["runs"]
    return int(run)
