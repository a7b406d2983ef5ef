"""The tools that are operations: the arguments that a client passes, and the check of each call.

What an operation does is separate from who may ask it: a row says which parameters a client sees, which are
fixed, and which guard may refuse a call before it has any effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from narval.ask.clients.descriptions import DESCRIPTIONS
from narval.ask.documents import elements_in
from narval.ask.operations import OPERATIONS
from narval.ask.registry import Form
from narval.ask.withholding import is_withheld
from narval.core.definitions.suggestions import closest
from narval.core.elements.canonical import text_bytes
from narval.core.elements.element import Element
from narval.core.engines.registry import runnable
from narval.core.errors import NotFoundError, RequestError
from narval.core.patterns.pattern import condition
from narval.daemon.daemon import Daemon
from narval.files.mcp_clients import McpClient

Arguments = dict[str, Any]
Guard = Callable[[Daemon, McpClient, Arguments], Awaitable[None]]


class OperationTool(NamedTuple):
    """A tool that is an operation: the parameters that a client passes, those `fixed` for it, the guard that
    may refuse a call, and the part of the answer that is `shown`, or `told` for a run that holds a secret.
    """

    takes: tuple[str, ...]
    guard: Guard
    fixed: Callable[[McpClient], Arguments] = lambda client: {}
    shown: Callable[[Any], Any] = lambda answer: answer
    told: tuple[str, ...] | None = None


# --- the check of a call ------------------------------------------------------------------------------------


def has_started(daemon: Daemon, client: McpClient, eid: int) -> bool:
    """True if a run was started by a client, or descends from one that was."""
    runs, left = daemon.agent.runs, [eid]
    for number in left:
        run = runs.get(number)
        if run is None:
            continue
        if run.by == client.person:
            return True
        above = run.caller.run if run.caller is not None else 0
        left += [up for up in (above, *run.ancestors.values()) if up and up not in left]
    return False


def may_read(daemon: Daemon, client: McpClient, element: Element) -> bool:
    """True if a client may read an element."""
    if is_withheld(daemon.agent, element.eid, client.secrets):
        return False
    tree = daemon.agent.memory.tree(element)
    return any(condition(pattern).bind({}).test(tree) for pattern in client.read)


def not_started(client: McpClient, eid: int) -> RequestError:
    """The error for a run that is not the client's; it does not reveal whether the run exists."""
    return NotFoundError(f"there is no run {eid} that the client {client.name} has started")


async def check_elements(client: McpClient, documents: list[bytes] | None) -> None:
    """Raise RequestError for an element that a client may not add, ElementError for other text."""
    for xml in await elements_in(documents):
        name = Element(0, xml).name
        if name not in client.add:
            may = ", ".join(client.add) or "none"
            raise RequestError(f"the client {client.name} may not add <{name:.80}>; it may add {may}")


def check_recipe(client: McpClient, name: str) -> None:
    """Raise RequestError for a definition that a client may not start."""
    if name not in client.recipes:
        raise RequestError(
            f"the client {client.name} may not start {name!r:.80}{closest(name, client.recipes)}"
        )


async def _anything(daemon: Daemon, client: McpClient, arguments: Arguments) -> None:
    """Refuse nothing: the fixed arguments, or the asker, already limit what is shown."""


async def _elements(daemon: Daemon, client: McpClient, arguments: Arguments) -> None:
    await check_elements(client, arguments.get("elements"))


async def _start(daemon: Daemon, client: McpClient, arguments: Arguments) -> None:
    check_recipe(client, arguments["name"])
    definition = runnable(daemon.agent.library, arguments["name"])
    tool = getattr(definition, "tool", None)
    if tool is not None and tool.approve != "never":
        raise RequestError(
            f"{arguments['name']} is started after the {tool.approve} has agreed: call it as a tool"
        )
    await check_elements(client, arguments.get("elements"))


async def _own_run(daemon: Daemon, client: McpClient, arguments: Arguments) -> None:
    if not has_started(daemon, client, arguments["run"]):
        raise not_started(client, arguments["run"])
    await check_elements(client, arguments.get("elements"))


async def _own_run_shown(daemon: Daemon, client: McpClient, arguments: Arguments) -> None:
    await _own_run(daemon, client, arguments)
    check_shown(daemon, client, arguments["run"])


def check_shown(daemon: Daemon, client: McpClient, run: int) -> None:
    """Raise RequestError for a run that holds a secret that a client may not read."""
    if is_withheld(daemon.agent, run, client.secrets):
        raise RequestError(
            f"run {run} holds what its home calls secret; the client {client.name} may not read it (secrets)"
        )


async def _own_or_readable(daemon: Daemon, client: McpClient, arguments: Arguments) -> None:
    eid = arguments["run"]
    element = daemon.agent.memory.element(eid) if eid not in daemon.agent.runs else None
    if element is None or not may_read(daemon, client, element):
        await _own_run_shown(daemon, client, arguments)


async def _trial(daemon: Daemon, client: McpClient, arguments: Arguments) -> None:
    check_recipe(client, arguments.get("definition") or arguments.get("name") or "")
    await check_elements(client, arguments.get("elements"))


async def _send(daemon: Daemon, client: McpClient, arguments: Arguments) -> None:
    if arguments["to"] not in client.agents:
        raise RequestError(f"the client {client.name} may not send to {arguments['to']!r:.80}")
    await check_elements(client, arguments["elements"])


def _secrets(client: McpClient) -> Arguments:
    """The argument that keeps all other secrets out of an operation's answer to a client."""
    return {"secrets": list(client.secrets)}


