"""A cluster whose package is missing: looked for when something asks for it, and never in between."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

import narval
from narval.calls.cluster import connection as connections
from narval.calls.cluster.connection import ClusterConnection
from narval.files.outside.cluster import LOCAL_CLUSTER, ClusterSettings
from tests.acceptance.home import make
from tests.surfaces.http.fake_time import run

FAR = """from narval import action

@action(runs="cluster")
def factors(): return None
"""
RECIPE = """<recipe group="w" name="factors" start_step="a" end_step="a">
<step id="a" type="action" target="w.factors"/></recipe>"""


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The packages that were looked for, in vain."""
    looks = list[str]()

    def look(package: str) -> bool:
        looks.append(package)
        return False

    monkeypatch.setattr(connections, "is_installed", look)
    return looks


class Silent:
    """A listener that is told that there is no cluster."""

    def away(self, why: str) -> None:
        pass


def test_a_missing_package_is_not_looked_for_by_the_clock(looks: list[str]) -> None:
    async def wait() -> None:
        cluster = ClusterConnection(
            cast(Any, None), ClusterSettings(address=LOCAL_CLUSTER), cast(Any, Silent())
        )
        cluster.open()
        await asyncio.sleep(600)

    run(wait())
    assert looks == ["distributed"]


def test_the_next_call_and_a_reload_look_for_it_again(tmp_path: Path, looks: list[str]) -> None:
    home = make(tmp_path / "home", settings='cluster = "local"\n', module=FAR, recipes=RECIPE).home
    with narval.open(home) as agent:
        first = agent.start("w.factors")
        agent.until_idle()
        assert len(looks) == 1
        why = str(agent.ask("why", run=first))
        assert "expected the package distributed; install it, then narval reload: pip install" in why
        agent.ask("reload")
        assert len(looks) == 2
        agent.start("w.factors")
        agent.until_idle()
        assert len(looks) == 3
