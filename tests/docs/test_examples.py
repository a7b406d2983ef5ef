"""Each example of the pages on recipes and modules is complete: it loads without a fault, and runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.core.errors import RequestError
from narval.files.reading import load
from tests.places import ROOT, page

OTHERS = """from narval import Input, Output, action
@action(inputs=[Input("to", "address"), Input("text", "text")], outputs=[Output("mail", "email")])
def write(to, text): ...
"""
INVOICES = """from narval import Input, action
@action(inputs=[Input("invoice", "invoice")])
def remind(invoice): ...
@action(inputs=[Input("payment", "payment")])
def thank(payment): ...
"""
SHOP = """from narval import Input, Output, action
@action(inputs=[Input("order", "order"), Input("bill", "bill")], outputs=[Output("parcel", "parcel")])
def ship(order, bill):
    return f"<parcel order='{order.attributes['id']}' bill='{bill.attributes['id']}'/>"
"""
AGENDA = """from narval import Output, action
@action(outputs=[Output("agenda", "agenda")], pure=True)
def agenda():
    return "<agenda>nothing</agenda>"
"""


def examples(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page(name), re.MULTILINE | re.DOTALL)


def test_the_pages_have_examples() -> None:
    assert len(examples("recipe.md", "xml")) == 9
    assert len(examples("module.md", "python")) == 6
    assert len(examples("module.md", "xml")) == 1


@pytest.mark.parametrize("form", [0, 1], ids=["decorated", "in XML"])
def test_the_examples_make_a_home(tmp_path: Path, form: int) -> None:
    modules = examples("module.md", "python")
    files = {
        "recipes/mail.xml": examples("recipe.md", "xml")[0],
        "recipes/desk.xml": examples("recipe.md", "xml")[1],
        "recipes/shop.xml": examples("recipe.md", "xml")[2],
        "recipes/invoices.xml": examples("recipe.md", "xml")[6],
        "recipes/logins.xml": examples("recipe.md", "xml")[7],
        "recipes/desk.page.xsl": examples("module.md", "xml")[0],
        "modules/mail.py": modules[form],
        "modules/desk.py": OTHERS,
        "modules/shop.py": SHOP,
        "modules/invoices.py": INVOICES,
        "modules/clock.py": modules[3],
        "modules/web.py": modules[4],
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    loaded = load(tmp_path)
    assert [str(fault) for fault in loaded.faults] == []
    named = {definition.full_name for definition in loaded.library if definition.group != "basic"}
    assert named == {
        "clock.ticks",
        "desk.apologise",
        "desk.ask",
        "desk.logins",
        "desk.page",
        "desk.write",
        "invoices.collect",
        "invoices.remind",
        "invoices.thank",
        "mail.acknowledge",
        "shop.ship",
        "web.look",
    }


def test_the_two_forms_of_the_page_are_one_prototype(tmp_path: Path) -> None:
    decorated, in_xml, *_ = examples("module.md", "python")
    found = []
    for number, text in enumerate((decorated, in_xml)):
        home = tmp_path / str(number)
        (home / "modules").mkdir(parents=True)
        (home / "modules" / "mail.py").write_text(text)
        found.append(load(home).library.get("action", "mail.acknowledge"))
    assert found[0].prototype == found[1].prototype


def test_N28_the_page_has_a_plan_for_each_bill_beside_one_that_listens() -> None:
    clock = narval.SimulatedClock("2026-11-20T12:00+00:00")
    with narval.open(clock=clock) as agent:
        agent.load(examples("recipe.md", "xml")[8])
        agent.start("bills.remind")
        for number in range(3):
            agent.add(f"<bill due='2026-11-30' number='{number}'/>")
        agent.until_idle()
        waits = [agent.why(run["eid"])["waiting"][0]["id"] for run in agent.runs("active")]
        assert sorted(waits) == ["came", "unpaid", "unpaid", "unpaid"]
        clock.set("2026-11-24T00:00+00:00")
        agent.until_idle()
        assert len(agent.runs("done")) == 3
        assert [agent.why(run["eid"])["waiting"][0]["id"] for run in agent.runs("active")] == ["came"]


# --- in memory, where no home is: what ships is there all the same (N31) ---------------------------------


def module(folder: Path, name: str, text: str) -> Path:
    """A file with a module."""
    path = folder / "modules" / f"{name}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_the_first_recipe_runs_without_a_home(tmp_path: Path) -> None:
    with narval.open() as agent:
        agent.load(module(tmp_path, "mail", examples("module.md", "python")[0]))
        agent.load(examples("recipe.md", "xml")[0])
        agent.start("mail.acknowledge")
        agent.add("<email from='ann@example.org'/>")
        agent.until_idle()
        assert len(agent.memory("email[@kind='ack']")) == 1


def test_the_larger_recipe_runs_without_a_home(tmp_path: Path) -> None:
    own = OTHERS.replace("...", "return f\"<email message-id='q' to='{to.attributes['mail']}'/>\"")
    with narval.open() as agent:
        agent.load(module(tmp_path, "desk", own))
        agent.load(examples("module.md", "xml")[0])
        agent.load(examples("recipe.md", "xml")[1])
        agent.add("<address active='yes' mail='bob@example.org'/>")
        run = agent.start("desk.ask")
        agent.until_idle()
        agent.add("<email in-reply-to='q' subject='at noon'/>")
        assert agent.wait(run, 60)["phase"] == "done"
        assert [page.tree().findtext("body/ul/li") for page in agent.memory("html")] == ["at noon"]


def test_the_recipe_to_explore_runs_without_a_home() -> None:
    with narval.open() as agent:
        agent.load(examples("explore.md", "xml")[0])
        agent.add("<town near='yes'/>")
        assert agent.wait(agent.start("trip.plan"), 20)["error"]["type"] == "stuck", "which the page proves"


def test_the_recipe_of_the_first_hour_runs_without_a_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, text = re.findall(r"^```xml title=\S*morning\.xml\n(.*?)^```", page("first-hour.md"), re.M | re.S)
    monkeypatch.chdir(tmp_path)
    with narval.open(clock=narval.SimulatedClock("2026-03-02T21:00:00Z")) as agent:
        agent.load(module(tmp_path, "morning", AGENDA))
        agent.load(text)
        agent.start("morning.list")
        agent.elapse(days=1)
        assert (tmp_path / "today.txt").read_text() == "nothing", "it is written where the program works"


def test_the_automaton_of_its_page_runs_without_a_home() -> None:
    with narval.open() as agent:
        agent.load(examples("automaton.md", "xml")[0])
        assert agent.wait(agent.start("text.waiting"), 20)["phase"] == "done"


SKIPPED = """<scenario at="2026-11-21T08:10" until="4h">
  <start recipe="text.mirror"/>
  <answer action="rsync" times="4" error="10"/>
  <answer action="rsync" after="never"/>
  <signal recipe="text.mirror" name="skip" at="2026-11-21T10:30"/>
  <expect at="2026-11-21T09:01"><call action="curl" count="0"/></expect>
  <expect at="2026-11-21T10:29"><call action="curl" count="1"/><call action="rsync" count="5"/></expect>
  <expect><call action="sh" count="1"/><run recipe="text.mirror" phase="done" count="2"/></expect>
