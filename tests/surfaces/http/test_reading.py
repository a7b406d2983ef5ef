"""The pages with a real daemon: looking alters nothing, opens no file, shows no secret (M70, M72, M75)."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from narval.core import errors
from narval.files.home import Home
from narval.surfaces.cli.daemon.serving import pages
from narval.surfaces.http.page import EVERYBODY, Shown, Visit, page
from narval.surfaces.http.place import WebPlace
from narval.surfaces.http.sessions import FOLDER, Sessions
from narval.surfaces.web import site as sites
from tests.surfaces.cli.command_line import NAME, daemon, data, make_home, well
from tests.surfaces.http.doors import HOME, PLACE
from tests.surfaces.http.served_pages import ALIKE, form_of

SECRET = "hunter2-sentinel"

refused: list[str] = []


@page("/a/{agent}/bug", roles=EVERYBODY)
async def bug(visit: Visit) -> Shown:
    """Try all that a page which is looked at should never do."""
    for ask in (visit.ask, visit.act):
        for method, given in (("add", {"elements": ["<oops/>"]}), ("stop", {}), ("cancel", {"run": 1})):
            try:
                await ask(method, **given)
            except Exception as error:
                refused.append(str(error))
    await visit.act("add", elements=["<oops/>"])
    return Shown("error.html", {})


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = make_home(tmp_path / "home")
    with daemon(home):
        yield home


def browser(home: Path, person: str = "") -> TestClient:
    """A browser at the pages of a home, logged in as the owner."""
    folder = Home(home).var / FOLDER
    sessions = Sessions(folder)
    application = pages(Home(home), folder, WebPlace(PLACE.port), sessions)
    found = TestClient(application, base_url=HOME, raise_server_exceptions=False, headers={"origin": HOME})
    found.__enter__()
    owner = person or data(home, "people")[0]["person"]
    found.post("/login", data={"token": sessions.new_link(owner)}, follow_redirects=False)
    return found


def crawled(found: TestClient, start: str) -> dict[str, str]:
    """All pages that links lead to, with their data."""
    seen: dict[str, str] = {}
    forms: Counter[str] = Counter()
    waiting = [start]
    while waiting and len(seen) < 150:
        path = waiting.pop(0)
        if path in seen or path.endswith("/live") or forms[form_of(path)] >= ALIKE:
            continue
        forms[form_of(path)] += 1
        answer = found.get(path)
        seen[path] = answer.text
        if answer.headers["content-type"].startswith("text/html"):
            links = re.findall(r'(?:href|src|action)="(/[^"#]*)', answer.text)
            waiting += [link.replace("&amp;", "&") for link in links]
            waiting.append(f"{path.partition('?')[0]}.json")
    return seen


def test_M70_a_page_that_is_looked_at_cannot_alter_anything(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narval.surfaces.cli.daemon.serving.PAGES", (*sites.PAGES, bug))
    refused.clear()
    agent = data(home, "agents")[0]["name"]
    before: Any = data(home, "memory", "--limit", "all")
    found = browser(home)
    answer = found.get(f"/a/{agent}/bug")
    assert answer.status_code >= 400
    assert len(refused) == 6
    assert all("read" in one or "limited" in one or "scope" in one for one in refused), refused
    assert data(home, "memory", "--limit", "all") == before
    assert data(home, "status")["state"] == "running"
    found.__exit__()


@page("/a/{agent}/raises/{name}", roles=EVERYBODY)
async def raises(visit: Visit) -> Shown:
    """Fail by the class of an error, always in the same words."""
    raise getattr(errors, visit.path["name"])("there is no room")


def test_the_status_of_an_error_follows_its_class_not_its_words(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narval.surfaces.cli.daemon.serving.PAGES", (*sites.PAGES, raises))
    found = browser(home)
    wanted = {"NotFoundError": 404, "RequestError": 400, "InternalError": 500}
    assert {name: found.get(f"/a/narval/raises/{name}").status_code for name in wanted} == wanted
    found.__exit__()


_OPENED: list[str] = []
_WATCHING: list[bool] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _WATCHING and event == "open" and isinstance(arguments[0], str | bytes):
        _OPENED.append(str(arguments[0]))


def test_M72_a_crawl_opens_no_file_but_its_own_and_shows_no_secret(home: Path) -> None:
    (home / "etc" / "narval.toml").write_text(f"# {SECRET}\n")
    well(home, "start", "demo.greet", "-", "--wait", given=NAME)
    agent = data(home, "agents")[0]["name"]
    found = browser(home)
    sys.addaudithook(_audit)
    _WATCHING.append(True)
    try:
        seen = crawled(found, f"/a/{agent}/")
        for odd in ("/static/x/..%2f..%2f..%2fetc%2fpasswd", "/a/..%2f..%2fetc/", f"/a/{agent}/runs/%2e%2e"):
            found.get(odd)
    finally:
        _WATCHING.clear()
    assert len(seen) > 10
    package, own = Path(sites.__file__).parent, Home(home).var / FOLDER
    allowed = (
        str(package),
        str(own),
        "/dev/null",
        *sys.path[1:],
        sys.prefix,
        sys.base_prefix,
        "/usr/share/zoneinfo",
    )
    strange = [path for path in _OPENED if path.startswith("/") and not path.startswith(allowed)]
    assert [path for path in strange if not path.startswith(("/proc/", "/sys/"))] == []
    secrets = (SECRET, (own / "sessions.json").read_text())
    for path, text in seen.items():
        assert not any(secret in text for secret in secrets), path
    found.__exit__()
