"""Programs are started, fed, read and ended as whole groups; nothing of them is left (A2-A14)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from narval.calls.book import CallBook
from narval.calls.context import CallContext, Target, call
from narval.calls.executor import Executor
from narval.calls.programs.backend import ProcessLimits, ProgramBackend
from narval.calls.programs.output import FILE_BYTES, IN_MEMORY, OutputFolder
from narval.calls.programs.reaper_client import ReaperClient
from narval.calls.record import CallListener, Outcome
from narval.core.elements.element import Element
from narval.core.engines.commands import Program
from narval.system.cgroup import NoGroupError, obstacle, own_group
from tests.calls.conftest import number_of
from tests.daemon.at_work import in_a_loop
from tests.places import ROOT
from tests.programs import is_at_work


class Bench:
    """An executor whose programs run in a folder; what they print is heard."""

    def __init__(self, folder: Path, limits: ProcessLimits | None = None) -> None:
        self.folder, self.printed = folder, bytearray()
        outputs = OutputFolder(
            folder / "output",
            listen=lambda call: lambda data, is_error: self.printed.extend(data),
            known_runs=lambda: lambda agent, run: (agent, run) in (("", 7), ("ada", 8)),
        )
        self.programs = ProgramBackend(
            asyncio.get_running_loop(), directory=folder, outputs=outputs, limits=limits
        )
        self.book = CallBook(Executor(programs=self.programs))
        self.calls, self.agent = 0, ""

    def start(self, *words: str, timeout: float | None = None, inputs: Any = None, **given: Any) -> Any:
        """Start a program; its outcome is awaited."""
        self.calls += 1
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        call = CallContext(
            f"{self.programs.reaper.owner}.{self.calls}",
            7,
            "s",
            target=Target(action="program", where="program"),
            inputs=inputs or {},
            timeout=timeout,
            program=Program(words, **given),
            agent=self.agent,
        )
        self.last = self.book.of(number_of(self.agent)).start(call, listener=CallListener(outcome.set_result))
        return outcome

    def call(self, target: Target) -> Any:
        """Call an action; its outcome is awaited."""
        self.calls += 1
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        call = CallContext(f"{self.programs.reaper.owner}.{self.calls}", 7, "s", self.folder, target=target)
        self.last = self.book.of(number_of(self.agent)).start(call, listener=CallListener(outcome.set_result))
        return outcome

    def abandon(self) -> None:
        """Give the last one up."""
        self.book.of(number_of(self.agent)).abandon(self.last)

    async def sh(self, script: str, **given: Any) -> dict[str, Any]:
        """The value of a script's call."""
        outcome = await self.start("sh", text=script, **given)
        assert outcome.value is not None, outcome
        return dict(outcome.value)

    def alive(self) -> list[psutil.Process]:
        """The programs under way that belong to this bench."""
        mark = self.programs.reaper.owner
        found = []
        for program in psutil.process_iter():
            try:
                if program.environ().get("NARVAL_OWNER") == mark and program.status() != psutil.STATUS_ZOMBIE:
                    found.append(program)
            except psutil.Error:
                continue
        return found

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""
        while not holds():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def bench_in(folder: Path, limits: ProcessLimits | None = None) -> AsyncIterator[Bench]:
    """A bench, after which nothing of it is left."""
    bench = Bench(folder, limits)
    try:
        yield bench
    finally:
        await bench.book.close()
    assert bench.alive() == []


# --- how programs end -----------------------------------------------------------------------------------


