"""`etc/trust.toml`: what it says, and every fault of it at its place (F6)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import narval
from narval.core.errors import SettingsError
from narval.core.patterns.pattern import compile_pattern
from narval.core.source.text import Source
from narval.core.trust.rules import Rule, Rules
from narval.files.check import check_home
from narval.files.home import Home
from narval.files.trust_file import load_trust, parse_trust, read_trust

FILE = """\
# who may be written to
[secret]
health = "note[@topic='health'] | lab-result"

[known]
people = "contact/@mail"

[[rule]]
from = "mail"
part = "where"
action = ["mail.send", "mail.*"]
recipe = "assistant.*"
to = "email[@to=$from/@from or @to=$known.people]"
then = "allow"
why = "it answers   whoever wrote"

[[rule]]
from = ["model:*", "hook:shop"]
secret = "health"
holds = ["link", "account"]
then = "ask"
"""


def parse(text: str) -> tuple[Rules | None, list[str]]:
    rules, faults = parse_trust(Source("etc/trust.toml", text.encode()))
    return rules, [f"{fault.line}:{fault.column}: {fault.message}" for fault in faults]


def test_F6_a_file_is_its_rules_in_order_its_secrets_and_what_is_known() -> None:
    rules, faults = parse(FILE)
    assert faults == []
    assert rules == Rules(
        (
            Rule(
                "allow",
                ("mail",),
                (),
                "where",
                ("mail.send", "mail.*"),
                ("assistant.*",),
                compile_pattern("email[@to=$from/@from or @to=$known.people]"),
                (),
                "it answers whoever wrote",
                line=8,
            ),
            Rule("ask", ("model:*", "hook:shop"), ("health",), holds=("link", "account"), line=17),
        ),
        (("health", compile_pattern("note[@topic='health'] | lab-result")),),
        {"people": compile_pattern("contact/@mail")},
    )


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("rules = 1\n", ["1:1: unknown setting 'rules'; did you mean 'rule'?"]),
        ("[rule]\nthen = 'ask'\n", ["1:2: rule: expected tables, each begun by [[rule]]"]),
        ("secret = 'x'\n", ["1:10: secret: expected a table, [secret], found 'x'"]),
        (
            "[[rule]]\nform = 'mail'\nthen = 'ask'\n",
            [
                '1:3: a rule needs from or secret, the labels that it is about, such as from = "mail"',
                "2:1: unknown setting 'rule.form'; did you mean 'from'?",
            ],
        ),
        ("[[rule]]\nfrom = 'mail'\n", ['1:3: a rule needs then, such as then = "ask"']),
        (
            "[[rule]]\nfrom = ['mail', 'a b', 3]\nthen = 'perhaps'\npart = 1\n",
            [
                '2:17: rule.from: expected labels such as "mail", "hook:shop", "model:*" or "*", found',
                '2:24: rule.from: expected labels such as "mail", "hook:shop", "model:*" or "*", found 3',
                "3:8: rule.then: expected allow, ask or refuse, found 'perhaps'",
                "4:8: rule.part: expected any, where, what or whether, found 1",
            ],
        ),
        (
            "[[rule]]\nfrom = 'secret:x'\nthen = 'ask'\n",
            ['2:8: rule.from: expected labels such as "mail", "hook:shop", "model:*" or "*", found'],
        ),
        (
            "[[rule]]\nfrom = []\nthen = 'ask'\n",
            ['2:8: rule.from: expected labels such as "mail", "hook:shop", "model:*" or "*", found []'],
        ),
        (
            "[secret]\nhealth = 'note'\n[[rule]]\nsecret = ['helth']\nthen = 'ask'\n",
            ["4:11: [secret] has no 'helth'; did you mean 'health'?"],
        ),
        (
            "[[rule]]\nfrom = 'mail'\nto = 'email[@to=$form/@from]'\nthen = 'ask'\n",
            ["3:6: rule.to: expected no variable $form (there are $from), found "],
        ),
        (
            "[known]\npeople = 'contact[@of=$x]'\n",
            ["2:10: known.people: expected no variable $x (none is there), found "],
        ),
        (
            "[[rule]]\nfrom = 'mail'\nto = 'email[@to='\nthen = 'ask'\n",
            ["3:6: rule.to: expected an XPath that narval can try (expected an expr"],
        ),
        (
            "[[rule]]\nfrom = 'mail'\nholds = 'phone'\nwhy = ' '\nthen = 'ask'\naction = 'a*b'\n",
            [
                "3:9: rule.holds: expected text, link, address or account, found 'phone'",
                "4:7: rule.why: expected a text, found ' '",
                '6:10: rule.action: expected names such as "mail.send" or "mail.*", found \'a*b\'',
            ],
        ),
        ("[known]\n'Big Name' = 'x'\n", ["2:1: expected a name of a to z, digits and -, at most 32"]),
        ("[[rule]\n", ["1:7: not TOML: "]),
        (
            "[[rule]]\nfrom = 'mail'\nthen = 'ask'\n" * 1001,
            ["3001:3: expected at most 1,000 rules, found 1,001"],
        ),
    ],
)
def test_every_fault_has_its_place_and_what_was_expected(text: str, faults: list[str]) -> None:
    rules, found = parse(text)
    assert rules is None
    assert [one[: len(expected)] for one, expected in zip(found, faults, strict=True)] == faults


@given(st.text(alphabet="[]rule={}'\"\n=frommailthentoaskwhy $*.1", max_size=80))
def test_whatever_stands_there_is_rules_or_faults(text: str) -> None:
    rules, faults = parse(text)
    assert (rules is None) == bool(faults)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2)
        ),
        max_leaves=4,
    )
)
def test_a_value_of_any_kind_is_a_fault_at_its_place(value: object) -> None:
    text = _toml(value)
    for key in ("from", "secret", "part", "action", "recipe", "to", "holds", "then", "why"):
        rules, faults = parse(f"[[rule]]\n{key} = {text}\n")
        assert (rules is None) == bool(faults)


def _toml(value: object) -> str:
    match value:
        case None:
            return "1979-05-27"
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case str():
            return '"' + "".join(f"\\U{ord(one):08X}" if one.isprintable() else "" for one in value) + '"'
        case list():
            return f"[{', '.join(map(_toml, value))}]"
        case dict():
            return "{" + ", ".join(f'"{key}" = {_toml(inner)}' for key, inner in value.items()) + "}"
    raise AssertionError(value)


def test_a_home_without_the_file_has_no_rules_and_one_that_cannot_be_read_does_not_start(
    tmp_path: Path,
) -> None:
    assert read_trust(tmp_path) == (None, []) == read_trust(None)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "trust.toml").write_text("")
    assert load_trust(tmp_path) == Rules()
    (tmp_path / "etc" / "trust.toml").write_bytes(b"\xff")
    with pytest.raises(SettingsError, match=r"etc/trust.toml:1:1: expected utf-8 text"):
        load_trust(tmp_path)
    (tmp_path / "etc" / "trust.toml").unlink()
    (tmp_path / "etc" / "trust.toml").mkdir()
    with pytest.raises(SettingsError, match=r"etc/trust.toml:1:1: expected a file, found a folder"):
        load_trust(tmp_path)


def test_check_warns_of_rules_about_what_is_not_there_and_where_nobody_can_be_asked(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "trust.toml").write_text(
        "[[rule]]\nfrom = '*'\naction = ['mial.send', 'program:make']\nrecipe = 'w.*'\nthen = 'ask'\n"
    )
    faults = [str(fault) for fault in check_home(Home(tmp_path))]
    assert faults == [
        "etc/trust.toml:1:1: warning: rule: there is no action 'mial.send' here",
        "etc/trust.toml:1:1: warning: rule: there is no definition 'w.*' here",
        "etc/trust.toml:1:1: warning: rule: there is no work trust.ask, so no call is made about which this "
        "asks; take what ships: narval take recipes/trust.xml",
    ]


def test_check_warns_of_a_label_that_nothing_in_the_home_gives(tmp_path: Path) -> None:
    for part in ("etc", "modules"):
        (tmp_path / part).mkdir()
    (tmp_path / "etc/narval.toml").write_text(
        '[models.near]\nurl = "http://127.0.0.1:1/v1"\nmodel = "x"\n[hooks.shop]\nsha256 = "'
        + "0" * 64
        + '"\nelement = "order"\n'
    )
    (tmp_path / "modules/m.py").write_text(
        "from narval import action\n@action(label='bank')\ndef look(): pass\n"
    )
    labels = ["mail", "bank", "model:near", "model:*", "hook:*", "*", "mial", "model:neer", "hook:shup"]
    (tmp_path / "etc/trust.toml").write_text(f"[[rule]]\nfrom = {labels}\nthen = 'allow'\n")
    warnings = [str(fault) for fault in check_home(Home(tmp_path)) if "the label" in str(fault)]
    assert sorted(re.findall(r"'(\S+?)'", line) for line in warnings) == [
        ["hook:shup", "hook:shop"],
        ["mial", "mail"],
        ["model:neer", "model:near"],
    ]


@pytest.mark.parametrize("name", ["trust", "people", "narval"])
def test_what_a_file_that_is_away_says_counts_until_it_is_back_or_empty(tmp_path: Path, name: str) -> None:
    texts = {"trust": FILE, "people": "[people.ann]\n", "narval": 'grants = "ask"\n'}
    (tmp_path / "etc").mkdir()
    for file, content in texts.items():
        (tmp_path / f"etc/{file}.toml").write_text(content)
    path = tmp_path / f"etc/{name}.toml"
    with narval.open(tmp_path, by="ann") as agent:
        text = path.read_text()
        before = agent.daemon.files.snapshot.own_state[1:]
        path.unlink()
        (fault,) = agent.ask("reload")["faults"]
        assert (fault["path"], fault["message"][:16]) == (f"etc/{name}.toml", "the file is gone")
        assert agent.daemon.files.snapshot.own_state[1:] == before
        assert agent.ask("reload")["faults"] == [fault], "it is said as long as it is so"
        assert fault["path"] in str(agent.ask("attention"))
        path.write_text(text)
        assert agent.ask("reload")["faults"] == []
        path.write_text("")
        assert agent.ask("reload")["faults"] == []
        assert agent.daemon.files.snapshot.own_state[1:] != before
