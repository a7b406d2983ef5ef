"""What is dropped, changed or removed takes effect in the daemon that runs, however it is saved (N31)."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from narval.core.errors import ElementError, RequestError
from narval.files.home import Home
from narval.surfaces.control.client import Client
from tests.acceptance.home import PATIENCE, Narval, make, one_step, until
from tests.forked_commands import Command

BAD_FILE = "error[@type='bad-file']"

MODULE = """\
from narval import Input, Output, action

@action(outputs=[Output("said", "said")])
def say():
    return "<said>{word}</said>"
"""


def module(word: str) -> str:
    return MODULE.format(word=word)


class Running:
    """A home whose daemon is up, and the way to ask it."""

    def __init__(self, narval: Narval, daemon: Command, client: Client) -> None:
        self.home, self.write, self.daemon, self.ask = narval.home, narval.write, daemon, client.ask

    def settled(self) -> Any:
        """What is loaded, once the daemon has read what there is now."""
        self.ask("reload")
        return self.ask("definitions")

    def names(self) -> list[str]:
        """The recipes that are loaded."""
        definitions = self.ask("definitions")["definitions"]
        return [definition["name"] for definition in definitions if definition["kind"] == "recipe"]

    def faults(self) -> Any:
        """What is wrong."""
        return self.ask("definitions")["faults"]

    def logged(self) -> list[str]:
        """The daemon's log."""
        return [line["message"] for line in self.ask("log", lines=2000)]

    def word_of(self, name: str = "w.r") -> str:
        """What a run that starts now says."""
        run = self.ask("start", name=name, wait=True)
        assert run["phase"] == "done", run["error"]
        found = self.ask("memory", xpath="said", context=run["eid"])
        return str(found[-1]["xml"]).partition(">")[2].removesuffix("</said>")

    def takes(self, xml: str) -> bool:
        """Whether an element is let in."""
        try:
            self.ask("add", elements=[xml.encode()])
        except ElementError:
            return False
        return True


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    narval = make(tmp_path, module=module("first"), recipes=one_step("r", "w.say"))
    with narval.running() as daemon, Client(Home(narval.home).socket()) as client:
        running = Running(narval, daemon, client)
        running.settled()
        yield running


# --- every way an editor saves --------------------------------------------------------------------------


def in_place(path: Path, text: str) -> None:
    path.write_text(text)


