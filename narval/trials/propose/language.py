"""The page of the language for models: everything needed to write definitions, from the tables of their
readers.

It has at most 8,000 tokens as counted by `tokens_of`. `driver.py` adds the content of the home.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from narval.core.definitions.reading.vocabulary import COMMON, Words
from narval.core.kinds import KINDS
from narval.core.patterns.functions import FUNCTIONS
from narval.core.patterns.xpath3 import KNOWN_FUNCTIONS

MOST_TOKENS = 8_000
"""The most tokens of the page."""

_BAD = ("\x00 \x00", "-", "")
"""Values of which each reader that refuses any refuses at least one."""

_LENGTH = re.compile(r"a number of seconds or a text such as .*|a length of time such as .*")

_HEAD = """\
# narval's language

narval keeps a memory of XML elements (`<email from="ann@example.org" subject="Hi"/>`), and does what
definitions say about them. You write definitions for one wish of a person. narval checks them,
tells the person what they do, and runs them only once the person has accepted them. Most wishes need a
recipe, and work where a person is asked; the other kinds are for what these cannot do.

## Recipes

A recipe has steps, which call something, and transitions, which wait for something and lead from steps to
steps. One run of it is a plan. A plan begins with `start_step` and is over when `end_step` is done. What
waits for elements begins with a step that does nothing (`basic.nothing`) and has a transition after it.

```xml
<recipe group="bills" name="remind" start_step="listen" end_step="done" restart="parallel">
  <description lang="en">Remind of a bill each week until it is paid.</description>
  <step id="listen" type="action" target="basic.nothing"/>
  <step id="remind" type="action" target="notify.tell" until="payment[@of = $bill/@number]" every="7d">
    <arguments><notice subject="Bill {$bill/@number} is not paid"/></arguments>
  </step>
  <step id="done" type="action" target="basic.nothing"/>
  <transition id="came">
    <in idref="listen"/><out idref="remind"/>
    <condition as="bill" use="yes"><match>bill[@number]</match></condition>
  </transition>
  <transition id="paid"><in idref="remind"/><out idref="done"/></transition>
</recipe>
```

Several recipes of one file stand in `<cookbook group="bills">`. A recipe begins by itself only if
memory.xml says so: `<memory><start-plan recipe="bills.remind"/></memory>`.

- `restart="parallel"`: another plan begins as soon as the first transition of this one has fired: one
  plan for each element. `restart="yes"`: another begins when this one is over: one after the other.
  Without it the plan runs once.
- A condition takes one element that fits all its matches. `use="yes"`: no other plan of this recipe takes
  it again; without it a recipe that restarts takes the same element for ever. `as="bill"`: from then on
  `$bill` is that element. `list="yes"`: all that fit. `absent="yes"`: holds if nothing fits. `for="10m"`:
  once one has fitted so long.
- Several transitions after one step are rivals: the first that can fires, by `priority` among those that
  can at once. So a deadline is a rival: a transition with `<time after="3d"/>` beside one that waits for
  an answer.
- `<time cron="0 7 * * mon-fri"/>` is a date that comes again, in the zone of the home; `<time
  after="3d"/>` comes once, so long after the in-steps ended; `<time at="$e/@start" before="15m"/>` comes
  before or after a date that an element holds. A transition may have conditions and a time: then both
  must hold.
- `<in idref="STEP" on-error="yes"/>` follows a step that failed. Several `in`: all must be done. Several
  `out`: all start. An error that no transition follows fails the plan.
- A step calls the `target` of its `type` and gives each of its inputs an element that fits: first its
  `arguments`, then what the plan holds, then memory. An argument is named as the element that the input
  asks for. `{$bill/@number}` in an argument is filled in: XPath 1.0 of variables, and `$now`,
  `$now/@date`, `date-add($now/@date, '14d')`, `days-between(A, B)`, `string-join(NODES, ', ')`, `if(TEST,
  A, B)`. Write `{{` for a brace. {functions}
