"""The page that edits the file of a definition, as forms: checked, compared, saved, refused, taken back."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest

from narval.surfaces.http.application import FRAGMENT
from tests.surfaces.web.household import BASE, PagesOfHome, at_work, browsing, make_show

TEXT = """<recipe group="mine" name="one" start_step="s" end_step="s">
  <step id="s" type="action" target="talk.nothing"/>
</recipe>
"""
OTHER = TEXT.replace("<step", "<!-- <b>once more</b> -->\n  <step")
WRONG = TEXT.replace("talk.nothing", "talk.nobody")
EDIT = "/definitions/mine.one/edit"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesOfHome]:
    made = make_show(tmp_path_factory.mktemp("edit") / "home")
    with at_work(made), browsing(made) as pages:
        yield pages


@pytest.fixture
def pages(home: PagesOfHome) -> PagesOfHome:
    """The pages of a home that allows editing, with the file as it was."""
    allow(home, "[web]\nedit = true\n")
    (home.home.path / "recipes/mine.xml").write_text(TEXT)
    home.ask("reload")
    return home


def allow(pages: PagesOfHome, table: str) -> None:
    (pages.home.path / "etc/narval.toml").write_text(f'timezone = "UTC"\n{table}')
    pages.ask("reload")


def file(pages: PagesOfHome) -> str:
    return (pages.home.path / "recipes/mine.xml").read_text()


def form(pages: PagesOfHome, text: str) -> dict[str, str]:
    """The fields that the page has, with another text, as a browser sends it."""
    page = pages.shows(EDIT)
    fields = dict(
        re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.partition("Versions")[0])
    )
    return {**fields, "edited": text.replace("\n", "\r\n")}


def test_a_text_is_checked_and_compared_without_being_kept(pages: PagesOfHome) -> None:
    pages.shows("/definitions/mine.one", f'href="{BASE}{EDIT}?kind=recipe">Edit…')
    pages.shows(EDIT, "no faults", "<code>anything</code>", "narval edit mine.one", ">Simulate<")
    fields = form(pages, OTHER)
    assert (fields["definition"], fields["edits"]) == ("mine.one", "mine.one")  # as a simulation wants it
    answer = pages.post(EDIT, **fields)
    assert answer.status_code == 200
    assert "&lt;!-- &lt;b&gt;once more&lt;/b&gt; --&gt;" in answer.text  # what was typed is still there
    assert '<span class="add">+  &lt;!-- &lt;b&gt;once' in answer.text
    wrong = pages.post(EDIT, **form(pages, WRONG)).text
    assert all(word in wrong for word in ("1 fault", "It cannot be saved", "line 2, column", "talk.nobody"))
    assert file(pages) == TEXT


def test_a_simulation_is_given_what_is_chosen_beside_the_text(pages: PagesOfHome) -> None:
    page, ann = "/definitions/demo.greet/edit", pages.add("<name>Ann</name>")
    offered = f'<option value="{ann}">name {ann} · Ann</option>'
    text = pages.shows(page, "What a simulation is given", 'name="chosen"', offered)
    assert "talk.say" in text
    kept = pages.post(page, edited="<recipe/>", chosen=str(ann), xml="<name>Bob</name>").text
    assert f'<option value="{ann}" selected>' in kept
    assert "&lt;name&gt;Bob&lt;/name&gt;" in kept


def test_sentences_on_several_definitions_of_a_file_stand_below_their_names(pages: PagesOfHome) -> None:
    assert "<h3>recipe mine.one</h3>" not in pages.shows(EDIT)
    two = f"<cookbook>{TEXT}{TEXT.replace('one', 'two')}</cookbook>"
    answer = pages.post(EDIT, **form(pages, two))
    assert re.findall("<h3>(.*?)</h3>", answer.text) == ["recipe mine.one", "recipe mine.two"]


def test_a_script_asks_for_what_stands_beside_the_text_alone(pages: PagesOfHome) -> None:
    headers = {"x-role": "operator", FRAGMENT: "judged"}
    answer = pages.browser.post(f"{BASE}{EDIT}", data=form(pages, WRONG), headers=headers)
    assert answer.text.lstrip().startswith('<p id="judged-state"')
    assert "<textarea" not in answer.text


def test_a_text_is_saved_is_at_work_and_is_taken_back(pages: PagesOfHome) -> None:
    leads = pages.does(f"{EDIT}/save", **form(pages, OTHER))
    text = pages.shows(leads, "It is saved and active.", "once more", ">Take back</button>")
    assert file(pages) == OTHER
    (version,) = re.findall(r"saved=(e\d+)", leads)
    digest = pages.ask("edit", name="mine.one")["digest"]
    assert f'value="{version}"' in text
    leads = pages.does(f"{EDIT}/take-back", kind="recipe", version=version, digest=digest)
    pages.shows(leads, "It is saved")
    assert file(pages) == TEXT
    refused = pages.post(f"{EDIT}/take-back", version=version, digest=digest)
    assert (refused.status_code, "was altered since it was opened" in refused.text) == (400, True)


def test_what_cannot_be_saved_is_said_and_stays_in_the_form(pages: PagesOfHome) -> None:
    refused = pages.post(f"{EDIT}/save", **form(pages, WRONG))
    assert (refused.status_code, "it has faults, and was not saved" in refused.text) == (400, True)
    assert "talk.nobody" in refused.text.partition("<textarea")[2].partition("</textarea>")[0]
    opened = form(pages, OTHER)
    (pages.home.path / "recipes/mine.xml").write_text(TEXT.replace("\n", "\n\n", 1))  # in another editor
    pages.ask("reload")
    refused = pages.post(f"{EDIT}/save", **opened)
    assert (refused.status_code, "was altered since it was opened" in refused.text) == (400, True)
    (over,) = re.findall(r'name="over" value="([0-9a-f]{64})"', refused.text)
    pages.does(f"{EDIT}/save", **opened, over=over)
    assert file(pages) == OTHER
    long = pages.post(EDIT, **form(pages, TEXT + "x" * 70_000))
    assert (long.status_code, "expected at most 65,536 bytes" in long.text) == (400, True)


def test_it_is_off_unless_a_setting_allows_it_and_for_operators_alone(pages: PagesOfHome) -> None:
    fields = form(pages, OTHER)
    for role in ("reader", "person"):
        assert pages.get(EDIT, role).status_code == 403
        for path in (EDIT, f"{EDIT}/save", f"{EDIT}/take-back"):
            assert pages.post(path, role, **fields).status_code == 403
    assert "Edit…" not in pages.shows("/definitions/mine.one", role="reader")
    allow(pages, "")
    page = pages.shows(EDIT, "Editing in the browser is off", "<code>edit = true</code>")
    assert " readonly>" in page
    assert ">Save</button>" not in page
    refused = pages.post(f"{EDIT}/save", **fields)
    assert (refused.status_code, "editing in the browser is off; write" in refused.text) == (400, True)
    assert file(pages) == TEXT


def test_no_path_is_taken_from_an_address_and_no_module_is_edited(pages: PagesOfHome) -> None:
    for name in ("..%252F..%252Fetc%252Fnarval.toml", "recipes%252Fmine.xml", "nothing"):
        for path in (f"/definitions/{name}/edit", f"/definitions/{name}/edit/save"):
            assert pages.post(path, edited=OTHER).status_code in (400, 404), path
    refused = pages.post("/definitions/talk.nothing/edit/save", edited="x", digest="0")
    assert (refused.status_code, "only files in recipes/ are edited here" in refused.text) == (400, True)


def test_an_example_shows_each_definition_below_its_name_and_its_files_folded(pages: PagesOfHome) -> None:
    text = pages.shows("/examples/purchase", "<summary>recipes/examples/purchase.task</summary>")
    names = [f"{one['kind']} {one['definition']}" for one in pages.ask("example", name="purchase")["told"]]
    assert len(set(names)) > 3
    assert re.findall("<h3>(.*?)</h3>", text) == list(dict.fromkeys(names))
    if shutil.which("dot") is not None:
        assert "The graph of examples.purchase" in text


def test_one_begins_from_an_example_with_its_scenario(pages: PagesOfHome) -> None:
    pages.shows("/proposals", "Or begin from an example", f'href="{BASE}/examples/invoice">invoice</a>')
    page = pages.shows("/examples/invoice", "What it does", "scenarios/examples/invoice.xml", "Begin with it")
    assert 'value="mine"' in page
    leads = pages.does("/examples/invoice/take", group="office")
    assert leads == "/examples/invoice?taken=office"
    pages.shows(
        leads,
        "It is yours, in the group office",
        f'href="{BASE}/definitions/office.invoice/edit?kind=recipe"',
        f'href="{BASE}/simulate?scenario=office%2Finvoice"',
    )
    assert (pages.home.path / "scenarios/office/invoice.xml").exists()
    pages.shows("/definitions/office.invoice/edit", "no faults")
    pages.shows("/simulate", '<option value="office/invoice" selected>', scenario="office/invoice")
    for fields, words in (
        ({"group": "office"}, "exists already; choose another group"),
        ({"group": "../etc"}, "expected a name for a group of your own"),
    ):
        refused = pages.post("/examples/invoice/take", **fields)
        assert (refused.status_code, words in refused.text) == (400, True)
    assert pages.get("/examples/household").status_code == 404  # it is of several agents
    assert pages.get("/examples/..%252Fmail").status_code == 404
    assert pages.post("/examples/invoice/take", "reader", group="mine").status_code == 403
    allow(pages, "")
    assert "narval take examples/invoice --as mine" in pages.shows("/examples/invoice", "is off")
    assert "editing in the browser is off" in pages.post("/examples/invoice/take", group="mine").text
    assert not (pages.home.path / "recipes/mine").exists()