def truncated_then_written(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.flush()
        os.fsync(file.fileno())
        for start in range(0, len(text), 40):
            file.write(text[start : start + 40])
            file.flush()


def beside_and_renamed(path: Path, text: str) -> None:
    scratch = path.with_name(f".{path.name}.swp123")
    scratch.write_text(text)
    scratch.replace(path)


def from_another_folder(path: Path, text: str) -> None:
    scratch = path.parents[1] / "var" / "scratch"
    scratch.write_text(text)
    scratch.replace(path)


def deleted_and_created(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text)


def as_vim_does(path: Path, text: str) -> None:
    probe = path.with_name("4913")
    probe.touch()
    probe.unlink()
    backup = path.with_name(path.name + "~")
    path.rename(backup)
    path.write_text(text)
    backup.unlink()


def as_emacs_does(path: Path, text: str) -> None:
    lock = path.with_name(f".#{path.name}")
    lock.symlink_to("ann@example.org.4242:1700000000")
    autosave = path.with_name(f"#{path.name}#")
    autosave.write_text(text[: len(text) // 2])
    shutil.copy(path, path.with_name(path.name + "~"))
    path.write_text(text)
    lock.unlink()
    autosave.unlink()


def exchanged(path: Path, text: str) -> None:
    """A new folder takes the place of the old one, as a deployment does it."""
    fresh, old = path.parents[1] / "fresh", path.parents[1] / "old"
    shutil.copytree(path.parent, fresh)
    (fresh / path.name).write_text(text)
    path.parent.rename(old)
    fresh.rename(path.parent)
    shutil.rmtree(old)


def linked(path: Path, text: str) -> None:
    target = path.parents[1] / "data" / path.name
    target.write_text(text)
    path.unlink()
    path.symlink_to(target)


def touched(path: Path, text: str) -> None:
    path.touch()


WAYS = [
    in_place, truncated_then_written, beside_and_renamed, from_another_folder, deleted_and_created,
    as_vim_does, as_emacs_does, exchanged, linked,
]  # fmt: skip


@pytest.mark.parametrize("save", WAYS)
def test_N31_a_recipe_or_module_takes_effect_however_it_is_saved(
    running: Running, save: Callable[[Path, str], None]
) -> None:
    save(running.home / "recipes/w.xml", one_step("other", "w.say"))
    until(lambda: running.names() == ["w.other"], "the recipe is loaded")
    save(running.home / "modules/w.py", module("second"))
    until(lambda: running.word_of("w.other") == "second", "the module is loaded")
    assert running.faults() == []


def test_N31_the_file_that_a_link_leads_to_is_watched(running: Running) -> None:
    linked(running.home / "recipes/w.xml", one_step("r2", "w.say"))
    until(lambda: running.names() == ["w.r2"], "the link is followed")
    in_place(running.home / "data/w.xml", one_step("r3", "w.say"))
    until(lambda: running.names() == ["w.r3"], "what it leads to is watched")


def test_N31_folders_come_and_go(running: Running) -> None:
    recipes = running.home / "recipes"
    shutil.move(recipes, running.home / "away")
    until(lambda: running.names() == [], "the folder is gone")
    deep = recipes / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "x.xml").write_text(one_step("deep", "w.say"))
    until(lambda: running.names() == ["w.deep"], "a new folder is read")
    deep.parent.rename(recipes / "c")
    (recipes / "c" / "b" / "x.xml").write_text(one_step("deeper", "w.say"))
    until(lambda: running.names() == ["w.deeper"], "a renamed one is still seen")
    shutil.rmtree(recipes)
    shutil.move(running.home / "away", recipes)
    until(lambda: running.names() == ["w.r"], "the first one is back")


def test_N31_many_files_at_once_take_effect_together(running: Running) -> None:
    before = len(running.logged())
    for number in range(300):
        running.write(f"recipes/many/{number:03}.xml", one_step(f"n{number:03}", "w.say"))
    until(lambda: len(running.names()) == 301, "all are loaded")
    for number in range(300):
        (running.home / f"recipes/many/{number:03}.xml").unlink()
    until(lambda: running.names() == ["w.r"], "all are gone")
    assert not [line for line in running.logged()[before:] if "fault in" in line]


# --- what it means --------------------------------------------------------------------------------------


def test_N31_nothing_happens_when_nothing_has_changed(running: Running) -> None:
    """By ways that never show half a file: one that does is read as half, if its writer is held up there."""
    before, log = running.ask("definitions"), len(running.logged())
    path = running.home / "recipes/w.xml"
    for save in (beside_and_renamed, from_another_folder, touched):
        save(path, path.read_text())
    assert running.settled() == before
    assert {line.partition(" by ")[0] for line in running.logged()[log:]} == {"asked to reload"}


def test_N13_N31_a_bad_file_leaves_the_last_good_version_and_an_error_that_goes_when_it_is_mended(
    running: Running,
) -> None:
    path = running.home / "recipes/w.xml"
    good = path.read_text()
    path.write_text(good.replace('target="w.say"', 'target="w.sey"'))
    errors = until(lambda: running.ask("memory", xpath=BAD_FILE), "the error is in memory")
    assert [(error["name"], error["outdated"]) for error in errors] == [("error", False)]
    assert 'path="recipes/w.xml"' in errors[0]["xml"]
    assert "w.sey" in errors[0]["xml"]
    assert "recipes/w.xml" in running.ask("status")["faults"][0]["path"]
    assert running.faults()[0]["line"] == 1
    assert running.word_of() == "first"
    assert any("fault in recipes/w.xml" in line for line in running.logged())
    path.write_text(good)
    until(lambda: running.faults() == [], "it is mended")
    assert running.ask("memory", xpath=BAD_FILE, current=True) == []
    assert any("recipes/w.xml no longer has faults" in line for line in running.logged())


def test_N31_half_a_module_is_no_module(running: Running) -> None:
    text = module("second")
    (running.home / "modules/w.py").write_text(text[: len(text) // 2])
    until(lambda: running.faults(), "the fault is reported")
    assert running.word_of() == "first"
    (running.home / "modules/w.py").write_text(text)
    until(lambda: running.word_of() == "second", "the whole module is loaded")


def test_N7_N31_a_schema_takes_effect_and_a_bad_one_leaves_the_last_good_one(running: Running) -> None:
    schema = (
        '<element name="note" xmlns="http://relaxng.org/ns/structure/1.0">'
        '<attribute name="by"/><empty/></element>'
    )
    running.write("etc/schemas/note.rng", schema)
    until(lambda: not running.takes("<note/>"), "the schema is kept")
    assert running.takes('<note by="Ada"/>')
    running.write("etc/schemas/note.rng", schema.replace("<empty/>", "<emtpy/>"))
    until(lambda: running.faults(), "the fault is reported")
    assert not running.takes("<note/>")
    assert running.takes('<note by="Ada"/>')
    (running.home / "etc/schemas/note.rng").unlink()
    until(lambda: running.takes("<note/>"), "the schema is gone")


def test_N4_N31_an_edited_memory_xml_takes_effect_and_a_bad_one_leaves_what_it_declared(
    running: Running,
) -> None:
    def rules() -> list[tuple[str, str]]:
        found = [etree.fromstring(rule["xml"]) for rule in running.ask("memory", xpath="rule", current=True)]
        return [(str(rule.get("name")), str(rule.get("when"))) for rule in found]

    running.write("data/memory.xml", "<memory><rule name='a' when='1'/><rule name='b' when='1'/></memory>")
    until(lambda: rules() == [("a", "1"), ("b", "1")], "two rules")
    running.write("data/memory.xml", "<memory><rule name='a' when='2'/><rule name='c' when='1'/></memory>")
    until(lambda: rules() == [("a", "2"), ("c", "1")], "others")
    running.write("data/memory.xml", "<memory>\n<rule name='a'/>\n<rule name='a' when='4'/></memory>")
    until(lambda: len(running.faults()) == 2, "two faults")
    assert [fault["line"] for fault in running.faults()] == [2, 3]
    assert rules() == [("a", "2"), ("c", "1")]
    running.write("data/memory.xml", "<memory/>")
    until(lambda: rules() == [], "none")
    assert running.faults() == []


def test_N31_T45_settings_take_effect_at_once_or_are_reported_for_the_next_start(running: Running) -> None:
    running.write("etc/narval.toml", 'name = "jeeves"\ndurability = "power"\n')
    until(lambda: running.ask("status")["name"] == "jeeves", "the name is taken over")
    lines = running.logged()
    assert "etc/narval.toml: name took effect" in lines
    assert "etc/narval.toml: durability will take effect at the next start" in lines
    running.write("etc/narval.toml", "nme = 3\n")
    until(lambda: running.ask("status")["faults"], "the fault is reported")
    assert running.ask("status")["name"] == "jeeves"


def test_N31_a_recipe_that_a_start_plan_waits_for_starts_when_it_comes(running: Running) -> None:
    assert running.takes('<start-plan recipe="w.late"/>')
    running.write("recipes/late.xml", one_step("late", "w.say"))
    until(lambda: running.ask("runs", name="w.late", state="done"), "it is started")


def test_N31_SIGHUP_and_reload_read_at_once(running: Running) -> None:
    running.write("recipes/w.xml", one_step("again", "w.say"))
    running.daemon.send_signal(signal.SIGHUP)
    until(lambda: running.names() == ["w.again"], "it is read")
    running.write("recipes/w.xml", "<recipe/>")
    reloaded = Narval(running.home)("reload")
    assert reloaded.returncode == 1
    assert b"recipes/w.xml:1:1" in reloaded.stdout
    assert running.daemon.poll() is None


def test_N34_a_terminal_that_is_closed_ends_its_daemon_well(tmp_path: Path) -> None:
    narval = make(tmp_path)
    terminal, other_end = os.openpty()

    def in_terminal() -> None:
        os.setsid()
        fcntl.ioctl(other_end, termios.TIOCSCTTY, 0)

    daemon = narval.limited(in_terminal)
    os.close(other_end)
    assert b"is ready" in daemon.stdout.readline()
    os.close(terminal)
    out, _ = daemon.communicate(timeout=PATIENCE)
    assert daemon.returncode == 0
    assert b"stopped after" in out


def test_N31_the_log_says_what_was_loaded(running: Running) -> None:
    assert "loaded recipes/w.xml: recipe w.r" in running.logged()
    assert "loaded modules/w.py: action w.say" in running.logged()
    (running.home / "recipes/w.xml").unlink()
    until(lambda: running.names() == [], "it is gone")
    assert any(line.startswith("recipes/w.xml is gone") for line in running.logged())


def test_N24_N31_a_daemon_that_watches_and_waits_does_nothing(running: Running) -> None:
    pause = threading.Event()

    def rests() -> bool:
        before = _switches(running.daemon)
        pause.wait(0.5)
        return _switches(running.daemon) == before

    until(rests, "it has come to rest")
    before = _switches(running.daemon)
    pause.wait(5)
    assert _switches(running.daemon) == before


def _switches(daemon: Command) -> int:
    """How often any of its threads has been given a processor."""
    count = 0
    for task in Path(f"/proc/{daemon.pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if "ctxt_switches" in line:
                count += int(line.split()[1])
    return count


# --- plans that are running -----------------------------------------------------------------------------

WAITING = """\
<cookbook group="w">
  <recipe name="r" start_step="a" end_step="b">
    <step id="a" type="action" target="w.say"/>
    <step id="b" type="recipe" target="w.child"/>
    <transition id="t"><in idref="a"/><out idref="b"/>
      <condition use="yes"><match>go</match></condition></transition>
  </recipe>
  <recipe name="child" start_step="s" end_step="s"><step id="s" type="action" target="w.say"/></recipe>
</cookbook>
"""


def test_N31_a_running_plan_keeps_the_versions_it_began_with_and_needs_no_file(running: Running) -> None:
    running.write("recipes/w.xml", WAITING)
    until(lambda: running.names() == ["w.child", "w.r"], "the recipe is loaded")
    run = running.ask("start", name="w.r")["eid"]
    until(lambda: running.ask("memory", xpath="said[.='first']"), "it waits")
    running.write("modules/w.py", module("second"))
    until(lambda: running.word_of("w.child") == "second", "new runs have the new version")
    (running.home / "recipes/w.xml").unlink()
    (running.home / "modules/w.py").unlink()
    until(lambda: running.ask("definitions")["definitions"] == [], "nothing is loaded any more")
    assert running.takes("<go/>")
    assert running.ask("wait", run=run)["phase"] == "done"
    assert len(running.ask("memory", xpath="said[.='first']", context=run)) == 2
    with pytest.raises(RequestError):
        running.ask("start", name="w.child")