def readable(client: McpClient) -> Arguments:
    """The arguments that limit a listing to what a client may read."""
    return {"among": list(client.read), **_secrets(client)}


def _of_run(answer: Form) -> Form:
    """A run without its questions to people, which may be secret."""
    return {key: value for key, value in answer.items() if key != "asks"}


def _of_page(answer: Form) -> Form:
    """A page of elements without the number that was tried, which counts elements the client may not read."""
    return {key: value for key, value in answer.items() if key != "tried"}


OF_ELEMENT = frozenset({
    "element", "name", "added", "declared", "labels", "decided_by", "hearsay", "outdated", "withdrawn",
    "doubtful",
})  # fmt: skip
"""The parts of an element's story that concern it alone."""


def _of_story(answer: Form) -> Form:
    """The story of an element without other elements and runs, or that of the client's own run."""
    return {key: answer[key] for key in answer if key in OF_ELEMENT} if "element" in answer else answer


TOOLS: Mapping[str, OperationTool] = {
    "add": OperationTool(("elements",), _elements),
    "elements": OperationTool(
        ("xpath", "current", "limit", "before", "since"), _anything, readable, _of_page
    ),
    "count": OperationTool(("xpath", "current", "since"), _anything, readable),
    "start": OperationTool(("name", "elements", "environment"), _start, shown=_of_run),
    "signal": OperationTool(("run", "name", "elements", "arguments"), _own_run, told=("run", "signal")),
    "cancel": OperationTool(("run", "reason"), _own_run, shown=_of_run),
    "show": OperationTool(("run",), _own_run_shown),
    "why": OperationTool(("run", "id"), _own_or_readable, _secrets, _of_story),
    "history": OperationTool(("run", "before", "limit"), _own_run_shown),
    "simulate": OperationTool(
        ("definition", "elements", "start", "duration"), _trial, lambda client: {"memory": "empty"}
    ),
    "check": OperationTool(("texts",), _anything),
    "explore": OperationTool(("kind", "name"), _trial),
    "worklist": OperationTool(("state", "name", "limit", "after"), _anything, _secrets),
    "answer": OperationTool(("item", "outcome", "fields", "shown"), _anything),
    "send": OperationTool(("to", "elements", "keep"), _send),
    "propose": OperationTool(("name", "texts", "wish"), _anything),
}  # fmt: skip
"""The tools that are operations, by name."""

_NEEDED = {"cancel": ("run",), "simulate": ("definition",)}
"""The parameters that a client must pass, although the operation accepts others instead."""


# --- a client's view of a tool ------------------------------------------------------------------------------


def parameters(name: str) -> tuple[str, ...]:
    """The parameters of a tool that a client passes."""
    there = OPERATIONS[name].parameters
    return tuple(parameter for parameter in TOOLS[name].takes if parameter in there)


def schema_of_tool(name: str, agents: tuple[str, ...]) -> dict[str, Any]:
    """The JSON schema of the arguments of a tool, made from its operation."""
    operation = OPERATIONS[name]
    properties: dict[str, Any] = {}
    required = []
    for parameter in parameters(name):
        properties[parameter] = {
            **_schema(operation.types[parameter]),
            "description": DESCRIPTIONS[name].arguments[parameter],
        }
        default = operation.parameters[parameter].default
        if default is operation.parameters[parameter].empty or parameter in _NEEDED.get(name, ()):
            required.append(parameter)
        elif default is not None and not isinstance(default, tuple):
            properties[parameter]["default"] = default
    if len(agents) > 1:
        about = "The agent that is asked; without it the first of them."
        names: dict[str, Any] = {"type": "string", "enum": list(agents), "default": agents[0]}
        properties["agent"] = {**names, "description": about}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def read_arguments(name: str, values: Mapping[str, Any]) -> Arguments:
    """The arguments of an operation as a client passed them to a tool. Raises RequestError, before any
    effect, for invalid ones; ElementError for a text that UTF-8 cannot hold.
    """
    operation, takes = OPERATIONS[name], parameters(name)
    for argument in values:
        if argument not in takes:
            listed = ", ".join(takes) or "none"
            raise RequestError(f"{name} takes no argument {argument!r:.80}; it takes {listed}")
    for parameter in _NEEDED.get(name, ()):
        if values.get(parameter) is None:
            raise RequestError(f"{name} needs the argument {parameter!r}")
    arguments = {key: _read(operation.types[key], value) for key, value in values.items()}
    operation.check(arguments)
    return arguments


def _read(expected: Any, value: Any) -> Any:
    """A JSON value as bytes where an operation takes bytes: texts become UTF-8."""
    if expected is bytes and isinstance(value, str):
        return text_bytes(value)
    inner = get_args(expected)
    if get_origin(expected) in (Union, UnionType):
        return next((read for one in inner if (read := _read(one, value)) is not value), value)
    if get_origin(expected) is list and isinstance(value, list):
        read = [_read(inner[0], item) for item in value]
        return value if all(one is other for one, other in zip(read, value, strict=True)) else read
    return value


_SIMPLE: Mapping[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    bytes: {"type": "string"},
}


def _schema(expected: Any) -> dict[str, Any]:
    """The JSON schema of a parameter's type."""
    origin, inner = get_origin(expected), get_args(expected)
    if origin in (Union, UnionType):
        alternatives = [_schema(one) for one in inner if one is not type(None)]
        return alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}
    if origin is Literal:
        return {"type": "string", "enum": list(inner)}
    if origin in (list, tuple):
        return {"type": "array", "items": _schema(inner[0])}
    if origin is dict:
        values = _schema(inner[1])
        return {"type": "object", "additionalProperties": values or True}
    return dict(_SIMPLE.get(expected, {}))
