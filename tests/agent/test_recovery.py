"""After any stop the next start carries on (N35): by example, and with random recipes and crashes."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from narval.calls import executor
from narval.calls.context import CallContext
from narval.calls.record import Outcome
from narval.core.elements.canonical import elements_of
from narval.daemon.daemon import Daemon
from tests.daemon.at_work import Killed, Scene, outcome, portrait, watched_commits
from tests.simulator.world import LEAF, MODULE

ACTIONS = ("nothing", "note", "take", "look", "count", "stumble", "once", "spawn")
CONDITIONS = (
    "",
    "<condition use='yes'><match>mail[@kind='a']</match></condition>",
    "<condition><match>mail[@n &gt; 2]</match></condition>",
    "<condition use='yes'><match>gift</match></condition>",
    "<condition><match>plan[@state='failed']</match></condition>",
    "<condition><match>note[@step = $s0/@step or @step = $plan/@start_step]</match></condition>",
)
MEMORY = "<memory><counter value='0'/></memory>"


@st.composite
def recipes(draw: st.DrawFn, name: str, others: tuple[str, ...]) -> str:
    """A recipe whose steps form a chain, with a branch beside it and a way out of an error now and then."""
    steps, links = [], []
    length = draw(st.integers(1, 4))
    for at in range(length):
        targets = [f'type="action" target="w.{each}"' for each in ACTIONS]
        targets += [f'type="recipe" target="w.{each}"' for each in others]
        each = " foreach=\"mail[@kind='b']\"" if draw(st.integers(0, 5)) == 0 else ""
        target = 'type="action" target="w.take"' + each if each else draw(st.sampled_from(targets))
        steps.append(f'<step id="s{at}" {target}/>')
        if at:
            condition = draw(st.sampled_from(CONDITIONS))
            priority = draw(st.integers(0, 1))
            links.append(
                f'<transition id="t{at}" priority="{priority}"><in idref="s{at - 1}"/><out idref="s{at}"/>'
                f"{condition}</transition>"
            )
            if draw(st.booleans()):
                steps.append(f'<step id="b{at}" type="action" target="w.note"/>')
                links[-1] = links[-1].replace("<out", f'<out idref="b{at}"/><out')
            if draw(st.booleans()):
                links.append(
                    f'<transition id="e{at}"><in idref="s{at - 1}" on-error="yes"/>'
                    f'<out idref="s{at}"/></transition>'
                )
    decay = draw(st.sampled_from(["", ' decay="20"']))
    head = f'<recipe group="w" name="{name}" start_step="s0" end_step="s{length - 1}"{decay}>'
    return "\n".join([head, *steps, *links, "</recipe>"])


@st.composite
def cookbooks(draw: st.DrawFn) -> str:
    inner = draw(recipes("inner", ("leaf",)))
    outer = draw(recipes("outer", ("leaf", "inner")))
    return f"<cookbook>{LEAF}\n{inner}\n{outer}</cookbook>"


starts = st.sampled_from(["outer", "outer", "inner"]).map(lambda name: f"<start-plan recipe='w.{name}'/>")
mails = st.sampled_from("ab").map(lambda kind: f"<mail kind='{kind}'/>")
others = st.sampled_from(["<gift/>", "elapse"])
inputs = st.lists(st.one_of(starts, mails, others), min_size=1, max_size=8)
kills = st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=4)


async def live(scene: Scene, given: list[str], kills: list[tuple[int, bool]]) -> dict[str, Any]:
    """Give the home what comes, one thing after the other, and bring it up again after each kill."""
    pending = list(kills)
    for number, text in enumerate(given):
        text = text.replace("/>", f" n='{number}'/>", 1)
        if text == "elapse":
            scene.clock.advance(30.0)
        while True:
            if scene.alive is None:
                scene.kill_at = (scene.commits + pending[0][0], pending.pop(0)[1]) if pending else None
            try:
                daemon = scene.alive or await scene.open()
                if text != "elapse" and not _is_there(daemon, number):
                    element = elements_of(text.encode())[0]
                    await daemon.host.submit(lambda turn, element=element: turn.add(element))
                await daemon.main_loop.until_idle()
            except Killed:
                await _compare(scene)
                continue
            break
    assert scene.alive is not None
    found = outcome(scene.alive.agent)
    scene.kill(scene.alive)
    scene.kill_at = None
    await _compare(scene)
    return found


async def _compare(scene: Scene) -> None:
    """A daemon that was killed when all was written: whoever opens the home knows what it knew."""
    written = scene.kill_at is None or scene.kill_at[1]
    exact = portrait(scene.alive.agent) if scene.alive is not None and written else None
    await scene.end()
    scene.kill_at = None
    if exact is not None:
        again = await scene.open(record_only=True)
        assert portrait(again.agent) == exact
        scene.kill(again)
        await scene.end()


def _is_there(daemon: Daemon, number: int) -> bool:
    memory = daemon.agent.memory
    elements = (memory.element(eid) for eid in memory if not memory.is_run(eid))
    return any(f'n="{number}"'.encode() in element.xml for element in elements if element is not None)


def lived(
    folder: Path,
    cookbook: str,
    given: list[str],
    kills: list[tuple[int, bool]],
    limit: int,
    durability: str = "crash",
) -> dict[str, Any]:
    scene = Scene(folder, limit=limit, settings=f'durability = "{durability}"\n')
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", cookbook)
    scene.write("data/memory.xml", MEMORY)
    answer = executor.answer_at_once

    def watched(call: CallContext) -> Outcome:
        id = call.id.partition(".")[2]
        assert id not in scene.returned, f"call {id} of {call.step} is made again after its return"
        return answer(call)

    with watched_commits(scene):
        executor.answer_at_once = watched
        try:
            return asyncio.run(live(scene, given, kills))
        finally:
            executor.answer_at_once = answer


EXAMPLES = int(os.environ.get("NARVAL_EXAMPLES", "12"))


def cookbook_of(*steps: str, links: str = "") -> str:
    """The cookbook of an explicit example: one recipe beside `leaf`."""
    head = f'<recipe group="w" name="outer" start_step="s0" end_step="s{len(steps) - 1}">'
    made = "".join(f'<step id="s{at}" type="action" target="w.{each}"/>' for at, each in enumerate(steps))
    return f"<cookbook>{LEAF}{head}{made}{links}</recipe></cookbook>"


# A pattern in force refers to the plan itself: to read it back, the plan is needed, which is being read back.
REFERS_TO_ITSELF = cookbook_of(
    "nothing",
    "nothing",
    links=f'<transition id="t1"><in idref="s0"/><out idref="s1"/>{CONDITIONS[-1]}</transition>',
)
# A mark made for an element that a step produced, when the event that follows comes in the next turn.
OBEYED_LATER = cookbook_of(
    "spawn", "note", links='<transition id="t1"><in idref="s0"/><out idref="s1"/></transition>'
)
START = "<start-plan recipe='w.outer'/>"


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@example(REFERS_TO_ITSELF, [START, "<gift/>"], [(3, True), (1, True)], 1, "crash")
@example(OBEYED_LATER, [START], [(3, True), (1, False), (2, True)], 1, "crash")
@example(cookbook_of("take"), [START], [(1, True), (1, True)], 1, "crash")
@example(cookbook_of("take", "count"), ["<mail kind='a'/>", START], [(2, True), (2, False)], 2, "power")
@given(cookbooks(), inputs, kills, st.sampled_from([1, 2, 1000]), st.sampled_from(["crash", "power"]))
def test_N35_a_crash_at_any_commit_leaves_the_memory_that_none_would_have_left(
    cookbook: str, given: list[str], kills: list[tuple[int, bool]], limit: int, durability: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        calm = lived(Path(folder, "calm"), cookbook, given, [], limit)
        crashed = lived(Path(folder, "crashed"), cookbook, given, kills, limit, durability)
    assert crashed == calm
