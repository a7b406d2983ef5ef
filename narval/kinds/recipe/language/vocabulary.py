"""The vocabulary of recipes, as a table: elements, attributes and the readers of their values (N12)."""

from __future__ import annotations

from narval.core.definitions.reading.times import TIME_OR_APPOINTMENT, interval
from narval.core.definitions.reading.vocabulary import (
    COMMON,
    CONDITION,
    ON_RESTART,
    RETRIES,
    Attribute,
    Word,
    Words,
    agent,
    anything,
    duration,
    full_name,
    identifier,
    integer,
    kind,
    matching,
    name,
    one_of,
    seconds,
    variable,
    yes_no,
)
from narval.core.kinds import INLINE

SEND = "send"
"""The type of a step that sends elements to other agents."""


def step_type(text: str) -> str:
    """The kind of a step's target, or `send`."""
    return text if text == SEND else kind(text)


def agents(text: str) -> str:
    """At least one name of an agent, separated by blanks."""
    return " ".join(dict.fromkeys(map(agent, text.split()))) or agent("")


element_name = matching(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", "the name of an element, such as trip")
argument_name = matching(
    r"(?!xml)[A-Za-z_][A-Za-z0-9_-]{0,63}", "a name of letters, digits, _ and -, such as from"
)

ON_WITHDRAW = Attribute(one_of("ignore", "signal", "fail", "undo"))
"""The treatment of a run when something that it relied on is withdrawn."""

WORDS: Words = {
    **COMMON,
    "cookbook": Word(
        {"group": Attribute(name), "name": Attribute(anything)}, ("description", "recipe", *INLINE)
    ),
    **{name: Word(children=None, foreign=True) for name in INLINE},
    "recipe": Word(
        {
            "group": Attribute(name),
            "name": Attribute(name, required=True),
            "start_step": Attribute(identifier, required=True),
            "end_step": Attribute(identifier, required=True),
            "restart": Attribute(one_of("yes", "no", "parallel")),
            "decay": Attribute(seconds),
            "on-withdraw": ON_WITHDRAW,
        },
        ("description", "step", "tool", "transition"),
    ),
    "step": Word(
        {
            "id": Attribute(identifier, required=True),
            "type": Attribute(step_type, required=True),
            "target": Attribute(full_name),
            "to": Attribute(agents),
            "to-select": Attribute(anything),
            "await": Attribute(matching("taken", "taken")),
            "keep": Attribute(duration),
            "agent": Attribute(agent),
            "foreach": Attribute(anything),
            "until": Attribute(anything),
            "every": Attribute(interval),
            **RETRIES,
            "max-parallel": Attribute(integer(1)),
            "on-restart": ON_RESTART,
            "approve": Attribute(full_name),
            "on-withdraw": ON_WITHDRAW,
            "undo": Attribute(full_name),
        },
        ("arguments", "context", "description", "input", "output", *INLINE),
    ),
    "arguments": Word(children=None),
    "context": Word({"from": Attribute(one_of("memory", "plan"), required=True)}, ("match",)),
    "transition": Word(
        {"id": Attribute(identifier, required=True), "priority": Attribute(integer())},
        ("condition", "context", "description", "in", "out", "time"),
    ),
    "tool": Word(
        {
            "element": Attribute(element_name),
            "approve": Attribute(one_of("never", "user", "owner")),
            "wait": Attribute(duration),
        },
        ("argument",),
    ),
    "argument": Word(
        {
            "name": Attribute(argument_name, required=True),
            "type": Attribute(one_of("string", "integer", "number", "boolean", "date", "xml")),
            "required": Attribute(yes_no),
            "one-of": Attribute(anything),
        },
        ("description",),
    ),
    "in": Word({"idref": Attribute(identifier, required=True), "on-error": Attribute(yes_no)}),
    "out": Word({"idref": Attribute(identifier, required=True)}),
    "condition": Word(
        {
            **CONDITION.attributes,
            "for": Attribute(duration),
            "as": Attribute(variable),
            "list": Attribute(yes_no),
            "absent": Attribute(yes_no),
        },
        CONDITION.children,
    ),
    "time": TIME_OR_APPOINTMENT,
}