</scenario>"""


def test_A18_A20_A21_the_larger_automaton_does_what_its_page_says() -> None:
    with narval.open() as agent:
        agent.load(examples("automaton.md", "xml")[1])
        report = agent.simulate(SKIPPED)
        assert report["well"], report["expectations"]


def test_the_program_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^```xml title=\S+/sort.xml\n(.*?)^```", text, re.M | re.S)
    (program,) = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "sort.xml").write_text(recipe)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "README.md", "exec"), {})
    assert capsys.readouterr().out == "acknowledge\n"


def test_the_test_of_the_page_on_modules_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decorated, *_, test = examples("module.md", "python")
    module(tmp_path, "mail", decorated)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(test, "docs/reference/module.md", "exec"), names)
    names["test_a_mail_is_acknowledged"]()


def test_an_action_that_ships_is_stubbed_before_anything_names_it() -> None:
    with narval.open() as agent:
        agent.stub("basic.nothing", lambda: "<error type='no'><message>not today</message></error>")
        agent.load(examples("explore.md", "xml")[0])
        assert agent.wait(agent.start("trip.plan"), 20)["phase"] == "failed"
        with pytest.raises(RequestError, match=r"basic\.nothign"):
            agent.stub("basic.nothign", lambda: None)


def test_N47_each_order_is_shipped_with_its_own_bill(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    with narval.open() as agent:
        agent.load(tmp_path / "shop.py")
        agent.load(examples("recipe.md", "xml")[2])
        for xml in ("<bill id='2' order='b'/>", "<bill id='1' order='a'/>"):
            agent.add(xml)
        for id in "abc":
            agent.add(f"<order state='open' id='{id}'/>")
        run = agent.start("shop.ship")
        agent.until_idle()
        parcels = {(each.attributes["order"], each.attributes["bill"]) for each in agent.memory("parcel")}
        assert parcels == {("a", "1"), ("b", "2")}
        (error,) = agent.memory("error")
        assert (error.attributes["type"], error.attributes["input"]) == ("input-missing", "bill")
        assert agent.run(run)["state"] == "failed"
