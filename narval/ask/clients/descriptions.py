"""Descriptions of the tools that are operations, for a client's model: what each does, when to use it, and
the form of each argument.

The docstrings of operations are for programmers; a model knows nothing about narval yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ToolDescription(NamedTuple):
    """The description of a tool, and of its arguments by name."""

    about: str
    arguments: Mapping[str, str]


_RUN = "The number of the run: `eid` of what started it."
_ELEMENTS = (
    "XML documents, each as a text: one element each, such as <note topic='garden'>Water it</note>, "
    "or several within <memory>…</memory>."
)
_XPATH = (
    "An XPath 1.0 pattern of elements, such as note, note[@topic='garden'] or task[not(@done)]; a "
    "name fits all elements of that name. Without it: all that you may read."
)
_TEXTS = (
    "The texts of the files, by name: the name ends in .xml, .task, .plan or .xsl, such as mail.xml; "
    "the text is the whole file."
)

DESCRIPTIONS: Mapping[str, ToolDescription] = {
    "add": ToolDescription(
        "Add elements to narval's memory, so that they last and recipes that wait for such elements "
        "act on them. Use it to note something or to hand over data. Answers the numbers (eids) of "
        "what was added, and warnings of attributes that nothing reads.",
        {"elements": _ELEMENTS},
    ),
    "elements": ToolDescription(
        "List elements of memory, newest first, with their XML, number (eid), origin and labels. Use "
        "it to look up what was noted, or what a recipe made. What you may not read is not listed.",
        {
            "xpath": _XPATH,
            "current": "true: without elements that were outdated, replaced or withdrawn.",
            "limit": "The most elements in an answer, 50 if not given.",
            "before": "Only elements of a lower number: give `older` of the answer before for the next page.",
            "since": "Only elements added since this moment, such as 2026-03-01 or 2026-03-01T08:00.",
        },
    ),
    "count": ToolDescription(
        "Count the elements of memory that fit a pattern, of those that you may read. Use it where "
        "the number alone matters; `elements` gives the elements.",
        {
            "xpath": _XPATH,
            "current": "true: without elements that were outdated, replaced or withdrawn.",
            "since": "Only elements added since this moment, such as 2026-03-01 or 2026-03-01T08:00.",
        },
    ),
    "start": ToolDescription(
        "Start a run of a recipe or another definition by its full name, with elements to work on. "
        "Use it for those that are not tools of their own. Answers the run at once, with its number "
        "(eid); follow it with `show`.",
        {
            "name": "The full name, such as notes.summary: one of those you may start.",
            "elements": f"The elements it works on first. {_ELEMENTS}",
            "environment": "For a process alone: its first attributes, by name.",
        },
    ),
    "signal": ToolDescription(
        "Send a signal to a run that waits for one, such as a decision. Use it when `why` says that a "
        "run of yours waits for a signal.",
        {
            "run": _RUN,
            "name": "The name of the signal, as the run waits for it, such as approve.",
            "elements": f"Elements that go with it. {_ELEMENTS}",
            "arguments": "Attributes of the signal, by name, as texts.",
        },
    ),
    "cancel": ToolDescription(
        "End a run that you have started, and give up its calls. What it has done outside is not "
        "undone. Use it when the run is no longer wanted.",
        {"run": _RUN, "reason": "Why, in a few words, for people who look at the run later."},
    ),
    "show": ToolDescription(
        "Show a run that you have started: its state, its steps, what it was given, and its error if "
        "it failed. Use it to learn how a run ended; `why` tells what one waits for.",
        {"run": _RUN},
    ),
    "why": ToolDescription(
        "Explain why a run does not go on: all that it waits for, and what is missing. For the number "
        "of an element: where it comes from. Use it when something that was expected has not "
        "happened.",
        {
            "run": "The number (eid) of a run that you have started, or of an element that you may read.",
            "id": "A part of the run, such as the id of a step or a transition: about that alone.",
        },
    ),
    "history": ToolDescription(
        "List the events of a run that you have started, with what each changed. Use it to find out "
        "how a run came to its state; `show` tells the state.",
        {
            "run": _RUN,
            "before": "Only events of a lower number: for the page before.",
            "limit": "The most events; with it the newest come first.",
        },
    ),
    "simulate": ToolDescription(
        "Play a definition in a simulation: nothing happens outside, and nothing is kept. Use it "
        "before starting or proposing something, to see what it would do. Memory is empty but for the "
        "elements given.",
        {
            "definition": "The full name of a definition that you may start, such as notes.summary.",
            "elements": f"The elements that arrive first. {_ELEMENTS}",
            "start": "The moment at which it begins, such as 2026-03-01T08:00; now if not given.",
            "duration": "The simulated time that passes, such as 30m, 2h or 7d.",
        },
    ),
    "check": ToolDescription(
        "Check definitions that you have written, as if they were files of the home: faults and "
        "warnings with their line. Nothing is kept or run. Use it before `propose`, until there are "
        "no faults.",
        {"texts": _TEXTS},
    ),
    "explore": ToolDescription(
        "Explore a definition in all its courses, and list what can go wrong: steps that are never "
        "reached, runs that never end. Use it for a definition that you may start; it takes up to "
        "half a minute.",
        {
            "kind": "The kind of the definition: recipe, process, task, dataflow or automaton.",
            "name": "Its full name, such as notes.summary.",
        },
    ),
    "worklist": ToolDescription(
        "List the items of work that are offered to the person you act for, or that they have: "
        "questions that recipes ask people. Use it to tell the person what waits for them; `answer` "
        "answers one.",
        {
            "state": "Only items in this state, such as offered, allocated or done.",
            "name": "Only items of this work, by its full name, such as mail.ask.",
            "limit": "The most items in an answer.",
            "after": "The number of the last item of the page before.",
        },
    ),
    "answer": ToolDescription(
        "Answer an item of the worklist in the name of the person you act for. Use it only with what "
        "that person has said. Whether a call may be made no client can answer.",
        {
            "item": "The number of the item, as `worklist` lists it.",
            "outcome": "One of the outcomes that the item names, such as approve.",
            "fields": "The values of its fields, by name; a list of texts where several may be chosen.",
            "shown": "The text of the item as you saw it: the answer is refused if it has changed since.",
        },
    ),
    "send": ToolDescription(
        "Send elements to another agent of this home, in whose memory they arrive once. Use it to "
        "hand something over to that agent. Answers the ids of the messages.",
        {
            "to": "The name of the agent.",
            "elements": _ELEMENTS,
            "keep": "The seconds for which a message may wait until it is taken.",
        },
    ),
    "propose": ToolDescription(
        "Propose definitions to the owner of the home. They are put aside with their faults, and with "
        "findings on what they may come to: nothing runs them before the owner has accepted them. Use it "
        "when the user wants something that no recipe here does; `check` them first. Python is refused.",
        {
            "name": "A name for the proposal, of a to z, digits and -; it takes the place of yours so named.",
            "texts": _TEXTS,
            "wish": "What the user wanted, in their words.",
        },
    ),
}
"""The descriptions, by tool."""
