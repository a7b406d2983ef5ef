"""A home full of hostile texts, in every place that a text of a page can come from (M71)."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from tests.surfaces.cli.command_line import data, make_home, narval, well

HIT = "pwned"
"""The name that a script of ours sets in the browser; no page has it."""

MARKUP = (
    f"""\"'></title></textarea></pre><script>{HIT}=1</script><img src=//evil.example/x onerror={HIT}=1>"""
)
SVG = f"]]></text></svg><svg/onload={HIT}=1><math href='javascript:{HIT}=1'>"
TEMPLATE = "{{ 7*191 }}{% raw %}{{ ''.__class__ }}${7*191}#{7*191}"
LINK = f"javascript:{HIT}=1"
TURNED = "a\u202egnp.exe\u2066\u200b\u200d\ufeff\u2028\xad\u061c\u3164z"

TEXTS = (MARKUP, SVG, TEMPLATE, LINK, TURNED)
NAMES = (
    f"\"'><script>{HIT}=1<script>",
    f"javascript:{HIT}=1",
    "{{7*191}}{%raw%}",
    "".join(TURNED.split("\u2028")).replace(".", ""),
    *("?q=1", "#top", "50%", "%2e%2e", "live", "a\\b", "&amp;"),
)
"""Names that definitions can have."""

IDS = (
    *NAMES,
    f"]]></text></svg><svg/onload={HIT}=1>",
    *("..", ".", "a/b", "x.json", "x/live", "//evil.example"),
)
"""Ids that steps and states can have."""

NODES = (MARKUP.replace("evil.example/x", "e"), SVG, TEMPLATE, LINK, "..", "a/b", "x.json", "live", "a>b")
"""Names that nodes and arcs of a process can have."""
HOOK_TOKEN = "f00dfeedf00dfeed"

MODULE = f"""
import logging
from narval import ActionError, Input, action

log = logging.getLogger("narval.hostile")
TEXTS = {TEXTS!r}
logging.addLevelName(35, TEXTS[0])


@action(runs="inline", description={MARKUP!r})
def nothing():
    for text in TEXTS:
        log.warning("%s", text)
        logging.getLogger("narval." + text).info("%s\\r\\nSet-Cookie: a=b\\x1b[2J\\x00\\ud800", text)
    log.log(25, "of an odd level")
    log.log(35, "of an odder level")


@action(runs="inline", inputs=[Input("one", "hostile")])
def give(one):
    return f"<given>{{one.text}}</given>"


@action(runs="inline", description="Fails.")
def fail():
    raise ActionError("\\n".join(TEXTS) + "\\x1b[31m\\x00\\ud800" + "long " * 2000, TEXTS[0])


@action(runs="inline", description="Fails oddly.")
def odd():
    raise type(TEXTS[1], (Exception,), {{}})(TEXTS[2])
"""


def cookbook() -> str:
    """Recipes whose names, steps, transitions and conditions are hostile."""
    steps = IDS
    listed = "".join(f'<step id={attr(text)} type="action" target="talk.nothing"/>' for text in steps)
    ways = "".join(
        f"<transition id={attr('t' + one)}><in idref={attr(one)}/><out idref={attr(two)}/></transition>"
        for one, two in pairwise(steps)
    )
    waits = (
        f'<transition id="waits"><in idref={attr(steps[-1])}/><out idref="end"/>'
        f"<condition><match>{escape(f'hostile[@x={xpath(MARKUP)} and @never=1]')}</match></condition>"
        "</transition>"
    )
    recipes = [
        f'<recipe group="evil" name="steps" start_step={attr(steps[0])} end_step="end"><description>'
        f'{escape(MARKUP)}</description>{listed}<step id="end" type="action" target="talk.nothing"/>'
        f"{ways}{waits}</recipe>",
        '<recipe group="evil" name="fail" start_step="s" end_step="s">'
        '<step id="s" type="action" target="talk.fail"/></recipe>',
        '<recipe group="evil" name="odd" start_step="s" end_step="s">'
        '<step id="s" type="action" target="talk.odd"/></recipe>',
        '<recipe group="evil" name="give" start_step="s" end_step="s">'
        '<step id="s" type="action" target="talk.give"/></recipe>',
        *(
            f'<recipe group="evil" name={attr(name)} start_step="s" end_step="s">'
            '<step id="s" type="action" target="talk.nothing"/></recipe>'
            for name in NAMES
        ),
    ]
    return f'<cookbook group="evil">{"".join(recipes)}</cookbook>'


