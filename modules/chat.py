"""Chat: texts to people and rooms, by the chats that the settings name.

The text of a message is shown as text, whoever wrote it: characters that could hide or reorder it are shown
as escapes, and the chats send it without markup, mentions and disguised links.
"""

from __future__ import annotations

from lxml import etree

from narval import Element, Input, Needs, Output, action
from narval.api import send_by_chat, timestamp


@action(
    inputs=[Input("message", "chat-out[@to]", use=True, reads="to")],
    outputs=[Output("sent", "chat-sent[@to]")],
    description="Send a text to a person, or to a room of the settings, by chat.",
    where=["message/@to"],
    needs=Needs(hosts=["[chats]"]),
)
async def send(message: Element) -> etree._Element:
    """Send the text of `<chat-out to="ann">…</chat-out>`: to a person by name, or to a room of the settings.

    It is sent once, even if the daemon is stopped in between: it is recorded under the id of the call. A
    person in quiet hours gets it at their end.
    """
    to, text = message.attributes["to"], message.text.strip()
    await send_by_chat(to, text)
    return etree.Element("chat-sent", to=to, at=timestamp())


@action(
    inputs=[Input("reminder", "reminder[@person]", reads="person chat")],
    outputs=[Output("told", "chat-sent[@to]")],
    description="Tell a person a reminder of theirs by chat, in quiet hours too.",
    where=["reminder/@person"],
    needs=Needs(hosts=["[chats]"]),
)
async def remind(reminder: Element) -> etree._Element:
    """Send the text of `<reminder person="ann" chat="phone">…</reminder>` to its person.

    It goes to the named chat if the person has an address there, else like any message for the person.
    """
    to = reminder.attributes["person"]
    await send_by_chat(to, f"Reminder: {reminder.text.strip()}", reminder=reminder.attributes.get("chat", ""))
    return etree.Element("chat-sent", to=to, at=timestamp())