- An element is repeated within an argument by `foreach="$m in $mails"`. A step is called for each element
  by `foreach="PATTERN"`; then `$each` is that element.
- What a step gives goes to memory, and `$STEP` is what it gave.
- `timeout`, `retries`, `backoff`: for calls that may fail. `approve="GROUP.WORK"`: a person has to agree
  first.

## Patterns

A match is XPath, tried on one element at a time, from above it: `email`,
`email[@from='ann@example.org']`, `email[contains(@subject, 'invoice')]`, `email[not(@list)]`,
`email[@in-reply-to = $mail/@message-id]`, `note[text()='x']`. XPath 3.1 where 1.0 cannot:
`matches(email/@subject, '(?i)invoice')`, `email[lower-case(@from) = 'ann@example.org']`. Numbers compare
by < and >; dates and texts by `lt` and `gt`. Write `&lt;` for < in XML. There is no current time in
patterns: use `time`. A pattern of two elements needs a variable: first the condition with `as`, then the
one that compares with it. `xs:date(@due)`, `xs:dateTime(@at)` and `xs:dayTimeDuration('P3D')` make dates
and lengths of time of texts. {more_functions}

## Elements that come from outside

- `email`: attributes from, from-name, to, cc, reply-to, subject, date, message-id, in-reply-to, thread,
  list (of a mailing list), auto (of an automaton), mailbox, size; children body, attachment. A mail that
  came has a mailbox and no kind; one that narval composed has a kind.
- `item` of a feed: feed, id, title, link, published; child summary. `event` of a calendar: calendar, key,
  start, end, summary, location, status.
- `file` of a watched folder: path, name, folder, event (created, modified, moved or deleted), size.
- `failure` of a run: run, name, step, type.
- `decision` of work: outcome, by; a child for each field. Anything else may be added by a person or a
  program, as the wish says.

To send a mail: `mail.write` of `<draft to="ADDRESS" subject="…">TEXT</draft>`; it finds identity and
outbox in memory.

## Work: to ask a person

```xml
<work group="bills" name="ask">
  <title>Pay bill {$bill/@number}?</title>
  <input id="bill"><match>bill</match></input>
  <outcome name="pay"/><outcome name="leave"/>
  <deadline after="5d" outcome="leave"/>
</work>
```

A step `ask` of `type="work" target="bills.ask"` asks it; a step may also hold the work itself in place of
a target. Transitions after it ask for `<condition><match>$ask[@outcome='pay']</match></condition>`. With
`approve="bills.ask"` on a step that acts outside, outcomes `approve` and `reject` decide; a rejected call
is an error of the type `rejected`.
"""

_OTHERS = """
## Transforms: XSLT 1.0, where arguments are not enough

The file GROUP.NAME.xsl is the transform GROUP.NAME, called by a step of `type="transform"`. It may give
several elements within `<elements>`.

```xsl
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
    xmlns:n="http://www.logilab.org/namespaces/Narval/1.2" exclude-result-prefixes="n">
  <n:prototype>
    <n:input id="mails" list="yes"><n:match>email[@mailbox]</n:match></n:input>
    <n:output id="draft"><n:match>draft</n:match></n:output>
  </n:prototype>
  <xsl:template match="/">
    <draft to="you@example.org" subject="{count(//email)} mails">
      <xsl:for-each select="//email"><xsl:value-of select="concat(@subject, '&#10;')"/></xsl:for-each>
    </draft>
  </xsl:template>
</xsl:stylesheet>
```

## Automata: programs, each after another

```xml
<automaton group="photos" name="copied" restart="yes">
  <state name="start" command="test -d /mnt/disk"><after cron="0 2 * * *"/></state>
  <state name="copy" command="rsync -a data/photos/ /mnt/disk/" timeout="3h" retries="2"/>
  <state name="end" command="true"/>
  <transition from="start" label="0" to="copy"/>
  <transition from="start" label="*" to="end"/>
  <transition from="copy" label="0" to="end"/>
</automaton>
```

