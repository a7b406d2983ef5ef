"""A home that asks lets a definition reach outside only once somebody has granted it."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest
from msgspec.structs import replace

import narval
from narval import Needs
from narval.ask.operations import invoke
from narval.calls.confining import LOADERS, confined_to, services_for
from narval.calls.context import CallContext
from narval.core.errors import NarvalError, RequestError
from narval.files import grants
from narval.files.new_home import create_home
from narval.files.outside.services import LanguageModel, WebService
from narval.kinds.process.calls.tasks import script_target
from narval.surfaces.python.agent import Agent
from narval.system.scripts.interpreters import monty_program
from tests.surfaces.cli.command_line import data, well

MEMORY = """<memory>
  <identity address="me@example.org"/><outbox host="127.0.0.1" port="9" tls="none"/>
  <start-plan recipe="post.send"/><start-plan recipe="post.note"/>
</memory>"""
SENDS = """<recipe group="post" name="send" start_step="wait" end_step="w">
  <step id="wait" type="action" target="basic.nothing"/>
  <step id="w" type="action" target="mail.write">
    <arguments><draft to="x@example.org" subject="hi">text</draft></arguments>
  </step>
  <transition id="t"><in idref="wait"/><out idref="w"/><condition><match>go</match></condition></transition>
</recipe>"""
NOTES = """<recipe group="post" name="note" start_step="w" end_step="w">
  <step id="w" type="action" target="basic.write_file">
    <arguments><target path="today.txt" as="text"/><note>hello</note></arguments></step>
</recipe>"""
ASKS = 'grants = "ask"\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    written(tmp_path, {"data/memory.xml": MEMORY, "recipes/send.xml": SENDS, "recipes/note.xml": NOTES})
    return tmp_path


def written(home: Path, files: dict[str, str]) -> None:
    for path, text in {"etc/narval.toml": ASKS, **files}.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)


def standing(agent: Agent, name: str) -> dict[str, object]:
    (row,) = agent.ask("grants", name=name)["definitions"]
    return dict(row)


def runs(agent: Agent, name: str) -> list[str]:
    return [row["state"] for row in agent.ask("runs", name=name)]


def test_a_recipe_that_reaches_nothing_outside_starts_at_once(home: Path) -> None:
    with narval.open(home) as agent:
        agent.until_idle()
        assert runs(agent, "post.note") == ["done"]
        assert (home / "today.txt").read_text() == "hello"
        assert standing(agent, "post.note")["standing"] == "inside"


def test_what_waited_for_a_grant_given_without_a_daemon_is_no_incident(home: Path) -> None:
    well(home, "check")
    well(home, "grant", "--all")
    assert data(home, "errors") == []
    with narval.open(home) as agent:
        agent.until_idle()
        assert runs(agent, "post.send") == ["running"]


SCRIPTS = """<process-definition name="order">
  <node name="a" type="script" isStart="true"><custom>
    <execute>token.process.env.setAttribute("js", "1")</execute></custom><arc to="b"/></node>
  <node name="b" type="script"><custom>
    <execute type="python">token.process.environment.set("python", "2")</execute></custom></node>
