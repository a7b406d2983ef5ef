"""The command line and the life of a daemon: runs waited for; daemons started, stopped, killed, followed."""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import ExitStack
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from narval.daemon.daemon import Daemon
from narval.surfaces.control import client
from tests.surfaces.cli.command_line import (
    NAME,
    begun,
    daemon,
    data,
    ended,
    line_of,
    narval,
    run_of,
    until,
    well,
)

# --- start --wait, run ----------------------------------------------------------------------------------


def test_start_waits_for_the_end_and_says_how_it_was(home: Path) -> None:
    result = narval(home, "start", "demo.greet", "-", "--wait", given=NAME)
    assert result.exit_code == 0
    assert result.stdout.strip() == str(run_of(home, "demo.greet"))
    assert "done" in result.stderr
    failed = narval(home, "start", "demo.fail", "--wait")
    assert failed.exit_code == 1
    assert "step break: there is nobody to talk to" in failed.stderr
    as_json = narval(home, "start", "demo.fail", "--wait", "--json")
    assert as_json.exit_code == 1
    assert json.loads(as_json.stdout)["phase"] == "failed"


def test_start_gives_up_waiting_after_its_timeout(home: Path) -> None:
    (home / "etc" / "narval.toml").write_text("stop_grace = 0\n")
    late = narval(home, "start", "demo.slow", "--wait", "--timeout", "0.05")
    assert late.exit_code == 1
    assert f"narval why {late.stdout.strip()}" in late.stderr


def test_start_waits_for_a_daemon_too(home: Path) -> None:
    with daemon(home):
        assert narval(home, "start", "demo.greet", "-", "--wait", given=NAME).exit_code == 0
        assert narval(home, "start", "demo.fail", "--wait").exit_code == 1
        assert narval(home, "start", "demo.slow", "--wait", "--timeout", "0.05").exit_code == 1


def test_while_a_command_performs_a_run_others_are_answered(home: Path) -> None:
    starting = begun(home, "start", "demo.await", "--wait")
    run = int(line_of(starting))
    assert data(home, "status")["pid"] == starting.pid
    until(lambda: bool(data(home, "why", run)["waiting"]))
    well(home, "add", "-", given="<letter to='ann' urgent='yes'/>")
    assert ended(starting)[0] == 0
    assert data(home, "show", run)["phase"] == "done"


def test_what_was_started_without_a_daemon_is_done_by_the_next(home: Path) -> None:
    run = int(well(home, "start", "demo.greet", "-", given=NAME))
    assert data(home, "show", run)["phase"] == "active"
    assert narval(home, "run", "--until-idle").exit_code == 0
    assert data(home, "show", run)["phase"] == "done"


def test_N34_a_daemon_that_an_element_stops_says_which_in_its_last_line_and_in_the_log(home: Path) -> None:
    (home / "inbox").mkdir(exist_ok=True)
    (home / "inbox/q.xml").write_text("<quit/>")
    said = narval(home, "run").stdout
    assert re.search(r"^stopped by element \d+ of inbox/q\.xml \(\S+\) after ", said, re.MULTILINE), said
    log = (home / "var/narval.log").read_text()
    assert re.search(r"stopped by element \d+ of inbox/q\.xml", log), log


def test_run_until_idle_ends_and_tells_which_runs_failed(home: Path) -> None:
    well(home, "start", "demo.greet", "-", given=NAME)
    result = narval(home, "run", "--until-idle")
    assert result.exit_code == 0
    first, second = result.stdout.splitlines()
    assert re.fullmatch(
        rf"narval \S+ is ready: {re.escape(str(home))}, 8 definitions, \d+ runs? under way", first
    )
    assert re.fullmatch(r"idle after .*", second)
    well(home, "start", "demo.fail")
    failed = narval(home, "run", "--until-idle")
    assert failed.exit_code == 1
    assert "1 run failed:" in failed.stdout
    assert "there is nobody to talk to" in failed.stdout
    assert narval(home, "run", "--until-idle").exit_code == 0


def test_a_run_that_fails_as_the_daemon_starts_is_told_too(home: Path) -> None:
    (home / "recipes/bad.xml").write_text(
        '<recipe group="t" name="bad" start_step="a" end_step="a">'
        '<step id="a" type="action" target="basic.error"/></recipe>'
    )
    well(home, "start", "t.bad")
    result = narval(home, "run", "--until-idle", "--json")
    assert (result.exit_code, [run["name"] for run in json.loads(result.stdout)["failed"]]) == (1, ["t.bad"])


def test_run_as_json_gives_one_object_and_nothing_else(home: Path) -> None:
    well(home, "start", "demo.fail")
    result = narval(home, "run", "--until-idle", "--json")
    summary = json.loads(result.stdout)
    assert result.exit_code == 1
    assert set(summary) == {"idle", "timed_out", "stopped_by", "failed", "later", "asked", "waiting"}
    assert summary["idle"] is True
    assert [run["name"] for run in summary["failed"]] == ["demo.fail"]
    assert "is ready" in result.stderr


