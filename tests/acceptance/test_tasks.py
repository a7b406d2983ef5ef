"""Programs as tasks at a real daemon (K48–K60): shell scripts, Python, actions; deaths, and waits."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from narval.core.errors import DaemonGoneError, RequestError, TaskRefusedError
from narval.surfaces.control.client import Client
from narval.surfaces.python import task as tasks
from tests.acceptance.home import Narval, make, until
from tests.forked_commands import write_program

TASKS = """
TASK TYPE scan
  INITIAL scanning
  STATE scanning EXPOSED
    ON EVENT scanned GOTO reading
    ON EVENT jammed GOTO EXCEPTION
  STATE reading EXPOSED
    ON EVENT ev.check (word)
      CONDITION
      ACTION { if (word == "good") assert(FORWARD); }
    ON EVENT stored GOTO FORWARD
  ON FORWARD
    route(book);

TASK TYPE book
  TASK CODE "w.book"
  INITIAL booking
  STATE booking EXPOSED
    ON EVENT ready GOTO booked
  STATE booked EXPOSED
    ON EVENT done GOTO COMMIT

TASK TYPE print
  TASK CODE "exec: sh print.sh"
  INITIAL waiting
  STATE waiting EXPOSED
    ON EVENT begun GOTO printing
  STATE printing EXPOSED
    ON EVENT done GOTO COMMIT

TASK TYPE sign
  ROLES: clerk
  INVOCATION: MANUAL
  TASK CODE "w.book"
  INITIAL signing
  STATE signing EXPOSED
    ON EVENT fine GOTO COMMIT

TASK TYPE exception
  INITIAL deciding
  STATE deciding EXPOSED
    ON EVENT again GOTO FORWARD
  ON FORWARD
    route(scan);
"""
SHELF = """
TASK TYPE shelf
  INITIAL empty
  STATE empty EXPOSED
    ON EVENT ev.keep CONDITION ACTION { assert(COMMIT); }
    ON EVENT kept GOTO COMMIT
"""
MODULE = """
from narval import Element, Input, Output, action, task

@action(inputs=[Input("sheet", "sheet")], outputs=[Output("note", "note")])
def book(sheet: Element) -> str:
    state = task.get_current_state()
    task.assert_("booked")
    own = task.current_object().eid
    return f"<note was='{state}' same='{own == sheet.eid}'/>"
"""
PRINT = """
set -e
cat > printed.xml
narval task state > state.txt
narval task raise begun >> state.txt
"""
PEOPLE = """
[people.ann]
roles = ["clerk"]
[people.ben]
"""
SHEET = b'<sheet number="1"/>'


@pytest.fixture
def narval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Narval:
    folder = tmp_path / "home"
    made = make(folder, module=MODULE)
    made.write("recipes/w.task", TASKS)
    made.write("etc/people.toml", PEOPLE)
    made.write("print.sh", PRINT)
    write_program(tmp_path / "narval")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("NARVAL_HOME", str(folder))
    for name in ("NARVAL_TASK", "NARVAL_CALL", "NARVAL_AGENT"):
        monkeypatch.delenv(name, raising=False)
    return made


def says(narval: Narval, *words: str, given: bytes = b"") -> tuple[int, str]:
    done = narval("task", *words, given=given)
    return done.returncode, (done.stdout or done.stderr).decode().strip()


def put(narval: Narval, name: str = "w.scan") -> int:
    return int(says(narval, "put", name, "-", given=SHEET)[1])


def is_done(narval: Narval, case: int) -> bool:
    return bool(narval.ask("show", str(case))["phase"] == "done")


SCRIPT = """
set -e
NARVAL_TASK=$(narval task init w.scan); export NARVAL_TASK
while narval task get --timeout 30 > sheet.xml; do
  narval task raise scanned
  narval task assert FORWARD
  echo "done with $(cat sheet.xml)" >> done.txt
  test "$(wc -l < done.txt)" -lt 3 || break