</process-definition>"""


def test_scripts_reach_nothing_outside_so_they_need_no_grant(home: Path) -> None:
    written(home, {"recipes/shop.xml": SCRIPTS})
    with narval.open(home) as agent:
        row = standing(agent, "shop.order")
        assert (row["standing"], row["needs"]) == ("inside", [])
        run = agent.start("shop.order")
        agent.until_idle()
        assert agent.environment(run) == {"js": "1", "python": "2"}
    place = confined_to(CallContext("1", run, "a", home=home, target=script_target()))
    limits = place.limits
    assert (limits.writes, limits.ports, place.hosts, place.environment) == (("/dev/null",), (), (), ())
    assert {*limits.executes} <= {monty_program(), os.path.realpath(monty_program()), *LOADERS}
    assert str(home) not in " ".join(limits.reads)


def test_a_recipe_that_sends_starts_nothing_until_it_is_granted(home: Path) -> None:
    with narval.open(home) as agent:
        agent.until_idle()
        assert runs(agent, "post.send") == []
        row = standing(agent, "post.send")
        assert (row["standing"], row["lacking"]) == ("asked", ["host 127.0.0.1:9"])
        with pytest.raises(NarvalError, match=r"post.send needs what is not granted: host 127.0.0.1:9"):
            agent.start("post.send")
        (request,) = agent.memory("grant-request")
        assert request.attributes["name"] == "post.send"
        assert request.xml.count(b"<need>host 127.0.0.1:9</need>") == 1
        assert [error.attributes["type"] for error in agent.memory("error")] == ["not-granted"]
        (told,) = [item for item in agent.ask("attention") if item["what"] == "grant"]
        assert "narval grant post.send" in told["text"]
        assert not [item for item in agent.ask("attention") if item["what"] == "incident"]
        assert agent.ask("status")["grants"]["withheld"] == ["post.send"]
        assert agent.ask("grant", name="post.send") == ["post.send"]
        agent.until_idle()
        assert runs(agent, "post.send") == ["running"]
        assert standing(agent, "post.send")["standing"] == "granted"
        (row,) = agent.ask("memory", xpath="grant-request")
        assert row["outdated"]
    table = tomllib.loads((home / "etc/grants.toml").read_text())["recipe post.send"]
    assert table["needs"] == ["host 127.0.0.1:9"]
    assert any("mail.write" in text for text in table["sentences"])
    with narval.open(home) as agent:  # a restart asks nothing
        agent.until_idle()
        assert runs(agent, "post.send") == ["running"]


def test_less_needs_nobody_and_more_is_asked_for(home: Path) -> None:
    memory, recipe = home / "data/memory.xml", home / "recipes/send.xml"
    with narval.open(home) as agent:
        agent.ask("grant", name="post.send")
        agent.until_idle()
        recipe.write_text(SENDS.replace("mail.write", "basic.log"))
        agent.ask("reload")
        agent.until_idle()
        row = standing(agent, "post.send")
        assert (row["standing"], row["changed"]) == ("granted", True)
        assert [need["need"] for need in row["needs"] if need["change"] == "taken away"] == [
            "host 127.0.0.1:9"
        ]
        assert any(line["change"] == "added" and "basic.log" in line["text"] for line in row["told"])

        recipe.write_text(SENDS)
        memory.write_text(MEMORY.replace("127.0.0.1", "smtp.example.org"))
        agent.ask("reload")
        agent.until_idle()
        row = standing(agent, "post.send")
        changes = {need["need"]: need["change"] for need in row["needs"] if need["outside"]}
        assert changes == {"host smtp.example.org:9": "added", "host 127.0.0.1:9": "taken away"}
        assert row["lacking"] == ["host smtp.example.org:9"]
        assert runs(agent, "post.send") == ["running"]  # it began with what was granted, and keeps it
        with pytest.raises(NarvalError, match=r"smtp\.example\.org"):
            agent.start("post.send")
        assert agent.ask("grant", all=True) == ["post.send"]
        agent.start("post.send")


SOURCES = """
[sources.shops]
kind = "csv"
path = "/srv/shops.csv"
[sources.news]
kind = "rss"
url = "https://news.example.org/feed"
"""


@pytest.mark.parametrize(
    ("body", "needs"),
    [
        ('retrieve("shops", "" : out)', []),
        ('importrelation("shops", "t" : out)', []),
        ('retrieve("news", "" : out)', ["host news.example.org:443"]),
        ('fetch("http://a.example.org/x" : out)', ["host a.example.org:80"]),
        ('listen("prices" : out)', ["folder var/listen rw"]),
        ('retrieve("missing", "" : out)', []),
        ('formatrelation("a", "x" : name) retrieve(name, "" : out)', ["anything"]),
        ('retrieve("shops", "" : shops) fetch(shops : out)', ["anything"]),
        ('retrieve("shops", "" : shops) notify("mailto:a@example.org", shops) print(shops : )', ["anything"]),
        ('retrieve("shops", "" : shops) spy(shops : out)', ["anything"]),
        ('retrieve("shops", "" : shops) plain(shops : out)', []),
        ('retrieve("words", "" : out)', ["anything"]),
        ('retrieve("shops", "" : shops) Within(shops : out)', ["anything"]),
    ],
)
def test_a_dataflow_needs_what_its_sources_are(tmp_path: Path, body: str, needs: list[str]) -> None:
    module = """from narval import operator, wrapper
