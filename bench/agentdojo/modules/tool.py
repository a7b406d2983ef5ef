"""The tools of AgentDojo as actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import quoteattr

from lxml import etree

from bench.agentdojo.tools import TOOLS, Tool, arguments_of, elements_of, played_in
from narval import ActionError, Element, Input, Output, action


def _action(name: str, tool: Tool) -> Callable[..., Any]:
    def call(request: Element) -> list[etree._Element]:
        try:
            arguments = arguments_of(request)
            elements = elements_of(tool.gives, played_in[-1].call(name, arguments))
            for member in elements if tool.gives == "member" else ():
                member.set("channel", arguments["channel"])
            return elements
        except ValueError as error:
            raise ActionError(str(error), "tool") from None

    call.__name__ = name
    call.__doc__ = f"Call the tool {name}."
    outputs = [Output("given", tool.gives, list=True, optional=True, own=tool.own.split())]
    if tool.gives == "transaction":  # what the owner has paid is the owner's own words
        outputs.append(
            Output(
                "own",
                "payment",
                list=True,
                optional=True,
                own=["@id", "@sender", "@recipient", "@amount", "@date", "@recurring", "@subject"],
            )
        )
    return action(
        name=name,
        inputs=[Input("request", name)],
        outputs=outputs,
        outside=tool.outside,
        label=tool.label,
        where=[f"request/{part}" for part in tool.where.split()],
    )(call)


globals().update({name: _action(name, tool) for name, tool in TOOLS.items()})


@action(inputs=[Input("said", "say")], outside=False)
def say(said: Element) -> None:
    """Tell the user something."""
    played_in[-1].say(
        " ".join([*(value for name, value in said.attributes.items() if name != "eid"), said.text])
    )


@action(
    inputs=[Input("message", "message", list=True)],
    outputs=[Output("ranked", "ranked", list=True, own=["@name", "@rank"])],
    runs="inline",
    pure=True,
)
def rank(message: list[Element]) -> list[str]:
    """Rank the senders of messages by how many they wrote; equals by the alphabet."""
    counts = Counter(each.attributes["sender"] for each in message)
    names = sorted(counts, key=lambda name: (-counts[name], name))
    return [f"<ranked name={quoteattr(name)} rank='{place}'/>" for place, name in enumerate(names, 1)]
