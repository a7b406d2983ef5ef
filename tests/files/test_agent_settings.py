"""The settings of agents: `agent.toml`, read whole, each fault at its place (G3)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from narval.core.source.text import Source
from narval.core.source.toml import TomlText
from narval.files.agents.settings import AGENT_READERS, AgentSettings, Receives, parse_agent_file
from narval.files.settings import Settings
from tests.examples import examples

SHOWN = "agents/ada/agent.toml"


def parsed(text: str) -> AgentSettings:
    said, faults = parse_agent_file(Source(SHOWN, text.encode()), ["office"])
    assert faults == []
    assert said is not None
    return AgentSettings().with_given(said)


def faults_in(text: str) -> list[str]:
    said, faults = parse_agent_file(Source(SHOWN, text.encode()), ["office"])
    assert said is None
    return [str(fault).removeprefix(f"{SHOWN}:") for fault in faults]


def test_G3_every_setting_is_read() -> None:
    assert parsed("""
        collections = ["home", "office", "own"]
        weight = 20
        timezone = "Europe/Paris"
        forget_after = "30d"
        idle_after = "5m"
        always_active = true
        keep = "1d"
        elements = 200_000
        bytes = "512M"
        runs = 50
        moments = 60
        calls = 4
        messages = 70
        element_bytes = 1000
        definitions = 80
        receives = [
          {from = "shop", elements = ["order"]},
          {from = "*", elements = ["note", "letter"]}]
        [offers]
        "mail.summary" = ["*"]
        "billing.invoice" = ["shop", "web"]
    """) == AgentSettings(
        collections=("home", "office", "own"),
        weight=20,
        timezone="Europe/Paris",
        forget_after=2592000.0,
        idle_after=300.0,
        always_active=True,
        keep=86400.0,
        elements=200_000,
        bytes=512 * 1024**2,
        runs=50,
        moments=60,
        calls=4,
        messages=70,
        element_bytes=1000,
        definitions=80,
        receives=(Receives("shop", ("order",)), Receives("*", ("note", "letter"))),
        offers={"mail.summary": ("*",), "billing.invoice": ("shop", "web")},
    )


def test_G3_each_setting_has_a_reader_and_each_reader_a_setting() -> None:
    assert set(AGENT_READERS) == {field.name for field in msgspec.structs.fields(AgentSettings)}


def test_G3_the_settings_of_the_home_count_where_an_agent_says_nothing() -> None:
    home = Settings(timezone="Europe/Paris", idle_after=5.0, forget_after=7.0)
    assert home.own == home.usual == AgentSettings(timezone="Europe/Paris", idle_after=5.0, forget_after=7.0)
    ada = home.usual.with_given({"forget_after": None, "weight": 3})
    assert (ada.timezone, ada.idle_after, ada.forget_after, ada.weight) == ("Europe/Paris", 5.0, None, 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name = 'ada'", "1:1: unknown setting 'name'"),
        ("wieght = 3", "1:1: unknown setting 'wieght'; did you mean 'weight'?"),
        ("weight = 0", "1:10: weight: expected a whole number from 1 to 100, found 0"),
        ("weight = true", "1:10: weight: expected a whole number from 1 to 100"),
        ("timezone = 'Mars/Olympus'", "1:12: timezone: expected the name of a time zone"),
        ("idle_after = ''", "1:14: idle_after: expected a "),
        ("always_active = 1", "1:17: always_active: expected true or false, found 1"),
        ("bytes = -1", "1:9: bytes: expected a number of bytes, or a text such as"),
        ("bytes = '1T'", "1:9: bytes: expected a text such as"),
        ("elements = 0", "1:12: elements: expected a whole number of 1 or more, found 0"),
        ("elements = 1e6", "1:12: elements: expected a whole number of 1 or more"),
        ("calls = 'many'", "1:9: calls: expected a whole number of 1 or more"),
        ("collections = 'home'", "1:15: collections: expected a list of collections"),
        ("collections = ['home',\n '../etc']", "2:2: collections: expected the name of a collection"),
        ("collections = ['own', 'ofice']", "1:23: collections: expected a collection that is there (coll"),
        ("collections = ['own', 'home', 'own']", "1:31: collections: expected each collection once"),
        ("receives = ['shop']", "1:13: receives: expected an agent and names of elements, such as {from"),
        ("receives = [{from = 'shop'}]", "1:13: receives: expected an agent and names of elements"),
        ("receives = [{from = 'Shop', elements = []}]", "1:21: receives: expected the name of an agent"),
        (
            "receives = [\n  {from = 'shop', elements = 'order'}]",
            "2:30: receives: expected a list of names of elements",
        ),
        ("offers = 3", "1:10: offers: expected a list of agents for each definition"),
        ("[offers]\n\n'billing.invoice' = 'shop'", "3:21: offers: expected a list of agents, such as"),
        ("[offers]\n'a.b' = ['shop', 'no one']", "2:18: offers: expected the name of an agent"),
        ("[offers", "1:8: not TOML: "),
    ],
)
def test_G3_a_fault_is_told_at_its_place(text: str, expected: str) -> None:
    (fault,) = faults_in(text)
    assert fault.startswith(expected)


def test_G3_all_faults_are_told_at_once() -> None:
    assert [fault.split(": ")[0] for fault in faults_in("weight = 0\nx = 1\n[offers]\na = 1")] == [
        "1:10",
        "2:1",
        "4:5",
    ]


KEYS = st.text(alphabet="ab_\"'. \\\nä=[]{}#", min_size=1, max_size=5)
VALUES = st.recursive(
    st.one_of(st.integers(), st.booleans(), st.text(alphabet="ab'\"\\#]},=\n", max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)


def written(value: Any) -> str:
    """A value as TOML has it, on one line or several."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(key)} = {written(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[ # ]\n" + "".join(f"  {written(inner)} ,\n" for inner in value) + "]"
    if isinstance(value, str):
        return quoted(value)
    return str(value).lower()


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def values_in(value: Any) -> list[tuple[tuple[str | int, ...], Any]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [((), value), *(((key, *at), found) for key, part in inner for at, found in values_in(part))]


@given(st.dictionaries(KEYS, VALUES, max_size=4), st.dictionaries(KEYS, VALUES, max_size=3))
@hypothesis_settings(max_examples=examples(150), deadline=None)
def test_each_value_of_a_text_has_its_place(table: dict[str, Any], inner: dict[str, Any]) -> None:
    table.pop("aa", None)
    lines = [f"{quoted(key)} = {written(value)}  # = [\n" for key, value in table.items()]
    lines += ["[ aa . bb ]\n", *(f"{quoted(key)} = {written(value)}\n" for key, value in inner.items())]
    text = "".join(lines)
    source = Source(SHOWN, text.encode())
    file = TomlText(source)
    starts = {source.place(offset): offset for offset in range(len(text))}
    for at, value in values_in(file.table):
        if (at and at[0] != "aa") or len(at) > 2:
            assert text[starts[file.value(*at)] :].startswith(written(value))


@given(st.one_of(st.binary(max_size=80), st.text(max_size=80)))
@hypothesis_settings(max_examples=examples(200), deadline=None)
def test_any_text_is_settings_or_faults(text: str | bytes) -> None:
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    said, faults = parse_agent_file(Source(SHOWN, data), [])
    assert (said is None) == bool(faults)