done
narval task down
"""


def test_K48_K58_a_shell_script_is_a_task(narval: Narval, tmp_path: Path) -> None:
    with narval.running():
        cases = [put(narval) for _ in range(3)]
        done = subprocess.run(
            ["sh", "-c", SCRIPT], cwd=tmp_path, capture_output=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        said = done.stdout.decode().splitlines()
        assert said[:2] == [said[0].replace("FORWARD", "reading"), said[1]]
        assert said[-1].endswith(" is down")
        assert (tmp_path / "done.txt").read_text() == 'done with <sheet number="1"/>\n' * 3
        until(lambda: all(is_done(narval, case) for case in cases), "all are booked")
        notes = {row["xml"].partition(" ")[2].partition(" eid")[0] for row in narval.ask("memory", "note")}
        assert all("booking" in note and "True" in note for note in notes), (
            "an action asks about its instance"
        )


def test_K58_commands_without_a_task_say_how_to_begin_one(narval: Narval) -> None:
    with narval.running():
        status, said = says(narval, "state")
        assert status == 2
        assert "NARVAL_TASK=$(narval task init TYPE)" in said
        assert says(narval, "get", "--task", "12.wrong")[1].startswith("narval: expected the handle that")
        assert says(narval, "init", "w.scam") == (
            1,
            "narval: there is no task type 'w.scam'; did you mean 'w.scan'?",
        )


def test_K6_a_command_is_the_code_of_a_task(narval: Narval) -> None:
    with narval.running():
        case = put(narval, "w.print")
        until(lambda: is_done(narval, case), "it is printed")
        assert (narval.home / "printed.xml").read_bytes().count(b"<sheet") == 1
        assert (narval.home / "state.txt").read_text().splitlines()[0] == "waiting"


def test_K57_who_waits_for_an_object_is_given_it_and_holds_up_nobody(narval: Narval) -> None:
    with narval.running():
        handles = [says(narval, "init", "w.scan")[1] for _ in range(3)]
        waiting = [
            subprocess.Popen(narval.line("task", "get", "--task", handle), stdout=subprocess.PIPE)
            for handle in handles
        ]
        until(lambda: len(narval.ask("task")) == 3, "all are at work")
        for _ in handles:
            put(narval)
        assert {program.communicate(timeout=60)[0].strip() for program in waiting} == {SHEET}
        assert len({row["object"] for row in narval.ask("task")}) == 3
        assert says(narval, "queue", "w.scan") == (0, "the queue is empty")


def test_K53_K52_one_program_waits_for_what_another_raises(narval: Narval) -> None:
    with narval.running():
        handle = says(narval, "init", "w.scan")[1]
        put(narval)
        assert says(narval, "get", "--task", handle)[1] == SHEET.decode()
        assert says(narval, "assert", "reading", "--task", handle)[1].endswith("is in reading")
        assert says(narval, "wait", "ev.check", "--timeout", "0.1", "--task", handle) == (
            1,
            "no such event has come",
        )
        waiting = subprocess.Popen(
            narval.line("task", "wait", "ev.check", "--end", "--task", handle), stdout=subprocess.PIPE
        )
        status, said = says(narval, "raise", "w.scan", "ev.check", "good", "--sync")
        assert (status, said.endswith("of w.scan is done")) == (0, True)
        assert waiting.communicate(timeout=60)[0].split() == [b"done", b"good"]


def test_K58_K69_a_dead_program_leaves_a_trace_and_its_object_goes_back(narval: Narval) -> None:
    with narval.running():
        case = put(narval)
        program = tasks.init("w.scan", lease=1, home=narval.home)
        handle, run = program.handle, program.handle.partition(".")[0]
        assert program.get_work_object() is not None
        until(lambda: narval.ask("show", run)["phase"] != "active", "its lease ends")
        assert "in state scanning with object" in narval("why", run).stdout.decode()
        assert [row["case"] for row in narval.ask("task", "queue", "w.scan")] == [case]
        status, said = says(narval, "assert", "reading", "--task", handle)
        assert (status, f"narval why {run}" in said) == (1, True)
        idle = says(narval, "init", "w.scan", "--lease", "1")[1].partition(".")[0]
        until(lambda: narval.ask("show", idle)["phase"] != "active", "that of one without an object ends")


def test_K21_what_is_put_before_the_first_start_is_there_then(narval: Narval) -> None:
    case = put(narval)
    handle = says(narval, "init", "w.scan")[1]
    assert says(narval, "get", "--task", handle)[1].startswith("narval: no daemon runs")
    with narval.running():
        assert [row["case"] for row in narval.ask("task", "queue", "w.scan")] == [case]
        assert says(narval, "get", "--task", handle)[1] == SHEET.decode()


def test_K68_the_list_of_tasks_is_followed_as_it_changes(narval: Narval) -> None:
    with narval.running():
        following = subprocess.Popen(narval.line("task", "--follow"), stdout=subprocess.PIPE, text=True)
        assert following.stdout is not None
        handle = says(narval, "init", "w.scan")[1]
        run = handle.partition(".")[0]
        assert following.stdout.readline() == f"task {run} of w.scan waits\n"
        put(narval)
        says(narval, "get", "--task", handle)
        assert following.stdout.readline().startswith(f"task {run} of w.scan is in scanning with object ")
        says(narval, "down", "--task", handle)
        assert following.stdout.readline() == f"task {run} of w.scan is over\n"
        following.terminate()
        following.communicate()


def test_K58_a_program_that_waits_is_not_dead(narval: Narval) -> None:
    with narval.running():
        program = tasks.init("w.scan", lease=2, home=narval.home)
        assert program.wait_on_event("ev.check", timeout=2.5) is None
        putting = threading.Timer(2.5, put, [narval])
        putting.start()
        found = program.get_work_object()
        assert found is not None
        assert found.element.xml == SHEET
        putting.join()


def test_KA11_a_timeout_of_0_waits_for_as_long_as_it_takes_in_python_alone(narval: Narval) -> None:
    with narval.running():
        program = tasks.init("w.scan", home=narval.home)
        waits_before = waits(narval)
        raising = threading.Timer(0.5, says, [narval, "raise", "w.scan", "ev.check", "good"])
        raising.start()
        found = program.wait_on_event("ev.check", timeout=0)
        raising.join()
        assert found is not None
        assert (found["parameters"], waits(narval)) == (["good"], waits_before + 1)
        status, said = says(narval, "wait", "ev.check", "--timeout", "0", "--task", program.handle)
        assert (status, "0.0 is not in the range x>0" in said) == (2, True)


def test_K53_who_waits_again_after_a_kill_hears_of_the_event(narval: Narval) -> None:
    daemon = narval.daemon()
    assert daemon.stdout is not None
    assert b"ready" in daemon.stdout.readline()
    handle = says(narval, "init", "w.scan")[1]
    waiting = subprocess.Popen(
        narval.line("task", "wait", "ev.check", "--task", handle), stderr=subprocess.PIPE
    )
    until(lambda: waits(narval) == 1, "it waits")
    daemon.kill()
    daemon.communicate()
    assert b"the daemon" in waiting.communicate(timeout=60)[1]
    assert waiting.returncode == 3
    with narval.running():
        again = subprocess.Popen(
            narval.line("task", "wait", "ev.check", "--task", handle), stdout=subprocess.PIPE
        )
        until(lambda: waits(narval) == 2, "it waits again")
        assert says(narval, "raise", "w.scan", "ev.check", "good")[0] == 0
        assert again.communicate(timeout=60)[0].strip() == b"good"


def waits(narval: Narval) -> int:
    """The waits for events of w.scan that were recorded so far."""
    return history(narval).count(b"WaitParked")


def history(narval: Narval) -> bytes:
    """The history of the standing run of w.scan."""
    rows = narval.ask("runs", "--kind", "task-server")
    run = next(row["eid"] for row in rows if row["name"] == "w.scan")
    return narval("history", str(run), "--journal").stdout


def test_K57_who_asks_again_after_a_kill_is_given_the_next_object(narval: Narval) -> None:
    daemon = narval.daemon()
    assert daemon.stdout is not None
    assert b"ready" in daemon.stdout.readline()
    handle = says(narval, "init", "w.scan")[1]
    waiting = subprocess.Popen(narval.line("task", "get", "--task", handle), stderr=subprocess.PIPE)
    until(lambda: b"TakeParked" in history(narval), "it waits")
    daemon.kill()
    daemon.communicate()
    assert waiting.wait(60) == 3
    with narval.running():
        again = subprocess.Popen(narval.line("task", "get", "--task", handle), stdout=subprocess.PIPE)
        put(narval)
        assert again.communicate(timeout=60)[0].strip() == SHEET


def test_K57_an_object_is_kept_over_a_kill(narval: Narval) -> None:
    daemon = narval.daemon()
    assert daemon.stdout is not None
    assert b"ready" in daemon.stdout.readline()
    put(narval)
    handle = says(narval, "init", "w.scan")[1]
    assert says(narval, "get", "--task", handle)[1] == SHEET.decode()
    daemon.send_signal(signal.SIGKILL)
    daemon.communicate()
    with narval.running():
        assert says(narval, "state", "--task", handle)[1] == "scanning"
        assert says(narval, "get", "--task", handle)[1] == SHEET.decode()
        assert says(narval, "assert", "reading", "--task", handle)[0] == 0


def test_K10_K11_who_is_no_user_of_a_type_does_not_begin_it(narval: Narval) -> None:
    with narval.running():
        assert says(narval, "init", "w.sign", "--as", "ben") == (
            1,
            "narval: w.sign is done in the role clerk; ben holds none",
        )
        assert says(narval, "init", "w.sign", "--as", "ann", "--role", "boss")[1] == (
            "narval: ann does not hold the role boss, but clerk"
        )
        assert says(narval, "init", "w.sign", "--as", "ann")[0] == 0
        (row,) = narval.ask("task")
        assert (row["user"], row["role"]) == ("ann", "clerk")
        run = str(row["eid"])
        assert says(narval, "stop", run, "--as", "ben")[1].startswith(
            f"narval: task {run} of w.sign is for ann;"
        )
        assert says(narval, "stop", run, "--as", "ann", "--reason", "lunch") == (0, f"task {run} is stopped")


# --- in Python --------------------------------------------------------------------------------------------


def test_K60_K59_a_program_in_python_is_a_task(narval: Narval) -> None:
    with narval.running():
        cases = [put(narval) for _ in range(2)]
        seen: list[tasks.WorkObject] = []

        def main(sheet: tasks.WorkObject) -> None:
            assert sheet.attributes["number"] == "1"
            assert tasks.get_current_state() == "scanning"
            assert tasks.raise_event("scanned")["state"] == "reading"
            seen.append(sheet)

        assert tasks.run("w.scan", main) == 2
        with pytest.raises(TaskRefusedError, match="no longer yours"):
            print(seen[0].xml)
        until(lambda: all(is_done(narval, case) for case in cases), "all are booked")


def test_K59_an_object_that_went_with_an_event_is_not_used_again(narval: Narval) -> None:
    with narval.running(), tasks.init("w.scan") as one:
        put(narval)
        sheet = one.get_work_object(30)
        assert sheet is not None
        one.assert_("reading")  # noqa: PT009
        newer = one.replace('<sheet number="2"/>')
        with pytest.raises(TaskRefusedError, match="taken its place"):
            sheet.tree()
        one.raise_event("ev.check", "w.scan", "bad", with_object=True)
        with pytest.raises(TaskRefusedError, match="went with the event"):
            newer.tree()
        assert one.wait_on_event("ev.check", 30) is not None


def test_K60_K39_main_may_give_its_object_away_with_an_event(narval: Narval) -> None:
    narval.write("recipes/v.task", SHELF)

    def main(sheet: tasks.WorkObject) -> None:
        tasks.assert_("reading")  # noqa: PT009
        tasks.raise_event("ev.keep", "v.shelf", with_object=True)

    with narval.running():
        put(narval)
        put(narval)
        assert tasks.run("w.scan", main) == 2
        assert len(narval.ask("task", "events", "v.shelf")) == 2


def test_K60_what_main_raises_ends_in_exception(narval: Narval) -> None:
    def main(sheet: tasks.WorkObject) -> None:
        raise ZeroDivisionError

    with narval.running():
        case = put(narval)
        with pytest.raises(ZeroDivisionError):
            tasks.run("w.scan", main)
        until(lambda: narval.ask("task", "where", str(case))["type"] == "w.exception", "it is there")


def test_K56_K58_errors_are_exceptions(narval: Narval, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_own", None)
    with pytest.raises(RequestError, match="no task at hand"):
        tasks.get_current_state()
    with pytest.raises(DaemonGoneError, match="narval run"):
        tasks.init("w.scan")
    assert tasks.exec("echo well").strip() == "well"
    with pytest.raises(subprocess.CalledProcessError):
        tasks.exec(["false"])


MANY = 80
"""More than may talk at the socket at once."""


def test_K57_more_programs_wait_than_have_room_at_the_socket(narval: Narval) -> None:
    got: list[Any] = []

    def wait_for_one(handle: str) -> None:
        with Client(narval.home / "var/control.sock") as client:
            got.append(client.ask("task_get", task=handle, wait=60.0)["object"])

    with narval.running(), Client(narval.home / "var/control.sock") as client:
        handles = [client.ask("task_init", name="w.scan")["task"] for _ in range(MANY)]
        programs = [threading.Thread(target=wait_for_one, args=(handle,)) for handle in handles]
        for program in programs:
            program.start()
        assert len(narval.ask("task", "--limit", "all")) == MANY
        sheets = b"<memory>%b</memory>" % (SHEET * MANY)
        assert says(narval, "put", "w.scan", "-", given=sheets)[0] == 0
        for program in programs:
            program.join(60)
        assert len({*got}) == MANY
