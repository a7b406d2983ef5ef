"""Action: a prototype and the name of a Python function (§2.1.3, tables 2.15-2.17, N30, N33, N36)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar, overload

from lxml import etree

from narval.core.definitions.action.needs import Needs as Needs
from narval.core.definitions.action.needs import Resources, shown_needs, shown_resources
from narval.core.definitions.action.tool import Tool
from narval.core.definitions.library import ModuleDefinition
from narval.core.definitions.prototype import EMPTY, Prototype
from narval.core.definitions.prototype import Input as Input
from narval.core.definitions.prototype import Output as Output
from narval.core.definitions.reading.values import TextTemplate
from narval.core.trust.paths import SlotPath

Where = Literal["thread", "worker", "inline", "async", "source", "cluster", "mcp"]
"""The places where a function runs: `async` is a task in the loop; so is `source`, which keeps running
(N36). A tool runs in its MCP server.
"""

ActionRuns = Literal["thread", "worker", "inline", "cluster"]
"""The places where a function that is not a coroutine may run, as written by its author."""

DECLARATION = "__narval_action__"
"""The attribute of a function that holds its `ActionDeclaration`."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Action(ModuleDefinition, frozen=True, eq=False, kw_only=True):
    """A Python function that can be called; `where` is where it runs.

    `describe` describes a call by its inputs, in a sentence for people who must agree to it. `outside` says
    that a call has effects visible outside the home. With `model` it returns the answer of a language model,
    which the input of that id names. Its outputs get the `label`, if any. `resources` are what it needs of a
    worker of the cluster, by name. `says_where` are the parts of its inputs that say where the call goes;
    None if not declared, so that each part may; a pure action goes nowhere. `needs` are the places that it
    may reach; None if its code declares none and may need anything. `undo` is the action that undoes a call,
    if there is one. `tool` is the MCP server's description, if the action is a tool. `xml` is the `action`
    element shown in memory.
    """

    kind: ClassVar[str] = "action"

    prototype: Prototype = EMPTY
    where: Where = "thread"
    describe: TextTemplate | None = None
    outside: bool = True
    model: str = ""
    label: str = ""
    resources: Resources = ()
    says_where: tuple[SlotPath, ...] | None = None
    needs: Needs | None = None
    undo: str = ""
    tool: Tool | None = None

    @property
    def reads_outside(self) -> bool:
        """True if it changes nothing outside the home but sends its inputs there: it queries a model or a
        server.
        """
        return not self.outside and (bool(self.model) or (self.needs is not None and bool(self.needs.hosts)))


@dataclass(frozen=True)
class ActionDeclaration:
    """A declaration by `@action`, as written by its author."""

    inputs: tuple[Input, ...] = ()
    """The inputs, in the order of the function's parameters."""
    outputs: tuple[Output, ...] = ()
    """The outputs of a call."""
    name: str | None = None
    """The name of the action; None: the function's name."""
    runs: ActionRuns | None = None
    """The place where the function runs; None: in the loop if it is async, else in a thread."""
    source: bool = False
    """True if it keeps running and yields elements."""
    description: str | None = None
    """The description; None: the function's docstring."""
    pure: bool = False
    """True if equal inputs always give equal outputs, without other effects."""
    describe: str | None = None
    """The text that describes a call to people who must agree to it."""
    outside: bool | None = None
    """True if it has effects outside the home; None: not declared."""
    model: str | None = None
    """The input that names the language model."""
    label: str | None = None
    """The label of its outputs."""
    resources: Mapping[str, float] | None = None
    """The amounts of resources that a call uses, by name."""
    where: Iterable[str] | None = None
    """The parts of inputs that say where the call goes, as in "email/@to"; None: not declared."""
    keeps: Mapping[str, str | Iterable[str]] | None = None
    """The parts of outputs that pass on parts of inputs: {"answer/@to": "mail/@from"}."""
    needs: Needs | None = None
    """The places that it may reach; None: not declared, so it may need anything."""
    undo: str | None = None
    """The action that undoes a call, as in "shop.cancel"."""


@overload
def action(function: Function, /) -> Function: ...


