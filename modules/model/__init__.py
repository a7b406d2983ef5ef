"""Model: a language model as an action, by the OpenAI chat protocol (docs/reference/modules/model.md).

What elements hold goes to the model as data, apart from what the author asks; what it answers is values of
one element whose name and attributes the author chose, checked.
"""

from __future__ import annotations

import asyncio

from lxml import etree

from narval import ActionError, Element, Input, Needs, Output, action, call, service

from .answers import Expected
from .budget import Budget, tokens_of
from .chat import Chat, Reply
from .prompts import Asked

USUAL_SECONDS = 120.0


@action(
    inputs=[Input("prompt", "prompt[@model]", reads="model answer most tokens")],
    outputs=[Output("answer", "*", list=True)],
    outside=False,
    model="prompt",
    needs=Needs(hosts=["[models]"], secrets=["[models]"]),
    description="Asks a language model, and gives its answer as elements that fit.",
    where=["prompt/@model"],
)
async def ask(prompt: Element) -> list[etree._Element]:
    """Ask the model of `<prompt model="NAME" answer="ELEMENT">…</prompt>`, again if its answer does not fit.

    Raises ActionError: `bad-prompt`, `bad-answer`, `over-budget`, `model-refused` for good; `model-busy`,
    `model-failed`, `unreachable` where another try may help.
    """
    here, asked = call(), Asked.of(prompt)
    expected = Expected.of(asked)
    model = service("models", asked.model)
    budget, chat = Budget(model, here.home), Chat(model, model.seconds or USUAL_SECONDS)
    messages = asked.messages(expected.described)
    for _ in range(2):
        reply = await _replied(chat, budget, messages, expected)
        made, faults = expected.read(reply)
        if not faults:
            return made
        messages = [
            *messages,
            {"role": "assistant", "content": reply.text[:4_000]},
            {"role": "user", "content": f"That is not what was asked for: {'; '.join(faults)}. Answer anew."},
        ]
    raise ActionError(f"{model}: its answer does not fit: {'; '.join(faults)}", "bad-answer", final=True)


@action(
    inputs=[Input("prompt", "prompt[@model]", reads="model answer most tokens")],
    outputs=[Output("spent", "spent[@model]")],
    outside=False,
    needs=Needs(),
    description="Tells what a language model has cost today, and may cost yet.",
    where=["prompt/@model"],
)
def spent(prompt: Element) -> etree._Element:
    """Give `<spent model="…" day="…" tokens="…" money="…"/>`, and what is left where there is a limit."""
    model = service("models", prompt.attributes["model"])
    return etree.Element("spent", Budget(model, call().home).told())


async def _replied(chat: Chat, budget: Budget, messages: list[dict[str, str]], expected: Expected) -> Reply:
    """The reply to messages; what it costs is counted before by an estimate, and known afterwards."""
    tokens = sum(tokens_of(message["content"]) for message in messages)
    number = await asyncio.to_thread(budget.reserve, tokens, expected.tokens)
    reply = Reply()
    try:
        await chat.ask(messages, reply, expected.tokens, expected.schema if expected.fields else None)
    finally:
        budget.correct(number, *reply.used(tokens))
    return reply
