"""Settings: `etc/narval.toml`, read whole, each fault at its place."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from narval.core.errors import Fault, SettingsError
from narval.core.source.text import Source
from narval.files.agents.settings import AGENT_READERS, AgentSettings
from narval.files.outside.cluster import CLUSTER_KEYS, ClusterSettings
from narval.files.outside.services import KINDS_OF_SERVICES
from narval.files.settings import COLUMNS, FILE, READERS, Settings, parse_settings, read_settings
from narval.files.toml import quoted
from tests.examples import examples
from tests.places import ROOT

TABLES = {"receives", "offers"}
"""The settings of agents that are lists and tables of rules."""


def parsed(text: str | bytes) -> Settings:
    settings, faults = parse_settings(
        Source(FILE, text.encode() if isinstance(text, str) else text), Path("/home")
    )
    assert faults == []
    assert settings is not None
    return settings


def faults_in(text: str | bytes) -> list[str]:
    settings, faults = parse_settings(Source(FILE, text.encode() if isinstance(text, str) else text))
    assert settings is None
    return [str(fault).removeprefix("etc/narval.toml:") for fault in faults]


def test_a_home_needs_no_settings(tmp_path: Path) -> None:
    assert Settings.load(tmp_path) == Settings()
    assert parsed("") == Settings()


def test_a_query_goes_on_where_some_settings_have_faults(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    file = tmp_path / FILE
    file.write_text('name = "clerk"\nbogus = 1\nthreads = "many"\n')
    assert Settings.for_query(tmp_path) == Settings(name="clerk")
    for text in ("name = [", "store = 3", 'name = "A B"\nbogus = 1'):
        file.write_text(text)
        with pytest.raises(SettingsError):
            Settings.for_query(tmp_path)


def test_every_setting_is_read() -> None:
    settings = parsed("""
        name = "clerk"
        timezone = "Europe/Paris"
        durability = "power"
        store = "postgresql+psycopg://narval@db.example.org/narval"
        call_timeout = "2m"
        threads = 3
        workers = 2
        cluster = "tls://head.example.org:8786"
        cluster_certificates = "etc/tls"
        cluster_workers = 3
        cluster_memory = "1G"
        cluster_resources = {GPU = 1}
        stop_grace = 0
        forget_after = "30d"
        work_kept = "90d"
        turn_limit = 50
        history_entries = 500
        run_depth = 20
        run_family = 300
        run_chain = 40
        traces = true
        xslt_folders = ["data/sheets", "/srv/sheets"]
        fetch_allow = ["wiki.example.org:80", "10.0.0.0/8"]
        log_level = "debug"
        [columns]
        email = ["subject"]
        letter = ["to"]
        [agent]
        weight = 20
    """)
    assert settings == Settings(
        name="clerk",
        timezone="Europe/Paris",
        durability="power",
        store="postgresql+psycopg://narval@db.example.org/narval",
        call_timeout=120.0,
        threads=3,
        workers=2,
        cluster=ClusterSettings(
            address="tls://head.example.org:8786",
            certificates="/home/etc/tls",
            workers=3,
            memory=1 << 30,
            resources=(("GPU", 1.0),),
        ),
        stop_grace=0.0,
        forget_after=2592000.0,
        work_kept=7776000.0,
        turn_limit=50,
        history_entries=500,
        run_depth=20,
        run_family=300,
        run_chain=40,
        traces=True,
        xslt_folders=("/home/data/sheets", "/srv/sheets"),
        fetch_allow=("wiki.example.org:80", "10.0.0.0/8"),
        log_level="debug",
        columns={**COLUMNS, "email": ("subject",), "letter": ("to",)},
        agent={"weight": 20},
    )


def test_each_setting_has_a_reader_and_each_reader_a_setting() -> None:
    fields = {field.name for field in msgspec.structs.fields(Settings)} - {"services", "cluster"}
    of_the_executor = {"worker_start", "worker_idle", "patience", "transform_memory"}
    assert set(READERS) == fields - of_the_executor | set(KINDS_OF_SERVICES) | set(CLUSTER_KEYS.values())


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("300", 300.0),
        ("0.5", 0.5),
        ('"300"', 300.0),
        ('"1.5 h"', 5400.0),
        ('"1d 12h"', 129600.0),
        ('"250ms"', 0.25),
        ('"1w"', 604800.0),
    ],
)
def test_durations_are_numbers_or_texts(value: str, seconds: float) -> None:
    assert parsed(f"stop_grace = {value}").stop_grace == seconds


@pytest.mark.parametrize(
    "value", ["true", "-1", "inf", "nan", "1e15", '"5x"', '"m"', '""', '"5m 3"', "[5]", '"-5m"']
)
def test_what_is_no_duration_is_refused(value: str) -> None:
    (fault,) = faults_in(f"name = 'x'\nstop_grace = {value}")
    assert fault.startswith("2:14: stop_grace: expected a number of seconds or a text such as ")


@pytest.mark.parametrize(("value", "size"), [("1K", 1024), ("512M", 512 * 1024**2), ("2G", 2 * 1024**3)])
def test_N33_a_size_is_a_number_with_its_unit(value: str, size: int) -> None:
    assert parsed(f"worker_memory = '{value}'").worker_memory == size


def test_an_empty_text_stands_for_nothing() -> None:
    settings = parsed('timezone = ""\nstore = ""\nforget_after = ""')
    assert (settings.timezone, settings.store, settings.forget_after) == (None, None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "name = 3",
            "1:8: name: expected the name of an agent, a lower-case letter and up to 62 more, digits",
        ),
        ("name = 'Ada'", "1:8: name: expected the name of an agent"),
        ("cluster = 'tcp://head:8786'", '1:11: cluster: expected "local", the address of a scheduler'),
        ("cluster = 'tls://head:8786'", "1:1: cluster: expected cluster_certificates beside it, a folder of"),
        ("cluster_resources = { GPU = 0 }", "1:21: cluster_resources: expected names with numbers"),
        (
            "call_timeout = 5\n\n[agent]\nweigth = 3",
            "4:1: unknown setting 'agent.weigth'; did you mean 'weight'?",
        ),
        ("[agent]\n\nweight = 0", "3:10: agent.weight: expected a whole number from 1 to 100, found 0"),
        ("agent = 3", "1:9: agent: expected a table, [agent], found 3"),
        ("[mail]\nfrom = 'a b'\nhost = 'x'", "2:8: mail.from: expected an address, such as"),
        ("[mail]\n\nfrom = 'a@b.org'", "1:2: expected from = "),
        (
            "[mail]\nfrom = 'a@b.org'\nhots = 'x'",
            "3:1: unknown setting 'mail.hots'; did you mean 'host'?",
        ),
        ("agent.weight = 101", "1:16: agent.weight: expected a whole number from 1 to 100, found 101"),
        ("\n\ndurability = 'paper'", "3:14: durability: expected crash or power, found 'paper'"),
        ("threads = 0", "1:11: threads: expected a whole number from 1 to 1,000,000, found 0"),
        ("threads = true", "1:11: threads: expected a whole number"),
        ("workers = 2.5", "1:11: workers: expected a whole number"),
        ("worker_memory = 512", '1:17: worker_memory: expected a text such as "512M" or "2G"'),
        ("worker_memory = '0M'", "1:17: worker_memory: expected a text such as"),
        ("log_level='loud'", "1:11: log_level: expected debug, info, warning or error, found 'loud'"),
        ("timezone = 'Mars/Olympus'", "1:12: timezone: expected the name of a time zone"),
        ("timezone = '../../etc/passwd'", "1:12: timezone: expected the name of a time zone"),
        ("store = 'narval.db'", "1:9: store: expected the URL of a database"),
        ("xslt_folders = 'x'", "1:16: xslt_folders: expected a list of folders"),
        ("fetch_allow = 'x'", "1:15: fetch_allow: expected a list of hosts, addresses or networks"),
        ("fetch_allow = ['http://x/']", "1:15: fetch_allow: expected hosts, addresses or networks, such as"),
        ("xslt_folders = [3]", "1:17: xslt_folders: expected folders"),
        ("nmae = 'x'", "1:1: unknown setting 'nmae'; did you mean 'name'?"),
        ("[site]\nport = 1", "1:2: unknown setting 'site'"),
        ("[web]\nport = 1", "2:1: unknown setting 'web.port'; there is 'edit', 'mcp'"),
        (
            "threads = 3\n#[agent]\n#weight = 10\nweight = 3",
            "4:1: unknown setting 'weight'; if it belongs to [agent], remove the # of line 2 too",
        ),
        (
            "[web]\nedit = true\n# [agent]\nweight = 3",
            "4:1: unknown setting 'web.weight'; if it belongs to [agent], remove the # of line 3 too",
        ),
        ("#[agent]\n[web]\nport = 1", "3:1: unknown setting 'web.port'; there is 'edit', 'mcp'"),
        ('"a b" = 1', "1:1: unknown setting 'a b'"),
        ("stop.grace = 1", "1:1: unknown setting 'stop'"),
    ],
)
def test_a_wrong_value_is_reported_at_its_place(text: str, expected: str) -> None:
    (fault,) = faults_in(text)
    assert fault.startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name = ", "1:8: not TOML: Invalid value"),
        (
            "# x\nname = 'x'\n\nname = 'y'\n[a]",
            "4:11: not TOML: name is given again; it is on line 2 already",
        ),
        ("[link]\nkey = [\n1]\nkey = 2", "4:8: not TOML: link.key is given again; it is on line 2 already"),
        (
            "[link]\nkey = 1\n\n[web]\n[link]\nca = 2",
            "5:6: not TOML: [link] is declared again; it is on line 1 already: go on there",
        ),
        ("web = {}\n[web]", "2:5: not TOML: [web] is declared again; it is on line 1 already: go on there"),
        ("[[a]]\n[a]", "2:3: not TOML: [a] is declared again; it is on line 1 already: go on there"),
        ("name = 'x", "1:10: not TOML: "),
        ("a = 1\na = 2", "2:"),
        ("= 1", "1:1: not TOML: "),
        (b"name = '\xe9'", "1:9: expected utf-8 text, found the byte 0xe9"),
        ("name = " + "[" * 3000, "1:1: values are nested too deep"),
    ],
)
def test_text_that_is_not_toml_is_reported_at_its_place(text: str | bytes, expected: str) -> None:
    (fault,) = faults_in(text)
    assert fault.startswith(expected)


def test_all_faults_are_reported_at_once_and_raised_together(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / FILE).write_text("threads = 0\nnmae = 'x'\nstop_grace = 'soon'\n")
    settings, faults = read_settings(tmp_path)
    assert settings is None
    assert [(fault.path, fault.line) for fault in faults] == [(FILE, 1), (FILE, 2), (FILE, 3)]
    with pytest.raises(SettingsError) as caught:
        Settings.load(tmp_path)
    assert str(caught.value).count("\n") == 2


def test_settings_that_cannot_be_read_are_a_fault(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir(parents=True)
    assert read_settings(tmp_path) == (
        None,
        [Fault(FILE, 1, 1, "expected a file, found a folder; move it away, or rename it")],
    )


def test_the_sample_shows_every_setting_with_its_default() -> None:
    text = (ROOT / FILE).read_text()
    assert parsed(text) == Settings(grants="ask"), "a new home asks"
    shown = [line.removeprefix("#") for line in text.splitlines() if re.match(r"#(\w+ = |\[\w+\])", line)]
    settings = parsed("\n".join(shown))
    of_the_machine = {name: getattr(settings, name) for name in ("threads", "workers")}
    cluster = ClusterSettings(workers=settings.cluster.workers)
    usual = Settings(**of_the_machine, cluster=cluster)
    without = msgspec.structs.replace(
        settings,
        agent=usual.agent,
        mail=None,
        sources={},
        hooks={},
        callers={},
        mcp=(),
        chats=(),
        services=(),
    )
    assert without == usual, "mail, sources, hooks, servers, chats and services have no default"
    assert settings.own == AgentSettings()
    assert set(settings.agent) == set(AGENT_READERS) - {"timezone", "forget_after", "idle_after"} - TABLES
    assert set(tomllib.loads("\n".join(shown))) == set(READERS)


@given(st.one_of(st.binary(max_size=80), st.text(max_size=80)))
@hypothesis_settings(max_examples=examples(200), deadline=None)
def test_any_text_is_settings_or_faults(text: str | bytes) -> None:
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    settings, faults = parse_settings(Source(FILE, data))
    assert (settings is None) == bool(faults)


@given(st.text())
def test_a_text_that_is_written_is_read_again(text: str) -> None:
    """JSON may write a character in halves, such as \\ud83d\\ude00, which TOML does not take."""
    assert tomllib.loads(f"key = {quoted(text)}") == {"key": text}
