"""`narval check`: every fault of a home, with its place, and nothing run (N13)."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from narval.core.errors import Fault
from narval.files.check import check_home
from narval.files.home import Home
from narval.files.shipped import shipped

MODULE = """
from pathlib import Path
from narval import action

@action
def nothing():
    Path("ran").touch()
"""
RECIPE = """<recipe group="w" name="n" start_step="s" end_step="{end}">
<step id="s" type="action" target="w.nothing"/></recipe>"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    _write(tmp_path / "home/modules/w.py", MODULE)
    _write(tmp_path / "home/recipes/w.xml", RECIPE.format(end="s"))
    return Home(tmp_path / "home")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _places(faults: list[Fault]) -> list[tuple[str, int]]:
    return [(fault.path, fault.line) for fault in faults]


def test_a_home_in_order_has_no_faults(home: Home) -> None:
    assert check_home(home) == []


@pytest.mark.parametrize("why", ["nothing counts processes", ""])
def test_A19_limits_that_cannot_be_kept_here_are_warned_of(
    home: Home, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setattr("narval.files.check.obstacle", lambda: why)
    states = '\n<state name="start" command="a"/>\n<state name="end" command="b" processes="2"/>'
    leads = '<transition from="start" label="0" to="end"/>'
    _write(home.recipes / "a.xml", f'<automaton processes="8">{states}{leads}</automaton>')
    message = f"processes: no daemon can keep this limit here: {why}; what it limits ends with 126"
    expected = [Fault("recipes/a.xml", line, 1, message, warning=True) for line in (1, 3)]
    assert check_home(home) == (expected if why else [])


def test_traces_that_cannot_be_exported_are_warned_of(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(home.settings, "turn_limit = 100\ntraces = true\n")
    assert check_home(home) == []
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    (fault,) = check_home(home)
    assert (fault.path, fault.line, fault.column, fault.warning) == ("etc/narval.toml", 2, 10, True)
    assert "traces: expected the package opentelemetry.sdk; install it: pip install" in fault.message


def test_the_faults_of_every_part_are_reported_at_once(home: Home) -> None:
    _write(home.settings, "turn_limit = 0\n")
    _write(home.recipes / "bad.xml", RECIPE.format(end="gone").replace('name="n"', 'name="m"'))
    _write(home.modules / "bad.py", "import no_such_thing\n")
    _write(home.schemas / "rule.rng", "<element/>")
    _write(home.memory, "<memory>\n  <start-plan recipe='w.gone'/>\n</memory>")
    found = {fault.path for fault in check_home(home)}
    assert found == {
        "etc/narval.toml", "recipes/bad.xml", "modules/bad.py", "etc/schemas/rule.rng", "data/memory.xml",
    }  # fmt: skip
    assert not Path("ran").exists()


def test_what_follows_from_another_fault_comes_behind_it_and_says_so(home: Home) -> None:
    _write(home.path / "data/memory.xml", "<memory><start-plan recipe='w.n'/></memory>")
    _write(home.path / "recipes/w.xml", RECIPE.format(end="nowhere"))
    cause, *_, last = check_home(home)
    assert cause.path == "recipes/w.xml"
    why = "there is no definition 'w.n' to start, because recipes/w.xml did not load; correct its faults"
    assert (last.path, last.message) == ("data/memory.xml", f"{why} first")


def test_a_declaration_is_checked_where_it_stands(home: Home) -> None:
    _write(
        home.schemas / "rule.rng",
        '<element name="rule" xmlns="http://relaxng.org/ns/structure/1.0"><attribute name="n"/></element>',
    )
    _write(home.memory, "<memory>\n  <rule n='1'/>\n  <rule/>\n  <start-plan recipe='w.gone'/>\n</memory>")
    faults = check_home(home)
    assert _places(faults) == [("data/memory.xml", 3), ("data/memory.xml", 4)]
    assert "rule.rng" in faults[0].message
    assert faults[1].column > 5
    assert "w.gone" in faults[1].message


@pytest.mark.parametrize("text", ["<memory>", "<rules/>", "<!DOCTYPE memory><memory/>", ""])
def test_a_memory_file_that_is_none_is_a_fault(home: Home, text: str) -> None:
    _write(home.memory, text)
    assert {fault.path for fault in check_home(home)} == {"data/memory.xml"}


HOLDS = """
from narval import Input, action

RULE = {"when": "pattern", "order": "number", "every": "duration", "kind": ("mbox", "imap")}
RULE["as"] = "name of form"

@action(inputs=[Input("rule", "rule[@when]", holds=RULE)], runs="inline")
def judge(rule):
    return None
"""


@pytest.mark.parametrize(
    ("attribute", "column", "message"),
    [
        ("when='mail[contians(@a, 1)]'", 19, "when: no pattern: "),
        ("when='mail[@a'", 21, "when: no pattern: "),
        ("when='mail[@a = $step/@a]'", 24, "when: $step is known only in a recipe"),
        ("when='mail' order='soon'", 27, "order: expected a number, found 'soon'"),
        ("when='mail' every='soon'", 27, "every: expected a duration, found 'soon'"),
        ("when='mail' kind='mbx'", 26, "kind: expected mbox or imap, found 'mbx'; did you mean 'mbox'?"),
        ("when='mail' order='2.5' every='5m' kind='imap'", 0, ""),
        ("order='soon'", 0, ""),
        ("when='mail' as='plain'", 0, ""),
        ("when='mail' as='plane'", 24, "as: there is no form of the name 'plane'; did you mean 'plain'?"),
        ("when='mail' as='short'", 24, "as: there is no form of the name 'short'; there is 'plain'"),
    ],
)
def test_what_an_input_says_of_attributes_holds_of_what_is_declared(
    home: Home, attribute: str, column: int, message: str
) -> None:
    _write(home.modules / "judges.py", HOLDS)
    _write(home.memory, f"<memory>\n <rule {attribute}/>\n <form name='plain'/></memory>")
    found = [(fault.path, fault.line, fault.column, fault.message) for fault in check_home(home)]
    if not message:
        assert found == []
        return
    ((path, line, at, told),) = found
    assert (path, line, at) == ("data/memory.xml", 2, column)
    assert told.startswith(message)
    if "contians" in attribute:
        assert told.endswith("did you mean contains()?")


@pytest.mark.parametrize("held", ["'patern'", "('a', 1)", "7"])
def test_what_an_input_says_of_attributes_is_one_of_what_there_is(home: Home, held: str) -> None:
    _write(home.modules / "judges.py", HOLDS.replace('"pattern"', held))
    fault, _ = check_home(home)
    assert fault.path == "modules/judges.py"
    assert (
        "expected holds to name 'pattern', 'number', 'duration', 'date', 'name of …' or a tuple of words"
        in fault.message
    )


def test_N4_two_elements_of_one_name_and_key_are_a_fault_at_both_places(home: Home) -> None:
    _write(home.memory, "<memory>\n <rule key='a'/>\n <mail key='a'/>\n <rule name='a'/></memory>")
    (first, second) = check_home(home)
    assert _places([first, second]) == [("data/memory.xml", 2), ("data/memory.xml", 4)]
    assert first.message.startswith("several rule elements are known as 'a' (line 4 too): give each a key")


def test_some_files_or_folders_alone_may_be_checked(home: Home) -> None:
    _write(home.recipes / "bad.xml", RECIPE.format(end="gone").replace('name="n"', 'name="m"'))
    _write(home.memory, "<rules/>")
    assert {fault.path for fault in check_home(home, [home.recipes])} == {"recipes/bad.xml"}
    assert {fault.path for fault in check_home(home, [home.memory])} == {"data/memory.xml"}
    assert check_home(home, [home.recipes / "w.xml"]) == []
    (missing,) = check_home(home, [home.recipes / "gone.xml"])
    assert "no such file" in missing.message


def test_a_file_outside_is_checked_as_if_it_were_added(home: Home, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    _write(outside / "good.xml", RECIPE.format(end="s").replace('name="n"', 'name="m"'))
    assert check_home(home, [outside / "good.xml"]) == []
    _write(outside / "bad.xml", RECIPE.format(end="gone").replace('name="n"', 'name="o"'))
    (fault,) = check_home(home, [outside])
    assert fault.path.endswith("bad.xml")


def test_N25_a_date_that_leaves_its_finer_fields_open_is_warned_of(home: Home, tmp_path: Path) -> None:
    dated = """<recipe group="w" name="d" start_step="s" end_step="e">
<step id="s" type="action" target="w.nothing"/><step id="e" type="action" target="w.nothing"/>
<transition id="t"><in idref="s"/><out idref="e"/>
<time {}/></transition></recipe>"""
    _write(home.path / "recipes/d.xml", dated.format('hours="7"'))
    [warning] = check_home(home)
    assert str(warning) == (
        "recipes/d.xml:4:1: warning: "
        "this date comes many times, because seconds and minutes are omitted; "
        'for once, write seconds="0" minutes="0"; for all of them, write seconds="0-59"'
    )
    _write(tmp_path / "elsewhere.xml", dated.format('months="2"'))
    [outside] = check_home(home, [tmp_path / "elsewhere.xml"])
    assert 'seconds="0" minutes="0" hours="0" monthdays="1"' in outside.message
    for meant in ('hours="7" minutes="0" seconds="0"', 'hours="7" seconds="0-59"', ""):
        _write(home.path / "recipes/d.xml", dated.format(meant))
        assert check_home(home) == []

    _write(home.path / "recipes/d.xml", dated.format('years="2020"'))
    [warning] = check_home(home)
    assert "this date is past" in str(warning)


CALLING = """<cookbook group="w">
<recipe name="alone" start_step="s" end_step="s"><step id="s" type="recipe" target="w.alone"/></recipe>
<recipe name="a" start_step="s" end_step="e">
  <step id="s" type="action" target="w.nothing"/><step id="e" type="recipe" target="w.b"/>
  <transition id="t"><in idref="s"/><out idref="e"/></transition></recipe>
<recipe name="b" start_step="s" end_step="s"><step id="s" type="recipe" target="w.a"/></recipe>
<recipe name="outside" start_step="s" end_step="s"><step id="s" type="recipe" target="w.b"/></recipe>
<recipe name="countdown" start_step="s" end_step="e">
  <step id="s" type="action" target="w.nothing"/><step id="on" type="recipe" target="w.countdown"/>
  <step id="e" type="action" target="w.nothing"/>
  <transition id="go"><in idref="s"/><out idref="on"/><condition><match>left</match></condition></transition>
  <transition id="back"><in idref="on"/><out idref="e"/></transition>
  <transition id="over"><in idref="s"/><out idref="e"/></transition></recipe>
<recipe name="guarded" start_step="s" end_step="e">
  <step id="s" type="recipe" target="w.guarded"/><step id="e" type="action" target="w.nothing"/>
  <transition id="t"><in idref="s" on-error="yes"/><out idref="e"/></transition>
  <transition id="u"><in idref="s"/><out idref="e"/></transition></recipe>
</cookbook>"""


def test_N13_a_recipe_that_can_only_call_itself_is_warned_of(home: Home) -> None:
    _write(home.path / "recipes/calling.xml", CALLING)
    warned = check_home(home)
    assert [(fault.line, fault.warning) for fault in warned] == [(2, True), (3, True), (6, True)]
    assert "recipe 'w.alone' can only call itself (w.alone → w.alone)" in warned[0].message
    assert "recipe 'w.a' can only call itself (w.a → w.b → w.a)" in warned[1].message


WAYS = """<recipe group="w" name="ask" start_step="ask" end_step="book">
{steps}
{transitions}</recipe>"""


@pytest.mark.parametrize(
    ("ways", "ends"),
    [
        ("ask>book ask>refuse refuse>tell", ["tell"]),
        ("ask>refuse refuse>book", []),
        ("ask>book+tell", []),  # a branch beside the one to the end
        ("ask>refuse+tell ask>book", ["refuse", "tell"]),
        ("ask>refuse+tell refuse,tell>note ask>book", ["note"]),
        ("ask>refuse+book refuse>tell", []),
        ("ask!>tell ask>book", ["tell"]),
        ("ask!>book", ["ask"]),  # once it is done
    ],
)
def test_a_step_after_which_a_plan_is_stuck_is_warned_of(home: Home, ways: str, ends: list[str]) -> None:
    names = dict.fromkeys(re.findall(r"\w+", ways))
    steps = [f'<step id="{name}" type="action" target="w.nothing"/>' for name in names]
    transitions = []
    for way in ways.split():
        sources, targets = way.split(">")
        ins = (f'<in idref="{at.strip("!")}"{HANDLES if "!" in at else ""}/>' for at in sources.split(","))
        outs = (f'<out idref="{at}"/>' for at in targets.split("+"))
        transitions.append(f'<transition id="{len(transitions)}">{"".join((*ins, *outs))}</transition>')
    text = WAYS.format(steps="\n".join(steps), transitions="".join(transitions))
    _write(home.path / "recipes/ways.xml", text)
    warned = check_home(home)
    assert [(fault.line, fault.warning) for fault in warned] == [
        (2 + [*names].index(at), True) for at in ends
    ]
    for fault, at in zip(warned, ends, strict=True):
        assert fault.message.startswith(
            f"step {at!r} leads nowhere, and a plan has one end, 'book': lead both"
        )


HANDLES = ' on-error="yes"'

AGAIN = """<recipe group="w" name="r" start_step="s" end_step="e" restart="{restart}">
  <step id="s" type="{kind}" target="w.{target}" {more}/><step id="e" type="action" target="w.nothing"/>
  <transition id="t"><in idref="s"/><out idref="e"/>{waits}</transition></recipe>"""
MAIL = "<condition {}><match>mail</match></condition>"


@pytest.mark.parametrize("restart", ["yes", "parallel"])
@pytest.mark.parametrize(("waits", "when"), [("", "for ever"), (MAIL.format(""), "as long as what its cond")])
def test_a_recipe_that_begins_again_without_end_is_warned_of(
    home: Home, restart: str, waits: str, when: str
) -> None:
    _write(home.modules / "w.py", ACTIONS_AGAIN)
    values = {"kind": "action", "target": "nothing", "more": ""}
    _write(home.path / "recipes/again.xml", AGAIN.format(restart=restart, waits=waits, **values))
    (warned,) = check_home(home)
    assert (warned.line, warned.warning) == (1, True)
    assert f"recipe 'w.r' restarts once a second, {when}" in warned.message


@pytest.mark.parametrize(
    "values",
    [
        {"restart": "no"},
        {"waits": MAIL.format('use="yes"')},
        {"waits": MAIL.format('for="2m"')},
        {"waits": MAIL.format('absent="yes"')},
        {"waits": '<time seconds="0" minutes="0"/>'},
        {"target": "take"},
        {"more": 'every="1h" until="mail"'},
        {"kind": "recipe", "target": "other"},
    ],
    ids=str,
)
def test_a_recipe_that_waits_for_something_before_it_begins_again_is_not(
    home: Home, values: dict[str, str]
) -> None:
    _write(home.modules / "w.py", ACTIONS_AGAIN)
    _write(home.path / "recipes/other.xml", AGAIN.replace('name="r"', 'name="other"').format(**PLAIN))
    _write(home.path / "recipes/again.xml", AGAIN.format(**PLAIN | {"restart": "yes"} | values))
    assert check_home(home) == []


WAKING = """from narval import Input, Output, action

@action(runs="inline")
def nothing(): return None

@action(outputs=[Output("y", "y")], runs="inline")
def y(): return "<y/>"

@action(outputs=[Output("x", "x[@n]", {more})], runs="inline")
def x(): return "<x n='1'/>"
"""
WAKES = """<recipe group="w" name="{}" start_step="s" end_step="m" restart="yes">
  <step id="s" type="action" target="w.nothing"/><step id="m" type="action" target="w.{}"/>
  <transition id="t"><in idref="s"/><out idref="m"/>{}
    <condition use="yes"><match>{}</match></condition></transition></recipe>
"""


def test_recipes_that_wake_one_another_are_warned_of(home: Home) -> None:
    _write(home.modules / "w.py", WAKING.format(more=""))
    recipes = WAKES.format("a", "y", "", "x") + WAKES.format("b", "x", "", "y")
    alone = WAKES.format("alone", "x", "", "x[@n]")
    _write(home.path / "recipes/waking.xml", f"<cookbook>\n{recipes}{alone}</cookbook>")
    a, b, own = check_home(home)
    assert [(fault.line, fault.warning) for fault in (a, b, own)] == [(2, True), (6, True), (10, True)]
    assert "recipe 'w.a' wakes itself without end (w.a → w.b → w.a)" in a.message
    assert "(w.b → w.a → w.b): what a run of the one before makes is all that the next one waits" in b.message
    assert "(w.alone → w.alone)" in own.message
    assert "have it wait for something that it does not make" in own.message


@pytest.mark.parametrize(
    ("more", "waits", "match"),
    [
        ("", '<time seconds="0" minutes="0"/>', "x"),
        ("", "<condition><match>switch[@on]</match></condition>", "x"),
        ("optional=True", "", "x"),
        ('unique="@n"', "", "x"),
        ("", "", "x[@n > 3]"),
        ("", "", "y"),
    ],
)
def test_recipes_that_may_wait_for_something_else_are_not(
    home: Home, more: str, waits: str, match: str
) -> None:
    _write(home.modules / "w.py", WAKING.format(more=more))
    _write(home.path / "recipes/waking.xml", WAKES.format("alone", "x", waits, match))
    assert check_home(home) == []


FEEDS = """<recipe group="w" name="r" start_step="s" end_step="e" {restart}>
  <step id="s" type="action" target="w.nothing"/>
  <step id="ask" type="work" {more}><arguments>{gives}</arguments>
    <work><title>Well?</title><input id="w"><match>want</match></input><outcome name="yes"/></work></step>
  <step id="e" type="action" target="w.nothing"/>
  <transition id="u"><in idref="ask"/><out idref="e"/></transition>
  <transition id="t"><in idref="s"/><out idref="ask"/>{waits}
    <condition as="w" use="yes"><match>{match}</match></condition></transition></recipe>"""
WANT = {
    "restart": 'restart="parallel"', "more": "", "waits": "", "match": "want[@what]",
    "gives": '<want what="tea"/>',
}  # fmt: skip


@pytest.mark.parametrize(
    "values",
    [{}, {"restart": 'restart="yes"'}, {"match": "want", "gives": '<want what="{$w/@what}"/>'}],
    ids=str,
)
def test_a_step_that_gives_what_its_recipe_waits_for_is_warned_of(home: Home, values: dict[str, str]) -> None:
    _write(home.modules / "w.py", ACTIONS_AGAIN)
    _write(home.path / "recipes/feeds.xml", FEEDS.format(**WANT | values))
    (warned,) = check_home(home)
    assert (warned.line, warned.warning) == (3, True)
    assert "step 'ask' gives by its arguments what recipe 'w.r' waits for" in warned.message


@pytest.mark.parametrize(
    "values",
    [
        {"restart": ""},
        {"gives": '<want who="ann"/>'},
        {"gives": '<want what="{$w/@what}"/>'},
        {"waits": "<condition><match>go</match></condition>"},
        {"waits": '<time seconds="0" minutes="0"/>'},
        {"more": 'foreach="want"'},
    ],
    ids=str,
)
def test_a_step_that_may_give_something_else_is_not(home: Home, values: dict[str, str]) -> None:
    _write(home.modules / "w.py", ACTIONS_AGAIN)
    _write(home.path / "recipes/feeds.xml", FEEDS.format(**WANT | values))
    assert check_home(home) == []


PLAIN = {"restart": "no", "kind": "action", "target": "nothing", "more": "", "waits": ""}
ACTIONS_AGAIN = """from narval import Input, action

@action(runs="inline")
def nothing(): return None

@action(inputs=[Input("mail", "mail", use=True)], runs="inline")
def take(mail): return None
"""


def test_G79_a_tool_to_which_the_owner_has_to_agree_is_warned_of_where_nothing_asks(home: Home) -> None:
    _write(home.modules / "w.py", ACTIONS_AGAIN)
    recipe = AGAIN.replace('restart="{restart}">', '><tool element="note" approve="owner"/>').format(**PLAIN)
    _write(home.path / "recipes/tool.xml", recipe)
    (warned,) = check_home(home)
    assert warned.warning
    assert "there is no mcp.ask, which asks the owner; take what ships" in warned.message
    for name in ("mcp.xml", "mcp.begin.xsl"):
        shutil.copy(shipped() / "recipes" / name, home.path / "recipes" / name)
    shutil.copy(shipped() / "modules/basic.py", home.modules / "basic.py")
    assert check_home(home) == []


def test_tools_that_are_not_known_are_one_fault_that_says_how_they_become_known(home: Home) -> None:
    _write(home.settings, '[mcp.time]\ncommand = ["time-server"]\n')
    steps = "".join(f'\n<step id="{id}" type="action" target="time.{id}"/>' for id in ("now", "convert"))
    of = "<in idref='now'/><out idref='convert'/>"
    text = f'<recipe group="w" name="t" start_step="now" end_step="convert">{steps}'
    _write(home.recipes / "t.xml", f'{text}<transition id="t">{of}</transition></recipe>')
    (fault,) = check_home(home)
    assert fault[:2] == ("recipes/t.xml", 2)
    assert fault.message == "[mcp.time] is there, its tools are not known: narval mcp tools time"
    _write(home.settings, "")
    assert "there is no action 'time.now'" in check_home(home)[0].message


def test_G65_an_action_of_a_cluster_is_warned_of_where_there_can_be_none(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(
        home.modules / "far.py",
        'from narval import action\n\n@action(runs="cluster")\ndef f(): return None\n',
    )
    (warned,) = check_home(home)
    assert (warned.path, warned.line, warned.warning) == ("modules/far.py", 4, True)
    assert warned.message.startswith(
        "f: its calls wait for a cluster, and etc/narval.toml names none; write "
    )
    _write(home.settings, 'cluster = "local"\n')
    assert check_home(home) == []
    monkeypatch.setattr("narval.files.check.is_installed", lambda package: package != "distributed")
    (warned,) = check_home(home)
    assert "the package distributed is not installed; install it: pip install " in warned.message
    _write(home.settings, 'timezone = "Europe/Pari"\ncluster = "local"\n')
    (fault,) = check_home(home)
    assert (fault.path, fault.line) == ("etc/narval.toml", 1), (
        "nothing is said to be missing in what is not read"
    )


def test_a_module_outside_that_is_a_folder_is_checked_as_one(home: Home, tmp_path: Path) -> None:
    _write(tmp_path / "away/talk/__init__.py", "from .words import WORD\n")
    _write(tmp_path / "away/talk/words.py", "WORD = 1\n")
    assert check_home(home, [tmp_path / "away"]) == []
    _write(tmp_path / "away/talk/words.py", "WORD = 1 / 0\n")
    (fault,) = check_home(home, [tmp_path / "away"])
    assert (fault.path, fault.line) == (str(tmp_path / "away/talk/words.py"), 1)


def test_N42_what_stands_in_braces_is_a_value_or_a_fault(home: Home) -> None:
    for argument, faults in (
        ("<n a='{count($s)}' b='{$s/@a}'>{ $plan/@eid } {{$s} {{subject} { concat('a', $s) }</n>", 0),
        ("<n b='{subject}'/>", 1),
        ("<n>{5 $other}</n>", 1),
        ("<n>a brace { alone</n>", 1),
    ):
        given = f'target="basic.log"><arguments>{argument}</arguments></step>'
        _write(home.path / "recipes/w.xml", RECIPE.format(end="s").replace('target="w.nothing"/>', given))
        assert [fault.warning for fault in check_home(home)] == [False] * faults, argument


LATE = "@date &gt; '2026-11-01'"
"""A comparison that never holds, in XML."""
ONE = '<recipe group="{}" name="o" start_step="a" end_step="a">'
ORDERED: dict[str, str] = {
    "recipes/a.xml": (
        '<recipe group="a" name="o" start_step="a" end_step="z"><step id="a" type="action" '
        'target="basic.nothing"/><step id="z" type="action" target="basic.nothing"/><transition id="t">'
        f'<in idref="a"/><out idref="z"/><condition><match>email[{LATE}]</match></condition>'
        "</transition></recipe>"
    ),
    "recipes/b.xml": (
        f'{ONE.format("b")}<step id="a" type="action" '
        f'target="basic.nothing" until="email[{LATE}]" every="1d"/></recipe>'
    ),
    "recipes/c.xml": (
        f'{ONE.format("c")}<step id="a" type="action" target="basic.log">'
        f'<input id="element"><match>email[{LATE}]</match></input></step></recipe>'
    ),
    "recipes/d.xml": (
        f'{ONE.format("d")}<step id="a" type="action" target="basic.log">'
        f"<arguments><note>{{$plan[{LATE}]}}</note></arguments></step></recipe>"
    ),
    "recipes/e.xml": (
        '<work group="e" name="o"><title>Look</title>'
        f'<input id="e"><match>email[{LATE}]</match></input></work>'
    ),
    "recipes/f.xml": (
        '<process-definition group="f" name="o"><node name="a" type="wait" isStart="true">'
        f"<condition><match>email[{LATE}]</match></condition></node></process-definition>"
    ),
    "recipes/g.xml": (
        '<AUTOMATON group="g" name="o"><state name="start" command="true">'
        f"<env name='E'><match>email[{LATE}]</match></env></state></AUTOMATON>"
    ),
    "modules/h.py": (
        "from narval import Input, action\n\n\n"
        "@action(inputs=[Input('e', \"email[@date > '2026-11-01']\")])\n"
        "def look(e):\n    pass\n"
    ),
    "modules/i.py": (
        f'MODULE_XML = """<module name="i"><action name="look" func="look"><input id="e"><match>email[{LATE}]'
        '</match></input></action></module>"""\n\n\ndef look(e):\n    pass\n'
    ),
    "recipes/k.look.xsl": (
        '<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><prototype>'
        f'<input id="e"><match>email[{LATE}]</match></input>'
        '<output id="o"><match>o</match></output></prototype>'
        '<xsl:template match="/"><o/></xsl:template></xsl:stylesheet>'
    ),
    "etc/people.toml": (
        '[people.ann]\n\n[[approval]]\naction = "basic.nothing"\nwork = "o.ask"\n'
        "match = \"email[@date > '2026-11-01']\"\n"
    ),
}


@pytest.fixture
def ordered(home: Home) -> Home:
    for path, text in ORDERED.items():
        _write(home.path / path, text)
    return home


def test_N9_a_comparison_that_never_holds_is_a_warning_wherever_patterns_stand(ordered: Home) -> None:
    warned = [fault for fault in check_home(ordered) if "never holds" in fault.message]
    assert sorted(fault.path for fault in warned) == sorted(ORDERED)
    assert all(fault.warning and "write @date gt '2026-11-01'" in fault.message for fault in warned)
    of_condition = next(fault for fault in warned if fault.path == "recipes/a.xml")
    at = ORDERED["recipes/a.xml"].index("@date")
    assert (of_condition.line, of_condition.column) == (1, at + 1)
    for path, text in ORDERED.items():
        _write(ordered.path / path, text.replace("&gt;", "gt").replace("date > ", "date gt "))
    assert not [fault for fault in check_home(ordered) if "never holds" in fault.message]


CALLS = """<recipe group="w" name="{name}" start_step="s" end_step="s">
<step id="s" type="recipe" target="w.{target}"/></recipe>"""


def test_files_outside_a_home_may_name_each_other_and_only_those_at_fault_are_told(
    home: Home, tmp_path: Path
) -> None:
    calls = {"one": "two", "two": "one", "lost": "nowhere", "beside": "lost"}
    for name, target in calls.items():
        _write(tmp_path / f"{name}.xml", CALLS.format(name=name, target=target))
    _write(tmp_path / "half.xml", "<recipe")

    def checked(*names: str) -> list[str]:
        faults = check_home(home, [tmp_path / f"{name}.xml" for name in names])
        return [Path(fault.path).stem for fault in faults if not fault.warning]

    assert checked("one", "two") == []
    assert checked("one") == ["one"]
    assert checked("beside", "one", "half", "lost", "two") == ["beside", "half", "lost"]
