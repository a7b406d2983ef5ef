"""Homes on a database server, on the command line: what each shows of others, and what may be wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from narval.files.home import Home
from narval.surfaces.control.client import Client
from narval.system.extras import install_command
from tests.postgres import Server
from tests.surfaces.cli.command_line import begun, daemon, data, ended, line_of, make_home, narval, well


def home_on(folder: Path, url: str, name: str = "") -> Path:
    """A home whose store is at a URL."""
    home = make_home(folder)
    (home / "etc/narval.toml").write_text(f'name = "{name or folder.name}"\nstore = "{url}"\n')
    return home


def told(home: Path, *arguments: object, status: int = 1) -> str:
    """The words of a command that ends with a status."""
    done = narval(home, *arguments)
    assert done.exit_code == status, done.output
    return done.output


def test_two_homes_on_one_database_have_a_memory_each_and_show_one_anothers(
    postgres_url: str, tmp_path: Path
) -> None:
    attic, barn = (home_on(tmp_path / name, postgres_url) for name in ("attic", "barn"))
    well(attic, "add", "-", given="<email/>")
    assert told(barn, "memory") == (
        "narval: the store has no agent barn yet: start the daemon of this home once (narval run)\n"
    )
    well(barn, "add", "-", given="<order/>")
    well(barn, "agents", "add", "ada")
    well(attic, "add", "-", "--agent", "ada", given="<letter/>")
    for home, own, others in ((attic, "email", "order"), (barn, "order", "email")):
        named = {row["name"] for row in data(home, "memory")}
        assert (own in named, others in named) == (True, False)
    assert "letter" in {row["name"] for row in data(barn, "memory", "--agent", "ada")}
    assert "email" in {row["name"] for row in data(barn, "memory", "--agent", "attic")}
    rows = data(barn, "agents")
    assert [(row["name"], row["owner"]) for row in rows] == [("barn", None), ("ada", None), ("attic", None)]
    assert min(row["epoch"] for row in rows) >= 1
    assert "epoch" in well(barn, "agents").splitlines()[0]


def test_what_is_wrong_with_a_server_is_told_with_what_to_do(postgres: Server, tmp_path: Path) -> None:
    url = postgres.url
    with psycopg.connect(url, autocommit=True) as server:
        for statement in (
            "CREATE ROLE poor LOGIN",
            "CREATE ROLE known LOGIN PASSWORD 'right'",
            "CREATE DATABASE foreigners",
            "CREATE DATABASE standby",
            "ALTER DATABASE standby SET default_transaction_read_only = on",
        ):
            server.execute(statement.encode())
        rules = server.execute("SHOW hba_file").fetchone()
        assert rules is not None
        Path(rules[0]).write_text("local all known scram-sha-256\nlocal all all trust\n")
        server.execute("SELECT pg_reload_conf()")
    with psycopg.connect(url.replace("/postgres?", "/foreigners?")) as foreigners:
        foreigners.execute("CREATE TABLE theirs (a int)")
    well(home_on(tmp_path / "attic", url), "agents", "add", "ada")
    nobody = quote(str(tmp_path), safe="")
    cases = {
        "nowhere": (url.replace("/postgres?", "/nowhere?"), r"has no such database: .*create it, or correct"),
        "stranger": (url.replace("narval@", "who@"), "the server refuses this user: .*pg_hba.conf"),
        "wrong": (url.replace("narval@", "known:wrong@"), "the server refuses this user: .*pg_hba.conf"),
        "poor": (url.replace("narval@", "poor@"), "the user may not do that: .*grant the role"),
        "standby": (url.replace("/postgres?", "/standby?"), "the server only reads: .*name the primary"),
        "foreign": (url.replace("/postgres?", "/foreigners?"), "a database of something else; let `store`"),
        "schema": (f"{url}&options=-csearch_path%3Dnone", "no schema is there: .*create the schema"),
        "away": (f"postgresql://narval@/postgres?host={nobody}", "does not answer: .*start it"),
        "ada": (url, "a name for the home's own agent that no other agent has, found 'ada'; choose another"),
    }
    for name, (where, expected) in cases.items():
        home = home_on(tmp_path / name, where)
        with (home / "etc/narval.toml").open("a") as settings:
            settings.write('store_patience = "0s"\n')
        found = told(home, "run", "--until-idle")
        assert _fits(expected, found), (name, found)
        assert "wrong@" not in found
        assert "Traceback" not in found
    with psycopg.connect(url) as server:
        server.execute("UPDATE version SET number = 9999")
        server.execute("UPDATE meta SET value = '9999' WHERE key = 'tables_for'")
    found = told(tmp_path / "attic", "run", "--until-idle")
    assert _fits(r"schema 9999.*newer than this one.*start it with that version", found)


def test_a_library_that_is_not_there_is_asked_for(tmp_path: Path) -> None:
    home = home_on(tmp_path / "attic", "postgresql://me:secret@db.example.org/narval")
    hidden = "import sys; sys.modules['psycopg'] = None; from narval.surfaces.cli import main; main()"
    for command in (["memory"], ["check"], ["collection"]):
        done = subprocess.run(
            [sys.executable, "-c", hidden, "--home", str(home), *command],
            capture_output=True, text=True, check=False, env={**os.environ, "NARVAL_HOME": ""},
        )  # fmt: skip
        assert done.returncode == 1
        assert install_command("postgres") in done.stdout + done.stderr
        assert "secret" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "url",
    [
        "postgres://x",
        "mysql://me:secret@host/narval",
        "postgresql://me:secret@host:port/narval",
        "postgresql://me:secret@host/narval?colour=red",
        "postgresql://me:secr%zzet@host/narval",
    ],
)
def test_check_tells_of_a_url_that_cannot_be_one(url: str, tmp_path: Path) -> None:
    home = home_on(tmp_path / "attic", url)
    for command in (["check"], ["run", "--until-idle"]):
        found = told(home, *command)
        assert "expected" in found
        assert "postgresql://" in found
        assert "secr" not in found


def _fits(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.DOTALL) is not None


def test_G52_an_outage_of_the_server_is_told_and_loses_nothing(postgres: Server, tmp_path: Path) -> None:
    attic, barn = (home_on(tmp_path / name, postgres.url) for name in ("attic", "barn"))
    with daemon(attic), daemon(barn), ExitStack() as ends:
        well(attic, "agents", "add", "ada")
        well(attic, "add", "-", given="<before/>")
        while len((known := data(attic, "status"))["fleet"]) < 2 or known["away"] is not None:
            pass
        assert [(row["home"], row["self"], row["draining"]) for row in known["fleet"]] == [
            ("attic", True, False),
            ("barn", False, False),
        ]
        assert known["server"].startswith("postgresql://")
        assert f"store     {known['server']}, answers in" in well(attic, "status")
        assert abs(known["apart"]) < 2
        told_status = well(attic, "status")
        assert "fleet     2 daemons" in told_status
        assert "barn " in told_status
        assert {row["name"]: row["owner"] for row in data(barn, "agents")} == {
            "barn": "barn",
            "ada": "attic",
            "attic": "attic",
        }
        adds = ends.enter_context(Client(Home(attic).socket(), answer=300.0))
        turns = data(attic, "status")["turns"]
        with postgres.killed():
            adding = ends.enter_context(ThreadPoolExecutor(1)).submit(
                adds.ask, "add", elements=[b"<during/>"]
            )
            while (
                data(attic, "status")["turns"] == turns
            ):  # it is being recorded: nobody misses the server yet
                pass
        while data(attic, "status")["away"] is None or data(barn, "status")["away"] is None:
            pass
        assert _fits(r"store +away since .*does not answer", well(attic, "status"))
        assert [item["what"] for item in data(attic, "attention")] == ["store"]
        while narval(attic, "memory").exit_code == 0:  # what is to be added has not come yet
            assert not adding.done(), adding.result()
        assert _fits("not recorded since .*narval status", told(attic, "memory"))
        assert not adding.done(), adding.result()
        postgres.start()
        assert len(adding.result(300)["eids"]) == 1
        while data(attic, "status")["away"] is not None:
            pass
        assert {"before", "during"} <= {row["name"] for row in data(attic, "memory")}
        well(attic, "stop")
        assert "attic" in told(barn, "add", "-", "--agent", "attic")


def test_a_standby_is_told_and_stopped(postgres_url: str, tmp_path: Path) -> None:
    attic = home_on(tmp_path / "attic", postgres_url)
    copied = home_on(tmp_path / "copied", postgres_url, "attic")
    with daemon(attic) as first:
        waiting = begun(copied, "run", "--standby")
        while (shown := data(copied, "status"))["state"] != "standby":
            pass
        assert shown["pid"] == waiting.pid
        assert [row["home"] for row in shown["fleet"]] == ["attic"]
        lines = well(copied, "status")
        assert _fits(rf"daemon +a standby, program {waiting.pid}, waits for the end of", lines)
        assert _fits(rf"daemons of the store:.*attic .*program {first.pid} ", lines)
        assert data(copied, "stop") == {"stopped": True}
        assert ended(waiting)[0] != 0
        assert data(copied, "status")["state"] == "stopped"
        assert well(copied, "stop").startswith("no daemon runs at ")
        assert data(attic, "status")["state"] == "running"


def test_a_standby_that_took_over_is_none_any_more(postgres_url: str, tmp_path: Path) -> None:
    attic = home_on(tmp_path / "attic", postgres_url)
    with daemon(attic, "--standby"):
        assert data(attic, "status")["state"] == "running"
        assert "a standby" not in str(Home(attic).holder())


def test_G52_a_daemon_that_starts_while_the_server_is_away_waits_for_it_and_says_so(
    postgres: Server, tmp_path: Path
) -> None:
    attic = home_on(tmp_path / "attic", postgres.url)
    postgres.stop("immediate")
    for number, ends in ((signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)):
        waiting = begun(attic, "run")
        assert _fits(
            "warning: waiting for the server .*does not answer.*start it", waiting.stderr.readline().decode()
        )
        waiting.send_signal(number)
        assert ended(waiting)[0] == ends
    waiting = begun(attic, "run")
    waiting.stderr.readline()
    known = data(attic, "status")
    assert (known["state"], known["pid"]) == ("waiting", waiting.pid)
    assert "does not answer" in known["away"]["why"]
    assert _fits(rf"program {waiting.pid} waits for the server .*does not answer", well(attic, "status"))
    assert str(Home(attic).holder()).startswith("a daemon that waits for the server of its store, program ")
    assert data(attic, "stop") == {"stopped": True}
    ended(waiting)
    waiting = begun(attic, "run")
    waiting.stderr.readline()
    postgres.start()
    assert b"is ready" in line_of(waiting)
    while (known := data(attic, "status"))["away"] is not None:
        pass
    assert known["state"] == "running"
    assert any("the store is back after" in line["message"] for line in data(attic, "log"))
    well(attic, "stop")
    ended(waiting)