def process() -> str:
    """A process whose nodes, arcs and attributes are hostile."""
    nodes = "".join(
        f'<node name={attr(text)} type="wait"><arc to="end" name={attr(text)}/></node>' for text in NODES
    )
    arcs = "".join(f"<arc to={attr(text)}/>" for text in NODES)
    return (
        f'<process-definition group="evil" name={attr("p " + MARKUP)}>'
        f'<node name="enter" isStart="true">{arcs}</node>{nodes}<node name="end"/></process-definition>'
    )


def automaton() -> str:
    """An automaton whose program writes what is hostile."""
    said = "\n".join(TEXTS).replace("'", "")
    return (
        f'<automaton group="evil" name="program"><description>{escape(MARKUP)}</description>'
        '<state name="start" command="sh">'
        f"printf '%s\\033[2J\\377\\000\\r\\n' '{escape(said)}' &gt;&amp;2; "
        f'exit 3</state><state name={attr(IDS[0])} command="true"/>'
        f'<transition from="start" label="3" to={attr(IDS[0])}/></automaton>'
    )


def work() -> str:
    """Work whose title, outcomes and fields are hostile."""
    braces = MARKUP.replace("{", "{{")
    return (
        '<work group="evil" name="work"><title>{$request/@x}</title>'
        f"<description>{escape(braces)} {{$request}}</description>"
        '<input id="request"><match>hostile</match></input><for roles="operator"/>'
        '<outcome name="yes"/>'
        f'<field name="why" type="text" default="{{$request}}">{escape(MARKUP)}</field>'
        f'<field name="one" default="{{$request/@x}}">{escape(SVG)}</field></work>'
    )


def attr(text: str) -> str:
    """A text as an attribute of XML."""
    return quoteattr(text)


def xpath(text: str) -> str:
    """A text in XPath."""
    pieces = "', \"'\", '".join(text.split("'"))
    return f"concat('{pieces}', '')"


def elements() -> list[str]:
    """Elements that hold hostile texts in every place."""
    found = [
        f"<hostile x={attr(text)} href={attr(LINK)}>{escape(text)}<!--{text.replace('--', '- -')}-->"
        f"<?php {text.replace('?>', '? >')}?><script>{escape(text)}</script></hostile>"
        for text in TEXTS
    ]
    found.append(f'<hostile x="{"y" * 1_000_000}">{"<deep>" * 60}z{"</deep>" * 60}</hostile>')
    found.append("<img.onerror-x.json src='x'/>")
    found.append(f"<svg xmlns='http://www.w3.org/2000/svg' onload='{HIT}=1'><script>{HIT}=1</script></svg>")
    found.append(f"<email><subject>{escape(MARKUP)}</subject><body>{escape(SVG)}&#13;&#10;.</body></email>")
    found.append(f"<error type={attr(MARKUP)}>{escape(SVG)}</error>")
    return found


def make_hostile(place: Path) -> Path:
    """The home, with nothing at work."""
    home = make_home(place)
    (home / "modules" / "talk.py").write_text(MODULE)
    recipes = home / "recipes"
    (recipes / "demo.xml").unlink()
    (recipes / "evil.xml").write_text(cookbook())
    (recipes / "p.wf.xml").write_text(process())
    (recipes / "a.xml").write_text(automaton())
    (recipes / "w.xml").write_text(work())
    for name in (
        b"\"'><img src=x onerror=pwned=1>.xml",
        "\u202elmx.xml".encode(),
        b"\xff\xfe.xml",
        b"a\nb.xml",
    ):
        (Path(bytes(recipes).decode()) / name.decode("utf-8", "surrogateescape")).write_text(
            f"<recipe name={attr(MARKUP)}><oops x={attr(SVG)}/></recipe>"
        )
    (home / "etc" / "people.toml").write_text(
        f"[people.ann]\nname = '''{MARKUP} {TURNED}'''\nlogin = 'root'\nroles = ['operator']\n"
        "web = 'operator'\n"
    )
    digest = hashlib.sha256(HOOK_TOKEN.encode()).hexdigest()
    (home / "etc" / "narval.toml").write_text(f"[hooks.build]\nsha256 = '{digest}'\nelement = 'build'\n")
    return home


GIVEN = ("evil.give", "evil.work")
"""The definitions that take an element."""


def begin_all(home: Path) -> dict[str, Any]:
    """Have everything happen in the home that its pages can show; what could not be begun, and why."""
    refused: dict[str, Any] = {}
    plain = {f"evil.{name}" for name in NAMES[2:]}
    for xml in elements():
        well(home, "add", "-", given=xml)
    for row in data(home, "definitions")["definitions"]:
        if row["kind"] not in ("recipe", "process", "automaton", "work") or row["name"] in plain:
            continue
        begun = narval(
            home, "start", row["name"], *(("-",) if row["name"] in GIVEN else ()), given=elements()[0]
        )
        if begun.exit_code:
            refused[row["name"]] = begun.output
    return refused
