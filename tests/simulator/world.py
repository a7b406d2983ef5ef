"""A seeded world: definitions with every attribute a recipe may have, and the elements that arrive."""

from __future__ import annotations

from random import Random

MODULE = """
import narval
from narval import Input, Output, action

INLINE = {"runs": "inline"}

@action(**INLINE)
def nothing():
    return None

@action(outputs=[Output("note", "note")], label="river", **INLINE)
def note():
    return f"<note step='{narval.call().step}'/>"

@action(inputs=[Input("mail", "mail", use=True)], outputs=[Output("ack", "ack")], **INLINE)
def take(mail):
    return f"<ack of='{mail.attributes['n']}' step='{narval.call().step}'/>"

@action(inputs=[Input("mails", "mail", list=True, optional=True)], outputs=[Output("seen", "seen")], **INLINE)
def look(mails):
    return f"<seen step='{narval.call().step}'/>"

@action(inputs=[Input("counter", "counter", outdates=True)], outputs=[Output("counter", "counter")], **INLINE)
def count(counter):
    return f"<counter value='{int(counter.attributes['value']) + 1}'/>"

@action(inputs=[Input("mail", "mail[@n mod 2 = 1]", optional=True, use=True)], **INLINE)
def stumble(mail):
    if mail is not None:
        raise ValueError("an odd mail")

@action(outputs=[Output("once", "once", unique="@step")], **INLINE)
def once():
    return f"<once step='{narval.call().step}'/>"

@action(outputs=[Output("start", "start-plan")], **INLINE)
def spawn():
    return "<start-plan recipe='w.leaf'><gift/></start-plan>"
"""
"""What the random recipes call; `tests/agent/test_recovery.py` has these actions alone."""

MORE = """
@action(inputs=[Input("gift", "gift", optional=True), Input("note", "note", optional=True)],
        outputs=[Output("pair", "pair", optional=True), Output("notes", "note", list=True, optional=True)],
        **INLINE)
def mix(gift, note):
    made = ["<note step='mixed'/>"] * 2 if note is not None else []
    return {"pair": "<pair/>" if gift is not None else None, "notes": made}

@action(inputs=[Input("mail", "mail", outdates=True)], outputs=[Output("mail", "mail")], **INLINE)
def amend(mail):
    return f"<mail n='{mail.attributes['n']}' kind='{mail.attributes['kind']}' amended='yes'/>"

@action(inputs=[Input("error", "error", optional=True)], outputs=[Output("report", "report")], **INLINE)
def report(error):
    return f"<report step='{narval.call().step}' known='{error is not None}'/>"

@action(outputs=[Output("drop", "drop", list=True, unique="@n")], source=True, label="tap")
async def tap():
    for number in range(1000):
        yield f"<drop n='{number}'/>"
"""

LEAF = """<recipe group="w" name="leaf" start_step="a" end_step="a" decay="50">
<step id="a" type="action" target="w.note"/></recipe>"""

MEMORY = "<memory><counter value='0'/><start-plan recipe='w.always' at='start'/></memory>"

PATTERNS = (
    "mail[@kind='a']",
    "mail[@n &gt; 2]",
    "gift",
    "plan[@state='failed']",
    "note[@step = $s0/@step or @step = $plan/@start_step]",
    "counter[@value mod 2 = 1]",
    "error[@step]",
    "drop[@n &gt; 1]",
    "pair",
    "signal[@name='go']",
)
ACTIONS = ("nothing", "note", "take", "look", "count", "stumble", "once", "spawn", "mix", "amend", "report")
DURATIONS = ("", "", "", "", "", " for='5s'", " for='1m'")
FIELDS = ("seconds='0' minutes='0' hours='7'", "seconds='0' minutes='*'", "seconds='0,20,40'")


