"""Which labels can come to which part of which call, told of a home before it runs (F9)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from narval.core.definitions.library import Definition
from narval.core.trust.prospects import CallProspect, prospects
from narval.core.trust.reach import ReachedPart
from narval.core.trust.rules import Rules
from narval.core.trust.telling import lines_of_call, outlook
from narval.files.check import check_home
from narval.files.home import Home
from narval.files.reach import ReachSources, read_sources
from narval.files.shipped import shipped

MODULE = """
from narval import Input, Output, action

@action(outputs=[Output("mail", "mail")], label="mail", outside=False)
def read(): pass

@action(outputs=[Output("price", "price")], label="web", outside=False)
def look_up(): pass

@action(inputs=[Input("prompt", "prompt")], outputs=[Output("answer", "answer")], model="prompt",
        outside=False)
def ask(prompt): pass

@action(inputs=[Input("mail", "mail")], outputs=[Output("letter", "letter[@by='reply']", own=["@id"])],
        keeps={"letter/@to": "mail/@from"}, pure=True)
def reply(mail): pass

@action(inputs=[Input("mail", "mail")], outputs=[Output("letter", "letter[@by='code']")], outside=False)
def rewrite(mail): pass

@action(inputs=[Input("letter", "letter")], where=["letter/@to"])
def send(letter): pass

@action(inputs=[Input("letter", "letter")])
def post(letter): pass

@action(pure=True)
def nothing(): pass
"""


def recipe(name: str, *steps: str, ways: str = "") -> str:
    """A recipe of steps one after another, each `ID TARGET` with more of it after a blank."""
    ids, texts = [], []
    for step in steps:
        id, target, *rest = step.split(" ", 2)
        kind, _, target = target.rpartition(":")
        ids.append(id)
        texts.append(f'<step id="{id}" type="{kind or "action"}" target="{target}">{"".join(rest)}</step>')
    for one, other in pairwise(ids):
        if f'<out idref="{other}"/>' not in ways:
            texts.append(
                f'<transition id="to-{other}"><in idref="{one}"/><out idref="{other}"/></transition>'
            )
    text = f'<recipe name="{name}" start_step="{ids[0]}" end_step="{ids[-1]}">{"".join(texts)}{ways}</recipe>'
    return f'<cookbook group="w">{text}</cookbook>'


def taking(one: str, other: str, match: str, name: str = "m") -> str:
    condition = f'<condition as="{name}" use="yes"><match>{match}</match></condition>'
    return f'<transition id="take-{other}"><in idref="{one}"/><out idref="{other}"/>{condition}</transition>'


class Told:
    """A home as it is told before it runs."""

    def __init__(self, home: Path) -> None:
        sources = read_sources(Home(home))
        self.rules, self.reach = sources.rules, sources.reach

    def definition(self, name: str) -> Definition:
        (found,) = (one for one in self.reach.definitions if one.full_name == name)
        return found

    def parts(self, name: str, part: str) -> dict[str, ReachedPart]:
        """The parts of a call of a definition, by input and path; "" is what decides that it is made."""
        (call,) = (one for one in self.reach.calls_of(self.definition(name)) if one.call.part == part)
        return {"/".join(filter(None, (one.input, one.path))): one for one in call.parts}

    def prospect(self, name: str, part: str) -> CallProspect:
        calls = prospects(self.reach.calls_of(self.definition(name)), self.rules)
        (call,) = (one for one in calls if one.call.call.part == part)
        return call


def told(home: Path, *recipes: str, **files: str) -> Told:
    write(home, "modules/m.py", MODULE)
    for at, text in enumerate(recipes):
        write(home, f"recipes/w{at}.xml", text)
    for path, text in files.items():
        write(home, path.replace("__", "/").replace("_DOT_", "."), text)
    return Told(home)


def write(home: Path, path: str, text: str) -> None:
    (home / path).parent.mkdir(parents=True, exist_ok=True)
    (home / path).write_text(text)


READS = recipe("reads", "read m.read")


FILES = """
from narval import Input, Needs, Output, action

