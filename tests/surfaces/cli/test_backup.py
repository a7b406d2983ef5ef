"""The commands backup and restore, as the owner of a home gives them (G60)."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from narval.core.errors import RequestError
from narval.store.tables import HEAD
from narval.surfaces.cli.daemon import backups
from narval.surfaces.control import client
from tests.forked_commands import Command
from tests.surfaces.cli.command_line import NAME, daemon, data, make_home, narval, program, until, well


@pytest.fixture
def lived_in(home: Path) -> Path:
    """A home with an agent besides its own; each has run something, and runs something still."""
    with daemon(home):
        well(home, "agents", "add", "ada")
        for agent in ("narval", "ada"):
            well(home, "add", "-", "--agent", agent, given=NAME)
            well(home, "start", "demo.greet", "--agent", agent)
            well(home, "start", "demo.await", "--agent", agent)
        until(lambda: len(data(home, "memory", "greeting", "--agent", "ada")) == 1)
        well(home, "stop")
    return home


def told(home: Path) -> list[object]:
    """What a home tells of what it remembers."""
    agents = [(row["name"], row["state"], row["elements"], row["runs"]) for row in data(home, "agents")]
    of_each = [
        (data(home, "runs", "--agent", name), data(home, "memory", "--agent", name)) for name, *_ in agents
    ]
    return [agents, of_each]


def refused(home: Path, *arguments: object) -> str:
    result = narval(home, *arguments)
    assert result.exit_code == 1, result.output
    return result.stderr


# --- all of a home --------------------------------------------------------------------------------------


def test_G60_a_home_is_put_back_as_it_was_when_the_backup_was_made(lived_in: Path, tmp_path: Path) -> None:
    file, before = tmp_path / "b.db", told(lived_in)
    made = data(lived_in, "backup", file)
    assert (made["file"], made["agents"]) == (str(file), ["narval", "ada"])
    assert made["bytes"] == file.stat().st_size
    assert file.stat().st_mode & 0o077 == 0, "it has all that the home knows"
    well(lived_in, "add", "-", given="<later/>")
    assert "--force moves it aside" in refused(lived_in, "restore", file)
    aside = Path(data(lived_in, "restore", file, "--force")["aside"])
    assert told(lived_in) == before
    shutil.move(aside, lived_in / "var" / "store.db")
    assert data(lived_in, "memory", "later")


def test_G60_runs_go_on_in_another_home_where_they_stood(lived_in: Path, tmp_path: Path) -> None:
    other = make_home(tmp_path / "other")
    well(lived_in, "backup", tmp_path / "b.db")
    assert "the home is back: 2 agents" in well(other, "restore", tmp_path / "b.db")
    with daemon(other):
        for agent in ("narval", "ada"):
            run = [row["eid"] for row in data(other, "runs", "--name", "demo.await", "--agent", agent)]
            well(other, "add", "-", "--agent", agent, given="<letter to='ann' urgent='yes'/>")
            until(lambda: data(other, "show", run[0], "--agent", agent)["state"] == "done")  # noqa: B023


def test_G60_a_call_after_a_restore_has_the_id_of_none_made_since_the_backup(tmp_path: Path) -> None:
    home, backup = make_home(tmp_path / "home"), tmp_path / "b.db"
    (home / "recipes/ids.xml").write_text(CALLS)
    (home / "modules/ids.py").write_text(CALLED)
    well(home, "start", "ids.each")
    well(home, "backup", backup)
    ids = home / "ids.txt"
    for _ in range(3):
        well(home, "add", "-", given="<memory><visitor n='1'/><visitor n='2'/></memory>")
        well(home, "run", "--until-idle")
        well(home, "restore", backup, "--force")
    assert len(set(ids.read_text().split())) == 6


CALLED = """\
from narval import action, call

@action(runs="inline")
def note():
    with open("{home}/ids.txt".format(home=call().home), "a") as file:
        file.write(call().id + "\\n")
"""

CALLS = """
<recipe group="ids" name="each" start_step="listen" end_step="note" restart="parallel">
  <step id="listen" type="action" target="talk.nothing"/>
  <step id="note" type="action" target="ids.note"/>
  <transition id="came"><in idref="listen"/><out idref="note"/>
    <condition use="yes"><match>visitor</match></condition></transition>