FAR = """from narval import action

@action(runs="cluster")
def factors(): return None

@action
def find(): raise ValueError("nobody answers")
"""
FAR_RECIPES = """<cookbook group="far">
<recipe name="factors" start_step="a" end_step="a"><step id="a" type="action" target="far.factors"/></recipe>
<recipe name="find" start_step="a" end_step="a">
<step id="a" type="action" target="far.find" retries="1" backoff="600"/></recipe>
</cookbook>"""


def test_run_until_idle_tells_what_waits_for_what(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("narval.calls.cluster.connection.is_installed", lambda package: False)
    (home / "etc" / "narval.toml").write_text('cluster = "local"\ntimezone = "UTC"\n')
    (home / "modules" / "far.py").write_text(FAR)
    (home / "recipes" / "far.xml").write_text(FAR_RECIPES)
    away, again = (int(well(home, "start", name)) for name in ("far.factors", "far.find"))
    told = narval(home, "run", "--until-idle").stdout.partition("calls that wait:\n")[2].splitlines()
    assert re.fullmatch(
        rf"  a in run {again} of far.find will be tried again at [-0-9]+ [:0-9]+ \(UTC\): "
        "action far.find, attempt 2 of 2 after ValueError: nobody answers",
        told[0],
    )
    waits = f"  a in run {away} of far.factors waits: there is no cluster: expected the package distributed"
    assert told[1].startswith(waits)
    assert "pip install" in told[1]


def test_run_ends_when_its_time_is_over(home: Path) -> None:
    well(home, "start", "demo.slow")
    assert narval(home, "run", "--timeout", "0.05").exit_code == 0
    result = narval(home, "run", "--until-idle", "--timeout", "0.05")
    assert result.exit_code == 1
    assert "not idle after" in result.stdout


def test_what_ended_it_is_its_time_even_if_there_was_nothing_to_do(home: Path) -> None:
    summary = json.loads(narval(home, "run", "--timeout", "0.05", "--json").stdout)
    assert summary["timed_out"]  # whether it is idle by then, or still reads the home, is chance
    summary = json.loads(narval(home, "run", "--until-idle", "--timeout", "3600", "--json").stdout)
    assert (summary["idle"], summary["timed_out"]) == (True, False)


def test_without_a_daemon_no_call_is_under_way(home: Path) -> None:
    (home / "etc" / "narval.toml").write_text("stop_grace = 0\n")
    well(home, "start", "demo.slow")
    narval(home, "run", "--timeout", "0.3")
    status = data(home, "status")
    assert (status["calls"], status["calls_left"]) == ([], 1)
    assert "1 call waits for the next start" in well(home, "status")


def test_N34_a_daemon_that_is_to_outlive_its_terminal_does(home: Path) -> None:
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with daemon(home) as running:
            running.send_signal(signal.SIGHUP)
            assert data(home, "status")["state"] == "running"
            assert well(home, "stop") == "stopped\n"
            assert ended(running)[0] == 0
    finally:
        signal.signal(signal.SIGHUP, ignored)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_N34_a_signal_ends_the_daemon_well(home: Path, number: signal.Signals) -> None:
    with daemon(home) as running:
        well(home, "start", "demo.await")
        running.send_signal(number)
        status, out, err = ended(running)
    assert status == 0
    assert "stopped after" in out
    assert "Traceback" not in err
    assert data(home, "status")["state"] == "stopped"
    assert len(data(home, "runs", "--state", "active")) == 1


def test_N34_a_second_interrupt_ends_the_daemon_at_once(home: Path) -> None:
    (home / "etc" / "narval.toml").write_text("stop_grace = 3600\n")
    with daemon(home) as running:
        well(home, "start", "demo.slow")
        until(lambda: data(home, "status")["calls"] != [])
        running.send_signal(signal.SIGINT)
        assert running.stderr is not None
        assert b"interrupt it again" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        status, _, err = ended(running)
    assert status == 130
    assert "Traceback" not in err
    assert data(home, "runs")[0]["phase"] == "active"


def test_N34_stop_waits_until_the_home_is_free(home: Path) -> None:
    with daemon(home) as running:
        assert well(home, "stop") == "stopped\n"
        assert ended(running)[0] == 0
    assert not (home / "var" / "control.sock").exists()
    result = narval(home, "stop")
    assert result.exit_code == 0
    assert result.stdout == f"no daemon runs at {home}\n"
    assert data(home, "stop") == {"stopped": False}


def test_a_second_daemon_is_refused_and_told_who_holds_the_home(home: Path) -> None:
    with daemon(home) as running:
        result = narval(home, "run", "--until-idle")
        assert result.exit_code == 3
        assert str(running.pid) in result.stderr


def test_a_daemon_that_does_not_answer_is_exit_status_3(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PATIENCE", 0.2)
    with daemon(home) as running:
        running.send_signal(signal.SIGSTOP)
        for arguments in (["status"], ["runs", "--json"], ["stop"]):
            result = narval(home, *arguments)
            assert result.exit_code == 3
            assert "has not answered within 0.2 seconds" in result.stderr
            assert result.stdout == ""


def test_a_home_held_without_a_socket_is_exit_status_3(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from narval.files.home import Home

    monkeypatch.setattr(client, "PATIENCE", 0.2)
    with Home(home).lock(as_daemon=True):
        for arguments in (["stop"], ["run"], ["start", "demo.greet", "--wait"], ["cancel", "1"]):
            result = narval(home, *arguments)
            assert result.exit_code == 3
            assert "is open in this program already" in result.stderr


def test_a_daemon_whose_socket_is_gone_can_be_ended_as_the_commands_say(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PATIENCE", 0.2)
    with daemon(home) as running:
        (home / "var" / "control.sock").unlink()
        advice = f"`kill {running.pid}` ends it well"
        assert advice in narval(home, "stop").stderr
        assert advice in narval(home, "add", "-", given="<a/>").stderr
        assert advice in well(home, "status")
        running.terminate()
        assert ended(running)[0] == 0


def test_a_daemon_waits_for_a_command_however_long_it_works_and_says_so(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from narval.files.home import Home

    attempts, opened = list[Any](), Daemon.open

    async def counted(*arguments: Any, **named: Any) -> Daemon:
        attempts.append(arguments)
        return await opened(*arguments, **named)

    monkeypatch.setattr(Daemon, "open", counted)
    monkeypatch.setattr(client, "PATIENCE", 0.1)
    with ExitStack() as command:
        command.enter_context(Home(home).lock())
        assert narval(home, "cancel", "1").exit_code == 3
        done = Timer(1.5, command.close)
        done.start()
        result = narval(home, "run", "--until-idle")
        done.join()
    assert result.exit_code == 0
    assert result.stderr.count(f"warning: waiting for program {os.getpid()} since ") == 1
    assert f", which is no daemon, to let go of {home}" in result.stderr
    assert len(attempts) < 10, "the system says when the home is released"


def test_a_daemon_waits_for_a_command_that_listens(home: Path) -> None:
    command = begun(home, "start", "demo.await", "--wait")
    until(lambda: data(home, "status")["pid"] == command.pid)
    waiting = begun(home, "run", "--until-idle")
    assert waiting.stderr is not None
    assert f"waiting for program {command.pid} since" in waiting.stderr.readline().decode()
    command.kill()
    command.communicate()
    assert ended(waiting)[0] == 0


def test_a_killed_daemon_leaves_nothing_in_the_way(home: Path) -> None:
    with daemon(home) as running:
        well(home, "start", "demo.await")
        running.kill()
        running.wait()
        assert (home / "var" / "control.sock").exists()
        assert len(data(home, "runs")) == 1
    with daemon(home):
        assert len(data(home, "runs")) == 1
        well(home, "stop")


def test_commands_at_the_same_time_wait_for_each_other(home: Path) -> None:
    adding = [begun(home, "add", "-", given=f"<a n='{number}'/>".encode()) for number in range(4)]
    eids = []
    for command in adding:
        status, out, err = ended(command)
        assert (status, err) == (0, "")
        eids += out.split()
    assert len(set(eids)) == 4
    assert len(data(home, "memory", "a")) == 4


# --- following ------------------------------------------------------------------------------------------


def test_history_is_followed_until_the_run_is_over(home: Path) -> None:
    with daemon(home):
        run = int(well(home, "start", "demo.await"))
        following = begun(home, "history", run, "--follow", "--json")
        first = line_of(following) + line_of(following)
        well(home, "add", "-", given="<letter to='ann' urgent='yes'/>")
        status, rest, _ = ended(following)
        assert status == 0
        lines = json.loads(first.decode() + rest)
        assert lines == data(home, "history", run)
        assert any(line["what"] == "Finish" for line in lines)


def test_following_without_a_daemon_ends_and_says_why(home: Path) -> None:
    run = int(well(home, "start", "demo.await"))
    result = narval(home, "history", run, "--follow")
    assert result.exit_code == 0
    assert "nothing more will come" in result.stderr
    assert narval(home, "log", "--follow").exit_code == 0


def test_the_log_is_followed_until_it_is_interrupted(home: Path) -> None:
    with daemon(home):
        following = begun(home, "log", "--follow", "--json")
        well(home, "start", "demo.await")
        first = line_of(following)
        while b"nothing was done" not in first:
            first += line_of(following)
        following.send_signal(signal.SIGINT)
        status, rest, err = ended(following)
        assert (status, err) == (130, "")
        assert "nothing was done" in {line["message"] for line in json.loads(first.decode() + rest)}


def test_a_daemon_that_ends_ends_those_who_follow(home: Path) -> None:
    with daemon(home) as running:
        run = int(well(home, "start", "demo.await"))
        following = begun(home, "history", run, "--follow", "--json")
        first = line_of(following)
        running.send_signal(signal.SIGTERM)
        status, rest, err = ended(following)
        assert status == 3
        assert json.loads(first.decode() + rest)
        assert len(err.splitlines()) == 1
