"""Whatever a file does to those who read it costs that file alone, and the daemon goes on (N30, N31)."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from narval.ask.daemon.status import status
from narval.core.errors import NarvalError, RefusedRowsError, RequestError
from narval.daemon import reload
from narval.daemon.daemon import Daemon
from narval.daemon.dropped import drop_folder, inbox
from narval.daemon.dropped.drop_folder import AGAIN, Claim
from narval.daemon.dropped.work_folders import WorkFolders
from narval.daemon.reload import Reloader
from narval.files import check, loaded, memory_file, people_file, schemas, settings, settle
from narval.files.agents import collections
from narval.files.agents import settings as agent_settings
from narval.files.check import check_home
from narval.files.home import Home
from narval.system.logins import login
from narval.system.regular_file import WORDS
from tests.daemon.at_work import Scene, in_a_loop

MODULE = """import os, threading
from narval import action
{top}

@action(runs="{runs}")
def act():
    {line}
"""
RECIPE = """<recipe group="w" name="{name}" start_step="s" end_step="s">
<step id="s" type="action" target="{target}"/></recipe>"""
FAULTY_PLAN = "PLAN P { OUTPUT: y BODY { 1 } }"


def faults_of(daemon: Daemon) -> dict[str, str]:
    return {fault.path: fault.message for fault in daemon.files.faults}


def recipe(name: str, target: str = "basic.nothing") -> str:
    return RECIPE.format(name=name, target=target)


def import_that_waits(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Write a module whose import waits for what this gives, which is soon told to be long."""
    monkeypatch.setattr(reload, "LONG", 0.05)
    scene.write("modules/m.py", "import threading\n\nthreading.waits.wait()\n")
    may_end = threading.Event()
    monkeypatch.setattr(threading, "waits", may_end, raising=False)
    return may_end


@in_a_loop
async def test_N31_a_plan_with_a_fault_of_syntax_keeps_no_other_file_from_being_read(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    daemon = await scene.open()
    scene.write("recipes/p.plan", FAULTY_PLAN)
    assert await daemon.reloader.reload()
    assert faults_of(daemon) == {
        "recipes/p.plan": "expected an operator or a dataflow to be called, found '1'"
    }
    scene.write("recipes/w.xml", recipe("r"))
    assert await daemon.reloader.reload()
    assert daemon.agent.library.get("recipe", "w.r") is not None
    await scene.end()


# --- errors that narval did not expect --------------------------------------------------------------------

Fails = Callable[[ModuleType, str, Callable[..., object]], None]
"""Has a function of a module fail where its arguments are such."""


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> Fails:
    def patch(module: ModuleType, name: str, is_bad: Callable[..., object]) -> None:
        real = getattr(module, name)

        def failing(*arguments: Any, **named: Any) -> Any:
            if is_bad(*arguments):
                raise LookupError("no such thing")
            return real(*arguments, **named)

        monkeypatch.setattr(module, name, failing)

    return patch


@pytest.mark.parametrize(
    ("module", "name", "is_bad"),
    [
        (collections, "parse", lambda source: b"bad" in source.data),
        (settle, "compose", lambda library: library.get("recipe", "w.bad") is not None),
        (
            settle,
            "check_targets",
            lambda references, *_: any(found.path == "recipes/bad.xml" for found in references),
        ),
    ],
)
def test_an_unexpected_error_is_a_fault_of_its_file_and_the_others_are_read(
    tmp_path: Path, fails: Fails, module: ModuleType, name: str, is_bad: Callable[..., object]
) -> None:
    fails(module, name, is_bad)

    @in_a_loop
    async def reads() -> None:
        scene = Scene(tmp_path)
        daemon = await scene.open()
        for one in ("also", "bad", "good"):
            scene.write(f"recipes/{one}.xml", recipe(one))
        assert await daemon.reloader.reload()
        ((path, message),) = faults_of(daemon).items()
        assert path == "recipes/bad.xml"
        assert message.startswith(f"{WORDS} (LookupError: no such thing at ")
        assert sorted(daemon.agent.library.of("recipe")) == ["w.also", "w.good"]
        await scene.end()

    reads()


@pytest.mark.parametrize(
    ("path", "text", "module", "name"),
    [
        ("data/memory.xml", "<memory/>", memory_file, "read_xml"),
        ("etc/people.toml", "[people.ann]", people_file, "_check_people"),
        ("etc/narval.toml", "threads = 3", settings, "read_services"),
        ("etc/schemas/x.rng", "<a/>", schemas, "parse_untrusted"),
        ("agents/a/agent.toml", "", agent_settings, "readers_among"),
        ("recipes/x.xml", RECIPE.format(name="x", target="basic.nothing"), check, "date_warnings"),
    ],
)
def test_so_is_one_in_a_file_of_any_other_kind(
    tmp_path: Path, fails: Fails, path: str, text: str, module: ModuleType, name: str
) -> None:
    Scene(tmp_path).write(path, text)
    fails(module, name, lambda *arguments: True)
    ours = {fault.message for fault in check_home(Home(tmp_path)) if fault.path == path}
    assert [message.startswith(WORDS) for message in ours] == [True]


@in_a_loop
async def test_reading_that_fails_as_a_whole_is_told_until_it_is_well_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path)
    daemon = await scene.open()
    with monkeypatch.context() as patched:
        patched.setattr("narval.files.reading.read_settings", lambda *_, **__: {}["y"])
        with pytest.raises(KeyError):
            await daemon.reloader.reload()
    ((path, message),) = faults_of(daemon).items()
    assert path == str(tmp_path)
    assert message.startswith(f"{WORDS} (KeyError: 'y'")
    await daemon.reloader.reload()
    assert faults_of(daemon) == {}
    await scene.end()


