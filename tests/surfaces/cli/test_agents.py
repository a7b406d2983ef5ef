"""Several agents on the command line, with a daemon and without one (G20, G21)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import narval as narval_in_python
from narval.core.errors import RequestError
from tests.surfaces.cli.command_line import daemon, data, make_home, narval, well

LETTER = "<letter to='ann' urgent='yes'/>"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path / "home")


@pytest.fixture(params=["daemon", "alone"])
def place(request: pytest.FixtureRequest, home: Path) -> Iterator[Path]:
    """A home with a daemon and without one."""
    if request.param == "alone":
        yield home
        return
    with daemon(home):
        yield home


def test_G20_agents_are_added_listed_suspended_resumed_and_removed(place: Path) -> None:
    assert well(place, "agents", "add", "ada") == "ada is passive\n"
    assert data(place, "agents", "add", "bob")["name"] == "bob"
    assert [row["name"] for row in data(place, "agents")] == ["narval", "ada", "bob"]
    well(place, "agents", "suspend", "bob", "--reason", "on leave")
    assert data(place, "status")["agents"]["suspended"] == 1
    assert "1 suspended" in well(place, "status")
    listed = well(place, "agents").splitlines()
    assert listed[0].split()[:5] == ["agent", "state", "elements", "runs", "calls"]
    assert "on leave" in listed[3]
    assert well(place, "agents", "resume", "bob") == "bob is active\n"
    removed, how = well(place, "agents", "remove", "bob").splitlines()
    assert removed == "bob is removed"
    assert Path(how.rpartition("narval restore ")[2].removesuffix(" --agent bob")).is_file()
    assert [row["name"] for row in data(place, "agents")] == ["narval", "ada"]


def test_a_link_for_an_agent_that_is_not_there_warns_and_one_for_all_does_not(home: Path) -> None:
    link = ("link", "add", "office", "https://office.example.org")
    wrong = narval(home, *link, "--agent", "narvall")
    assert (wrong.exit_code, wrong.stdout.startswith("narval-link-")) == (0, True)
    assert "warning: there is no agent 'narvall' here yet; did you mean 'narval'?" in wrong.stderr
    for agent in ("narval", "*"):
        assert "warning" not in narval(home, *link, "--agent", agent).stderr


def test_G21_every_command_asks_the_agent_that_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    well(place, "agents", "add", "ada")
    run = int(well(place, "start", "demo.await", "--agent", "ada"))
    well(place, "--agent", "ada", "add", "-", given=LETTER)
    assert narval(place, "memory", "letter").exit_code == 1
    monkeypatch.setenv("NARVAL_AGENT", "ada")
    (letter,) = data(place, "memory", "letter")
    assert letter["agent"] == "ada"
    assert data(place, "show", run)["agent"] == "ada"
    assert "letter" in well(place, "memory")
    assert all(line["agent"] == "ada" for line in data(place, "history", run))
    assert well(place, "why", run)
    assert data(place, "status")["name"] == "ada"
    assert "agent" not in data(place, "--agent", "narval", "status")


def test_G20_status_and_why_say_that_an_agent_is_suspended(place: Path) -> None:
    well(place, "agents", "add", "ada")
    run = int(well(place, "start", "demo.await", "--agent", "ada"))
    assert data(place, "why", run, "--agent", "ada")["agent_state"] != "suspended"
    well(place, "agents", "suspend", "ada", "--why", "on leave")
    status = data(place, "status", "--agent", "ada")
    assert (status["agent_state"], status["agent_why"]) == ("suspended", "on leave")
    assert status["state"] == data(place, "status")["state"]
    assert "agent_state" not in data(place, "status")
    assert "ada, suspended: on leave" in well(place, "status", "--agent", "ada")
    assert "ada is suspended, and does nothing" in narval(place, "agents", "passivate", "ada").stderr
    assert data(place, "agents", "suspend", "ada")["why"] == "on leave"
    told = "nothing goes on while ada is suspended: on leave; `narval agents resume ada`"
    assert told in well(place, "why", run, "--agent", "ada")


def test_G55_the_daemon_that_an_agent_is_moved_to_is_named_once(home: Path) -> None:
    for to, status in ((["barn"], 1), (["--to", "barn"], 1), ([], 2), (["barn", "--to", "barn"], 2)):
        assert narval(home, "agents", "move", "narval", *to).exit_code == status


def test_G21_what_is_to_be_asked_next_names_the_agent(place: Path) -> None:
    well(place, "agents", "add", "ada")
    well(place, "add", "-", "--agent", "ada", given=LETTER)
    shown = narval(place, "memory", "--limit", "1", "--agent", "ada")
    assert "--agent ada memory --limit 1 --before" in shown.stderr
    refused = narval(place, "show", "999", "--agent", "ada")
    assert "`narval runs --agent ada` lists them" in refused.stderr


def test_G25_what_is_sent_is_in_the_memory_of_the_other_agent_once(home: Path) -> None:
    well(home, "agents", "add", "ada")
    well(home, "send", "ada", "-", given=LETTER)
    with daemon(home):
        (id,) = data(home, "send", "narval", "-", "--agent", "ada", "--keep", "7d", given=LETTER)["messages"]
        assert well(home, "memory", "letter[@al:from='narval']", "--count", "--agent", "ada") == "1\n"
        (letter,) = data(home, "memory", "letter")
        assert (letter["origin"]["from"], letter["origin"]["message"]) == ("ada", id)
        assert "agent ada" in well(home, "memory", "letter")
    result = narval(home, "send", "adda", "-", given=LETTER)
    assert (result.exit_code, "did you mean 'ada'?" in result.stderr) == (1, True)


def test_G16_show_tells_what_an_agent_uses_of_its_limits_and_who_asks_for_more_where_they_are_set(
    place: Path,
) -> None:
    (place / "agents/ada").mkdir(parents=True)
    well(place, "reload")  # else a daemon has it within a second
    well(place, "add", "-", "--agent", "ada", given="<note/>")
    used = {row["what"]: row["used"] for row in data(place, "agents", "show", "ada")["limits"]}
    most = used["elements"]
    (place / "agents/ada/agent.toml").write_text(f"elements = {most}\n")
    well(place, "reload")
    shown = well(place, "agents", "show", "ada").splitlines()
    assert any(line.split() == ["elements", str(most), str(most)] for line in shown), "\n".join(shown)
    result = narval(place, "add", "-", "--agent", "ada", given="<note/>")
    assert result.exit_code == 1
    assert result.stderr == (
        f"narval: over-limit: {most} of {most} elements are there, and 1 more would be too many; have some "
        "forgotten or ended, or set elements higher in agents/ada/agent.toml\n"
    )


def test_G28_a_program_sends_too(home: Path) -> None:
    with narval_in_python.open(home) as own:
        own.ask("add_agent", name="ada")
        (id,) = own.send("ada", "<order n='1'/>")
        own.until_idle()
        with own.other("ada") as ada:
            assert [found.origin.message for found in ada.memory("order")] == [id]
            ada.send("narval", "<bill/>", "<bill/>", keep=60.0)
            own.until_idle()
        assert len(own.memory("bill[@al:from='ada']")) == 2


def test_G21_an_agent_that_is_not_there_is_refused_with_those_there_are(place: Path) -> None:
    well(place, "agents", "add", "ada")
    result = narval(place, "runs", "--agent", "adda")
    assert result.exit_code == 1
    assert result.stderr == (
        "narval: there is no agent 'adda' here (did you mean 'ada'?); this home has narval, ada\n"
    )
    assert narval(place, "runs", "--agent", "").exit_code == 2


@pytest.mark.parametrize(
    "words", [["add"], ["remove", "ada", "--reason", "x"], ["add", "ada", "--now"], ["x"]]
)
def test_what_goes_with_what_is_said(home: Path, words: list[str]) -> None:
    assert narval(home, "agents", *words).exit_code == 2


def test_G9_three_agents_at_work_are_found_as_they_were_after_a_kill(home: Path) -> None:
    names = ("narval", "ada", "bob")
    with daemon(home) as running:
        for name in names[1:]:
            well(home, "agents", "add", name)
        runs = {name: int(well(home, "start", "demo.await", "--agent", name)) for name in names}
        calls = {name: int(well(home, "start", "demo.slow", "--agent", name)) for name in names}
        well(home, "add", "-", "--agent", "bob", given=LETTER)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    with daemon(home):
        assert {row["name"]: row["state"] for row in data(home, "agents")} == dict.fromkeys(names, "active")
        for name in names:
            (call,) = data(home, "status", "--agent", name)["calls"]
            assert call["run"] == calls[name]
        well(home, "add", "-", "--agent", "ada", given=LETTER)
        phases = {name: data(home, "show", runs[name], "--agent", name)["phase"] for name in names}
        assert phases == {"narval": "active", "ada": "done", "bob": "done"}


def test_G5_a_client_that_asks_for_a_passive_agent_cannot_tell(home: Path) -> None:
    (home / "etc" / "narval.toml").write_text("idle_after = '0.2s'\n")
    with daemon(home):
        well(home, "agents", "add", "ada")
        run = int(well(home, "start", "demo.await", "--agent", "ada"))
        well(home, "agents", "passivate", "ada")
        assert data(home, "agents")[1]["state"] == "passive"
        assert data(home, "show", run, "--agent", "ada")["phase"] == "active"
        well(home, "add", "-", "--agent", "ada", given=LETTER)
        assert data(home, "show", run, "--agent", "ada")["phase"] == "done"


def test_G21_python_asks_the_agent_that_is_named(home: Path) -> None:
    with narval_in_python.open(home) as own:
        own.ask("add_agent", name="ada")
        own.ask("add_agent", name="bob")
        with own.other("ada") as ada:
            run = ada.start("demo.await")
            own.other("bob").add(LETTER)
            ada.until_idle()
            assert ada.run(run)["state"] == "running"
            ada.add(LETTER)
            assert ada.wait(run)["state"] == "done"
        assert not own.memory("letter")
    with narval_in_python.open(home, agent="ada") as ada:
        assert len(ada.memory("letter")) == 1
        assert not ada.other("narval").memory("letter")
    with pytest.raises(RequestError, match="there is no agent 'zoe'"):
        narval_in_python.open(home, agent="zoe")
    with narval_in_python.open(home, agent="bob") as bob:
        assert len(bob.memory("letter")) == 1