@operator(inputs="TupleStream in", outputs="TupleStream out")
def spy(row): ...
@operator(inputs="TupleStream in", outputs="TupleStream out", pure=True)
def plain(row): ...
@wrapper(attributes={"a": "String"})
def words(query): ...
"""
    within = "PLAN Within { INPUT: TupleStream x OUTPUT: TupleStream y BODY { spy(x : y) } }"
    outputs = "OUTPUT: TupleStream out " if "out" in body else ""
    files = {"recipes/a.plan": f"PLAN P {{ {outputs}BODY {{ {body} }} }} ", "recipes/b.plan": within}
    written(tmp_path, {"modules/m.py": module, **files, "etc/narval.toml": ASKS + SOURCES})
    with narval.open(tmp_path) as agent:
        row = standing(agent, "a.P")
        assert row["lacking"] == needs
        assert row["standing"] == ("asked" if needs else "inside")


def test_what_was_granted_is_taken_back(home: Path) -> None:
    with narval.open(home) as agent:
        agent.ask("grant", name="post.send")
        assert agent.ask("revoke", name="post.send") == ["recipe post.send"]
        with pytest.raises(NarvalError, match="is not granted"):
            agent.start("post.send")
        with pytest.raises(RequestError, match=r"nothing was granted to post\.send"):
            agent.ask("revoke", name="post.send")


def test_a_folder_is_granted_whatever_it_needs(home: Path) -> None:
    with narval.open(home) as agent:
        assert agent.ask("grant", folder="recipes") == ["post.send"]
        agent.start("post.send")
        (home / "recipes/more.xml").write_text(SENDS.replace('name="send"', 'name="more"'))
        agent.ask("reload")
        agent.start("post.more")
        assert agent.ask("revoke", folder="recipes") == ["recipes/"]


def test_a_home_without_the_setting_asks_nothing(home: Path) -> None:
    (home / "etc/narval.toml").write_text("")
    with narval.open(home) as agent:
        agent.until_idle()
        assert runs(agent, "post.send") == ["running"]
        assert standing(agent, "post.send")["standing"] == "trusted"
        (home / "etc/narval.toml").write_text(ASKS)
        agent.ask("reload")
        agent.until_idle()
        assert runs(agent, "post.send") == ["running"]
        with pytest.raises(NarvalError, match="is not granted"):
            agent.start("post.send")
        (home / "etc/narval.toml").write_text("")
        agent.ask("reload")
        agent.start("post.send")


def test_what_agents_follow_that_is_not_granted_is_told_in_the_home_too(home: Path) -> None:
    """The agents of a collection have no work of their own that asks: the home says where to look."""
    (home / "collections/office/recipes").mkdir(parents=True)
    text = SENDS.replace('group="post"', 'group="office"')
    (home / "collections/office/recipes/office.xml").write_text(text)
    with narval.open(home) as agent:
        agent.ask("grant", all=True)
        agent.ask("add_agent", name="bob", collections=["office"])
        agent.ask("add_agent", name="ada", collections=["office"])
        with agent.other("ada"), agent.other("bob") as bob:
            waits = [{"agent": "ada", "others": 1, "withheld": ["office.send"]}]
            assert agent.ask("status")["grants"]["of_others"] == waits
            assert agent.ask("grants")["of_others"] == waits
            (told,) = agent.ask("attention")
            assert told["text"] == (
                "1 definition that agent ada and 1 more follow waits to be granted: narval grants --agent ada"
            )
            (row,) = bob.ask("attention")
            hint = (
                "see: narval grants office.send --agent bob; allow it: narval grant office.send --agent bob"
            )
            assert row["text"].endswith(hint)
            with pytest.raises(NarvalError, match=re.escape(hint)):
                bob.start("office.send")
            assert bob.ask("status")["grants"]["of_others"] == []
            (home / "agents/bob/data").mkdir()
            plan = '<memory><start-plan recipe="office.send"/></memory>'
            (home / "agents/bob/data/memory.xml").write_text(plan)
            agent.ask("reload")
            agent.until_idle()
            (error,) = bob.memory("error")
            assert f"{hint}; it waits until then" in error.xml.decode()
            bob.ask("grant", name="office.send")
            agent.until_idle()
            assert agent.ask("status")["grants"]["of_others"] == agent.ask("attention") == []


def test_what_comes_by_a_collection_is_asked_for_even_if_it_stays_inside(home: Path) -> None:
    (home / "etc/narval.toml").write_text(ASKS + '[agent]\ncollections = ["home", "office"]\n')
    (home / "collections/office/recipes").mkdir(parents=True)
    text = NOTES.replace('group="post"', 'group="office"')
    (home / "collections/office/recipes/office.xml").write_text(text)
    with narval.open(home) as agent:
        row = standing(agent, "office.note")
        assert (row["standing"], row["foreign"], row["lacking"]) == ("asked", True, [])
        with pytest.raises(NarvalError, match="came from elsewhere"):
            agent.start("office.note")
        agent.ask("grant", name="office.note")
        agent.start("office.note")


def test_what_undoes_a_call_is_granted_with_it(home: Path) -> None:
    """It is among the needs, and where it came from elsewhere, so has what calls it."""
    action = '@action(runs="inline", needs=Needs(), undo="UNDO")\ndef pay():\n    pass\n'
    refund = '@action(runs="inline", needs=Needs(NEEDS))\ndef refund():\n    pass\n'
    imports = "from narval import Needs, action\n\n"
    office = home / "collections/office/modules"
    office.mkdir(parents=True)
    (home / "etc/narval.toml").write_text(ASKS + '[agent]\ncollections = ["home", "office"]\n')
    (home / "modules").mkdir()
    (home / "modules/near.py").write_text(
        imports + action.replace("UNDO", "near.refund") + refund.replace("NEEDS", 'hosts=["shop.org:443"]')
    )
    (home / "modules/far.py").write_text(imports + action.replace("UNDO", "office.refund"))
    (office / "office.py").write_text(imports + refund.replace("NEEDS", ""))
    for name in ("near", "far"):
        pays = f'<step id="w" type="action" target="{name}.pay"/>'
        recipe = f'<recipe group="p" name="{name}" start_step="w" end_step="w">{pays}</recipe>'
        (home / f"recipes/{name}.xml").write_text(recipe)
    with narval.open(home) as agent:
        near, far = standing(agent, "p.near"), standing(agent, "p.far")
        assert (near["standing"], near["lacking"]) == ("asked", ["host shop.org:443"])
        assert (far["standing"], far["foreign"]) == ("asked", True)


def test_what_ships_is_not_asked_for_and_neither_is_less_of_it(home: Path) -> None:
    text = (Path(__file__).parents[2] / "recipes/notify.xml").read_text()
    (home / "recipes/notify.xml").write_text(text)
    with narval.open(home) as agent:
        assert standing(agent, "notify.failures")["standing"] == "ships"
        assert "retries" in text
        (home / "recipes/notify.xml").write_text(text.replace("retries", "  retries"))
        agent.ask("reload")
        assert standing(agent, "notify.failures")["standing"] == "ships"


def test_grants_are_for_the_owner_in_his_own_name(home: Path) -> None:
    with narval.open(home) as agent:
        for asker in (replace(agent.asker, uid=4711), replace(agent.asker, actor="ann")):
            with pytest.raises(
                RequestError,
                match=r"may not grant, accept a proposal, .* that is for the owner",
            ):
                agent.runner.run(invoke(agent.daemon, asker, "grant", {"all": True}))


def test_a_file_of_grants_with_faults_grants_nothing(home: Path) -> None:
    (home / "etc/grants.toml").write_text('["recipe post.send"]\nneeds = "host *"\n')
    with pytest.warns(narval.FaultWarning, match="grants.toml:2:9"):
        opened = narval.open(home)
    with opened as agent:
        assert standing(agent, "post.send")["standing"] == "asked"
        (fault,) = [row for row in agent.ask("definitions")["faults"] if row["path"] == "etc/grants.toml"]
        assert (fault["line"], fault["column"]) == (2, 9)
        with pytest.raises(RequestError, match=r"etc/grants.toml has faults"):
            agent.ask("grant", name="post.send")


def test_a_call_of_a_place_that_was_not_granted_is_refused(home: Path) -> None:
    other = "</arguments><input id='outbox'><match>outbox[@port='25']</match></input>"
    (home / "recipes/send.xml").write_text(SENDS.replace("</arguments>", other))
    with narval.open(home) as agent:
        agent.ask("grant", name="post.send")
        agent.until_idle()
        agent.add("<outbox host='evil.example.org' port='25'/>")
        agent.add("<go/>")
        agent.until_idle()
        (error,) = [error for error in agent.memory("error") if "step" in error.attributes]
        assert error.attributes["type"] == "not-granted"
        assert (
            "mail.write would reach what is not granted to post.send: host evil.example.org:25" in error.text
        )


def test_a_folder_that_an_element_names_is_held_against_what_stays_inside(home: Path) -> None:
    text = NOTES.replace('<target path="today.txt" as="text"/>', "").replace(
        "basic.write_file", "files.write"
    )
    text = text.replace("<note>hello</note>", '<text path="data/a.txt">hello</text>')
    (home / "recipes/note.xml").write_text(text)
    with narval.open(home) as agent:
        agent.until_idle()
        assert runs(agent, "post.note") == ["done"]
        assert (home / "data/a.txt").read_text() == "hello"


def test_code_is_given_the_services_whose_secrets_it_declares() -> None:
    open_one = WebService(name="news", url="https://news.example.org")
    shop = WebService(name="shop", url="https://shop.example.org", secret="token")
    bank = LanguageModel(name="bank", url="https://bank.example.org", secret="key")
    every = (open_one, shop, bank)
    assert (services_for(None, every), services_for(Needs(), every)) == (every, (open_one,))
    assert services_for(Needs(secrets=("token",)), every) == (open_one, shop)
    assert services_for(Needs(secrets=("[models]",)), every) == (open_one, bank)


AGAIN = """<recipe group="post" name="send" start_step="wait" end_step="end" restart="yes">
  <step id="wait" type="action" target="basic.nothing"/>
  <step id="end" type="action" target="basic.nothing"/>
  <step id="w" type="action" target="mail.write">
    <arguments><draft to="x@example.org" subject="hi">text</draft></arguments>
  </step>
  <transition id="t"><in idref="wait"/><out idref="end"/>
    <condition use="yes"><match>go</match></condition></transition>
  <transition id="u"><in idref="wait"/><out idref="w"/><condition><match>mail</match></condition></transition>