class World:
    """What surrounds a home: all of it follows from the seed."""

    fields = FIELDS
    patterns = PATTERNS
    dated = 0.05
    """How many of the transitions wait for a date."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self._durations = Random(str(chance.getstate()[1][:3]))
        """A chance of its own: the seeds of before make the recipes of before, but for what must last."""
        self.durability = chance.choice(("crash", "crash", "power"))
        self.limit = chance.choice((1, 2, 1000))
        self.forget_after = chance.choice((None, None, None, 400.0))
        self._arrived = 0

    def settings(self) -> str:
        """Its narval.toml, beside the limit of a turn."""
        lines = [f'durability = "{self.durability}"', "stop_grace = 0.05"]
        if self.forget_after is not None:
            lines.append(f"forget_after = {self.forget_after}")
        return "\n".join(lines) + "\n"

    def cookbook(self) -> str:
        """Recipes that call actions and one another: `outer` calls `inner`, both call `leaf`."""
        inner = self._recipe("inner", ("leaf",), restart=False)
        outer = self._recipe("outer", ("leaf", "inner"), restart=False)
        always = self._recipe("always", ("leaf",), restart=True)
        return f"<cookbook>\n{LEAF}\n{inner}\n{outer}\n{always}\n</cookbook>"

    def arrival(self) -> bytes:
        """An element that comes from outside; its `n` tells it from all others."""
        chance = self.chance
        self._arrived += 1
        text = chance.choice(
            (
                "<mail kind='a'/>",
                "<mail kind='b'/>",
                "<gift/>",
                "<note step='s0'/>",
                "<counter value='0'/>",
                "<start-plan recipe='w.outer'/>",
                "<start-plan recipe='w.inner'/>",
                "<start-plan recipe='w.none'/>",
                "<start-plan recipe='w.outer'><gift/><mail kind='c' n='0'/></start-plan>",
                "<error step='elsewhere'><message>from outside</message></error>",
            )
        )
        end = "/>" if "><" not in text else ">"
        return text.replace(end, f" n='{self._arrived}'{end}", 1).encode()

    # --- recipes --------------------------------------------------------------------------------------

    def _recipe(self, name: str, others: tuple[str, ...], *, restart: bool) -> str:
        chance = self.chance
        count = chance.choice((1, 1, 2, 3, 3, 4, 5, 6))
        steps = [self._step(at, others) for at in range(count)]
        links = [self._way_to(at) for at in range(1, count)]
        for _ in range(chance.randrange(3) if count > 1 else 0):
            links.append(self._way_to(chance.randrange(1, count)))
        made = [
            f"<transition id='t{number}'{attributes}>{inner}</transition>"
            for number, (attributes, inner) in enumerate(links)
        ]
        chance.shuffle(made)
        end = chance.choice((count - 1, count - 1, chance.randrange(count)))
        decay = chance.choice(("", "", ' decay="20"'))
        again = ' restart="yes"' if restart and chance.random() < 0.7 else ""
        head = f'<recipe group="w" name="{name}" start_step="s0" end_step="s{end}"{decay}{again}>'
        return "\n".join([head, *steps, *made, "</recipe>"])

    def _step(self, at: int, others: tuple[str, ...]) -> str:
        chance = self.chance
        attributes, inner = [f"id='s{at}'"], []
        kind = chance.random()
        if kind < 0.12:
            attributes.append("type='action' target='w.take' foreach=\"mail[@kind='b']\"")
            attributes.append(chance.choice(("", "max-parallel='1'", "max-parallel='2'")))
        elif kind < 0.18:
            attributes.append(f"type='recipe' target='w.{others[0]}' foreach=\"gift\"")
        elif kind < 0.38:
            attributes.append(f"type='recipe' target='w.{chance.choice(others)}'")
        elif kind < 0.42:
            attributes.append("type='action' target='w.tap'")
        else:
            target = chance.choice(ACTIONS)
            attributes.append(f"type='action' target='w.{target}'")
            inner += self._narrowing(target)
        for text in ("timeout='15'", "retries='2' backoff='3'", "on-restart='error'"):
            if chance.random() < 0.15:
                attributes.append(text)
        if chance.random() < 0.15:
            given = chance.choice(("<gift/>", "<note step='s0'/>"))
            inner.append(f"<arguments>{given}</arguments>")
        if chance.random() < 0.15:
            inner.append(self._context())
        return f"<step {' '.join(attributes)}>{''.join(inner)}</step>"

    def _narrowing(self, target: str) -> list[str]:
        narrowings = {
            "look": "<input id='mails' use='yes'/>",
            "mix": "<input id='gift' use='yes' optional='no'/>",
            "amend": "<input id='mail' use='yes'><match>mail[@kind]</match></input>",
            "report": "<input id='error' optional='no'/>",
            "count": "<input id='counter'><match>counter[@value &lt; 9]</match></input>",
        }
        found = narrowings.get(target)
        return [found] if found is not None and self.chance.random() < 0.3 else []

    def _context(self) -> str:
        where = self.chance.choice(("memory", "plan"))
        return f"<context from='{where}'><match>{self.chance.choice(self.patterns)}</match></context>"

    def _way_to(self, at: int) -> tuple[str, str]:
        """A transition to a step from one or two before it: its attributes, and what is in it."""
        chance = self.chance
        ins = chance.sample(range(at), min(at, chance.choice((1, 1, 1, 2))))
        inner = []
        for each in ins:
            taken = " on-error='yes'" if chance.random() < 0.25 else ""
            inner.append(f"<in idref='s{each}'{taken}/>")
        inner.append(f"<out idref='s{at}'/>")
        for _ in range(chance.choice((0, 0, 1, 1, 2))):
            use = " use='yes'" if chance.random() < 0.5 else ""
            matches = f"<match>{chance.choice(self.patterns)}</match>"
            lasting = "" if "on-error" in "".join(inner) else self._durations.choice(DURATIONS)
            inner.append(f"<condition{use}{lasting}>{matches}</condition>")
        if chance.random() < 0.1:
            inner.append(self._context())
        if chance.random() < self.dated:
            inner.append(f"<time {chance.choice(self.fields)}/>")
        attributes = f" priority='{chance.randrange(3)}'" if chance.random() < 0.3 else ""
        return attributes, "".join(inner)