@action(inputs=[Input("text", "text")], outputs=[Output("file", "file[@path]")], where=["text/@path"],
        needs=Needs(folders=["data rw"]))
def put(text): pass

@action(inputs=[Input("text", "text")], where=[], needs=Needs(hosts=["x.org"]))
def tell(text): pass

@action(outputs=[Output("letter", "letter")], label="file", outside=False, needs=Needs(folders=["data r"]))
def get(): pass

@action(outputs=[Output("letter", "letter")], label="web", outside=False, needs=Needs(hosts=["x.org"]))
def fetch(): pass
"""


def test_F9_what_one_definition_writes_into_files_another_may_read(tmp_path: Path) -> None:
    text = "<arguments><text path='x.txt'>{$read/@subject}</text></arguments>"
    letter = "<arguments><letter about='{$fetch}'/></arguments>"
    home = told(
        tmp_path,
        recipe("puts", "read m.read", f"put files_of.put {text}"),
        recipe("gets", "get files_of.get", "send m.send"),
        recipe("fetches", "fetch files_of.fetch", f"send m.send {letter}"),
        modules__files_of_DOT_py=FILES,
    )
    assert home.parts("w.gets", "send")["letter"].labels == {"file", "mail"}
    assert home.parts("w.fetches", "send")["letter/@about"].all == {"web"}
    steps = home.reach.way(home.parts("w.gets", "send")["letter"], "mail")
    assert "a file that was written" in [step.words for step in steps]


def test_F9_what_only_goes_to_a_server_is_in_no_file(tmp_path: Path) -> None:
    text = "<arguments><text>{$read/@subject}</text></arguments>"
    home = told(
        tmp_path,
        recipe("tells", "read m.read", f"tell files_of.tell {text}"),
        recipe("gets", "get files_of.get", "send m.send"),
        modules__files_of_DOT_py=FILES,
    )
    assert home.parts("w.gets", "send")["letter"].labels == {"file"}


# --- recipes ------------------------------------------------------------------------------------------------


def test_F9_a_part_that_the_author_wrote_has_no_label_and_a_value_has_that_of_its_piece(
    tmp_path: Path,
) -> None:
    letter = '<arguments><letter to="{$c/@mail}" about="{$m/@subject}">from me</letter></arguments>'
    ways = taking("a", "b", "mail") + taking("b", "send", "contact", "c")
    parts = told(
        tmp_path, READS, recipe("r", "a m.nothing", "b m.nothing", f"send m.send {letter}", ways=ways)
    ).parts("w.r", "send")
    assert parts["letter/@to"].all == frozenset()
    assert parts["letter/@about"].labels == {"mail"}
    assert parts["letter"].all == frozenset()
    assert parts[""].labels == {"mail"}
    assert parts["letter/@to"].where
    assert not parts["letter/@about"].where


def test_F9_a_pure_action_passes_on_what_it_declares_and_its_own_parts_have_no_label(tmp_path: Path) -> None:
    ways = taking("a", "reply", "mail")
    parts = told(
        tmp_path, READS, recipe("r", "a m.nothing", "reply m.reply", "send m.send", ways=ways)
    ).parts("w.r", "send")
    assert parts["letter/@to"].labels == {"mail"}
    assert parts["letter/@id"].all == frozenset()


def test_F9_code_that_says_nothing_of_what_it_passes_on_may_pass_on_all(tmp_path: Path) -> None:
    ways = taking("a", "rewrite", "mail")
    parts = told(
        tmp_path, READS, recipe("r", "a m.nothing", "rewrite m.rewrite", "send m.send", ways=ways)
    ).parts("w.r", "send")
    assert parts["letter/@to"].labels == frozenset()
    assert parts["letter/@to"].by_code == {"mail"}


def test_F9_what_nothing_nearer_gives_is_any_element_of_memory_that_fits(tmp_path: Path) -> None:
    written = "<arguments><letter to='{$read/@from}'/></arguments>"
    home = told(
        tmp_path,
        recipe("other", "read m.read", f"send m.send {written}"),
        recipe("r", "send m.send"),
    )
    assert home.parts("w.r", "send")["letter/@to"].by_memory == {"mail"}
    assert home.parts("w.other", "send")["letter/@to"].labels == {"mail"}


def test_F9_patterns_that_no_element_fits_together_keep_elements_apart(tmp_path: Path) -> None:
    ways = taking("a", "send", "letter[@by='me']")
    makes = recipe("makes", "read m.read", "reply m.reply")
    parts = told(tmp_path, makes, recipe("r", "a m.nothing", "send m.send", ways=ways)).parts("w.r", "send")
    assert parts["letter/@to"].labels == frozenset()


def test_F9_a_model_that_is_named_labels_its_answer_with_its_name(tmp_path: Path) -> None:
    prompt = '<arguments><prompt model="near"/></arguments>'
    letter = "<arguments><letter to='{$ask/@who}'/></arguments>"
    home = told(tmp_path, recipe("r", f"ask m.ask {prompt}", f"send m.send {letter}"))
    assert home.parts("w.r", "send")["letter/@to"].all == {"model:near"}


def test_F9_a_run_has_what_decided_in_those_that_it_calls_and_that_call_it(tmp_path: Path) -> None:
    home = told(
        tmp_path,
        READS,
        recipe("child", "send m.send <arguments><letter to='me'/></arguments>"),
        recipe(
            "caller", "look m.look_up", "child recipe:w.child", "send m.send <arguments><letter/></arguments>"
        ),
        recipe("after", "reads recipe:w.reads", "send m.send <arguments><letter/></arguments>"),
    )
    assert home.parts("w.child", "send")[""].all == {"web"}
    assert home.parts("w.after", "send")[""].all == {"mail"}


PAYS = """
from narval import Input, Output, action