</recipe>"""


@pytest.mark.parametrize("reopened", [False, True])
def test_a_run_that_begins_again_waits_for_its_grant_and_begins_as_soon_as_it_has_it(
    home: Path, reopened: bool
) -> None:
    (home / "recipes/send.xml").write_text(AGAIN)
    (home / "etc/narval.toml").write_text(ASKS)
    with narval.open(home) as agent:
        agent.ask("grant", name="post.send")
        agent.until_idle()
        (first,) = agent.ask("runs", name="post.send")
        agent.ask("revoke", name="post.send")
        agent.add("<go/>")
        agent.until_idle()
        assert runs(agent, "post.send") == ["done"]
        said = agent.ask("why", run=first["eid"])["reason"]
        assert "starts again as soon as it is allowed to: post.send needs what is not granted" in said
        if not reopened:
            agent.ask("grant", name="post.send")
            agent.until_idle()
            assert runs(agent, "post.send") == ["done", "running"]
    if reopened:
        with narval.open(home) as agent:
            agent.until_idle()
            assert runs(agent, "post.send") == ["done"]
            agent.ask("grant", name="post.send")
            agent.until_idle()
            assert runs(agent, "post.send") == ["done", "running"]


LATE = """<recipe group="post" name="late" start_step="a" end_step="b">
  <step id="a" type="action" target="files.write">
    <arguments><text path="{0}/a.txt" folder="{0}">mine</text></arguments></step>
  <step id="b" type="action" target="files.write"><input id="text"><match>text[@late]</match></input></step>
  <transition id="t"><in idref="a"/><out idref="b"/><condition><match>go</match></condition></transition>