</recipe>
"""


def test_G60_a_backup_is_of_one_moment_while_all_works(home: Path, tmp_path: Path) -> None:
    with daemon(home):
        floods = [
            Command(program(home, "add", "-")[3:], b"<memory>" + b"<a n='1'/><b n='1'/>" * 400 + b"</memory>")
            for _ in range(5)
        ]
        for number in range(5):
            well(home, "backup", tmp_path / f"{number}.db")
        for flood in floods:
            assert flood.wait() == 0, flood.communicate()
        well(home, "backup", tmp_path / "last.db")
        well(home, "stop")
    for number in range(5):
        with closing(sqlite3.connect(tmp_path / f"{number}.db")) as found:
            count = dict(found.execute("SELECT name, count(*) FROM elements GROUP BY name"))
            assert count.get("a", 0) == count.get("b", 0), "what was added at once is there at once"
    other = make_home(tmp_path / "other")
    well(other, "restore", tmp_path / "last.db")
    assert data(other, "memory", "a", "--count")["count"] == 2000


def test_G60_nobody_restores_under_a_daemon(lived_in: Path, tmp_path: Path) -> None:
    well(lived_in, "backup", tmp_path / "b.db")
    with daemon(lived_in):
        for more in (["--force"], ["--agent", "ada", "--name", "bob"]):
            result = narval(lived_in, "restore", tmp_path / "b.db", *more)
            assert (result.exit_code, "narval stop" in result.stderr) == (3, True)


# --- one agent ------------------------------------------------------------------------------------------


def test_G60_one_agent_comes_back_under_another_name_suspended(lived_in: Path, tmp_path: Path) -> None:
    well(lived_in, "backup", tmp_path / "ada.db", "--agent", "ada")
    assert "it has ada" in refused(lived_in, "restore", tmp_path / "ada.db", "--agent", "bob")
    assert "found ada" in refused(make_home(tmp_path / "other"), "restore", tmp_path / "ada.db")
    assert "found one" in refused(lived_in, "restore", tmp_path / "ada.db", "--agent", "ada")
    well(lived_in, "restore", tmp_path / "ada.db", "--agent", "ada", "--as", "bob")
    (_, ada, bob) = data(lived_in, "agents")
    assert (bob["name"], bob["state"], bob["why"]) == ("bob", "suspended", "restored from ada.db")
    assert (bob["elements"], bob["runs"]) == (ada["elements"], ada["runs"])
    with daemon(lived_in):
        well(lived_in, "agents", "resume", "bob")
        well(lived_in, "add", "-", "--agent", "bob", given="<letter to='ann' urgent='yes'/>")
        run = run_of_agent(lived_in, "bob")
        until(lambda: data(lived_in, "show", run, "--agent", "bob")["state"] == "done")
        assert data(lived_in, "show", run, "--agent", "ada")["state"] != "done"
    with closing(sqlite3.connect(lived_in / "var" / "store.db")) as store:
        ids = [row[0] for row in store.execute("SELECT id FROM agents")]
        assert len(set(ids)) == 3


def test_G60_an_agent_that_was_let_go_comes_back_without_what_others_sent_it(
    lived_in: Path, tmp_path: Path
) -> None:
    well(lived_in, "agents", "suspend", "ada")
    well(lived_in, "send", "ada", "-", given="<hello/>")
    well(lived_in, "backup", tmp_path / "b.db")
    well(lived_in, "agents", "remove", "ada", "--now")
    well(lived_in, "restore", tmp_path / "b.db", "--agent", "ada")
    well(lived_in, "agents", "resume", "ada")
    with daemon(lived_in):
        until(lambda: data(lived_in, "memory", "greeting", "--agent", "ada") != [])
        assert narval(lived_in, "memory", "hello", "--agent", "ada", "--json").stdout == "[]\n"


def run_of_agent(home: Path, agent: str) -> int:
    return int(data(home, "runs", "--name", "demo.await", "--agent", agent)[0]["eid"])


# --- what is no backup ----------------------------------------------------------------------------------


def test_G60_what_is_no_backup_is_refused_and_nothing_altered(lived_in: Path, tmp_path: Path) -> None:
    before = told(lived_in)
    assert "no file" in refused(lived_in, "restore", tmp_path / "gone.db", "--force")
    text = tmp_path / "text.db"
    text.write_text("a text")
    assert "does not begin as one" in refused(lived_in, "restore", text, "--force")
    assert "is there and is no backup, so it is not replaced" in refused(lived_in, "backup", text)
    own, elsewhere = lived_in / "var" / "store.db", tmp_path / "elsewhere.db"
    assert "is the store itself" in refused(lived_in, "backup", own)
    shutil.copyfile(own, elsewhere)
    assert "is no backup, so it is not replaced" in refused(lived_in, "backup", elsewhere)
    assert text.read_text() == "a text"
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as made:
        made.execute("CREATE TABLE t (a)")
    assert "something else" in refused(lived_in, "restore", other, "--force")
    file = tmp_path / "b.db"
    well(lived_in, "backup", file)
    for name, harm in (("newer", alter_version), ("cut", cut_short), ("page", spoil_a_page)):
        shutil.copyfile(file, tmp_path / name)
        harm(tmp_path / name)
        assert {"newer": "is newer than this one"}.get(name, "damaged") in refused(
            lived_in, "restore", tmp_path / name, "--force"
        )
    assert told(lived_in) == before
    assert "expected a folder" in refused(lived_in, "backup", tmp_path / "nowhere" / "b.db")


def alter_version(file: Path) -> None:
    with closing(sqlite3.connect(file)) as store, store:
        store.execute("UPDATE version SET number = ?", (HEAD + 1,))
        store.execute("UPDATE meta SET value = ? WHERE key = 'tables_for'", (str(HEAD + 1),))


def cut_short(file: Path) -> None:
    with file.open("r+b") as backup:
        backup.truncate(file.stat().st_size // 2)


def spoil_a_page(file: Path) -> None:
    size = file.stat().st_size
    with file.open("r+b") as backup:
        for place in range(size // 2, size, 2048):
            backup.seek(place // 2048 * 2048)
            backup.write(bytes([255] * 64))


# --- killed ---------------------------------------------------------------------------------------------


MOMENTS = 6
WORDS = (["backup"], ["restore", "--force"], ["restore", "--agent", "ada", "--name", "bob"])


@pytest.mark.parametrize("words", WORDS)
def test_G60_killed_at_any_moment_it_is_the_old_state_or_the_new(
    words: list[str], lived_in: Path, tmp_path: Path
) -> None:
    file = tmp_path / "b.db"
    well(lived_in, "add", "-", given="<memory>" + "<filling n='1'/>" * 4_000 + "</memory>")
    well(lived_in, "backup", file)
    well(lived_in, "add", "-", given="<later/>")
    name, *more = words
    took = 0.0
    for number in range(MOMENTS + 1):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(lived_in, copy)
        target = tmp_path / f"new{number}.db" if name == "backup" else file
        began = time.monotonic()
        running = Command(program(copy, name, target, *more)[3:])
        if number:
            time.sleep(took * number / MOMENTS)
            running.kill()
        running.communicate()
        took = took or time.monotonic() - began
        assert number or running.returncode == 0
        if name == "backup":
            is_whole_or_missing(target, make_home(tmp_path / f"other{number}"))
        else:
            is_old_or_new(copy, more)
        shutil.rmtree(copy)


def is_whole_or_missing(file: Path, home: Path) -> None:
    if file.exists():
        well(home, "restore", file)
        assert data(home, "memory", "later")


def is_old_or_new(home: Path, words: list[str]) -> None:
    agents = [row["name"] for row in data(home, "agents")]
    assert data(home, "memory", "filling", "--count")["count"] == 4_000
    if words == ["--force"]:
        assert agents == ["narval", "ada"]
        assert is_aside(home) or data(home, "memory", "later")
    else:
        assert data(home, "memory", "later")
        assert agents in (["narval", "ada"], ["narval", "ada", "bob"])
        if "bob" in agents:
            assert len(data(home, "memory", "greeting", "--agent", "bob")) == 1


def is_aside(home: Path) -> bool:
    """True if the former store is there whole under its other name."""
    aside = home / "var" / "store.db.before-restore"
    if not aside.exists():
        return False
    with closing(sqlite3.connect(aside)) as store:
        return store.execute("SELECT count(*) FROM elements WHERE name = 'later'").fetchone() == (1,)


# --- altered --------------------------------------------------------------------------------------------


def alter(*statements: str) -> Callable[[Path], None]:
    def harm(file: Path) -> None:
        with closing(sqlite3.connect(file)) as store, store:
            for statement in statements:
                store.execute(statement)

    return harm


def alter_bytes(file: Path) -> None:
    data = file.read_bytes()
    assert b"demo.await" in data
    file.write_bytes(data.replace(b"demo.await", b"demo.awaiT"))


def make_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


UNSEALED = "DELETE FROM meta WHERE key = 'seal'"
ALTERED = {
    "bytes": alter_bytes,
    "a row more": alter("INSERT INTO meta VALUES (0, 'mail_key', '00')"),
    "a row less": alter("DELETE FROM elements WHERE eid IN (SELECT max(eid) FROM elements)"),
    "a trigger": alter(UNSEALED, "CREATE TRIGGER t AFTER INSERT ON meta BEGIN DELETE FROM runs; END"),
    "a view": alter(UNSEALED, "CREATE VIEW v AS SELECT 1"),
    "a path for a name": alter(UNSEALED, "UPDATE agents SET name = '../../etc' WHERE name = 'ada'"),
    "an absolute path": alter(UNSEALED, "UPDATE agents SET name = '/etc' WHERE name = 'ada'"),
    "a pipe": make_a_pipe,
    "a link to a device": lambda file: (file.unlink(), file.symlink_to("/dev/zero")),
}


def test_G60_an_altered_backup_is_refused_and_nothing_written(lived_in: Path, tmp_path: Path) -> None:
    whole = tmp_path / "b.db"
    well(lived_in, "backup", whole)
    before = files_in(lived_in)
    for what, harm in ALTERED.items():
        file = tmp_path / "altered.db"
        file.unlink(missing_ok=True)
        shutil.copyfile(whole, file)
        harm(file)
        for arguments in (["--force"], ["--agent", "ada", "--name", "bob"]):
            assert "expected a backup" in refused(lived_in, "restore", file, *arguments), what
            assert files_in(lived_in) == before, what
    well(lived_in, "restore", whole, "--force")
    well(lived_in, "backup", tmp_path / "again.db")
    well(lived_in, "restore", tmp_path / "again.db", "--force")


def files_in(home: Path) -> dict[str, bytes]:
    """The files of a home that are not made anew by each command."""
    found = [path for path in home.rglob("*") if path.is_file() and "lock" not in path.name]
    return {str(path.relative_to(home)): path.read_bytes() for path in found}


# --- a store whose file is gone ---------------------------------------------------------------------------


def test_what_a_daemon_has_is_saved_when_its_store_was_deleted(home: Path, tmp_path: Path) -> None:
    with daemon(home):
        well(home, "add", "-", given="<before/>")
        for file in (home / "var").glob("store.db*"):
            file.unlink()
        well(home, "add", "-", given="<after/>")
        assert "store.db was deleted or moved away" in well(home, "attention")
        assert narval(home, "status", "--check").exit_code == 1
        well(home, "backup", tmp_path / "b.db")
        assert not [*(home / "var").glob("store.db*")]
        well(home, "stop")
    other = make_home(tmp_path / "other")
    well(other, "restore", tmp_path / "b.db")
    for each in (home, other):
        assert data(each, "memory", "before")
        assert data(each, "memory", "after")


def test_what_a_daemon_has_is_saved_when_another_file_is_in_the_place_of_its_store(
    home: Path, tmp_path: Path
) -> None:
    other = make_home(tmp_path / "other")
    well(other, "add", "-", given="<stranger/>")
    with daemon(home):
        well(home, "add", "-", given="<before/>")
        shutil.copy(other / "var" / "store.db", home / "var" / "new.db")
        (home / "var" / "new.db").rename(home / "var" / "store.db")
        for suffix in ("-wal", "-shm"):
            (home / "var" / f"store.db{suffix}").unlink(missing_ok=True)
        well(home, "backup", tmp_path / "b.db")
        assert not (home / "var" / "store.db.saved").exists()
        well(home, "stop")
    third = make_home(tmp_path / "third")
    well(third, "restore", tmp_path / "b.db")
    assert [row["name"] for row in data(third, "memory", "before | stranger")] == ["before"]


def test_a_backup_beside_a_silent_daemon_is_of_the_file_and_says_so(home: Path, tmp_path: Path) -> None:
    with daemon(home) as running, pytest.MonkeyPatch.context() as patched:
        well(home, "add", "-", given="<before/>")
        patched.setattr(client, "PATIENCE", 0.2)
        running.send_signal(signal.SIGSTOP)
        result = narval(home, "backup", tmp_path / "b.db")
        running.send_signal(signal.SIGCONT)
    assert (result.exit_code, "this is a backup of the file at" in result.stderr) == (0, True)


def test_a_daemon_of_a_release_that_keeps_no_copy_is_backed_up_from_the_file(
    lived_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Older(contextlib.nullcontext[None]):
        def __enter__(self) -> None: ...

        def ask(self, method: str) -> None:
            raise RequestError(f"there is no operation {method!r}; there are add")

    def reached(home: object, otherwise: object, acting_as: str = "") -> Older:
        assert not acting_as
        return Older()

    monkeypatch.setattr(backups, "reach", reached)
    monkeypatch.setenv("NARVAL_AS", "ann")
    well(lived_in, "backup", tmp_path / "b.db")
    (lived_in / "var" / "store.db").rename(tmp_path / "away.db")
    assert "there is no operation" in refused(lived_in, "backup", tmp_path / "c.db")


def test_a_home_that_had_a_store_does_not_begin_an_empty_one_in_silence(lived_in: Path) -> None:
    (lived_in / "var" / "store.db").unlink()
    why = "var/narval.log shows that the home had one"
    for words in (["add", "-"], ["memory"], ["status"], ["backup", str(lived_in / "b.db")]):
        refusal = narval(lived_in, *words, given=NAME)
        assert (refusal.exit_code, why in refusal.stderr) == (1, True)
    assert "started on" in well(lived_in, "log")
    result = narval(lived_in, "run", "--until-idle")
    assert result.stderr.count("var/store.db is not there, but var/narval.log shows") == 1


def test_what_a_draft_without_a_daemon_has_cost_is_no_trace_of_a_store(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    (home / "var").mkdir(exist_ok=True)
    (home / "var/models.db").touch()
    well(home, "add", "-", given="<x/>")
