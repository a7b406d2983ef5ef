"""A home in which people are asked about purchases."""

from __future__ import annotations

from pathlib import Path

PURCHASE = """<cookbook group="purchase">
<work name="approve"><title>Approve {$request/@what}</title>
<input id="request"><match>request</match></input>
<for roles="approver"/><outcome name="approve"/><outcome name="reject"/><deadline after="5d"/></work>
<recipe name="buy" start_step="ask" end_step="z">
<step id="ask" type="work" target="purchase.approve"/>
<step id="z" type="action" target="m.buy"/><step id="late" type="action" target="m.buy"/>
<transition id="t"><in idref="ask"/><out idref="z"/>
<condition><match>decision[@outcome='approve']</match></condition></transition>
<transition id="e"><in idref="ask" on-error="yes"/><out idref="late"/></transition>
<transition id="e2"><in idref="late"/><out idref="z"/></transition>
</recipe></cookbook>
"""

MODULE = """
from narval import action

@action(runs="inline")
def buy(): pass

@action(runs="inline")
def fails(): raise ValueError("sold out")
"""


def home_with(place: Path, recipes: str) -> Path:
    """A home with these recipes, and one approver."""
    for part in ("etc", "recipes", "modules", "data"):
        (place / part).mkdir(parents=True)
    (place / "recipes" / "purchase.xml").write_text(recipes)
    (place / "modules" / "m.py").write_text(MODULE)
    (place / "etc" / "people.toml").write_text('[people.ann]\nroles = ["approver"]\n[people.ben]\n')
    return place