</recipe>"""


@pytest.mark.parametrize("then", ["the same", "another", "gone", "revoked"])
def test_a_run_under_way_is_held_to_its_grant_though_its_definition_is_another_at_the_next_start(
    home: Path, tmp_path_factory: pytest.TempPathFactory, then: str
) -> None:
    mine, other = tmp_path_factory.mktemp("mine"), tmp_path_factory.mktemp("other")
    file = home / "recipes/late.xml"
    file.write_text(LATE.format(mine))
    with narval.open(home) as agent:
        agent.ask("grant", name="post.late")
        agent.start("post.late")
        agent.until_idle()
        if then == "revoked":
            agent.ask("revoke", name="post.late")
    if then == "another":
        file.write_text(LATE.format(mine).replace("<match>go<", "<match>go | come<"))
    elif then == "gone":
        file.unlink()
    with narval.open(home) as agent:
        agent.add(f"<text late='yes' path='{other}/b.txt' folder='{other}'>theirs</text>")
        agent.add("<go/>")
        agent.until_idle()
        assert [path.name for path in (*mine.iterdir(), *other.iterdir())] == ["a.txt"]
        why = f"files.write would reach what is not granted to post.late: folder {other} rw"
        assert any(why in error.text for error in agent.memory("error[@type='not-granted']"))


MAKES = """
from narval import Message, Needs, Output, action

