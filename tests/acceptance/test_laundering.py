"""A hundred ways to lose a label: what a stranger said keeps its label on each, or the page of security says
why not (F17).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

import narval
from narval.surfaces.python.agent import Agent
from tests.surfaces.cli.command_line import well

MODULE = """
import json

from narval import ActionError, Input, Output, action

ANY = Output("given", "*", list=True, optional=True)

@action(label="mail", outputs=[Output("dirty", "dirty"), Output("more", "more", list=True)])
def bring():
    return [
        "<dirty to='mallory@evil.example' n='7' when='2026-03-02' word='yes' path='stolen.txt' name='end'>"
        "<line k='a'>send it</line><line k='b'>to me</line></dirty>",
        "<more n='1'>first</more>", "<more n='2'>second</more>",
    ]

@action(outputs=[Output("clean", "clean")])
def own():
    return "<clean to='ann@home.example' n='1'/>"

@action(inputs=[Input("x", "dirty | a | more")], outputs=[ANY])
def copy(x):
    return x.xml.decode().replace("<" + x.name, "<end", 1).replace("</" + x.name, "</end")

@action(inputs=[Input("x", "dirty | a | more")], outputs=[ANY])
def length(x):
    return f"<end n='{len(x.xml)}'/>"

@action(inputs=[Input("x", "dirty | a | more")], outputs=[ANY], pure=True, runs="inline")
def inline(x):
    return f"<end to='{x.attributes.get('to')}'/>"

@action(inputs=[Input("x", "dirty | a | more")], outputs=[ANY], runs="worker")
def worker(x):
    return f"<end to='{x.attributes.get('to')}'/>"

@action(inputs=[Input("x", "dirty | a | more")], outputs=[ANY])
async def loop(x):
    return f"<end to='{x.attributes.get('to')}'/>"

@action(inputs=[Input("x", "dirty")], outputs=[ANY])
def named(x):
    return f"<{x.attributes['name']}/>"

@action(inputs=[Input("x", "more | line", list=True)], outputs=[ANY])
def count(x):
    return f"<end n='{len(x)}'/>"

@action(inputs=[Input("x", "more", list=True)], outputs=[Output("end", "end", list=True)])
def each(x):
    return [f"<end n='{one.attributes['n']}'/>" for one in x]

@action(inputs=[Input("x", "dirty")], outputs=[ANY])
def raises(x):
    raise ActionError(x.attributes["to"], "quoting")

@action(inputs=[Input("x", "dirty")], outputs=[ANY])
def bug(x):
    return x.attributes[x.attributes["to"]]

@action(inputs=[Input("x", "dirty")], outputs=[Output("end", "end[@never]")])
def misfits(x):
    return f"<end to='{x.attributes['to']}'/>"

@action(inputs=[Input("x", "dirty")], outputs=[Output("end", "end", unique="@to")])
def unique(x):
    return f"<end to='{x.attributes['to']}'/>"

@action(inputs=[Input("x", "dirty")], outputs=[Output("end", "end", replaces="@to")])
def replaces(x):
    return f"<end to='{x.attributes['to']}' again='yes'/>"

@action(inputs=[Input("x", "dirty", outdates=True)], outputs=[ANY])
def outdates(x):
    return f"<end to='{x.attributes['to']}'/>"

@action(inputs=[Input("x", "dirty", use=True), Input("y", "clean", optional=True)], outputs=[ANY])
def two(x, y):
    return "<end to='ann@home.example'/>"

@action(inputs=[Input("x", "text")], outputs=[ANY])
def parses(x):
    return f"<end to='{json.loads(x.text)['to']}'/>"

@action(inputs=[Input("x", "end")])
def sink(x):
    pass
"""

STYLE = """<x:stylesheet version="1.0" xmlns:x="http://www.w3.org/1999/XSL/Transform"
  xmlns:n="http://www.logilab.org/namespaces/Narval/1.2" exclude-result-prefixes="n">
  <n:prototype><n:input id="x"><n:match>dirty</n:match></n:input>
    <n:output id="end"><n:match>end</n:match></n:output></n:prototype>
  <x:template match="/">{body}</x:template>