@action(inputs=[Input("bill", "bill")], outputs=[Output("paid", "paid")], where=["bill/@to"],
        undo="shop.refund")
def pay(bill): pass

@action(inputs=[Input("paid", "paid"), Input("bill", "bill")], where=["paid", "bill/@to"])
def refund(paid, bill): pass

@action(inputs=[Input("letter", "letter", optional=True)], where=["letter/@to"])
def recall(letter): pass
"""


def test_F9_what_undoes_a_call_is_told_with_what_that_was_given_and_gave(tmp_path: Path) -> None:
    bill = "<arguments><bill to='{$read/@iban}' of='me'/></arguments>"
    letter = "<arguments><letter to='me'>{$read}</letter></arguments>"
    home = told(
        tmp_path,
        recipe("pays", "read m.read", f"pay shop.pay {bill}"),
        recipe("calls", "pays recipe:w.pays", "send m.send <arguments><letter to='me'/></arguments>"),
        recipe("sends", "read m.read", f"send m.send {letter}").replace(
            '"m.send"', '"m.send" undo="shop.recall"'
        ),
        modules__shop_DOT_py=PAYS,
    )
    parts = home.parts("w.pays", "undo of pay")
    assert {path: part.all for path, part in parts.items() if path} == {
        "bill/@to": {"mail"},
        "bill": set(),
        "paid": {"mail"},
    }
    assert [path for path, part in parts.items() if part.where] == ["paid", "bill/@to"]
    assert home.parts("w.calls", "undo of pay of w.pays")["bill/@to"].all == {"mail"}, "called runs too"
    recalled = home.parts("w.sends", "undo of send")
    assert (recalled["letter/@to"].all, recalled["letter/text()"].all) == (set(), {"mail"})


def test_F9_what_begins_a_run_by_an_element_decides_in_it(tmp_path: Path) -> None:
    start = "<arguments><start-plan recipe='w.started'><note>{$read}</note></start-plan></arguments>"
    letter = "<arguments><letter to='{$n}'/></arguments>"
    home = told(
        tmp_path,
        READS,
        recipe("starts", "read m.read", f"nothing recipe:w.reads {start}"),
        recipe("started", "a m.nothing", f"send m.send {letter}", ways=taking("a", "send", "note", "n")),
        recipe("apart", "send m.send <arguments><letter/></arguments>"),
    )
    assert home.parts("w.started", "send")[""].all == {"mail"}
    assert home.parts("w.started", "send")["letter/@to"].all == {"mail"}
    assert home.parts("w.apart", "send")[""].all == frozenset()


def test_F9_a_webhook_and_what_is_secret_are_ways_in(tmp_path: Path) -> None:
    write(tmp_path, "etc/narval.toml", f'[hooks.shop]\nelement = "order"\nsha256 = "{"0" * 64}"\n')
    write(tmp_path, "etc/trust.toml", "[secret]\nhealth = \"note[@topic='health']\"\n")
    letter = "<arguments><letter to='{$o/@by}'>{$n}</letter></arguments>"
    ways = taking("a", "b", "order", "o") + taking("b", "send", "note", "n")
    parts = told(
        tmp_path, recipe("r", "a m.nothing", "b m.nothing", f"send m.send {letter}", ways=ways)
    ).parts("w.r", "send")
    assert parts["letter/@to"].all == {"hook:shop"}
    assert parts["letter/text()"].all == {"secret:health"}


def test_F9_what_a_client_of_mcp_adds_and_gives_to_its_tools_is_a_way_in(tmp_path: Path) -> None:
    for name, may in (("desk", 'add = ["order"]'), ("phone", 'recipes = ["w.r"]'), ("bed", "")):
        write(tmp_path, f"etc/mcp/{name}.toml", f"{may}\n")
    letter = "<arguments><letter to='{$o/@by}'>{$n}</letter></arguments>"
    ways = taking("a", "b", "order", "o") + taking("b", "send", "note", "n")
    text = recipe("r", "a m.nothing", "b m.nothing", f"send m.send {letter}", ways=ways)
    tool = '<tool element="note"><argument name="topic"/></tool>'
    parts = told(tmp_path, text.replace('end_step="send">', f'end_step="send">{tool}')).parts("w.r", "send")
    assert parts["letter/@to"].all == {"mcp:desk"}
    assert parts["letter/text()"].all == {"mcp:phone"}


# --- other kinds, as wholes ---------------------------------------------------------------------------------

PROCESS = """<process-definition name="p" xmlns="http://sarasvati.googlecode.com/ProcessDefinition">
  <node name="wait" type="wait" isStart="true">
    <condition><match>mail</match></condition><arc to="post"/>
  </node>
  <node name="post" type="action"><custom><target>m.post</target></custom></node>
