"""Model: a language model as an action, by the OpenAI chat protocol (docs/reference/modules/model.md).

The content of elements goes to the model as data, separate from the author's question. Its answer provides
checked values for one element, whose name and attributes the author chose.
"""

from __future__ import annotations

from lxml import etree

from narval import ActionError, Element, Input, Needs, Output, action, call, service
from narval.api import Budget, ask_model

from .answers import Expected
from .prompts import Asked


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
    """Ask the model of `<prompt model="NAME" answer="ELEMENT">…</prompt>`, again if its answer is invalid.

    Raises ActionError: `bad-prompt`, `bad-answer`, `over-budget`, `model-refused` for good; `model-busy`,
    `model-failed`, `unreachable` if a retry may help.
    """
    asked = Asked.of(prompt)
    expected = Expected.of(asked)
    model = service("models", asked.model)
    schema = expected.schema if expected.fields else None
    messages = asked.messages(expected.described)
    for _ in range(2):
        reply = await ask_model(model, messages, expected.tokens, schema)
        made, faults = expected.read(reply)
        if not faults:
            return made
        messages = [
            *messages,
            {"role": "assistant", "content": reply.text[:4_000]},
            {
                "role": "user",
                "content": f"That is not what was asked for: {'; '.join(faults)}. Answer again.",
            },
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
    """Return `<spent model="…" day="…" tokens="…" money="…"/>`, and what is left if there is a limit."""
    model = service("models", prompt.attributes["model"])
    return etree.Element("spent", Budget(model, call().home).told())