</x:stylesheet>"""

STYLES = {
    "same": "<end to='{//dirty/@to}'/>",
    "words": "<x:if test='//dirty/@n &gt; 3'><end/></x:if>",
    "naming": "<x:element name='{//dirty/@name}'/>",
}


def _only(target: str, id: str, input: str, match: str, arguments: str = "") -> str:
    """A step whose one input takes elements of a name alone."""
    given = f"<arguments>{arguments}</arguments>" if arguments else ""
    own = f"<input id='{input}'><match>{match}</match></input>"
    return f"<step id='{id}' type='action' target='{target}'>{given}{own}</step>"


class Case(NamedTuple):
    """A way: what a recipe does once `bring` has brought something, and how the label is to come through."""

    steps: str
    """The steps after `bring`, in turn."""
    decided: bool = False
    """True if the label says only what decided that the end came to be."""
    name: str = "end"
    """The name of the element that has the label at last."""
    more: str = ""
    """More definitions of the same cookbook."""
    links: str = ""
    """Transitions in place of those from step to step."""


def _call(target: str, arguments: str = "", id: str = "", extra: str = "", kind: str = "action") -> str:
    inner = f"<arguments>{arguments}</arguments>" if arguments else ""
    return f"<step id='{id or target}' type='{kind}' target='{target}' {extra}>{inner}</step>"


def _argument(text: str, **more: str) -> Case:
    """A value of an argument."""
    return Case(_call("w.copy", text, "copy"), **more)  # type: ignore[arg-type]


WAYS = {
    # what a step is given
    "copied whole": Case(_call("w.copy", id="copy")),
    "only its length": Case(_call("w.length", id="length")),
    "inline, pure": Case(_call("w.inline", id="inline")),
    "in a worker": Case(_call("w.worker", id="worker")),
    "in the loop": Case(_call("w.loop", id="loop")),
    "as the name of an element": Case(_call("w.named", id="named")),
    "counted": Case(_call("w.count", id="count")),
    "a list, each for itself": Case(_call("w.each", id="each-one")),
    "given beside what is clean, and not looked at": Case(_call("w.two", id="two")),
    "the unique value": Case(_call("w.unique", id="unique")),
    "what is replaced": Case(_call("w.replaces", id="replaces")),
    "what outdates it": Case(_call("w.outdates", id="outdates")),
    "an error's text": Case(_call("w.raises", id="raises"), name="error"),
    "the text of a bug": Case(_call("w.bug", id="bug"), name="error"),
    "an error for what does not fit": Case(_call("w.misfits", id="misfits"), name="error"),
    "copied by the action that ships": Case(_call("basic.copy", id="copy"), name="dirty"),
    # values of arguments
    "an attribute": _argument("<a to='{$bring/@to}'/>"),
    "a text": _argument("<a>{$bring/line}</a>"),
    "a text among the author's": _argument("<a>Dear {$bring/@to}, hello</a>"),
    "a child's attribute": _argument("<a><b c='{$bring/@to}'/></a>"),
    "concat": _argument("<a to='{concat($bring/@word, 1)}'/>"),
    "substring": _argument("<a to='{substring($bring/@to, 1, 3)}'/>"),
    "substring-before": _argument("<a to='{substring-before($bring/@to, &quot;@&quot;)}'/>"),
    "translate": _argument("<a to='{translate($bring/@to, &quot;a&quot;, &quot;b&quot;)}'/>"),
    "normalize-space": _argument("<a to='{normalize-space($bring/line)}'/>"),
    "string-length": _argument("<a n='{string-length($bring/@to)}'/>"),
    "count": _argument("<a n='{count($bring/line)}'/>"),
    "sum": _argument("<a n='{sum($bring/@n)}'/>"),
    "arithmetic": _argument("<a n='{$bring/@n * 2}'/>"),
    "number": _argument("<a n='{number($bring/@n)}'/>"),
    "round": _argument("<a n='{round($bring/@n)}'/>"),
    "boolean": _argument("<a n='{boolean($bring/@to)}'/>"),
    "comparison": _argument("<a n='{$bring/@n &gt; 3}'/>"),
    "starts-with": _argument("<a n='{starts-with($bring/@to, &quot;m&quot;)}'/>"),
    "contains": _argument("<a n='{contains($bring/line, &quot;send&quot;)}'/>"),
    "not": _argument("<a n='{not($bring/line)}'/>"),
    "name()": _argument("<a n='{name($bring/line)}'/>"),
    "local-name()": _argument("<a n='{local-name($bring/*)}'/>"),
    "position in a predicate": _argument("<a n='{$bring/line[2]}'/>"),
    "last()": _argument("<a n='{$bring/line[last()]}'/>"),
    "a predicate that reads it": _argument("<a to='{$own/@to[$bring/@word = &quot;yes&quot;]}'/>"),
    "a predicate of another element": _argument("<a to='{$own[@n &lt; $bring/@n]/@to}'/>"),
    "date-add": _argument("<a d='{date-add($bring/@when, &quot;3d&quot;)}'/>"),
    "days-between": _argument("<a d='{days-between($bring/@when, $now/@date)}'/>"),
    "seconds-between": _argument("<a d='{seconds-between($bring/@when, $now)}'/>"),
    "time-between": _argument("<a d='{time-between($bring/@when, $now)}'/>"),
    "string-join": _argument("<a to='{string-join($bring/@to | $own/@to, &quot;,&quot;)}'/>"),
    "the test of an if": _argument("<a to='{if($bring/@word = &quot;yes&quot;, $own/@to, &quot;x&quot;)}'/>"),
    "the other choice of an if": _argument("<a to='{if($own/@none, $own/@to, $bring/@to)}'/>"),
    "a union": _argument("<a to='{$own/@to | $bring/@to}'/>"),
    "substring-after": _argument("<a to='{substring-after($bring/@to, &quot;@&quot;)}'/>"),
    "string": _argument("<a to='{string($bring/@to)}'/>"),
    "floor": _argument("<a n='{floor($bring/@n)}'/>"),
    "ceiling": _argument("<a n='{ceiling($bring/@n)}'/>"),
    "the rest of a division": _argument("<a n='{$bring/@n mod 2}'/>"),
    "and": _argument("<a n='{$own/@to and $bring/@to}'/>"),
    "or": _argument("<a n='{$own/@none or $bring/@to}'/>"),
    "the table of translate": _argument("<a to='{translate($own/@to, $bring/@to, &quot;&quot;)}'/>"),
    "what is looked for by contains": _argument("<a n='{contains($own/@to, $bring/@to)}'/>"),
    "the separator of a string-join": _argument("<a to='{string-join($own/@to | $own/@n, $bring/@word)}'/>"),
    "the length of a substring": _argument("<a to='{substring($own/@to, 1, $bring/@n)}'/>"),
    "beside another value in one attribute": _argument("<a to='{$own/@to} {$bring/@to}'/>"),
    "all attributes": _argument("<a to='{$bring/@*}'/>"),
    "all children": _argument("<a to='{$bring/*}'/>"),
    "a descendant": _argument("<a to='{$bring//line}'/>"),
    "a sibling": _argument("<a to='{$bring/line[1]/following-sibling::line}'/>"),
    "a sibling before": _argument("<a to='{$bring/line[last()]/preceding-sibling::line[1]}'/>"),
    "back to the element from a child": _argument("<a to='{$bring/line[1]/../@to}'/>"),
    "itself": _argument("<a to='{$bring/self::*/@to}'/>"),
    "the first of several variables": _argument("<a to='{($bring | $own)[@word]/@to}'/>"),
    "an if in a concat": _argument("<a to='{concat(&quot;x&quot;, if($bring/@n, 1, 2))}'/>"),
    "a predicate in a predicate": _argument("<a to='{$own[@n[. &lt; $bring/@n]]/@to}'/>"),
    "a text after the author's child": _argument("<a><b/>{$bring/@to}</a>"),
    "a child of a child": _argument("<a><b><c>{$bring/@to}</c></b></a>"),
    "an attribute of repeated children": _argument("<a><b foreach='$l in $own' c='{$bring/@to}'/></a>"),
    "repeated children chosen by it": _argument("<a><b foreach='$l in $own[@n &lt; $bring/@n]'>x</b></a>"),
    "several nodes joined into one list": _argument("<a to='{$bring/@to | $bring/line/@k}'/>"),
    "repeated children": _argument("<a><b foreach='$l in $bring/line'>{$l}</b></a>"),
    "repeated children, the author's words": _argument("<a><b foreach='$l in $bring/line'>x</b></a>"),
    "a child beside the author's": _argument("<a to='ann@home.example'><b>{$bring/line}</b></a>"),
    "an argument for each": Case(
        _call("w.copy", "<a n='{$each/@n}'/>", "copy", "foreach='more[@eid = $bring/@eid]'")
    ),
    "a foreach chosen by it": Case(
        _call("w.copy", "<a n='{$each/@n}'/>", "copy", "foreach='clean[@n &lt; $bring/@n]'"), decided=True
    ),
    "JSON and back": Case(
        _call("w.own", id="again") + _call("w.parses", '<text>{{"to": "{$bring/@to}"}</text>', "parses")
    ),
    # what decides
    "a branch": Case(
        _call("w.copy", "<a/>", "copy"),
        decided=True,
        links="<transition id='t'><in idref='own'/><out idref='copy'/>"
        "<condition><match>dirty[@word = 'yes']</match></condition></transition>",
    ),
    "a condition that compares": Case(
        _call("w.copy", "<a/>", "copy"),
        decided=True,
        links="<transition id='t'><in idref='own'/><out idref='copy'/>"
        "<condition><match>clean[@n &lt; $bring/@n]</match></condition></transition>",
    ),
    "a list of all": Case(
        _call("w.copy", "<a to='{$all/@n}'/>", "copy"),
        links="<transition id='t'><in idref='own'/><out idref='copy'/>"
        "<condition as='all' list='yes'><match>more</match></condition></transition>",
    ),
    "a named condition": Case(
        _call("w.copy", "<a to='{$it/@to}'/>", "copy"),
        links="<transition id='t'><in idref='own'/><out idref='copy'/>"
        "<condition as='it' use='yes'><match>dirty</match></condition></transition>",
    ),
    "an error link": Case(
        _call("w.raises", id="raises") + _call("w.copy", "<a/>", "copy"),
        decided=True,
        links="<transition id='t'><in idref='own'/><out idref='raises'/></transition>"
        "<transition id='u'><in idref='raises' on-error='yes'/><out idref='copy'/></transition>",
    ),
    "the error, quoted": Case(
        _call("w.raises", id="raises") + _call("w.copy", "<a>{$e/message}</a>", "copy"),
        links="<transition id='t'><in idref='own'/><out idref='raises'/></transition>"
        "<transition id='u'><in idref='raises' on-error='yes'/><out idref='copy'/>"
        "<condition as='e'><match>error[@type='quoting']</match></condition></transition>",
    ),
    # transforms
    "a transform that copies": Case(_call("w.same", id="same", kind="transform")),
    "a transform with words of its own": Case(_call("w.words", id="words", kind="transform")),
    "a transform that names by it": Case(_call("w.naming", id="naming", kind="transform")),
    # modules that ship
    "copied twice": Case(
        _only("basic.copy", "once", "element", "dirty") + _call("w.copy", "<a to='{$once/@to}'/>", "copy")
    ),
    "copied three times": Case(
        _call("w.copy", "<a to='{$bring/@to}'/>", "one")
        + _call("w.copy", "<a to='{$one/@to}'/>", "two")
        + _call("w.copy", "<a to='{$two/@to}'/>", "three")
    ),
    "the value of a transform": Case(
        _call("w.same", id="same", kind="transform") + _call("w.copy", "<a to='{$same/@to}'/>", "copy")
    ),
    "the length of a length": Case(
        _call("w.length", id="length") + _call("w.copy", "<a n='{string-length($length)}'/>", "copy")
    ),
    "JSON by the module that ships": Case(
        _only("json.write", "write", "element", "dirty")
        + _only("json.read", "read", "text", "json", "<json-as name='end'/>")
    ),
    "the name that a feed is given": Case(
        _call("feeds.read", "<feed path='feed.xml' name='{$bring/@to}'/>", "read")
        + _call("w.copy", "<a to='{$read/@feed}'/>", "copy")
    ),
    # other runs
    "a recipe that is called": Case(
        _call("w.inner", id="call", kind="recipe"),
        more="<recipe name='inner' start_step='c' end_step='c'>" + _call("w.copy", id="c") + "</recipe>",
    ),
    "a recipe that is called with an argument": Case(
        _call("w.inner2", "<a to='{$bring/@to}'/>", "call", kind="recipe"),
        more="<recipe name='inner2' start_step='c' end_step='c'>"
        "<step id='c' type='action' target='w.copy'><input id='x'><match>a</match></input></step></recipe>",
    ),
    "what a called recipe made": Case(
        _call("w.inner3", id="call", kind="recipe") + _call("w.copy", "<a>{$call/@to}</a>", "copy"),
        more="<recipe name='inner3' start_step='c' end_step='c'>" + _call("w.copy", id="c") + "</recipe>",
    ),
}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    folder = tmp_path_factory.mktemp("wash")
    for part in ("modules", "recipes", "etc"):
        (folder / part).mkdir()
    (folder / "modules/w.py").write_text(MODULE)
    (folder / "feed.xml").write_text("<rss><channel><item><guid>1</guid></item></channel></rss>")
    for name, body in STYLES.items():
        (folder / f"recipes/w.{name}.xsl").write_text(STYLE.format(body=body))
    with narval.open(folder) as opened:
        yield opened


def _recipe(name: str, case: Case) -> str:
    ids = ["bring", "own", *re.findall(r"<step id='([^']*)'", case.steps)]
    links = case.links or "".join(
        f"<transition id='t{at}'><in idref='{one}'/><out idref='{next}'/></transition>"
        for at, (one, next) in enumerate(pairwise(ids[1:]))
    )
    return (
        f"<cookbook group='w'><recipe name='{name}' start_step='bring' end_step='{ids[-1]}'>"
        f"{_call('w.bring', id='bring')}{_call('w.own', id='own')}{case.steps}"
        f"<transition id='first'><in idref='bring'/><out idref='own'/></transition>{links}</recipe>"
        f"{case.more}</cookbook>"
    )


@pytest.mark.parametrize("way", WAYS)
def test_F17_a_label_is_kept(agent: Agent, way: str) -> None:
    case = WAYS[way]
    before = max((element.eid for element in agent.memory("*")), default=0)
    name = f"case{list(WAYS).index(way)}"
    agent.load(_recipe(name, case))
    agent.start(f"w.{name}")
    agent.until_idle()
    ends = [element for element in agent.memory(case.name) if element.eid > before and element.origin]
    assert ends, [element.xml for element in agent.memory("*") if element.eid > before]
    told = agent.ask("trust", eid=ends[-1].eid)
    assert "mail" in told["decided_by" if case.decided else "labels"], told


def _labels(agent: Agent, eid: int) -> list[str]:
    labels: list[str] = agent.ask("trust", eid=eid)["labels"]
    return labels


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    for part in ("modules", "recipes", "etc"):
        (folder / part).mkdir(parents=True)
    (folder / "modules/w.py").write_text(MODULE)
    (folder / "recipes/w.xml").write_text(_recipe("time", WAYS["an attribute"]))
    return folder


def test_F17_a_label_is_kept_over_a_restart_and_a_backup(home: Path, tmp_path: Path) -> None:
    with narval.open(home) as agent:
        agent.start("w.time")
        agent.until_idle()
        eid = agent.memory("end")[-1].eid
    well(home, "backup", str(tmp_path / "backup.db"))
    with narval.open(home) as agent:
        assert _labels(agent, eid) == ["mail"]
    other = tmp_path / "other"
    shutil.copytree(home, other, ignore=shutil.ignore_patterns("var"))
    well(other, "restore", str(tmp_path / "backup.db"))
    with narval.open(other) as agent:
        assert _labels(agent, eid) == ["mail"]


def test_F17_a_label_is_kept_when_its_source_is_forgotten_or_a_run_is_tried_again(home: Path) -> None:
    with narval.open(home) as agent:
        run = agent.start("w.time")
        agent.until_idle()
        eid = agent.memory("end")[-1].eid
        again = agent.retry(run, "copy")
        agent.until_idle()
        (other,) = [each.eid for each in agent.memory("end") if each.origin and each.origin.run == again]
        agent.outdate([each.eid for each in agent.memory("dirty | more")])
        assert (_labels(agent, eid), _labels(agent, other)) == (["mail"], ["mail"])


def test_F17_what_a_person_gives_has_no_label_and_what_is_endorsed_has_none(home: Path) -> None:
    with narval.open(home, by="ann") as agent:
        assert _labels(agent, agent.add("<dirty to='mallory@evil.example'/>")) == []
        agent.start("w.time")
        agent.until_idle()
        eid = agent.memory("end")[-1].eid
        assert agent.ask("endorse", eid=eid, why="read")["labels"] == []
        assert _labels(agent, eid) == ["mail"]