</process-definition>"""


def test_F9_an_automaton_gives_its_programs_what_it_was_given(tmp_path: Path) -> None:
    automaton = """<automaton group="w" name="a"><state name="start" command="true">
      <env name="WHO" select="@from"><match>mail</match></env></state></automaton>"""
    parts = told(tmp_path, READS, automaton).parts("w.a", "start")
    assert parts["WHO"].all == {"mail"}
    assert parts[""].all == {"mail", "program"}


def test_F9_a_process_gives_its_nodes_all_that_its_tokens_have_met(tmp_path: Path) -> None:
    letters = recipe("letters", "write m.nothing <arguments><letter/></arguments>")
    home = told(tmp_path, READS, letters, PROCESS)
    assert home.parts("w2.p", "post")["letter"].all == {"mail"}
    assert home.parts("w2.p", "post")[""].all == {"mail"}


@pytest.mark.parametrize(
    ("gives", "labels"), [("", {"mail"}), ("gives=['todo']", set()), ("gives='letter'", {"mail"})]
)
def test_F9_code_of_a_process_makes_what_its_types_of_nodes_name_or_anything(
    tmp_path: Path, gives: str, labels: set[str]
) -> None:
    """A script makes nothing, and what a process makes has the labels of its run."""
    node = f"from narval import node_type\n\n@node_type('own', {gives})\nclass Own:\n    pass\n"
    text = PROCESS.replace('<arc to="post"/>', '<arc to="own"/>').replace(
        '<node name="post" type="action"><custom><target>m.post</target></custom></node>',
        '<node name="own" type="own"><arc to="said"/></node>'
        '<node name="said" type="script"><custom><execute>println(1)</execute></custom></node>',
    )
    home = told(tmp_path, READS, text, recipe("posts", "post m.post"), modules__own_DOT_py=node)
    assert home.parts("w.posts", "post")["letter"].all == labels


TASK = """
TASK TYPE judge
  TASK CODE "m.post"
  INITIAL judging
  STATE judging EXPOSED
    ON EVENT done GOTO COMMIT
    ON EVENT w.came
      CONDITION "mail"
      ACTION { assert(COMMIT); }

