"""Real worker programs that crash, hang, print, return rubbish, and end with the daemon."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from narval.calls.context import ModuleCode
from narval.calls.workers import child, frames
from narval.core.elements.element import Element
from narval.core.engines.events import Failure, OutputElement
from narval.core.errors import ActionError
from tests.programs import is_at_work

GOOD = "def act(): return '<a/>'"


# --- its end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "how"),
    [
        ("os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGRTMIN + 1)", "was killed by signal 35"),
        ("os._exit(3)", "exited with status 3"),
        ("os._exit(0)", "exited with status 0"),
        ("ctypes.string_at(0)", "was killed by SIGSEGV"),
        ("os.closerange(3, 100); time.sleep(600)", "closed its pipe to narval"),
    ],
)
def test_N33_a_crash_of_a_worker_costs_its_call_alone(
    shared_calls: Any, module: Any, statement: str, how: str
) -> None:
    restarts = shared_calls.book.counts.worker_restarts
    crashing = module(f"import ctypes, os, signal, time\ndef act(): {statement}")
    problem = shared_calls.ask(crashing).problem
    assert (problem.kind, problem.message) == ("crashed", f"the worker {how}")
    assert shared_calls.ask(module(GOOD)).elements == [OutputElement(b"<a/>")]
    assert shared_calls.book.counts.worker_restarts == restarts + 1


def test_the_end_of_a_worker_is_noticed_where_no_descriptor_tells_of_it(
    make_calls: Callable[..., Any], module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    calls = make_calls()
    problem = calls.ask(module("import os\ndef act(): os._exit(3)")).problem
    assert problem == Failure("crashed", "the worker exited with status 3")
    assert calls.ask(module(GOOD)).elements == [OutputElement(b"<a/>")]
    calls.close()


@pytest.mark.usefixtures("logged")
def test_what_an_action_logs_keeps_its_logger_and_level(
    shared_calls: Any, module: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "narval")
    text = (
        "import logging, os\ndef act():\n"
        "  logging.getLogger('other').warning('w')\n  logging.getLogger('narval.mine').info('i')\n"
        "  logging.getLogger('other').warning('%d items', 'x')\n"
        "  logging.getLogger('other').warning('half \\ud800')\n"
        "  child = os.fork()\n"
        "  if not child:\n    logging.getLogger('other').warning('forked')\n    os._exit(3)\n"
        "  assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3\n"
    )
    assert shared_calls.ask(module(text), id="c-2").problem is None
    lines = [(each.name, each.levelname, each.getMessage(), each.call) for each in caplog.records]
    assert ("other", "WARNING", "w", "c-2") in lines
    assert ("narval.action.mine", "INFO", "i", "c-2") in lines
    assert ("other", "WARNING", "half \\ud800", "c-2") in lines


@pytest.mark.usefixtures("logged")
def test_letters_of_several_bytes_are_not_torn(
    shared_calls: Any, module: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "narval.action")
    text = (
        "import os, time\ndef act():\n"
        "  for byte in 'é€\\n'.encode():\n    os.write(1, bytes([byte]))\n    time.sleep(0.01)"
    )
    shared_calls.ask(module(text))
    assert [record.getMessage() for record in caplog.records] == ["é€"]


@pytest.mark.usefixtures("logged")
def test_a_program_that_goes_on_printing_holds_nobody_up(
    shared_calls: Any, module: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level("INFO", "narval.action")
    said = tmp_path / "said"
    text = (
        "import os, subprocess, time\ndef act():\n"
        f"  subprocess.Popen(['sh', '-c', 'yes | head -c 200000; touch {said}; exec yes'])\n"
        f"  while not os.path.exists({str(said)!r}): time.sleep(0.01)\n  return '<a/>'"
    )
    assert shared_calls.ask(module(text)).elements == [OutputElement(b"<a/>")]
    assert any("lines left out" in record.getMessage() for record in caplog.records)
    assert len(caplog.records) < 100_000, "it has printed more"
    assert shared_calls.ask(module("import os\ndef act(): os._exit(3)")).problem.kind == "crashed"


def test_a_crash_tells_the_last_words(shared_calls: Any, module: Any) -> None:
    text = "import ctypes\ndef act():\n  print('reading the scanner')\n  ctypes.string_at(0)"
    detail = shared_calls.ask(module(text)).problem.detail
    assert detail.startswith("reading the scanner\nFatal Python error: Segmentation fault")
    assert "mail.py" in detail


def test_N33_a_hang_costs_its_call_alone_and_ends_what_it_started(
    calls: Any, module: Any, tmp_path: Path
) -> None:
    text = (
        "import os, subprocess, time\n"
        "def act():\n"
        "    started = subprocess.Popen(['sleep', '600'])\n"
        f"    open({str(tmp_path / 'new')!r}, 'w').write(f'{{os.getpid()}} {{started.pid}}')\n"
        f"    os.rename({str(tmp_path / 'new')!r}, {str(tmp_path / 'pids')!r})\n"
        "    time.sleep(600)\n"
    )
    outcome = calls.ask(module(text), timeout=2.0)
    assert outcome.problem == Failure("timeout", "m.act did not come back within 2 s")
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    calls.until(lambda: not any(map(is_at_work, pids)))
    assert calls.ask(module(GOOD)).elements == [OutputElement(b"<a/>")]
    assert calls.book.counts.worker_restarts == 1


def test_N33_a_worker_that_was_stopped_is_killed_at_its_time_limit(calls: Any, module: Any) -> None:
    text = "import os, signal\ndef act():\n    os.kill(os.getpid(), signal.SIGSTOP)\n    return '<a/>'"
    outcome = calls.ask(module(text), timeout=1.0)
    assert outcome.problem == Failure("timeout", "m.act did not come back within 1 s")
    assert calls.ask(module(GOOD)).elements == [OutputElement(b"<a/>")]


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_N33_a_worker_gets_no_more_memory_than_it_may_have(
    make_calls: Callable[..., Any], module: Any
) -> None:
    calls = make_calls(worker_memory=300 * 1024 * 1024)
    text = "def act():\n    return f'<a size=\"{len(bytearray(1024 * 1024 * 1024))}\"/>'"
    problem = calls.ask(module(text)).problem
    assert problem.kind == "MemoryError"
    assert calls.ask(module(GOOD)).elements == [OutputElement(b"<a/>")]


def test_a_call_given_up_takes_its_worker_along(calls: Any, module: Any, tmp_path: Path) -> None:
    text = (
        f"import os, time\ndef act():\n  os.mkdir({str(tmp_path)!r} + f'/{{os.getpid()}}')\n  time.sleep(600)"
    )
    outcome = calls.start(calls.context(module(text), id="c"))
    calls.until(lambda: any(entry.is_dir() for entry in tmp_path.iterdir()))
    calls.abandon("c")
    assert calls.outcome(outcome).abandoned
    (pid,) = [int(entry.name) for entry in tmp_path.iterdir() if entry.is_dir()]
    calls.until(lambda: not is_at_work(pid))


def test_a_call_that_waits_for_a_worker_is_given_up_without_harm(
    make_calls: Callable[..., Any], module: Any, tmp_path: Path
) -> None:
    calls = make_calls(workers=1)
    text = f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.005)"
    hold = module(f"import os, time\ndef act():\n    {text}")
    first = calls.start(calls.context(hold))
    calls.until(lambda: calls.book.counts.queued == 0)
    second = calls.start(calls.context(hold, id="second"))
    calls.abandon("second")
    assert calls.outcome(second).abandoned
    (tmp_path / "go").touch()
    assert calls.outcome(first).problem is None
    assert calls.book.counts.worker_restarts == 0


def test_N33_a_worker_dies_with_the_daemon(tmp_path: Path) -> None:
    text = "import os, time\ndef act():\n  print(os.getpid(), flush=True)\n  time.sleep(600)"
    (tmp_path / "m.py").write_text(text)
    program = (
        "import asyncio, logging, sys\n"
        "from narval.calls.book import CallBook\n"
        "from narval.calls.context import CallContext, Target\n"
        "from narval.calls.executor import Executor\n"
        "from narval.calls.record import CallListener\n"
        "logging.basicConfig(level='INFO', format='%(message)s', stream=sys.stdout)\n"
        "async def main():\n"
        f"    path = {str(tmp_path / 'm.py')!r}\n"
        "    target = Target(action='a', where='worker', module_path=path, function_name='act')\n"
        "    call = CallContext('c', 1, 's', target=target)\n"
        "    CallBook(Executor()).of(1).start(call, listener=CallListener(print))\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    daemon = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert daemon.stdout is not None
    worker = int(daemon.stdout.readline())
    daemon.kill()
    daemon.wait()
    daemon.stdout.close()
    while is_at_work(worker):
        time.sleep(0.005)


def test_a_worker_whose_requests_end_ends_too(tmp_path: Path) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", "narval.calls.workers.worker", str(os.getpid()), str(tmp_path), "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    assert worker.stdout.read(len(frames.pack(frames.Ready()))) == frames.pack(frames.Ready())
    worker.stdin.close()
    assert worker.wait() == -signal.SIGKILL
    worker.stdout.close()


def test_a_worker_nobody_needs_ends(make_calls: Callable[..., Any], module: Any) -> None:
    calls = make_calls(worker_idle=0.05)
    outcome = calls.ask(module("import os\ndef act(): return f'<pid>{os.getpid()}</pid>'"))
    pid = int(Element(0, outcome.elements[0].xml).text)
    calls.until(lambda: not is_at_work(pid))
    assert calls.ask(module(GOOD)).elements == [OutputElement(b"<a/>")]
    assert calls.book.counts.worker_restarts == 0


def test_closing_ends_all_workers(calls: Any, module: Any) -> None:
    outcome = calls.ask(module("import os\ndef act(): return f'<pid>{os.getpid()}</pid>'"))
    pid = int(Element(0, outcome.elements[0].xml).text)
    calls.close()
    assert not is_at_work(pid)


def test_a_worker_that_cannot_start_costs_one_call(
    calls: Any, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    problem = calls.ask(module(GOOD)).problem
    assert (problem.kind, problem.message) == (
        "crashed",
        "the worker, still starting, exited with status 1",
    )
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert calls.ask(module(GOOD)).problem.kind == "no-worker"
    monkeypatch.undo()
    assert calls.ask(module(GOOD)).elements == [OutputElement(b"<a/>")]


def test_a_worker_that_is_never_ready_is_killed(
    make_calls: Callable[..., Any], module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sleeper = tmp_path / "python"
    sleeper.write_text("#!/bin/sh\nexec sleep 600\n")
    sleeper.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(sleeper))
    problem = make_calls(worker_start=0.05).ask(module(GOOD)).problem
    assert problem.message == "the worker, still starting, took more than 0.05 s"


# --- modules ----------------------------------------------------------------------------------------------


def test_a_module_is_loaded_once_until_its_file_changes(shared_calls: Any, module: Any) -> None:
    text = "import itertools\ncount = itertools.count(1)\ndef act(): return f'<v1>{next(count)}</v1>'"
    made = module(text)
    assert [shared_calls.ask(made).elements[0].xml for _ in "ab"] == [b"<v1>1</v1>", b"<v1>2</v1>"]
    made = module(text.replace("v1", "v2"))
    assert shared_calls.ask(made).elements == [OutputElement(b"<v2>1</v2>")]


def test_N31_a_run_keeps_the_version_of_the_module_that_it_began_with(shared_calls: Any, module: Any) -> None:
    old, new = "def act(): return '<old/>'", "def act(): return '<new/>'"
    made = module(new)
    version = ModuleCode("mail", (("mail", str(made.path), old.encode()),), "1")
    assert shared_calls.ask(made, code=version).elements == [OutputElement(b"<old/>")]
    assert shared_calls.ask(made).elements == [OutputElement(b"<new/>")]
    assert shared_calls.ask(made, code=version).elements == [OutputElement(b"<old/>")]


def test_a_module_may_hold_what_looks_for_its_module(shared_calls: Any, module: Any) -> None:
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Mail:\n    to: str\n"
        "def act(): return f'<to>{Mail(\"a@example.org\").to}</to>'"
    )
    assert shared_calls.ask(module(text)).elements == [OutputElement(b"<to>a@example.org</to>")]


def test_a_module_may_import_the_one_beside_it(shared_calls: Any, module: Any, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    user = module("from .beside import NAME\ndef act(): return f'<name>{NAME}</name>'\n")
    assert user.path.parent == tmp_path
    (raw,) = shared_calls.ask(user, where="worker").elements
    assert raw.xml == b"<name>beside</name>"
    assert not list(tmp_path.rglob("__pycache__"))


def test_an_async_action_may_run_in_a_worker(shared_calls: Any, module: Any) -> None:
    text = "import asyncio\nasync def act():\n  await asyncio.sleep(0)\n  return '<a/>'"
    assert shared_calls.ask(module(text)).elements == [OutputElement(b"<a/>")]


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "import no_such_module_anywhere",
            "ModuleNotFoundError",
            "No module named 'no_such_module_anywhere'",
        ),
        ("def act(:", "SyntaxError", "invalid syntax"),
        ("import sys; sys.exit(1)", "SystemExit", "the action called sys.exit(1)"),
        ("def other(): pass", "no-function", "has no function 'act'"),
        ("act = 3", "no-function", "has no function 'act'"),
    ],
)
def test_a_module_that_cannot_be_used_costs_its_step_alone(
    shared_calls: Any, module: Any, text: str, kind: str, message: str
) -> None:
    problem = shared_calls.ask(module(text)).problem
    assert problem.kind == kind
    assert message in problem.message


def test_a_module_file_that_is_gone_is_told(shared_calls: Any, module: Any) -> None:
    made = module(GOOD)
    made.path.unlink()
    assert shared_calls.ask(made).problem.kind == "FileNotFoundError"


# --- the pipes --------------------------------------------------------------------------------------------


def test_results_and_inputs_of_megabytes_pass(shared_calls: Any, module: Any) -> None:
    big = Element(9, b"<a>" + b"x" * 5_000_000 + b"</a>")
    outcome = shared_calls.ask(
        module("def act(mails): return mails"), inputs={"mails": [big, big, Element(1, b"<b/>")]}
    )
    assert [raw.xml for raw in outcome.elements] == [big.xml, big.xml, b"<b/>"]


def test_a_request_too_large_for_a_frame_is_refused(
    shared_calls: Any, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "MOST", 1000)
    outcome = shared_calls.ask(
        module("def act(mail): return mail"), inputs={"mail": Element(1, b"<a>" + b"x" * 1000 + b"</a>")}
    )
    assert outcome.problem.kind == "too-large"
    assert "expected at most 1,000 bytes" in outcome.problem.message


def test_an_answer_too_large_for_a_frame_is_refused(shared_calls: Any, module: Any) -> None:
    text = "def act(): return ['<a>' + 'x' * 9_000_000 + '</a>'] * 16"
    problem = shared_calls.ask(module(text)).problem
    assert problem.kind == "too-large"
    assert "expected at most 134,217,728 bytes" in problem.message


@pytest.mark.usefixtures("logged")
def test_what_is_printed_by_programs_and_c_goes_to_the_log_too(
    shared_calls: Any, module: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "narval.action")
    text = (
        "import ctypes, os, subprocess\n"
        "def act():\n"
        "    os.write(1, b'one\\n')\n"
        "    subprocess.run(['echo', 'two'])\n"
        "    ctypes.CDLL(None).puts(b'three')\n"
        "    os.write(2, b'\\xff\\n' + b'y' * 20_000 + b'\\n')\n"  # C writes its line when the call is over
        "    return '<a/>'"
    )
    assert shared_calls.ask(module(text), id="c-1").elements == [OutputElement(b"<a/>")]
    said = [(record.getMessage(), record.call) for record in caplog.records]
    assert {(line, "c-1") for line in ("one", "two", "three", "\ufffd")} <= set(said)
    assert sum(line.count("y") for line, _ in said) == 20_000


def test_actions_in_a_worker_have_no_standard_input(shared_calls: Any, module: Any) -> None:
    text = "import sys\ndef act(): return f'<read>{sys.stdin.read()!r}</read>'"
    assert shared_calls.ask(module(text)).elements == [OutputElement(b"<read>''</read>")]


def test_rubbish_in_the_pipe_costs_its_call_alone(shared_calls: Any, module: Any) -> None:
    text = (
        "import os, time\n"
        "def act():\n"
        "    for descriptor in range(3, 20):\n"
        "        try: os.write(descriptor, b'\\xff' * 100)\n"
        "        except OSError: pass\n"
        "    time.sleep(600)\n"
    )
    problem = shared_calls.ask(module(text)).problem
    assert problem.kind == "crashed"
    assert "expected a frame of at most" in problem.message
    assert shared_calls.ask(module(GOOD)).elements == [OutputElement(b"<a/>")]


def test_a_message_of_no_known_kind_is_refused() -> None:
    for body in (b"\x80", b"\x93\xa5\xff\xff\xff\xff\xff\x01\x01"):
        with pytest.raises(ActionError, match="an invalid message"):
            frames.read_message(body)


def test_frames_come_in_any_pieces() -> None:
    sent = frames.pack(frames.Ready()) + frames.pack(frames.Progressed("c", 1, 2))
    for size in (1, 3, 7, len(sent)):
        reader = frames.FrameReader()
        pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
        heard = [frames.read_message(body) for piece in pieces for body in reader.feed(piece)]
        assert heard == [frames.Ready(), frames.Progressed("c", 1, 2)]


def test_a_fork_of_a_worker_answers_nothing(shared_calls: Any, module: Any) -> None:
    forking = module("import os\ndef act():\n  os.fork()\n  return '<a/>'")
    assert shared_calls.ask(forking).elements == [OutputElement(b"<a/>")]
    assert shared_calls.ask(module("def act(): return '<b/>'")).elements == [OutputElement(b"<b/>")]


def test_workers_answer_at_the_same_time(make_calls: Callable[..., Any], module: Any, tmp_path: Path) -> None:
    calls = make_calls(workers=2)
    text = (
        "import os, time\n"
        "def act():\n"
        f"    open({str(tmp_path)!r} + f'/{{os.getpid()}}.here', 'w').close()\n"
        f"    while sum(n.endswith('.here') for n in os.listdir({str(tmp_path)!r})) < 2: time.sleep(0.005)\n"
    )
    outcomes = [calls.start(calls.context(module(text))) for _ in "ab"]
    assert [calls.outcome(outcome).problem for outcome in outcomes] == [None, None]


def test_an_idle_worker_that_was_stopped_is_killed_when_its_time_is_over(
    make_calls: Callable[..., Any], module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "_FAREWELL", 0.1)
    calls = make_calls(worker_idle=0.05)
    pid = int(
        calls.ask(module("import os\ndef act(): return f'<a pid=\"{os.getpid()}\"/>'"))
        .elements[0]
        .xml.split(b'"')[1]
    )
    os.kill(pid, signal.SIGSTOP)
    calls.until(lambda: not is_at_work(pid))
    assert calls.ask(module(GOOD)).elements == [OutputElement(b"<a/>")]


def test_a_worker_begins_without_what_it_seldom_needs() -> None:
    code = "import sys, narval.calls.workers.worker; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"asyncio", "ssl", "narval.core.definitions.library"}.isdisjoint(done.stdout.split())
