"""Commands tell who asks: the login, or with `--as` another; with a daemon and without one (P30, P39)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from narval.ask.asker import Asker
from narval.ask.operations import OPERATIONS
from narval.core.errors import RequestError
from narval.files.home import Home
from narval.surfaces.cli import without_daemon
from narval.surfaces.control.client import Client
from narval.system.logins import login
from tests.surfaces.cli.command_line import daemon, data, make_home, narval, separately, well

OWN = login(os.geteuid())
PROCESS = """<process-definition name="bill" xmlns="http://sarasvati.googlecode.com/ProcessDefinition">
<node name="a" type="wait" isStart="true"><arc to="b"/></node><node name="b" type="wait"/>
</process-definition>"""


@pytest.fixture(scope="module", params=["daemon", "alone"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with a run that waits and a process; with a daemon and without one."""
    home = make_home(tmp_path_factory.mktemp("place") / "home")
    (home / "recipes" / "b.xml").write_text(PROCESS)
    if request.param == "alone":
        yield home
        return
    with daemon(home):
        yield home
        assert separately(home, "stop", "--as", "ann").returncode == 0
        assert f"asked to stop by ann ({OWN})" in well(home, "log")


def told(home: Path, run: int, what: str) -> list[tuple[Any, Any]]:
    """By whom, and who acted for them, at each event of that name."""
    lines = [line for line in data(home, "history", run) if line["what"] == what]
    return [(line.get("by"), line.get("actor")) for line in lines]


def active(home: Path, name: str, *more: str) -> int:
    """A run that was begun and, without a daemon, taken up."""
    run = int(well(home, "start", name, *more))
    if data(home, "status")["state"] == "stopped":
        assert narval(home, "run", "--until-idle").exit_code == 0
    return run


def test_P30_the_login_is_kept_with_what_is_added_and_started(place: Path) -> None:
    eid = int(well(place, "add", "-", given="<letter to='bob'/>"))
    (letter,) = data(place, "memory", f"letter[@eid={eid}]")
    assert letter["origin"] == {"run": None, "step": None, "by": OWN}
    assert OWN in well(place, "memory", f"letter[@eid={eid}]")
    run = active(place, "demo.await")
    assert data(place, "show", run)["by"] == OWN
    assert f"by          {OWN}" in well(place, "show", run)
    assert told(place, run, "Started") == [(OWN, None)]
    assert f"by={OWN}" in well(place, "history", run, "--journal")
    assert f"{OWN} started it." in well(place, "history", run)


@pytest.mark.parametrize("before", [True, False])
def test_P39_another_name_stands_before_the_command_or_after_it(place: Path, before: bool) -> None:
    acting = ["--as", "ann"]
    words = [*acting, "add", "-"] if before else ["add", "-", *acting]
    eid = int(well(place, *words, given="<letter to='zoe'/>"))
    (letter,) = data(place, "memory", f"letter[@eid={eid}]")
    assert letter["origin"] == {"run": None, "step": None, "by": "ann", "actor": OWN}
    assert f"ann ({OWN})" in well(place, "memory", f"letter[@eid={eid}]")


def test_P39_whatever_alters_a_run_is_done_in_another_name(place: Path) -> None:
    run = active(place, "demo.await", "--as", "ann")
    well(place, "signal", run, "hurry", "--as", "bob")
    well(place, "cancel", run, "--as", "zoe")
    if data(place, "status")["state"] == "stopped":
        assert narval(place, "run", "--until-idle").exit_code == 0
    assert told(place, run, "Started") == [("ann", OWN)]
    assert told(place, run, "Signalled") == [("bob", OWN)]
    assert told(place, run, "Cancelled") == [("zoe", OWN)]
    (signal,) = data(place, "memory", "signal[@name='hurry']", "--context", run)
    assert (signal["origin"]["by"], signal["origin"]["actor"]) == ("bob", OWN)
    again = int(well(place, "retry", run, "--from", "begin", "--as", "ann"))
    assert told(place, again, "Started") in ([("ann", OWN)], [])
    assert data(place, "show", again)["by"] == "ann"


