"""A redirect leads only to hosts that were granted, where a home asks for grants."""

from __future__ import annotations

from pathlib import Path

import pytest

import narval
from tests.ask.test_grants import ASKS, written
from tests.local_site import Answer, local_site

PLAN = """PLAN P { OUTPUT: TupleStream out; BODY { fetch("URL" : out) } }"""
BY_PLAN = """<recipe group="w" name="go" start_step="s" end_step="s">
  <step id="s" type="dataflow" target="far.P"/></recipe>"""
BY_ACTION = """<recipe group="w" name="go" start_step="s" end_step="s">
  <step id="s" type="action" target="http.request">
    <arguments><request url="URL"/></arguments></step></recipe>"""


@pytest.mark.parametrize("recipe", [BY_PLAN, BY_ACTION], ids=["dataflow", "action"])
@pytest.mark.parametrize(
    ("asks", "more", "is_followed"),
    [("", "", True), (ASKS, "", False), (ASKS, '"host PLACE"', True)],
    ids=["asks nothing", "asks", "granted as well"],
)
def test_a_redirect_leads_only_where_it_was_granted(
    tmp_path: Path, recipe: str, asks: str, more: str, is_followed: bool
) -> None:
    with local_site() as site, local_site() as other:
        site.put("/", Answer(b"", 302, {"Location": "/here"}))
        site.put("/here", Answer(b"", 302, {"Location": f"{other.url}/"}))
        other.put("/", "far")
        url = f"{site.url}/"
        written(
            tmp_path,
            {
                "etc/narval.toml": f'{asks}fetch_allow = ["127.0.0.1"]\n',
                "recipes/far.plan": PLAN.replace("URL", url),
                "recipes/w.xml": recipe.replace("URL", url),
            },
        )
        with narval.open(tmp_path) as agent:
            if asks:
                agent.ask("grant", name="w.go")
                grants = tmp_path / "etc/grants.toml"
                text = grants.read_text()
                assert text.count(f'"host {site.place}"') == 1
                if more:
                    also = f'"host {site.place}", {more.replace("PLACE", other.place)}'
                    grants.write_text(text.replace(f'"host {site.place}"', also))
                    agent.ask("reload")
            agent.start("w.go")
            agent.until_idle()
            errors = [(error.attributes["type"], error.text) for error in agent.memory("error[@step]")]
        assert (len(other.asked), [type for type, _ in errors]) == (
            (1, []) if is_followed else (0, ["not-granted"])
        )
        assert is_followed or f"127.0.0.1 redirects to {other.place}, which is not granted" in errors[0][1]