@in_a_loop
async def test_an_import_that_does_not_end_is_told_with_its_place_and_the_end_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path)
    daemon = await scene.open()
    may_end = import_that_waits(scene, monkeypatch)
    reading = asyncio.create_task(daemon.reloader.reload())
    while not daemon.files.faults:
        await asyncio.sleep(0.01)
    (fault,) = daemon.files.faults
    assert (fault.path, fault.line) == ("modules/m.py", 3)
    assert "no file is read again before that ends" in fault.message
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "narval-files")
    assert thread.daemon
    may_end.set()
    assert await reading
    assert faults_of(daemon) == {}
    await scene.end()


@in_a_loop
async def test_reading_that_is_slow_outside_the_files_is_told_without_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, may_end = Scene(tmp_path), threading.Event()
    daemon = await scene.open()
    monkeypatch.setattr(reload, "LONG", 0.05)
    monkeypatch.setattr("narval.files.reading.read_grants", lambda *_: may_end.wait() and ({}, []))
    reading = asyncio.create_task(daemon.reloader.reload())
    while not daemon.files.faults:
        await asyncio.sleep(0.01)
    (fault,) = daemon.files.faults
    assert fault.path == str(tmp_path)
    assert "the daemon, is busy" in fault.message
    assert "correct it" not in fault.message
    may_end.set()
    await reading
    await scene.end()


@in_a_loop
async def test_who_alters_a_file_is_told_that_reading_does_not_end_and_it_counts_once_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path)
    daemon = await scene.open()
    may_end = import_that_waits(scene, monkeypatch)
    scene.write("recipes/w.xml", recipe("r"))
    for _ in range(2):  # the second finds that it hangs
        with pytest.raises(RequestError, match=r"it is written, and .* yet: modules/m.py.* has been"):
            await daemon.reloader.take_over()
    may_end.set()
    assert not await daemon.reloader.reload(), "the first reading took it over"
    assert daemon.agent.library.get("recipe", "w.r") is not None
    await scene.end()


