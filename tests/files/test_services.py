"""Services: the tables of places outside, their faults, their secrets, and what actions get."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

import narval
from narval import ActionError
from narval.core.source.text import Source
from narval.files.outside.services import AnyService, WebService, service_at
from narval.files.settings import FILE, parse_settings
from tests.places import ROOT

ALL = """
[services.hub]
url = "https://api.example.org/v1"
auth = "header"
header = "X-Key"
secret = "hub"
[calendars]
home = { path = "calendars/home.ics" }
work = { url = "https://dav.example.org/me/", user = "me", secret = "dav", write = true, every = "5m" }
[models.local]
url = "http://127.0.0.1:11434/v1"
model = "m"
tokens = 1000
money = 0.5
asks = false
[mailboxes.work]
write = true
"""


def read(text: str) -> tuple[tuple[AnyService, ...], list[str]]:
    settings, faults = parse_settings(Source(FILE, text.encode()))
    return settings.services if settings else (), [str(fault).removeprefix(f"{FILE}:") for fault in faults]


def test_every_table_is_read() -> None:
    services, faults = read(ALL)
    assert faults == []
    assert [(service.table, service.name) for service in services] == [
        ("services", "hub"),
        ("calendars", "home"),
        ("calendars", "work"),
        ("models", "local"),
        ("mailboxes", "work"),
    ]
    work = service_at(services, "calendars", "work")
    assert (work.write, work.every, work.user) == (True, 300.0, "me")
    local = service_at(services, "models", "local")
    assert (local.tokens, local.money, local.asks) == (1000, 0.5, False)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[services.a]", 'services.a: expected url = "https://api.example.org"'),
        ("[models.a]\nurl = 'https://a.example'", "models.a: expected url ="),
        ("[calendars.a]\nurl = 'https://a.example'\npath = 'x'", "calendars.a: expected path ="),
        ("[services.a]\nurl = 'https://u:p@a.example'", "without a password"),
        ("[services.a]\nurl = 'ftp://a.example'", "an address of http or https"),
        ("[services.a]\nurl = 'https://'", "with a host"),
        ("[services.a]\nurl = 'https://a.example:99999'", "with a host"),
        ("[services.a]\nurl = 'http://a.example'\nsecret = 'x'", "https, since it is asked with a secret"),
        (
            "[services.a]\nurl = 'https://a.example'\nauth = 'bearer'",
            'secret = "NAME", since there is an auth',
        ),
        ("[services.a]\nurl = 'https://a.example'\nauth = 'basic'\nsecret = 'x'", 'user = "NAME"'),
        ("[services.a]\nurl = 'https://a.example'\nheader = 'X'", "together"),
        ("[services.a]\nurl = 'https://a.example'\nwrite = true", "unknown setting 'services.a.write'"),
        ("[mailboxes.a]\nwirte = true", "unknown setting 'mailboxes.a.wirte'; did you mean 'write'?"),
        ("services = 3", "expected tables, such as [services.home]"),
        ("[models.a]\nurl = 'https://a.example'\nmodel = 'm'\nmoney = -1", "a number of 0 or more"),
    ],
)
def test_a_fault_is_told_at_its_place(text: str, fault: str) -> None:
    services, faults = read(text)
    assert services == ()
    assert len(faults) == 1
    assert fault in faults[0]
    assert faults[0][0].isdigit()


def test_a_service_that_is_missing_is_told_with_the_lines_to_write() -> None:
    services, _ = read(ALL)
    with pytest.raises(ActionError) as missing:
        service_at(services, "calendars", "hoem")
    assert missing.value.kind == "no-such-service"
    assert missing.value.final
    assert "[calendars.hoem] in etc/narval.toml, where there is home, work; write one" in str(missing.value)


def test_credentials_are_of_the_form_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPEN", "sesame")
    plain = WebService(name="a", url="https://a.example", secret="OPEN")
    assert plain.credentials(tmp_path) == {"Authorization": "Bearer sesame"}
    basic = base64.b64encode(b"me:sesame").decode()
    told = WebService(name="a", url="https://a.example", secret="OPEN", user="me")
    assert told.credentials(tmp_path) == {"Authorization": f"Basic {basic}"}
    key = WebService(name="a", secret="OPEN", auth="header", header="X-Key")
    assert key.credentials(tmp_path) == {"X-Key": "sesame"}
    assert WebService(name="a").credentials(tmp_path) == {}


@pytest.mark.parametrize("name", ["nobody", "../etc/shadow", "", ".hidden", "a/b"])
def test_a_secret_that_is_none_is_told(tmp_path: Path, name: str) -> None:
    service = WebService(name="a", secret=name or "x/")
    with pytest.raises(ActionError, match=r"\[services.a\] in etc/narval.toml: ") as wrong:
        service.password(tmp_path)
    assert wrong.value.kind == "no-secret"


def test_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    file = tmp_path / "etc" / "token"
    file.write_text("s3cret\n")
    service = WebService(name="a", secret="token")
    os.chmod(file, 0o644)
    with pytest.raises(ActionError, match="chmod 600"):
        service.password(tmp_path)
    os.chmod(file, 0o600)
    assert service.password(tmp_path) == "s3cret"


ASKING = """
from narval import Input, Output, action, service
def told(name):
    found = service("services", name)
    return f"<told url='{found.url}' secret='{found.password(None)}'/>"
@action(inputs=[Input("what", "what[@name]", use=True)], outputs=[Output("told", "told")])
def in_thread(what): return told(what.attributes["name"])
@action(inputs=[Input("what", "what[@name]", use=True)], outputs=[Output("told", "told")], runs="worker")
def in_worker(what): return told(what.attributes["name"])
"""


@pytest.mark.parametrize("way", ["in_thread", "in_worker"])
def test_an_action_is_given_what_the_settings_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv("HUB", "sesame")
    for part in ("etc", "modules", "recipes", "data"):
        (tmp_path / part).mkdir()
    (tmp_path / "etc" / "narval.toml").write_text(
        '[services.hub]\nurl = "https://a.example"\nsecret = "HUB"\n'
    )
    (tmp_path / "data" / "memory.xml").write_text("<memory/>")
    (tmp_path / "modules" / "asking.py").write_text(ASKING)
    recipe = f"""<recipe group="g" name="r" start_step="a" end_step="a">
      <step id="a" type="action" target="asking.{way}"/></recipe>"""
    (tmp_path / "recipes" / "r.xml").write_text(recipe)
    with narval.open(tmp_path) as agent:
        agent.add("<what name='hub'/>")
        agent.start("g.r")
        agent.until_idle()
        (found,) = agent.memory("told")
        assert (found.attributes["url"], found.attributes["secret"]) == ("https://a.example", "sesame")
        agent.add("<what name='pub'/>")
        agent.start("g.r")
        agent.until_idle()
        (error,) = agent.memory("error[@type='no-such-service']")
        assert "[services.pub]" in error.text


def test_the_sample_of_settings_shows_what_can_be_read() -> None:
    sample = (ROOT / FILE).read_text("utf-8")
    lines = sample[sample.index("#[services]") : sample.index("# The attributes that tables")].splitlines()
    text = "\n".join(line.removeprefix("#") for line in lines if not line.startswith("# "))
    services, faults = read(text)
    assert faults == []
    assert {service.table for service in services} == {
        "services",
        "calendars",
        "models",
        "mailboxes",
        "commands",
    }