@in_a_loop
async def test_A2_a_status_a_signal_and_the_last_lines(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        assert await bench.sh("exit 0") == {"status": 0, "output": ""}
        told = await bench.sh("echo out; echo err >&2; exit 7")
        assert (told["status"], sorted(told["output"].split())) == (7, ["err", "out"])
        assert (await bench.sh("kill -USR1 $$"))["signal"] == "SIGUSR1"


@in_a_loop
async def test_A2_commands_that_are_not_there_or_cannot_be_run(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("echo hi")
    (tmp_path / "folder").mkdir()
    (tmp_path / "no-line").write_text("echo hi")
    (tmp_path / "no-line").chmod(0o700)
    async with bench_in(tmp_path) as bench:
        for words, status in [
            (("no-such-program",), 127),
            (("./none",), 127),
            (("./plain",), 126),
            (("./folder",), 126),
            (("./no-line",), 126),
        ]:
            outcome = await bench.start(*words)
            assert outcome.value["status"] == status, words
            assert words[0] in outcome.value["output"]
        outcome = await bench.start("true", directory="nowhere")
        assert outcome.value["status"] == 127
        assert "no such folder" in outcome.value["output"]


@in_a_loop
async def test_A2_a_command_that_was_not_there_is_found_once_it_is_installed(tmp_path: Path) -> None:
    path = (("PATH", str(tmp_path)),)
    async with bench_in(tmp_path) as bench:
        assert (await bench.start("late", environment=path)).value["status"] == 127
        (tmp_path / "late").symlink_to("/bin/true")
        assert (await bench.start("late", environment=path)).value["status"] == 0


@in_a_loop
async def test_A4_all_of_the_group_is_gone_before_the_call_is_back(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        outcome = bench.start("sh", text="sleep 600 & sleep 600 & echo ready; wait")
        await bench.until(lambda: b"ready" in bench.printed)
        assert len(bench.alive()) == 3
        bench.abandon()
        assert (await outcome).abandoned
        assert bench.alive() == []


@in_a_loop
async def test_A4_what_ignores_SIGTERM_is_killed_after_the_grace(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
        outcome = bench.start("sh", text=script, grace=0.2)
        await bench.until(lambda: b"ready" in bench.printed)
        began = time.monotonic()
        bench.abandon()
        assert (await outcome).abandoned
        assert time.monotonic() - began >= 0.2


@in_a_loop
async def test_A4_one_look_now_and_then_serves_all_groups_that_linger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their leaders have ended, and what ignores SIGTERM keeps them until the grace is over."""
    looks, listed = 0, os.listdir

    def listdir(path: Any = ".") -> list[str]:
        nonlocal looks
        looks += path == "/proc"
        return listed(path)

    monkeypatch.setattr(os, "listdir", listdir)
    async with bench_in(tmp_path) as bench:
        script = "(trap '' TERM; echo ready; sleep 600; sleep 600) & sleep 0.1; exit 3"
        outcomes = [bench.start("sh", text=script, grace=1.0) for _ in range(20)]
        began = time.process_time()
        assert [(await outcome).value["status"] for outcome in outcomes] == [3] * 20
        assert looks < 100  # 50 a second are the most, and each group for itself took 12
        assert time.process_time() - began < 1.0


@in_a_loop
async def test_A4_what_has_left_the_group_is_found_by_its_environment(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        script = "setsid sleep 600 >/dev/null 2>&1 </dev/null & sleep 0.1; echo ready; wait"
        outcome = bench.start("sh", text=script)
        await bench.until(lambda: b"ready" in bench.printed)
        bench.abandon()
        await outcome
        assert bench.alive() == []


@in_a_loop
async def test_A12_what_a_program_leaves_in_its_group_ends_with_it(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        assert (await bench.sh("sleep 600 & exit 3"))["status"] == 3
        assert bench.alive() == []


@in_a_loop
async def test_A12_closing_ends_what_was_left_on_purpose_too(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        left = "setsid sh -c 'touch left; exec sleep 600' >/dev/null 2>&1 </dev/null"
        script = f"{left} & while ! test -e left; do sleep 0.01; done; exit 0"
        assert (await bench.sh(script))["status"] == 0
        assert len(bench.alive()) == 1


@in_a_loop
async def test_A7_a_time_limit_ends_the_group_and_says_so(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        for limit in (0.3, 3.0, 30.0):  # more if it had no time to say that it has begun
            outcome = await bench.start("sh", text="echo begun; sleep 600", timeout=limit)
            if bench.printed:
                break
        assert outcome.value == {"timeout": 1, "output": "begun"}


@in_a_loop
async def test_a_bomb_of_forks_is_ended_with_all_it_made(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        script = "f() { [ $1 -gt 5 ] && sleep 600; f $(($1+1)) & f $(($1+1)) & wait; }; f 0"
        outcome = bench.start("sh", text=script, grace=0.5)
        await bench.until(lambda: len(bench.alive()) > 20)
        bench.abandon()
        await outcome
        assert bench.alive() == []


# --- what they are given --------------------------------------------------------------------------------


@in_a_loop
async def test_A1_the_text_goes_to_standard_input_unchanged_however_long(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        text = " <é>\n\t\\ $HOME\n" * 40_000
        outcome = await bench.start("sh", "-c", "cat > copy", text=text)
        assert outcome.value["status"] == 0
        assert (tmp_path / "copy").read_text() == text
        assert (await bench.start("true", text=text)).value["status"] == 0, "nobody need read it"


@in_a_loop
async def test_A13_environment_and_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    async with bench_in(tmp_path) as bench:
        script = "echo $A $NARVAL_RUN $NARVAL_STATE; pwd"
        told = await bench.sh(script, environment=(("A", "x y"),), directory="sub")
        assert told["output"].splitlines() == ["x y 7 s", str(tmp_path / "sub")]


@in_a_loop
async def test_G15_a_program_knows_its_agent_and_what_it_prints_is_kept_apart(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        await bench.sh("seq 1 20000")
        bench.agent = "ada"
        told = await bench.sh("seq 1 20000; echo $NARVAL_AGENT")
        assert told["output"].endswith("20000\nada")
        kept = {str(path.relative_to(tmp_path / "output")) for path in (tmp_path / "output").rglob("s")}
        assert kept == {"7/s", "ada/7/s"}


@in_a_loop
async def test_A13_elements_are_variables_or_standard_input(tmp_path: Path) -> None:
    hostile = "$(touch gone) '\"; touch gone"
    element = Element(5, f"<mail><subject>{hostile}</subject></mail>".encode())
    async with bench_in(tmp_path) as bench:
        told = await bench.start(
            "sh", "-c", 'echo "$S"', inputs={"S": element}, selects=(("S", "string(subject)"),)
        )
        assert told.value["output"] == hostile
        told = await bench.start("cat", inputs={"": [element]}, text="unused")
        assert told.value["output"].startswith("<memory>\n<mail")
    assert not (tmp_path / "gone").exists()


# --- what they print ------------------------------------------------------------------------------------


@in_a_loop
async def test_A13_what_is_printed_is_heard_live_and_the_rest_is_in_a_file(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        os.mkfifo(tmp_path / "go")
        outcome = bench.start("sh", text="echo first; read x < go; seq 1 20000")
        await bench.until(lambda: bench.printed == b"first\n")
        (tmp_path / "go").write_text("\n")
        value = (await outcome).value
        assert value["output"].endswith("\n20000")
        assert len(value["output"]) <= 4096
        kept = (tmp_path / "output/7/s").read_text()
        assert kept.startswith("first\n1\n2\n")
        assert len(kept) > IN_MEMORY


@in_a_loop
async def test_A13_what_is_kept_goes_with_its_run(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        await bench.sh("seq 1 20000")
        (tmp_path / "output/6").mkdir()
        for run in ("ada/7", "ada/8", "zoe/8"):
            (tmp_path / "output" / run).mkdir(parents=True)
        bench.programs.outputs.sweep()
        kept = {str(path.relative_to(tmp_path / "output")) for path in (tmp_path / "output").rglob("[0-9]*")}
        assert kept == {"7", "ada/8"}


@in_a_loop
async def test_A13_a_flood_of_output_harms_nobody(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        bench.programs.redirect(tmp_path, lambda task: lambda data, is_error: None)
        before = psutil.Process().memory_info().rss
        value = await bench.sh("head -c 200000000 /dev/zero | tr '\\0' 'x'; echo; echo end")
        assert value["output"].endswith("end")
        kept = sum(file.stat().st_size for file in (tmp_path / "output/7").iterdir())
        assert kept <= 2 * FILE_BYTES
        assert psutil.Process().memory_info().rss - before < 50_000_000


# --- up to date -----------------------------------------------------------------------------------------


@in_a_loop
async def test_A9_what_is_there_and_newer_is_not_made_again(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        (tmp_path / "in").touch()
        build: dict[str, Any] = {"creates": ("out",), "needs": ("*n",)}
        assert await bench.sh("touch out", **build) == {"status": 0, "output": ""}
        assert "skipped" in await bench.sh("exit 9", **build)
        os.utime(tmp_path / "in", (time.time() + 10, time.time() + 10))
        assert (await bench.sh("exit 9", **build))["status"] == 9
        (tmp_path / "in").unlink()
        told = await bench.sh("touch out", **build)
        assert told["status"] == 0, "what it needs is not there"
        assert told["output"] == "narval: needs=*n: no such file, so this is never up to date"


@in_a_loop
async def test_A9_what_a_program_left_that_did_not_end_with_0_is_made_again(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        build: dict[str, Any] = {"creates": ("out", "*.o"), "grace": 0.1}
        late = bench.start("sh", text="echo half >out; touch a.o; sleep 600", timeout=0.5, **build)
        assert (await late).value["timeout"] == 1
        assert (await bench.sh("echo half >out; exit 3", **build))["status"] == 3
        assert (await bench.sh("exit 9", creates=("out",)))["status"] == 9
        assert (await bench.sh("exit 0", **build)) == {"status": 0, "output": ""}
        assert "skipped" in await bench.sh("exit 9", **build)
        assert "skipped" in await bench.sh("exit 9", creates=("out",))


@in_a_loop
async def test_A9_unless_a_command_succeeds(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        assert "skipped" in await bench.sh("exit 9", unless=("true",))
        assert (await bench.sh("exit 9", unless=("false",)))["status"] == 9
        assert (await bench.sh("exit 9", unless=("no-such-program",)))["status"] == 9
        outcome = bench.start("true", unless=("sleep", "600"))
        await bench.until(lambda: len(bench.alive()) == 1)
        bench.abandon()
        assert (await outcome).abandoned


# --- limits ---------------------------------------------------------------------------------------------


@in_a_loop
async def test_A14_limits_of_processor_memory_and_files(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        told = await bench.sh("ulimit -t; ulimit -v; ulimit -n", cpu=5, memory=512 << 20, files=40)
        assert told["output"].split() == ["5", str(512 << 10), "40"]
        assert (await bench.sh("while :; do :; done", cpu=1))["signal"] == "SIGXCPU"
        greedy = ("-c", "x = bytearray(400 << 20)")
        assert (await bench.start(sys.executable, *greedy, memory=200 << 20)).value["status"] == 1
        assert (await bench.start("no-such-program", cpu=5)).value["status"] == 127


COUNTED = pytest.mark.skipif(bool(obstacle()), reason=f"no process is counted here: {obstacle()}")
FIVE = "for n in 1 2 3 4 5; do sleep 600 & done; wait"


def groups(bench: Bench) -> list[Path]:
    """The control groups of a bench."""
    return [*own_group().glob(f"narval-{bench.programs.reaper.owner}*")]


@COUNTED
@in_a_loop
async def test_A19_a_program_is_no_more_processes_than_it_may_be(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        assert (await bench.sh("sleep 0 & sleep 0 & wait; echo well", processes=3))["output"] == "well"
        refused = await bench.sh(FIVE, processes=3)
        assert refused["status"] != 0
        assert "fork" in refused["output"]
        assert groups(bench) == [], "what is over leaves no group"
        assert (await bench.start("no-such-program", processes=3)).value["status"] == 127
        assert groups(bench) == []


@COUNTED
@in_a_loop
async def test_A19_the_programs_of_a_run_are_counted_together(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        first = bench.start("sleep", "600", run_processes=2)
        await bench.until(lambda: bool(bench.alive()))
        assert (await bench.sh("sleep 0; echo well", run_processes=2, processes=1))["status"] != 0
        assert (await bench.sh(":; echo well", run_processes=2, processes=1))["output"] == "well"
        assert len(groups(bench)) == 1, "the first program is in it still"
        assert not first.done()


@in_a_loop
async def test_A19_where_processes_are_not_counted_what_is_limited_does_not_start(tmp_path: Path) -> None:
    def none() -> Path:
        raise NoGroupError("nothing is counted")

    async with bench_in(tmp_path, ProcessLimits("x", none)) as bench:
        told = await bench.sh("echo never", processes=3)
        assert (told["status"], told["output"]) == (
            126,
            'processes="3" cannot be kept here, so the program is not started: nothing is counted',
        )
        assert (await bench.sh("echo well"))["output"] == "well"


# --- the reaper -----------------------------------------------------------------------------------------


@in_a_loop
async def test_A12_a_reaper_that_dies_is_replaced(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        outcome = bench.start("sleep", "600")
        former = bench.programs.reaper.pid
        assert former is not None
        os.kill(former, signal.SIGKILL)
        await bench.until(lambda: psutil.Process(former).status() == psutil.STATUS_ZOMBIE)
        assert await bench.sh("exit 0") == {"status": 0, "output": ""}
        assert bench.programs.reaper.pid not in (None, former)
        assert not outcome.done()


@in_a_loop
async def test_G48_an_end_with_the_lease_is_no_outcome_wherever_a_call_is_and_its_own_end_is(
    tmp_path: Path,
) -> None:
    """Every place that the reaper ends: a program, the test before it, a worker, what a coroutine runs."""
    module = tmp_path / "m.py"
    text = "import time\nfrom pathlib import Path\ndef act():\n  Path({!r}).touch()\n  time.sleep(60)"
    module.write_text(text.format(str(tmp_path / "worker")))

    async def runs_program() -> None:
        await call().run_program(
            ["sh"], lambda *_: None, seconds=60, environment={}, text=b"touch command; exec sleep 60"
        )

    async with bench_in(tmp_path) as bench:
        reaper = bench.programs.reaper
        reaper.hold_until(time.monotonic() + 600)
        under_way = [
            bench.start("sh", text="touch program; exec sleep 60"),
            bench.start("true", unless=("sh", "-c", "touch unless; exec sleep 60")),
            bench.call(Target(action="act", where="worker", module_path=str(module), function_name="act")),
            bench.call(Target(action="act", where="async", function=runs_program)),
        ]
        own = bench.start("sh", text="touch own; while [ -e own ]; do sleep 0.01; done; exit 3")
        killed = bench.start("sh", text="kill -9 $$")
        given_up = bench.start("sh", text="trap '' TERM; touch given_up; while true; do sleep 1; done")
        assert (await killed).value["signal"] == "SIGKILL"
        places = ("program", "unless", "worker", "command", "own", "given_up")
        await bench.until(lambda: all((tmp_path / name).exists() for name in places))
        (tmp_path / "own").unlink()
        assert (await own).value["status"] == 3
        bench.abandon()
        reaper.hold_until(time.monotonic())
        assert [(await outcome).lost for outcome in under_way] == [True] * len(under_way)
        assert (await given_up).abandoned
        late = bench.start("sleep", "60")  # begun though the lease is over
        assert (await late).lost
        reaper.hold_until(time.monotonic() + 600)
        assert await bench.sh("exit 0") == {"status": 0, "output": ""}


DAEMON = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from narval.calls.book import CallBook
from narval.calls.context import CallContext, Target, call
from narval.calls.executor import Executor
from narval.calls.record import CallListener, Outcome
from narval.calls.programs.reaper_client import ReaperClient
from narval.calls.programs.backend import ProgramBackend
from narval.core.engines.commands import Program

async def main():
    folder = Path(sys.argv[1])
    reaper = ReaperClient("home", folder)
    programs = ProgramBackend(asyncio.get_running_loop(), directory=folder, reaper=reaper)
    book = CallBook(Executor(programs=programs))
    script = "sleep 600 & setsid sleep 600 & env -i sleep 600 & echo $! > ready.n; mv ready.n ready; wait"
    call = CallContext("c.1", 1, "s", target=Target(action="program", where="program"),
                       program=Program(("sh",), text=script))
    book.of(1).start(call, listener=CallListener(print))
    await asyncio.sleep(600)

asyncio.run(main())
"""


def _begun(daemon: psutil.Popen, ready: Path) -> list[psutil.Process]:
    """The programs of the daemon, once all three that sleep have begun to."""
    while True:
        assert daemon.poll() is None
        time.sleep(0.02)
        mine = [program for program in daemon.children(recursive=True) if _name_of(program)]
        if ready.exists() and [*map(_name_of, mine)].count("sleep") == 3:
            return mine


def test_A12_when_the_daemon_is_killed_nothing_of_it_is_left(tmp_path: Path) -> None:
    root = str(ROOT)
    daemon = psutil.Popen([sys.executable, "-c", DAEMON, str(tmp_path), root])
    mine = _begun(daemon, tmp_path / "ready")
    assert len(mine) >= 4
    daemon.kill()
    daemon.wait()
    ReaperClient("home", tmp_path).end_former()
    psutil.wait_procs(mine, timeout=60)
    assert not any(map(is_at_work, mine))
    assert not (tmp_path / "reaper").exists()


def test_A12_the_next_daemon_ends_what_is_left_when_the_reaper_was_killed_as_well(tmp_path: Path) -> None:
    root = str(ROOT)
    daemon = psutil.Popen([sys.executable, "-c", DAEMON, str(tmp_path), root])
    mine = _begun(daemon, tmp_path / "ready")
    for program in mine:
        if _is_reaper(program):
            program.kill()
    daemon.kill()
    daemon.wait()
    ReaperClient("home", tmp_path).end_former()
    _, left = psutil.wait_procs([program for program in mine if _carries(program)], timeout=60)
    assert left == []
    bare = int((tmp_path / "ready").read_text())  # it has cleared its environment, and nobody knows it now
    os.kill(bare, signal.SIGKILL)


def _name_of(program: psutil.Process) -> str:
    """The name of a program; "" of one that has ended."""
    try:
        return program.name()
    except psutil.NoSuchProcess:
        return ""


def _is_reaper(program: psutil.Process) -> bool:
    try:
        return "reaper.py" in " ".join(program.cmdline())
    except psutil.Error:  # a program that has ended, and that nobody has asked about yet
        return False


def _carries(program: psutil.Process) -> bool:
    try:
        return "NARVAL_OWNER" in program.environ()
    except psutil.Error:
        return False
