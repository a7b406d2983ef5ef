"""Scripts in processes, in both languages (section 10)."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import psutil
import pytest

from narval.core.errors import NotBacktrackableError
from narval.kinds.process.calls import tasks
from tests.ask.processes import At, problem, standing, state
from tests.ask.test_processes import refused


def script(text: str, more: str = "") -> str:
    return f"<node name='s' type='script' isStart='true'>{more}<custom>{text}</custom></node>"


def test_scripts_run_in_both_languages_and_go_on(at: At) -> None:
    agent, run = at(
        script(
            "<execute type='js'>token.process.env.setAttribute('js', token.node.name)</execute>",
            "<arc to='t'/>",
        )
        + "<node name='t' type='script'><custom><execute type='python'>\n"
        "token.process.environment.set('python', token.environment.get('js') + '!')\n"
        "</execute></custom></node>"
    )
    assert (state(agent, run), agent.environment(run)) == ("completed", {"js": "s", "python": "s!"})


def test_a_script_goes_back_once(at: At) -> None:
    agent, run = at(
        "<node name='a' type='wait' isStart='true'><arc to='s'/></node>"
        "<node name='s' type='script'><arc to='b'/><custom><execute>"
        "if (token.process.env.getAttribute('again') === null) {"
        " token.process.env.setAttribute('again', true);"
        " engine.backtrack(token.parentTokens.get(0).parentToken); }"
        "</execute><backtrack>token.process.env.setAttribute('undone', true)</backtrack></custom></node>"
        "<node name='b'/>"
    )
    agent.complete(run, node="a")
    agent.until_idle()
    assert standing(agent, run)[-1] == ("a", "active")
    agent.complete(run, node="a")
    agent.until_idle()
    assert (state(agent, run), agent.environment(run)) == ("completed", {"again": "true", "undone": "true"})


def test_a_script_says_whether_it_can_be_gone_back_from(at: At) -> None:
    agent, run = at(
        "<node name='a' type='wait' isStart='true'><arc to='s'/></node>"
        "<node name='s' type='script'><arc to='b'/><custom><execute>1</execute>"
        "<allowBacktrack>token.process.env.getAttribute('open') == 'yes'</allowBacktrack></custom></node>"
        "<node name='b' type='wait'/>"
    )
    agent.complete(run, node="a")
    agent.until_idle()
    assert refused(NotBacktrackableError, lambda: agent.backtrack(run, node="a")) == "not-backtrackable"
    agent.environment(run, values={"open": "yes"})
    agent.backtrack(run, node="a")
    assert dict(standing(agent, run))["b"] == "backtracked"


@pytest.mark.parametrize(
    ("text", "kind", "wanted"),
    [
        (
            "nobody()",
            "script-failed",
            "the script of node 's': line 1: ReferenceError: nobody is not defined",
        ),
        ("var a = []; while (true) a.push('x' + a.length)", "script-memory", "it wanted more than 64 MiB"),
    ],
)
def test_a_script_that_fails_says_so(at: At, text: str, kind: str, wanted: str) -> None:
    agent, run = at(script(f"<execute>{text}</execute>"))
    type, message = problem(agent, run)
    assert type == kind
    assert wanted in message


def test_a_script_that_loops_is_ended_while_others_go_on(at: At) -> None:
    agent, run = at(
        "<node name='s' type='script' isStart='true'><arc name='error' to='b'/>"
        "<custom><execute>while (true) {}</execute><timeout>1</timeout></custom></node><node name='b'/>"
    )
    assert standing(agent, run) == [("s", "complete"), ("b", "complete")]
    [error] = agent.memory("error")
    assert error.attributes["type"] in ("script-timeout", "timeout")  # whoever was first to end it


def test_on_a_busy_machine_a_script_that_loops_is_ended_by_its_own_limit(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker is stopped for longer than the limit, as a busy machine would have it wait."""
    monkeypatch.setattr(tasks, "SCRIPT_TIME", 1.0)
    stopped = threading.Thread(target=_stop_worker_for, args=(3.5,))
    stopped.start()
    agent, run = at(script("<execute>while (true) {}</execute>"))
    stopped.join()
    kind, message = problem(agent, run)
    assert (kind, "it took more than 1 s" in message) == ("script-timeout", True)


def _stop_worker_for(seconds: float) -> None:
    """Stop the worker that this program starts once it is at work on the script."""
    while True:
        for child in psutil.Process().children():
            with suppress(psutil.Error):
                if "narval.calls.workers.worker" in child.cmdline() and child.cpu_times().user > 0.8:
                    child.suspend()
                    time.sleep(seconds)
                    child.resume()
                    return
        time.sleep(0.01)
