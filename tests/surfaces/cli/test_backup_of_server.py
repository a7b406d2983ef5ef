"""Backups of a store on a server, and into one (G60)."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.store.backups.backup import back_up
from narval.store.backups.restore import opened, restore_all
from narval.store.open import open_store
from tests.postgres import fresh_schema, shared_server
from tests.store.sharing import leases_of
from tests.surfaces.cli.command_line import NAME, daemon, data, make_home, narval, until, well


def on_a_server(place: Path, url: str, name: str = "narval") -> Path:
    home = make_home(place)
    (home / "etc" / "narval.toml").write_text(f"name = '{name}'\nstore = '{url}'\n")
    return home


@pytest.fixture
def lived_in(tmp_path: Path, postgres_url: str) -> Path:
    """A home whose own agent is not the first of the store, with another agent; backups are beside it."""
    with daemon(on_a_server(tmp_path / "first", postgres_url, "first")) as first:
        first.terminate()
        first.communicate()
    home = on_a_server(tmp_path / "home", postgres_url)
    with daemon(home):
        well(home, "agents", "add", "ada")
        for agent in ("narval", "ada"):
            well(home, "add", "-", "--agent", agent, given=NAME)
            well(home, "start", "demo.greet", "--agent", agent)
            until(lambda: greetings(home, agent) == 1)  # noqa: B023
        published = home / "collections" / "office" / "recipes"
        published.mkdir(parents=True)
        (published / "office.xml").write_text(
            '<recipe group="office" name="rest" start_step="a" end_step="a">\n'
            '  <step id="a" type="recipe" target="office.rest"/></recipe>'
        )
        well(home, "collection", "publish", published.parent)
        well(home, "agents", "add", "eve", "--collection", "office")
        well(home, "backup", tmp_path / "all.db")
        well(home, "backup", tmp_path / "ada.db", "--agent", "ada")
        well(home, "stop")
    return home


def greetings(home: Path, agent: str) -> int:
    return narval(home, "memory", "greeting", "--agent", agent).stdout.count("Hello Ann")


def names(home: Path) -> set[str]:
    return {row["name"] for row in data(home, "agents")}


def test_G60_what_was_on_a_server_goes_on_in_a_file(lived_in: Path, tmp_path: Path) -> None:
    home = make_home(tmp_path / "other")
    well(home, "restore", tmp_path / "all.db")
    assert names(home) == {"first", "narval", "ada", "eve"}
    assert data(home, "agents")[0]["name"] == "narval", "it is the home's own there"
    with daemon(home):
        assert [greetings(home, agent) for agent in ("narval", "ada")] == [1, 1]
        well(home, "start", "demo.greet", "--agent", "ada")
        until(lambda: greetings(home, "ada") == 2)


def test_G60_settings_that_count_on_a_server_alone_are_told_where_a_file_has_them(
    lived_in: Path, tmp_path: Path
) -> None:
    home = make_home(tmp_path / "other")
    told = "agents/eve/agent.toml:1:1: eve has settings that count only in a store on PostgreSQL"
    assert told in narval(home, "restore", tmp_path / "all.db").stderr
    assert told in (checked := narval(home, "check").stdout)
    assert "copy collections/office/ from a home that has it" in checked
    with daemon(home):
        assert told in well(home, "status")
        (home / "collections" / "office").mkdir(parents=True)
        (home / "agents" / "eve").mkdir(parents=True)
        (home / "agents" / "eve" / "agent.toml").write_text('collections = ["office", "own"]')
        until(lambda: told not in well(home, "status"))
    assert told not in narval(home, "check").stdout


def test_G60_a_new_store_on_a_server_is_filled_and_another_is_left_alone(
    lived_in: Path, tmp_path: Path
) -> None:
    refused = narval(lived_in, "restore", tmp_path / "all.db", "--force")
    assert "make another database or schema" in refused.stderr
    with fresh_schema(shared_server()) as url:
        home = on_a_server(tmp_path / "other", url)
        well(home, "restore", tmp_path / "all.db")
        with daemon(home):
            assert [greetings(home, agent) for agent in ("narval", "ada")] == [1, 1]
            well(home, "stop")


def test_G60_an_agent_is_added_to_a_server_where_others_are_at_work(lived_in: Path, tmp_path: Path) -> None:
    with daemon(tmp_path / "first"):
        well(lived_in, "restore", tmp_path / "ada.db", "--agent", "ada", "--name", "bob")
        (bob,) = (row for row in data(lived_in, "agents") if row["name"] == "bob")
        assert (bob["state"], bob["why"]) == ("suspended", "restored from ada.db")
        assert greetings(lived_in, "bob") == 1


def test_agents_stay_with_their_homes_in_a_restored_store(tmp_path: Path) -> None:
    backup = tmp_path / "all.db"
    with fresh_schema(shared_server()) as url, open_store(url) as first, open_store(url) as second:
        attic, barn = leases_of(first), leases_of(second)
        attic.join("attic", "attic.example", "1.0")
        own = barn.join("barn", "barn.example", "1.0")
        for name in ("ada", "zoe"):
            assert barn.make(name, "passive") is not None
        zoe = barn.find("zoe")
        assert zoe is not None
        barn.pin(zoe[0].agent, "barn")
        back_up(url, backup, lambda: True, "barn", (), lambda rows: None)
    with fresh_schema(shared_server()) as url:
        with opened(backup) as source:
            restore_all(url, source, "attic", lambda rows: None, force=False)
        with open_store(url) as first, open_store(url) as second:
            attic, barn = leases_of(first), leases_of(second)
            attic.join("attic", "attic.example", "1.0")
            assert {one.row.name for one in attic.take()} == {"ada"}
            assert barn.join("barn", "barn.example", "1.0").id == own.id
            assert {one.row.name for one in barn.take()} == {"zoe"}
    with fresh_schema(shared_server()) as url:
        with opened(backup) as source:
            restore_all(url, source, "cellar", lambda rows: None, force=False)
        with open_store(url) as store:
            renamed = leases_of(store).join("cellar", "cellar.example", "1.0")
            assert (renamed.id, renamed.name) == (own.id, "cellar"), (
                "a home of another name has what was its own"
            )