GLOBAL EVENT came
  CONDITION "mail"
  ACTION { launch("touch rung"); }
"""


def test_F9_a_task_gives_its_code_all_that_tasks_hold(tmp_path: Path) -> None:
    parts = told(tmp_path, READS, recipes__w_DOT_task=TASK).parts("w.judge", "judge")
    assert parts["letter"].all == {"mail", "program"}


FLOW = """PLAN Tells {
  INPUT: String pattern
  OUTPUT: said
  BODY {
    elements(pattern : found)
    project("name", found : said)
  }
}
"""


def test_F9_what_a_dataflow_gives_has_all_that_it_may_read(tmp_path: Path) -> None:
    letter = "<arguments><letter to='{$tell/tuple}'/></arguments>"
    flows = recipe("r", "tell dataflow:w.Tells", f"send m.send {letter}")
    home = told(tmp_path, READS, flows, recipes__w_DOT_plan=FLOW)
    assert home.parts("w.r", "send")["letter/@to"].all >= {"mail"}


def test_F9_what_people_answer_has_the_labels_of_what_they_were_shown(tmp_path: Path) -> None:
    work = """<cookbook group="w"><work name="ask"><title>{$m/@subject}</title>
      <input id="m"><match>mail</match></input><outcome name="yes"/></work></cookbook>"""
    letter = "<arguments><letter to='{$ask/@by}'/></arguments>"
    home = told(tmp_path, READS, work, recipe("r", "ask work:w.ask", f"send m.send {letter}"))
    assert home.parts("w.r", "send")["letter/@to"].all == {"mail"}


def test_F9_what_another_agent_sends_has_all_that_its_run_has(tmp_path: Path) -> None:
    sends = """<step id="tell" type="send" to="shop"><input id="m"><match>note</match></input></step>"""
    note = "<arguments><note/></arguments>"
    sender = (
        recipe("sends", "read m.read", f"write recipe:w.reads {note}")
        .replace(
            "</recipe>",
            f'{sends}<transition id="on"><in idref="write"/><out idref="tell"/></transition></recipe>',
        )
        .replace('end_step="write"', 'end_step="tell"')
    )
    letter = "<arguments><letter to='{$n/@to}'/></arguments>"
    takes = recipe("takes", "a m.nothing", f"send m.send {letter}", ways=taking("a", "send", "note", "n"))
    write(tmp_path, "agents/shop/agent.toml", "")
    write(tmp_path, "agents/shop/recipes/s.xml", takes)
    assert told(tmp_path, READS, sender).parts("w.takes", "send")["letter/@to"].all == {"mail"}


@pytest.mark.parametrize(
    ("first", "second", "third"),
    [
        ("", "shop", "yard"),
        ("", "yard", "shop"),
        ("yard", "shop", ""),
        ("shop", "yard", ""),
        ("shop", "", "yard"),
    ],
)
def test_F9_what_a_third_agent_gives_back_comes_through_the_second(
    tmp_path: Path, first: str, second: str, third: str
) -> None:
    def place(agent: str, name: str, text: str) -> None:
        write(tmp_path, f"agents/{agent}/recipes/{name}.xml" if agent else f"recipes/{name}.xml", text)

    def calling(recipe_called: str, agent: str, text: str) -> str:
        of = f'target="{recipe_called}"'
        return text.replace(of, f'{of} agent="{agent or "narval"}" timeout="60"')

    for agent in ("shop", "yard"):
        write(tmp_path, f"agents/{agent}/agent.toml", "")
    letter = "<arguments><letter to='{$x/@by}'/></arguments>"
    place(first, "a", calling("w.b", second, recipe("a", "x recipe:w.b", f"send m.send {letter}")))
    again = recipe("b", "y recipe:w.c", "x recipe:w.b")  # a circle, in which answers are made of answers
    place(second, "b", calling("w.c", third, calling("w.b", second, again)))
    place(third, "c", calling("w.a", first, recipe("c", "a recipe:w.a", "z m.read")))
    assert told(tmp_path).parts("w.a", "send")["letter/@to"].all == {"mail"}


def test_F9_the_home_that_ships_is_told_of_and_every_definition_has_a_flow() -> None:
    home = Told(shipped())
    kinds = {definition.kind for definition in home.reach.definitions}
    assert kinds == {"recipe", "automaton", "process", "work", "task", "dataflow"}


def test_F9_the_assistant_answers_whoever_wrote(tmp_path: Path) -> None:
    for name in ("mail.xml", "digest.page.xsl"):
        write(tmp_path, f"recipes/{name}", (shipped() / "recipes" / name).read_text())
    parts = told(tmp_path).parts("mail.triage", "send")
    assert parts["mail/@to"].all == {"mail"}
    assert parts["mail/@auto"].all == frozenset()
    assert parts["outbox"].all == frozenset()


# --- rules --------------------------------------------------------------------------------------------------

ANSWER = recipe(
    "answer", "a m.nothing", "reply m.reply", "send m.send", ways=taking("a", "reply", "mail")
)  # fmt: skip
RULES = """
[[rule]]
from = ["mail"]
action = ["m.send"]
to = "letter[@to=$from/@from]"
then = "allow"

