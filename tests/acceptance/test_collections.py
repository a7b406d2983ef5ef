"""Collections published for all the homes that share a store, on a real server (G58)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from narval.store.open import open_store
from tests.acceptance.home import Narval, make, one_step, until
from tests.docs.typed import reader_in, type_along
from tests.places import DOCS
from tests.postgres import fresh_schema, shared_server

MODULE = """\
from narval import Output, action

@action(outputs=[Output("said", "said")])
def say():
    return "<said>{0}</said>"

@action(outputs=[Output("first", "first")])
def first():
    return "<first/>"

@action(outputs=[Output("second", "second")])
def second():
    return "<second/>"
"""


@pytest.fixture
def url() -> Iterator[str]:
    with fresh_schema(shared_server()) as url:
        yield url


@pytest.fixture
def home(url: str, tmp_path: Path) -> Callable[[str], Narval]:
    """Makes a home of a name that shares the store."""

    def made(name: str) -> Narval:
        return make(
            tmp_path / name,
            module=MODULE.format(name),
            recipes=one_step("r", "w.say"),
            settings=f"name = '{name}'\nstore = '{url}'\ntimezone = 'UTC'\n",
        )

    return made


def collection(folder: Path, word: str, name: str = "r") -> Path:
    """The folder of a collection `office`."""
    for path, text in {
        "modules/office.py": MODULE.format(word),
        "recipes/office.xml": one_step(name, "office.say").replace('group="w"', 'group="office"'),
        "etc/schemas/guest.dtd": "<!ELEMENT guest EMPTY>",
        "data/memory.xml": f"<memory><desk key='{word}'/></memory>",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def test_G58_a_folder_is_published_listed_shown_and_withdrawn(
    url: str, home: Callable[[str], Narval], tmp_path: Path
) -> None:
    attic, office = home("attic"), collection(tmp_path / "office", "one")
    refused = attic("collection")
    assert (refused.returncode, b"no daemon has made the tables" in refused.stderr) == (1, True)
    open_store(url).close()
    assert attic.ask("collection") == []
    published = attic.ask("collection", "publish", office)
    assert (published["name"], published["files"], published["is_new"]) == ("office", 4, True)
    assert not attic.ask("collection", "publish", office)["is_new"]
    assert b"published staging (4 files" in attic("collection", "publish", office, "--name", "staging").stdout
    assert attic.ask("collection", "publish")["name"] == "home"
    assert [row["name"] for row in attic.ask("collection")] == ["home", "office", "staging"]
    shown = attic.ask("collection", "show", "office")
    assert shown["files"][0]["path"] == "data/memory.xml"
    assert (shown["digest"], shown["here"]) == (published["digest"], None)
    (office / "recipes/office.xml").write_text(one_step("r", "office.sya"))
    wrong = attic("collection", "publish", office)
    assert (wrong.returncode, wrong.stderr.startswith(b"narval: recipes/office.xml:1:")) == (1, True)
    assert attic.ask("collection", "show", "office")["digest"] == published["digest"]
    assert b"office" in attic("collection").stdout
    assert attic.ask("collection", "withdraw", "staging") == {"name": "staging", "withdrawn": True}
    gone = attic("collection", "withdraw", "staging")
    assert (gone.returncode, b"those there are: home, office" in gone.stderr) == (1, True)


def test_G58_it_goes_as_the_how_to_says(url: str, tmp_path: Path) -> None:
    reader = reader_in(tmp_path)
    assert "is a home" in reader.does("narval init --bare")
    reader.does(f"echo \"store = '{url}'\" >> .narval/etc/narval.toml")
    open_store(url).close()
    try:
        type_along(reader, DOCS / "how-to" / "publish-recipes-to-all-machines.md")
    finally:
        reader.end()


def waiting(word: str) -> str:
    """A recipe of the collection `office` that waits for a bell, and says something then."""
    return (
        '<recipe group="office" name="wait" start_step="a" end_step="b">'
        '<step id="a" type="action" target="office.say"/>'
        f'<step id="b" type="action" target="office.{word}"/>'
        '<transition id="t"><in idref="a"/><out idref="b"/>'
        "<condition><match>bell</match></condition></transition></recipe>"
    )


def arrives(narval: Narval, digest: str) -> None:
    until(lambda: version(narval) == digest, "the collection, as it is published")


def version(narval: Narval) -> str:
    """The digest of the collection `office` that a home has; "" where it has none."""
    mark = narval.home / "collections/office/.published"
    return mark.read_text().split()[0] if mark.exists() else ""


def who_has(*homes: Narval) -> Narval:
    """The home whose daemon has bob."""
    return next(home for home in homes if has_bob(home))


def has_bob(home: Narval) -> bool:
    return any(row["name"] == "bob" and row["state"] != "elsewhere" for row in home.ask("agents"))


def names(narval: Narval) -> set[str]:
    return {row["name"] for row in narval.ask("definitions", "--agent", "bob")["definitions"]}


def test_G58_every_daemon_follows_what_is_published_and_runs_keep_their_version(
    home: Callable[[str], Narval], tmp_path: Path
) -> None:
    attic, cellar = home("attic"), home("cellar")
    office = collection(tmp_path / "office", "one")
    (office / "recipes/wait.xml").write_text(waiting("first"))
    with attic.running(), cellar.running():
        published = attic.ask("collection", "publish", office)
        for narval in (attic, cellar):
            arrives(narval, published["digest"])
        assert attic("agents", "add", "bob", "--collection", "office").returncode == 0
        assert not (attic.home / "agents").exists()
        assert {"office.r", "office.wait"} <= names(who_has(attic, cellar))
        run = str(who_has(attic, cellar).ask("start", "office.wait", "--agent", "bob")["eid"])
        (office / "recipes/wait.xml").write_text(waiting("second"))
        collection(office, "two", "s")
        changed = cellar.ask("collection", "publish", office)
        for narval in (attic, cellar):
            arrives(narval, changed["digest"])
        until(lambda: "office.s" in names(who_has(attic, cellar)), "bob follows the other version")
        at = who_has(attic, cellar)
        assert at("add", "-", "--agent", "bob", given=b"<bell/>").returncode == 0
        until(lambda: at.ask("show", run, "--agent", "bob")["phase"] == "done", "the run is over")
        assert at("memory", "first", "--agent", "bob").returncode == 0
        assert at("memory", "second", "--agent", "bob").returncode != 0


def test_G58_a_daemon_that_lacks_what_an_agent_follows_waits_and_retires_nothing(
    url: str, home: Callable[[str], Narval], tmp_path: Path
) -> None:
    attic, cellar = home("attic"), home("cellar")
    collection(cellar.home / "collections/office", "own", "mine")  # so it does not get what is published
    with attic.running() as daemon, cellar.running():
        arrives(attic, attic.ask("collection", "publish", collection(tmp_path / "office", "one"))["digest"])
        assert attic("agents", "add", "bob", "--collection", "office").returncode == 0
        assert has_bob(attic)
        run = str(attic.ask("start", "office.r", "--agent", "bob")["eid"])
        until(lambda: cellar.ask("status")["faults"], "its folder is a fault at the cellar")
        before = definitions(url, "bob")
        assert "office.r" in before
        daemon.kill()
        daemon.wait()
        until(lambda: has_bob(cellar), "bob is at the cellar")
        refused = cellar("memory", "desk", "--agent", "bob")
        assert b"of which this daemon does not have the published version yet: office" in refused.stderr
        assert definitions(url, "bob") == before
        (cellar.home / "collections/office").rename(tmp_path / "away")
        until(lambda: version(cellar), "what is published is fetched")
        until(lambda: cellar("memory", "desk", "--agent", "bob").returncode == 0, "bob goes on")
        assert cellar.ask("show", run, "--agent", "bob")["phase"] == "done"
        assert definitions(url, "bob") == before


def definitions(url: str, agent: str) -> set[str]:
    """The names of the current definitions that the store has of an agent."""
    with open_store(url) as store:
        number = next(row.agent for row in store.agents() if row.name == agent)
        return {row.name for row in store.of(number).definitions()}


def test_G58_what_is_saved_at_one_home_is_followed_at_all(
    home: Callable[[str], Narval], tmp_path: Path
) -> None:
    attic, cellar = home("attic"), home("cellar")
    cellar.write("recipes/w.xml", one_step("of_the_cellar", "w.say"))
    with attic.running("--follow"), cellar.running():
        until((cellar.home / "collections/home/.published").exists, "the attic is published as home")
        assert cellar("agents", "add", "bob").returncode == 0
        assert names(cellar) == {"w.r", "w.say", "w.first", "w.second"}
        attic.write("recipes/more.xml", one_step("more", "w.say"))
        until(lambda: "w.more" in names(cellar), "what was saved at the attic")
        attic.write("recipes/more.xml", one_step("wrong", "w.sya"))
        until(lambda: "is not published" in (attic.home / "var/narval.log").read_text(), "its fault is told")
        assert "w.more" in names(cellar)
        own = cellar.ask("definitions")["definitions"]  # the home's own agent follows its own files
        assert "w.of_the_cellar" in {row["name"] for row in own}
        toml = tmp_path / "bob.toml"
        toml.write_text("weight = 20\n")
        assert cellar.ask("agents", "settings", "bob", toml)["settings"]["weight"] == 20
        assert cellar("agents", "settings", "bob").stdout == b"weight = 20\n"
        toml.write_text("weihgt = 20\n")
        assert b"agent.toml:1:1: unknown setting" in cellar("agents", "settings", "bob", toml).stderr
        assert b"not in the store but in etc/narval.toml" in cellar("agents", "settings", "cellar").stderr