def test_P39_whatever_alters_a_process_is_done_in_another_name(place: Path) -> None:
    run = active(place, "b.bill", "--as", "ann")
    well(place, "environment", run, "paid=yes", "--as", "bob")
    well(place, "complete", run, "a", "--as", "zoe")
    well(place, "backtrack", run, "a", "--as", "ann")
    assert told(place, run, "Signalled") == [("bob", OWN), ("zoe", OWN), ("ann", OWN)]
    well(place, "cancel", run, "--reason", "paid twice", "--as", "zoe")
    if data(place, "status")["state"] == "running":
        assert f"it was cancelled by zoe ({OWN}): paid twice" in well(place, "why", run)
    shown = narval(place, "environment", run, "--as", "bob")
    assert (shown.exit_code, "--as goes with --set NAME=VALUE" in shown.stderr) == (2, True)


def test_a_reload_is_told_in_the_log_of_the_daemon(place: Path, request: pytest.FixtureRequest) -> None:
    assert narval(place, "reload", "--as", "ann").exit_code == 0
    if request.node.callspec.params["place"] == "daemon":
        assert f"asked to reload by ann ({OWN})" in well(place, "log")


@pytest.mark.parametrize("name", [" ann", "ann ", "a\nb", "x" * 65])
def test_P39_a_name_that_is_none_is_refused_and_nothing_is_done(place: Path, name: str) -> None:
    before = data(place, "memory", "--count")
    refused = narval(place, "--as", name, "add", "-", given="<letter/>")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "expected the name of a person, 1 to 64 printable characters" in refused.stderr
    assert narval(place, "add", "-", "--as", "", given="<letter/>").exit_code == 2
    assert data(place, "memory", "--count") == before


def test_P39_without_a_daemon_only_the_owner_of_the_home_and_root_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_home(tmp_path / "home")
    stranger = Asker("mallory", home.stat().st_uid + 1234, "terminal")
    monkeypatch.setattr(without_daemon, "user", lambda uid, way: stranger)
    refused = narval(home, "--as", "ann", "add", "-", given="<letter/>")
    assert (refused.exit_code, "root may act in another's name" in refused.stderr) == (1, True)
    well(home, "add", "-", given="<letter/>")
    (letter,) = data(home, "memory", "letter")
    assert letter["origin"]["by"] == "mallory"


# --- fewer scopes -----------------------------------------------------------------------------------------


def test_M7_a_connection_that_is_limited_to_reading_alters_nothing(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    with daemon(home), Client(Home(home).socket()) as client:
        client.ask("limit", scope="read")
        before = client.ask("count")
        for name, operation in OPERATIONS.items():
            if operation.scope == "read":
                continue
            refused = f"{name} needs the scope {operation.scope}, .* limited to read"
            with pytest.raises(RequestError, match=refused):
                client.ask(name)
        assert client.ask("count") == before
        assert client.ask("status")["state"] == "running"


# --- what alters nothing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["memory"], ["show", "1"], ["runs"], ["status"], ["check"], ["log"]])
def test_a_command_that_alters_nothing_refuses_another_name(tmp_path: Path, words: list[str]) -> None:
    home = make_home(tmp_path / "home")
    before = narval(home, "--as", "ann", *words)
    assert (before.exit_code, "changes nothing" in before.stderr) == (2, True)
    after = narval(home, *words, "--as", "ann")
    assert (after.exit_code, "No such option" in after.stderr) == (2, True)


def test_P30_a_run_that_is_waited_for_without_a_daemon_is_theirs(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    run = json.loads(
        well(home, "--as", "ann", "start", "demo.greet", "-", "--wait", "--json", given="<name>Ann</name>")
    )
    assert (run["by"], run["phase"]) == ("ann", "done")


def test_P39_elements_are_outdated_and_replaced_in_another_name(place: Path) -> None:
    old = int(well(place, "add", "-", given="<letter to='eve' n='1'/>"))
    new = int(well(place, "add", "-", "--replace", old, "--as", "ann", given="<letter to='eve' n='2'/>"))
    assert data(place, "memory", "letter[@n]", "--current")[0]["origin"]["by"] == "ann"
    assert well(place, "outdate", new, old, "--reason", "late", "--as", "bob") == f"{new}\n"
    (note,) = data(place, "memory", f"outdated[@elements='{new}']")
    assert note["origin"] == {"run": None, "step": None, "by": "bob", "actor": OWN}
    assert data(place, "outdate", new) == {"eids": [], "note": None}
    assert narval(place, "memory", "letter[@n]", "--current").exit_code == 1
    refused = narval(place, "outdate", 999_999)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "there is no element 999999" in refused.stderr