[[rule]]
from = ["*"]
part = "where"
then = "ask"
why = "a stranger would say where it goes"

[[rule]]
from = ["*"]
then = "allow"
"""


def test_F9_rules_say_what_becomes_of_each_label_and_on_what_that_depends(tmp_path: Path) -> None:
    write(tmp_path, "etc/trust.toml", RULES)
    call = told(tmp_path, READS, ANSWER).prospect("w.answer", "send")
    assert (call.prospect, outlook(call)) == ("depends", "depends on what it says")
    assert [line.text for line in lines_of_call(call)] == [
        "m.send at send (line 1): depends on what it says",
        "letter/@to (where it goes) can come from a stranger's mail (mail): allowed by the rule on line 2 if "
        "`letter[@to=$from/@from]` fits; else asks by the rule on line 8, a stranger would say where it goes",
        "letter can come from a stranger's mail (mail): allowed by the rule on line 14",
        "that it is called can be decided by a stranger's mail (mail): allowed by the rule on line 14",
    ]


def test_F9_a_rule_that_allows_first_is_told_though_the_last_allows_too(tmp_path: Path) -> None:
    rules = RULES.replace('part = "where"\n', 'part = "where"\nholds = "text"\n')
    write(tmp_path, "etc/trust.toml", rules)
    call = told(tmp_path, READS, ANSWER).prospect("w.answer", "send")
    assert [line.text for line in lines_of_call(call)][1] == (
        "letter/@to (where it goes) can come from a stranger's mail (mail): allowed by the rule on line 2 if "
        "`letter[@to=$from/@from]` fits; else asks by the rule on line 8 if it holds words of its own; "
        "else allowed by the rule on line 15"
    )


def test_F9_without_rules_an_answer_of_a_model_asks(tmp_path: Path) -> None:
    prompt, letter = "<arguments><prompt/></arguments>", "<arguments><letter/></arguments>"
    home = told(tmp_path, READS, recipe("r", f"ask m.ask {prompt}", f"send m.send {letter}"), ANSWER)
    assert home.prospect("w.r", "send").prospect == "asks"
    assert outlook(home.prospect("w.answer", "send")) == "depends on memory"


def test_F9_a_call_that_rules_refuse_is_a_warning_of_the_check(tmp_path: Path) -> None:
    write(tmp_path, "etc/trust.toml", '[[rule]]\nfrom = ["mail"]\npart = "where"\nthen = "refuse"\n')
    told(tmp_path, READS, ANSWER)
    (warning,) = (fault for fault in check_home(Home(tmp_path)) if "refused" in fault.message)
    assert warning.warning
    assert str(warning) == (
        "recipes/w1.xml:1:1: warning: 'send': m.send is refused by the rule on line 1 of "
        "etc/trust.toml where a stranger's mail (mail) is in letter/@to: narval check --trust w.answer"
    )


def test_F9_a_rule_is_warned_of_once_for_each_definition_whose_calls_it_refuses(tmp_path: Path) -> None:
    secret = "[secret]\nhealth = 'letter'\n\n[[rule]]\nsecret = 'health'\nthen = 'refuse'\n"
    write(tmp_path, "etc/trust.toml", secret)
    letter = "<arguments><letter/></arguments>"
    told(
        tmp_path,
        recipe("a", *(f"s{at} m.post {letter}" for at in range(4))),
        recipe("b", f"s m.post {letter}"),
    )
    warned = [fault for fault in check_home(Home(tmp_path)) if "refused" in fault.message]
    assert [str(warning) for warning in warned] == [
        "recipes/w0.xml:1:1: warning: 's0': m.post is refused by the rule on line 4 of etc/trust.toml where "
        "what is secret (secret:health) is in letter, and at 3 more places: narval check --trust w.a",
        "recipes/w1.xml:1:1: warning: 's': m.post is refused by the rule on line 4 of etc/trust.toml where "
        "what is secret (secret:health) is in letter: narval check --trust w.b",
    ]


def test_F9_the_way_of_a_label_is_told_from_where_it_comes_in(tmp_path: Path) -> None:
    home = told(tmp_path, READS, ANSWER)
    part = home.parts("w.answer", "send")["letter/@to"]
    assert [(step.words, step.definition, step.part) for step in home.reach.way(part, "mail")] == [
        ("the mail that m.read gives", "w.reads", "read"),
        ("@to of the letter that m.reply gives", "w.answer", "reply"),
    ]
    assert home.reach.way(part, "feed") == []


def test_the_way_of_a_secret_says_what_makes_it_one(tmp_path: Path) -> None:
    write(tmp_path, "etc/narval.toml", f'[callers.shop]\nsha256 = "{"0" * 64}"\n')
    write(tmp_path, "etc/trust.toml", "[secret]\nhealth = \"note[@topic='health']\"\n")
    letter = "<arguments><letter>{$n}</letter></arguments>"
    search = recipe("s", "b m.nothing", f"send m.send {letter}", ways=taking("b", "send", "note", "n"))
    home = told(tmp_path, recipe("r", "send m.send"), search)
    first = [
        home.reach.way(home.parts(name, "send")[part], "secret:health")[0].words
        for name, part in (("w.r", "letter/@to"), ("w.s", "letter/text()"))
    ]
    assert first == [
        "what the caller shop gives, if it fits `note[@topic='health']`",
        "what is in memory and fits `note[@topic='health']`",
    ]


def test_F9_no_rule_is_needed_to_tell_of_a_home_without_definitions(tmp_path: Path) -> None:
    assert ReachSources(rules=Rules()).reach.definitions == []
