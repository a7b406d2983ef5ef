"""The automata that ship do what they say, on real files."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

import narval
from narval.surfaces.python.agent import Agent
from tests.places import ROOT

SHIPPED = ROOT / "recipes"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with these automata, and some files."""
    for part in ("recipes", "data/docs"):
        (tmp_path / part).mkdir(parents=True)
    for name in ("backup", "backup-nightly", "replication", "build"):
        shutil.copy(SHIPPED / f"{name}.xml", tmp_path / "recipes")
    (tmp_path / "data/docs/a").write_text("a")
    (tmp_path / "data/b").write_bytes(os.urandom(100_000))
    return tmp_path


def phase(agent: Agent, name: str) -> str:
    """How a run of that name ends."""
    run = agent.start(name)
    agent.wait(run)
    return str(agent.run(run)["phase"])


def archives(home: Path) -> list[Path]:
    return sorted((home / "var/backup").glob("*.tar"))


# --- backup ---------------------------------------------------------------------------------------------


def test_A8_a_backup_is_an_archive_of_all_files(home: Path) -> None:
    with narval.open(home) as agent:
        assert phase(agent, "backup.folder") == "done"
    (made,) = archives(home)
    listed = subprocess.run(["tar", "-tf", str(made)], capture_output=True, text=True, check=True)
    assert {"./docs/a", "./b"} <= set(listed.stdout.split())


def test_A8_a_backup_falls_back_when_a_compressor_fails(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "bin").mkdir()
    script = 'for each; do case "$each" in --zstd|-czf) exit 9;; esac; done; exec /usr/bin/tar "$@"\n'
    (home / "bin/tar").write_text("#!/bin/sh\n" + script)
    (home / "bin/tar").chmod(0o755)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
    with narval.open(home) as agent:
        run = agent.start("backup.folder")
        agent.wait(run)
        shown = {state["id"]: state for state in agent.run(run)["states"]}
    assert shown["archive"]["label"] == "0"
    (made,) = archives(home)
    with tarfile.open(made, "r:") as tar:
        assert "./b" in tar.getnames()


def test_A4_a_backup_of_what_changed_meanwhile_is_made_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "bin").mkdir()
    script = '/usr/bin/tar "$@"; s=$?; test -e once || { touch once; echo more >> data/b; }; exit $s\n'
    (home / "bin/tar").write_text("#!/bin/sh\n" + script)
    (home / "bin/tar").chmod(0o755)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
    with narval.open(home) as agent:
        run = agent.start("backup.folder")
        agent.wait(run)
        shown = {state["id"]: state for state in agent.run(run)["states"]}
    assert (shown["archive"]["visits"], shown["verify"]["label"]) == (2, "0")


def test_a_backup_keeps_so_many(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKUP_KEEP", "2")
    (home / "var/backup").mkdir(parents=True)
    for year in (2001, 2002, 2003):
        (home / f"var/backup/{year}-01-01T000000Z.tar").touch()
    with narval.open(home) as agent:
        assert phase(agent, "backup.folder") == "done"
    kept = [archive.name[:4] for archive in archives(home)]
    assert (len(kept), kept[0]) == (2, "2003")


def test_a_backup_of_nothing_fails_and_says_so(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKUP_FROM", "nowhere")
    with narval.open(home) as agent:
        run = agent.start("backup.folder")
        agent.wait(run)
        assert "state start ended with status 1" in agent.run(run)["error"]["message"]


# --- replication ----------------------------------------------------------------------------------------


def test_a_copy_follows_its_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLICATION_EVERY", "0.05")
    copy = home / "var/replica/docs/a"
    with narval.open(home) as agent:
        run = agent.start("replication.watch")
        for text in ("a", "b"):
            (home / "data/docs/a").write_text(text)
            while not (copy.exists() and copy.read_text() == text):
                agent.wait(run, timeout=0.05)
        assert agent.run(run)["phase"] == "active"
        agent.cancel(run)
        agent.wait(run)
        assert agent.run(run)["phase"] == "cancelled"


# --- build ----------------------------------------------------------------------------------------------


@pytest.fixture
def sources(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in C, and a compiler of its own that joins texts and notes what it was asked for."""
    folder = home / "data/build"
    folder.mkdir()
    (folder / "main.c").write_text("#!/bin/sh\n")
    (folder / "words.c").write_text("echo well\n")
    (folder / "words.h").write_text("\n")
    compiler = home / "cc"
    compiler.write_text(
        '#!/bin/sh\necho "$@" >> asked\nwhile [ $# -gt 0 ]; do case $1 in -o) shift; out=$1;; -c) ;; '
        '*) in="$in $1";; esac; shift; done\ncat $in > $out && chmod +x $out\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    return folder


def test_A9_a_build_makes_what_has_changed_and_nothing_else(home: Path, sources: Path) -> None:
    with narval.open(home) as agent:
        assert phase(agent, "build.program") == "done"
        assert len((sources / "asked").read_text().splitlines()) == 3
        assert phase(agent, "build.program") == "done"
        assert len((sources / "asked").read_text().splitlines()) == 3, "nothing to do"
        later = time.time() + 5
        os.utime(sources / "words.c", (later, later))
        assert phase(agent, "build.program") == "done"
        asked = (sources / "asked").read_text().splitlines()[3:]
    assert [line.split()[-1] for line in asked] == ["out/words.o", "out/program"]


def test_A9_what_a_build_left_that_failed_is_made_again_by_the_next_daemon(home: Path) -> None:
    script = "echo half >out; test -e mended && echo rest >>out"
    state = f'<state name="start" command="sh" directory="." creates="out"><![CDATA[{script}]]></state>'
    (home / "recipes/half.xml").write_text(f'<automaton group="b" name="half">{state}</automaton>')
    with narval.open(home) as agent:
        assert phase(agent, "b.half") == "failed"
    (home / "mended").touch()
    with narval.open(home) as agent:
        assert phase(agent, "b.half") == "done"
    assert (home / "out").read_text() == "half\nrest\n"


def test_A5_a_build_that_fails_shows_the_output_of_the_compiler(home: Path, sources: Path) -> None:
    (sources / "words.c").unlink()
    with narval.open(home) as agent:
        run = agent.start("build.program")
        agent.wait(run)
        error = agent.run(run)["error"]
        assert "state words ended with status 1" in error["message"]
        (state,) = [state for state in agent.run(run)["states"] if state["id"] == "words"]
        assert "words.c" in state["output"]