It begins with `start` and is over after `end`. A label is the status of the program, a signal, `timeout`, or
`*` for any other. All states with a 0 transition to a state must have ended before that begins. In place of
a command a state may have the `target` of a recipe.

## Processes: many branches and joins

```xml
<process-definition group="wants" name="decide">
  <node name="small" isStart="true">
    <guard type="xpath">want[@price &lt;= 10]</guard>
    <arc to="ask"/>
  </node>
  <node name="ask" type="work"><custom><target>bills.ask</target></custom><arc to="done" name="pay"/></node>
  <node name="done"/>
</process-definition>
```

A node of a `type` calls its `target`; arcs with a `name` are followed for that outcome, others always. A
node whose guard is false is not done. A recipe starts it by a step of `type="process"`.
"""

_TABLES = """
## All words

An element, then its attributes (! is mandatory; yes|no and the like are the values; LENGTH is a time such
as 30s, 5m, 2h, 1d), then in braces what it may hold. There are no other words.
"""

_RULES = """
## Rules

- Call only actions that are listed below, each with what its inputs ask for. You cannot write actions.
- Choose a group of your own for new definitions. Names have no dots, slashes or blanks.
- Send or write only where the wish says. If the wish names no way to tell the person, ask them by work or
  notify them, as the actions below allow.
- Handle each element once (`use="yes"`), and do not react to what the definition itself makes.
- Give a `description` in the words of the wish.
"""


@cache
def language_page() -> str:
    """The page: how to write definitions, and all words of the languages in XML."""
    head = _HEAD.replace("{functions}", f"Its functions: {' '.join(sorted(FUNCTIONS))}.")
    more = " ".join(sorted(KNOWN_FUNCTIONS - {*FUNCTIONS}))
    head = head.replace("{more_functions}", f"More functions of XPath 3.1: {more}.")
    return "\n".join([head, _OTHERS, *_texts(), _TABLES, *_tables(), _RULES])


def _texts() -> Iterator[str]:
    """The pages of the languages that are not XML, each of its kind."""
    for row in KINDS.values():
        name = f"{row.folder}.language.for_models"
        if row.run and find_spec(name) is not None:
            page: str = import_module(name).page()
            yield f"{page}\n"


def _tables() -> Iterator[str]:
    """The words of each language, under the kind of its definitions; shared words come first."""
    yield from _lines(COMMON, {})
    for kind, row in KINDS.items():
        name = f"{row.folder}.language.vocabulary"
        if row.roots and find_spec(f"{row.folder}.language") is not None and find_spec(name) is not None:
            yield f"\n{kind}:\n"
            yield from _lines(import_module(name).WORDS, COMMON)


def _lines(words: Words, shared: Words) -> Iterator[str]:
    """A line for each element of a language."""
    for name, word in words.items():
        if word.foreign or shared.get(name) is word:
            continue
        attributes = " ".join(
            _attribute(each, is_a.read, is_a.required) for each, is_a in word.attributes.items()
        )
        holds = "anything" if word.children is None else " ".join(word.children)
        yield f"- {name}: {attributes}{' ' if attributes else ''}{{{holds}}}"


def _attribute(name: str, read: Callable[[str], object], required: bool) -> str:
    """An attribute, and its possible values if these are few."""
    values = ""
    for bad in _BAD:
        try:
            read(bad)
        except ValueError as error:
            values = str(error.args[0])
            break
    if _LENGTH.fullmatch(values):
        values = "LENGTH"
    elif re.fullmatch(r"[\w-]+(?:, [\w-]+)* or [\w-]+", values):
        values = values.replace(", ", "|").replace(" or ", "|")
    else:
        values = ""
    return f"{name}{'!' if required else ''}{f'={values}' if values else ''}"
