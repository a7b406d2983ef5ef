"""W3: what it costs to add an element and to know who waited for it.

    python -m bench.conditions [index | beyond | turn] WAITING [ELEMENTS]

WAITING conditions, half of them an equality, half a number and an equality, given as XPath text; one that is
satisfied leaves. The clock runs from the first element until the last set of the satisfied is known: each
element is made from its XML, checked, and kept in memory under its name.

`beyond` is a set that no index can decide: positions, counts, paths with predicates in them. `turn` is the
whole of it: WAITING plans of a home in memory, each of which waits for the element its first step asks for,
and one `add` an element, until the plans that it concerned are over.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Sequence
from typing import Any

import narval
from bench.measure import argument, emit, home, memory_of, now, percentile, scratch, us
from narval.core.elements.canonical import canonical
from narval.core.elements.changes import Added
from narval.core.elements.element import Element
from narval.core.index.index import Index
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import condition

SUBJECTS, SENDERS, LARGEST = 20_000, 1_000, 1_000_000

Wanted = tuple[str, str, int]
"""`eq` and a subject; or `rng`, a sender and what the size lies above."""

MODULE = """
from narval import Input, Output, action

@action(runs="inline")
def nothing():
    pass

@action(inputs=[Input("want", "want")], outputs=[Output("want", "want")], runs="inline")
def take(want):
    return want
"""
RECIPES = """<cookbook group="w">{}</cookbook>"""
RECIPE = """<recipe name="{name}" start_step="wait" end_step="got">
  <step id="wait" type="action" target="w.take"/><step id="got" type="action" target="w.nothing"/>
  <transition id="t"><in idref="wait"/><out idref="got"/>
    <condition><match>{match}</match></condition></transition>
</recipe>"""


def wanted(count: int) -> list[Wanted]:
    """What is waited for; the same as the peers' scripts make, drawn in the same order."""
    chance, made = random.Random(7), []
    for number in range(count):
        if number % 2 == 0:
            made.append(("eq", f"s{chance.randrange(SUBJECTS)}", 0))
        else:
            made.append(("rng", f"a{chance.randrange(SENDERS)}", chance.randrange(800_000, 1_200_000)))
    return made


def arriving(count: int) -> list[tuple[str, int, str]]:
    """Subject, size and sender of what arrives; the same as the peers' scripts make."""
    chance = random.Random(11)
    return [
        (f"s{chance.randrange(SUBJECTS)}", chance.randrange(LARGEST), f"a{chance.randrange(SENDERS)}")
        for _ in range(count)
    ]


def indexed(want: Wanted) -> str:
    """The pattern, as anybody would write it."""
    kind, value, above = want
    if kind == "eq":
        return f"email[@subject='{value}']"
    return f"email[@size > {above} and @sender='{value}']"


def beyond(want: Wanted) -> str:
    """The same of an element's parts, by a position, a count and a path that no index looks into."""
    kind, value, above = want
    if kind == "eq":
        return f"email/head[count(*) = 3]/*[position() = 1][. = '{value}']"
    return f"email/head[*[2] > {above}]/*[last()][. = '{value}']"


def flat(subject: str, size: int, sender: str) -> str:
    """An element as text."""
    return f"<email subject='{subject}' size='{size}' sender='{sender}'/>"


def nested(subject: str, size: int, sender: str) -> str:
    """The same with its values in children."""
    return f"<email><head><a>{subject}</a><b>{size}</b><c>{sender}</c></head></email>"


class Hits:
    """Who was satisfied by what; the digest is that of the peers' scripts."""

    def __init__(self) -> None:
        self.count = self.digest = 0

    def add(self, number: int, element: int) -> None:
        """A condition was satisfied by an element."""
        self.count += 1
        self.digest = (self.digest + (number + 1) * 1_000_003 + element * 7_919) & 0xFFFFFFFF