@in_a_loop
async def test_who_alters_a_file_is_told_so_though_reading_ends_as_it_was_said_to_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = await Scene(tmp_path).open()
    may_end, logged = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def ends_badly(reloader: Reloader, *_: object) -> None:
        reloader.hangs.set()
        await may_end.wait()
        raise NarvalError("there is no room")

    monkeypatch.setattr(Reloader, "_read_beside", ends_badly)
    monkeypatch.setattr(reload.log, "error", lambda words, *about: logged.set_result(words % about))
    with pytest.raises(RequestError, match="is not active yet: the files are still being read"):
        await daemon.reloader.take_over()
    may_end.set()
    assert await asyncio.wait_for(logged, 60.0) == "what was read is not active: there is no room"
    await daemon.close()


# --- modules that end the program -------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["os._exit(3)", "os.abort()"])
@in_a_loop
async def test_a_module_that_ends_the_program_at_its_import_is_a_fault(tmp_path: Path, call: str) -> None:
    scene = Scene(tmp_path)
    daemon = await scene.open()
    scene.write("modules/m.py", MODULE.format(top=call, runs="thread", line="pass"))
    assert await daemon.reloader.reload()
    why = f"the module ends the program when it is imported ({call}); do that in a function, or not at all"
    assert faults_of(daemon) == {"modules/m.py": why}
    await scene.end()


@pytest.mark.parametrize("call", ["os._exit(3)", "os.abort()"])
@pytest.mark.parametrize("runs", ["thread", "inline"])
@in_a_loop
async def test_an_action_that_ends_the_program_costs_its_step(tmp_path: Path, call: str, runs: str) -> None:
    scene = Scene(tmp_path)
    scene.write("modules/m.py", MODULE.format(top="", runs=runs, line=call))
    scene.write("recipes/w.xml", recipe("r", "m.act"))
    daemon = await scene.open()
    run = await daemon.host.submit(lambda turn: turn.start("w.r"))
    await daemon.main_loop.until_idle()
    assert run.phase == "failed"
    error = daemon.agent.memory.element(run.error or 0)
    assert error is not None
    assert error.attributes["type"] == "SystemExit"
    assert f"the action called {call}" in error.xml.decode()
    await scene.end()


def test_programs_that_a_module_forks_end_as_they_ask(tmp_path: Path) -> None:
    ended = "STATUS = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
    forked = f"pid = os.fork()\nif not pid: os._exit(7)\n{ended}"
    (tmp_path / "m.py").write_text(MODULE.format(top=forked, runs="thread", line="pass"))
    assert loaded.Loaded().with_definitions(tmp_path / "m.py").modules["m"].STATUS == 7


# --- the inbox --------------------------------------------------------------------------------------------


@in_a_loop
async def test_what_is_dropped_is_read_in_a_thread_while_others_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def slow(claim: Claim) -> tuple[list[bytes], str]:
        begun.set()
        assert threading.current_thread() is not threading.main_thread()
        assert goes_on.wait(60)
        return drop_folder.read(claim)

    monkeypatch.setattr(inbox, "read", slow)
    scene = Scene(tmp_path)
    scene.write("inbox/large.xml", f"<memory>{'<note/>' * 100}</memory>")
    daemon = await scene.open()
    daemon.follow_files()
    assert await asyncio.to_thread(begun.wait, 60)
    assert (await status(daemon))["elements"] == 0
    goes_on.set()
    await daemon.main_loop.until_idle()
    assert (await status(daemon))["elements"] == 100
    await scene.end()