PLAN = "<start-plan recipe='post.other'/>"

@action(outputs=[Output("made", "*")], needs=Needs(), runs="inline")
def anything():
    return PLAN

@action(outputs=[Output("made", "start-plan")], needs=Needs(), runs="inline")
def plan():
    return PLAN

@action(outputs=[Output("made", "*")], needs=Needs(), runs="inline")
def end():
    return "<quit/>"

@action(needs=Needs(), runs="inline")
def send():
    return [Message("ada", "<secret/>")]

@action(outputs=[Output("made", "*")], needs=Needs(), source=True)
async def go_on():
    yield "<note/>"
    yield PLAN
"""
OTHER = """<recipe group="post" name="other" start_step="w" end_step="w">
  <step id="w" type="action" target="basic.nothing"/></recipe>"""

WAITS = """<step id="a" type="action" target="basic.nothing"/><transition id="t"><in idref="a"/>
<out idref="w"/><condition><match>go</match></condition></transition></recipe>"""
MAKING = {"recipes/other.xml": OTHER, "modules/makes.py": MAKES}


def makes(what: str, inside: str = "") -> str:
    text = f'<step id="w" type="action" target="makes.{what}">{inside}</step>'
    return f'<recipe group="post" name="make" start_step="w" end_step="w">{text}</recipe>'


@pytest.mark.parametrize(
    ("what", "beyond"),
    [
        ("anything", "start post.other"),
        ("end", "add quit"),
        ("send", "agent ada"),
        ("go_on", "start post.other"),
    ],
)
def test_what_starts_ends_or_sends_unseen_is_held_back(tmp_path: Path, what: str, beyond: str) -> None:
    written(tmp_path, {**MAKING, "recipes/make.xml": makes(what), "agents/ada/agent.toml": ""})
    with narval.open(tmp_path) as agent:
        assert standing(agent, "post.make")["standing"] == "inside"
        agent.start("post.make")
        agent.until_idle()
        (error,) = agent.memory("error[@step]")
        assert error.attributes["type"] == "not-granted"
        assert f"makes.{what} gave what is not granted to post.make: {beyond}; see: " in error.text
        assert (runs(agent, "post.make"), runs(agent, "post.other")) == (["failed"], [])
        assert agent.memory("start-plan | quit") == []
    if what == "anything":
        (tmp_path / "etc/narval.toml").write_text("")
        with narval.open(tmp_path) as agent:
            agent.start("post.make")
            agent.until_idle()
            assert runs(agent, "post.other") == ["done"]


@pytest.mark.parametrize(("what", "is_let"), [("anything", False), ("plan", True)])
def test_a_run_whose_definition_is_gone_starts_no_more_at_the_next_start_than_its_text_says(
    tmp_path: Path, what: str, is_let: bool
) -> None:
    recipe = makes(what).replace('start_step="w"', 'start_step="a"').replace("</recipe>", WAITS)
    written(tmp_path, {**MAKING, "recipes/make.xml": recipe})
    with narval.open(tmp_path) as agent:
        agent.start("post.make")
        agent.until_idle()
    (tmp_path / "recipes/make.xml").unlink()
    with narval.open(tmp_path) as agent:
        agent.add("<go/>")
        agent.until_idle()
        assert runs(agent, "post.other") == (["done"] if is_let else [])
        assert len(agent.memory("error[@type='not-granted']")) == int(not is_let)


def test_what_a_definition_says_that_it_starts_is_not_held_back(tmp_path: Path) -> None:
    says = '<arguments><start recipe="post.other"/></arguments>'
    say = makes("anything", says).replace("makes.anything", "basic.start").replace("make", "say")
    written(tmp_path, {**MAKING, "recipes/make.xml": makes("plan"), "recipes/say.xml": say})
    with narval.open(tmp_path) as agent:
        needs = {
            name: {need["need"] for need in standing(agent, name)["needs"]}
            for name in ("post.make", "post.say")
        }
        assert "start any" in needs["post.make"]
        assert {need for need in needs["post.say"] if need.startswith("start")} == {"start post.other"}
        for name in needs:
            agent.start(name)
        agent.until_idle()
        assert runs(agent, "post.other") == ["done", "done"]


def test_all_of_a_new_home_begins_and_what_ships_is_not_read_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred files ship: read at each start, they would be most of what it costs."""
    create_home(tmp_path / "home")
    monkeypatch.setattr(grants, "shipped_definitions", lambda: pytest.fail("what ships is read"))
    with narval.open(tmp_path / "home") as agent:
        rows = agent.ask("grants")["definitions"]
        assert {row["standing"] for row in rows} == {"ships", "inside"}
        assert any(need["outside"] for row in rows for need in row["needs"])


def test_a_grant_is_dated_in_the_zone_of_the_home(home: Path) -> None:
    written(home, {"etc/narval.toml": f'{ASKS}timezone = "Europe/Paris"\n'})
    with narval.open(home) as agent:
        agent.ask("grant", name="post.send")
    shown = well(home, "grants", "post.send")
    assert re.search(r"granted by .* at [-0-9]{10} [:0-9]{8} Europe/Paris\n", shown), shown