@overload
def action(
    *,
    inputs: Iterable[Input] = (),
    outputs: Iterable[Output] = (),
    name: str | None = None,
    runs: ActionRuns | None = None,
    source: bool = False,
    description: str | None = None,
    pure: bool = False,
    describe: str | None = None,
    outside: bool | None = None,
    model: str | None = None,
    label: str | None = None,
    resources: Mapping[str, float] | None = None,
    where: Iterable[str] | None = None,
    keeps: Mapping[str, str | Iterable[str]] | None = None,
    needs: Needs | None = None,
    undo: str | None = None,
) -> Callable[[Function], Function]: ...


def action(function: Callable[..., Any] | None = None, /, **words: Any) -> Any:
    """Declare a function as an action; the function itself is returned unchanged.

    The parameters are the ids of `inputs` ("-" becomes "_"). `name` overrides the function's name. `runs`
    says where it runs ("thread" by default, "worker", "inline", "cluster"; `async def` runs in the loop), and
    `resources` what it needs of a worker of the cluster, as in {"GPU": 1}. `source` marks an async generator
    whose step keeps running. `pure` says that it touches nothing outside, so that a simulation may run it.
    `describe` describes a call, as in "Send {$email/@subject} to {$email/to}", to people who must agree to
    it. `outside` says that its effects are visible outside the home; it is True by default, unless the action
    is pure or a source. After a language model's answer such a call asks first. `model` is the id of the
    input that names the model whose answer it returns. `label` names the way in of content from outside the
    home: "web", "mail". `needs` are the places that it may reach: a definition that calls code without
    `needs` is shown to need anything. `undo` is the action that undoes a call, as in "shop.cancel": it gets
    the inputs and outputs of the call.
    """
    for name in ("inputs", "outputs", "where"):
        is_absent = name not in words or (name == "where" and words[name] is None)
        if not is_absent and not isinstance(words[name], str):
            words[name] = tuple(words[name])
    if of_step := [name for name in ("timeout", "retries", "backoff") if name in words]:
        raise TypeError(
            f"{of_step[0]} does not belong in @action: write it at the step that calls the action"
        )
    declaration = ActionDeclaration(**words)

    def declare(declared: Function) -> Function:
        setattr(declared, DECLARATION, declaration)
        return declared

    return declare if function is None else declare(function)


def render(action: Action, runs: str | None, source: bool, outside: bool | None) -> bytes:
    """The `action` element shown in memory (table 2.16)."""
    root = etree.Element("action", {"name": action.name, "group": action.group, "func": action.function})
    if runs is not None:
        root.set("runs", str(runs))
    for flag, is_set in (("source", source), ("pure", action.pure)):
        if is_set:
            root.set(flag, "yes")
    if outside is not None:
        root.set("outside", "yes" if outside else "no")
    if action.resources:
        root.set("resources", shown_resources(action.resources))
    if action.model:
        root.set("model", action.model)
    if action.label:
        root.set("label", action.label)
    if action.says_where is not None and not (action.pure and not action.says_where):
        root.set("where", " ".join(map(str, action.says_where)))
    if action.undo:
        root.set("undo", action.undo)
    if action.prototype.keeps:
        root.set("keeps", " ".join(map(str, action.prototype.keeps)))
    if action.needs is not None and not action.pure:
        root.set("needs", shown_needs(action.needs))
    if action.describe is not None:
        root.set("describe", action.describe.text)
    for language, text in action.descriptions.items():
        etree.SubElement(root, "description", {"lang": language}).text = text
    for word, flags, declared in (
        ("input", ("use", "list", "optional", "outdates"), action.prototype.inputs),
        ("output", ("list", "optional"), action.prototype.outputs),
    ):
        for slot in declared:
            node = etree.SubElement(root, word, {"id": slot.id}, nsmap=dict(slot.namespaces))
            for flag in flags:
                if getattr(slot, flag):
                    node.set(flag, "yes")
            if isinstance(slot, Input) and slot.newest:
                node.set("newest", str(slot.newest))
            for name in ("unique", "replaces") if isinstance(slot, Output) else ():
                if (text := getattr(slot, name)) is not None:
                    node.set(name, text)
            if isinstance(slot, Output) and slot.own:
                node.set("own", " ".join(slot.own))
            for text in slot.match:
                etree.SubElement(node, "match").text = text
    return etree.tostring(root, encoding="utf-8")