@pytest.mark.parametrize(
    ("error", "is_again"),
    [(OSError(5, "the disk fails"), True), (RefusedRowsError("full"), True), (ValueError("a fault"), False)],
)
@in_a_loop
async def test_what_could_not_be_added_is_told_and_added_once_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, is_again: bool
) -> None:
    read_again = threading.Event()

    def fails_once(claim: Claim) -> tuple[list[bytes], str]:
        monkeypatch.setattr(inbox, "read", reads)
        raise error

    def reads(claim: Claim) -> tuple[list[bytes], str]:
        read_again.set()
        return drop_folder.read(claim)

    monkeypatch.setattr(inbox, "read", fails_once)
    monkeypatch.setattr(inbox, "AGAIN", 0.01)
    scene = Scene(tmp_path)
    scene.write("inbox/a.xml", "<note/>")
    daemon = await scene.open()
    daemon.follow_files()
    await daemon.main_loop.until_idle()
    if is_again:
        assert await asyncio.to_thread(read_again.wait, 60)
        await daemon.main_loop.until_idle()
    there = [element for element in map(daemon.agent.memory.element, daemon.agent.memory) if element]
    (told,) = [element for element in there if element.name == "error"]
    assert told.attributes["type"] == "inbox-stuck"
    assert sum(element.name == "note" for element in there) == int(is_again)
    await scene.end()


@in_a_loop
async def test_what_cannot_be_taken_is_looked_at_again_and_forgotten_once_it_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(path: Path) -> bool:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(drop_folder, "_is_being_written", refuses)
    scene = Scene(tmp_path)
    scene.write("agents/shop/agent.toml", "")
    places = ("inbox", "inbox/shop", "agents/shop/inbox", "work/ann/done")
    scene.write("etc/people.toml", f'[people.ann]\nlogin = "{login(os.getuid())}"\n')
    for place in places:
        scene.write(f"{place}/a.xml", "<note/>")
    daemon = await scene.open()
    collectors = (
        inbox.Inboxes(tmp_path, daemon.host, daemon.files, daemon.agents),
        WorkFolders(tmp_path, daemon.host, daemon.rounds.clock, durable=False),
    )
    for collector in collectors:
        await collector.close()  # it scans only when this asks for it
    assert [await collector.take_all() for collector in collectors] == [AGAIN, AGAIN]
    assert [sorted(collector.untaken) for collector in collectors] == [["", "inbox/shop", "shop"], ["ann"]]
    for place in places[:-1]:
        (tmp_path / place / "a.xml").unlink()
    shutil.rmtree(tmp_path / "work" / "ann")
    assert [await collector.take_all() for collector in collectors] == [None, None]
    assert not any(collector.untaken for collector in collectors)
    for collector in collectors:
        await collector.close()
    await scene.end()


def test_an_inbox_that_is_no_folder_has_work_for_it_must_be_told(tmp_path: Path) -> None:
    assert not drop_folder.has_work(tmp_path / "inbox")
    (tmp_path / "inbox").write_text("in the way")
    assert drop_folder.has_work(tmp_path / "inbox")


BRINGS = """from narval import Output, action

@action(outputs=[Output("page", "page")], label="web", outside=False)
def fetch():
    return "<page>theirs</page>"
"""
DROPS = """<recipe group="w" name="drops" start_step="a" end_step="b">
<step id="a" type="action" target="m.fetch"/>
<step id="b" type="action" target="files.write"><arguments>
  <text folder="inbox" path="inbox/x.xml">&lt;contact mail="{$a}"/&gt;</text></arguments></step>
<transition id="t"><in idref="a"/><out idref="b"/></transition></recipe>"""


@in_a_loop
async def test_what_an_action_dropped_keeps_its_labels(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write("modules/m.py", BRINGS)
    scene.write("recipes/w.xml", DROPS)
    daemon = await scene.open()
    daemon.follow_files()
    await daemon.host.submit(lambda turn: turn.start("w.drops"))
    memory = daemon.agent.memory
    while not (contacts := list(memory.named(("contact",)))):
        await daemon.main_loop.until_idle()
        await asyncio.sleep(0.01)
    assert memory.labels.names(memory.labels.of(contacts)) == ("web",)
    await scene.end()