def adding_and_knowing(
    waiting: int, elements: int, pattern: Callable[[Wanted], str], text: Callable[[str, int, str], str]
) -> dict[str, Any]:
    """Seconds for all elements, and what else there is to tell; the turn is left out."""
    texts, memory, index, hits = list(map(pattern, wanted(waiting))), Memory(), Index[int](), Hits()
    for each in {wanted(2)[0], wanted(2)[1]}:
        condition(pattern(each))  # the shape is known, and lxml is there
    gc.collect()
    before, began = memory_of(field="VmRSS"), now()
    for number, each in enumerate(texts):
        index.add(number, condition(each).bind())
    setup = now() - began
    gc.collect()
    grown = memory_of(field="VmRSS") - before
    given, late = arriving(elements), []
    began = last = now()
    for number, each in enumerate(given):
        element = Element(number + 1, canonical(text(*each)))
        memory.apply(Added(element))
        for satisfied in index.wakes(memory.tree(element)):
            index.discard(satisfied)
            hits.add(satisfied, number)
        last, latest = now(), last
        late.append(last - latest)
    seconds = last - began
    assert len(memory) == elements
    assert len(index) == waiting - hits.count
    return {
        "seconds": seconds,
        "register_us": us(setup, waiting),
        "b_per_condition": round(grown * 2**20 / waiting),
        "setup_s": round(setup, 3),
        "p99_us": round(percentile(late, 99) * 1e6, 1),
        "tried_per_element": round(index.tried / elements, 2),
        "satisfied": hits.count,
        "digest": hits.digest,
    }


EQUAL = "email[@subject = $wait/@subject]"
RANGE = "email[@size &gt; $wait/@above and @sender = $wait/@sender]"


def with_the_turn(waiting: int, elements: int) -> dict[str, Any]:
    """The same through `add`: a turn for each element, and the plans it wakes go on to their end."""
    wants, hits = wanted(waiting), Hits()
    recipes = RECIPE.format(name="eq", match=EQUAL) + RECIPE.format(name="rng", match=RANGE)
    with scratch() as folder, narval.open() as agent:
        made = home(folder, module=MODULE, recipes=RECIPES.format(recipes))
        agent.load(made / "modules/w.py")
        agent.load(made / "recipes/w.xml")
        began, number_of = now(), {}
        for kind, fields in (("eq", "subject='{1}'"), ("rng", "sender='{1}' above='{2}'")):
            numbers = [number for number, want in enumerate(wants) if want[0] == kind]
            for some in _slices(numbers, 1000):
                runs = agent.start_each(f"w.{kind}", [f"<want {fields.format(*wants[n])}/>" for n in some])
                number_of.update(zip(runs, some, strict=True))
                agent.until_idle()
        setup, active, turns = now() - began, agent.daemon.agent.runs.active, agent.daemon.host.loop.turns
        assert len(active) == waiting
        eids, began = [], now()
        for each in arriving(elements):
            eids.append(agent.add(flat(*each)))
            agent.until_idle()
        seconds, turns = now() - began, agent.daemon.host.loop.turns - turns
        place = {eid: number for number, eid in enumerate(eids)}
        for run, number in number_of.items():
            if run not in active:
                [held] = place.keys() & set(agent.daemon.agent.memory.contexts.of(run))
                hits.add(number, place[held])
    return {
        "seconds": seconds,
        "register_us": us(setup, waiting),
        "setup_s": round(setup, 3),
        "turns_per_element": round(turns / elements, 2),
        "satisfied": hits.count,
        "digest": hits.digest,
    }


def _slices(numbers: Sequence[int], size: int) -> list[Sequence[int]]:
    return [numbers[at : at + size] for at in range(0, len(numbers), size)]


def main() -> None:
    what, waiting, elements = argument(1, "index"), argument(2, 1_000), argument(3, 10_000)
    if what == "index":
        figures = adding_and_knowing(waiting, elements, indexed, flat)
    elif what == "beyond":
        figures = adding_and_knowing(waiting, elements, beyond, nested)
    else:
        figures = with_the_turn(waiting, elements)
    seconds = figures.pop("seconds")
    number = {"index": "W3", "beyond": "W3-beyond", "turn": "W3-turn"}[what]
    emit(f"{number}-{waiting}", elements, seconds, us_per_element=us(seconds, elements), **figures)


if __name__ == "__main__":
    main()
