"""Command: a program of the settings, run with the content of elements (docs/reference/modules/command.md).

No element chooses the program, and none of its texts is parsed: each is one word, or standard input.
"""

from __future__ import annotations

from lxml import etree

import narval
from narval import ActionError, Element, Input, NarvalError, Needs, Output, action, call
from narval.api import CannotStartError, Command, elements_of, is_reserved, text_within, xml_safe

LONGEST_WORD = 100_000
"""The most bytes of a word; the system accepts about 128 KiB for each."""
SAID_BYTES = 2_000
"""The most bytes of the standard error that an error repeats, the last ones."""
USUAL_SECONDS = 60.0


@action(
    inputs=[Input("command", "command[@name]", reads="name")],
    outputs=[Output("output", "*", list=True, optional=True)],
    description="Runs a program of the settings with arguments from elements.",
    where=["command/@name", "command/argument"],
    label="program",
    needs=Needs(programs=["[commands]"]),
)
async def run(command: Element) -> list[bytes] | etree._Element:
    """Run the program `[commands.NAME]` of the settings; return its output.

    `<command name="NAME"><argument>…</argument><input>…</input></command>`: each argument is one word.
    """
    name = command.attributes["name"]
    service = narval.service("commands", name)
    words, text = _asked(service, command.tree())
    here, printed = call(), Printed(service.bytes)
    seconds = service.seconds or USUAL_SECONDS
    try:
        status = await here.run_program(
            words,
            printed.hear,
            seconds=seconds,
            environment=dict(service.environment),
            folder=service.folder,
            text=text.encode(),
        )
    except CannotStartError as error:
        raise _wrong(f"{service}: cannot run {error}", "no-program") from None
    except TimeoutError:
        raise ActionError(f"{service}: {words[0]} took more than {seconds:g} s", "too-slow") from None
    if status not in service.statuses:
        ended = f"ended with status {status}" if status >= 0 else f"was ended by signal {-status}"
        raise ActionError(f"{service}: {words[0]} {ended}: {printed.complaint}", "failed")
    if service.output == "xml":
        return _elements(service, printed)
    made = etree.Element("output", command=name, status=str(status))
    if printed.is_cut:
        made.set("cut", "yes")
    made.text = xml_safe(printed.output.decode("utf-8", "replace").rstrip("\n"))
    return made


class Printed:
    """The first bytes of a program's output, and the last ones of its standard error."""

    def __init__(self, most: int) -> None:
        self.output = bytearray()
        self.is_cut = False
        self._most, self._complaint = most, b""

    def hear(self, data: bytes, is_error: bool) -> None:
        """Add output of the program."""
        if is_error:
            self._complaint = (self._complaint + data)[-SAID_BYTES:]
        else:
            room = self._most - len(self.output)
            self.output += data[:room]
            self.is_cut = self.is_cut or len(data) > room

    @property
    def complaint(self) -> str:
        """The end of its standard error as one line."""
        return " ".join(self._complaint.decode("utf-8", "replace").split()) or "it said nothing"


def _asked(service: Command, command: etree._Element) -> tuple[list[str], str]:
    """The words of a command, and its standard input. Raises ActionError."""
    arguments: list[str] = []
    text = ""
    for child in command.iterchildren("*"):
        said = text_within(child)
        if child.tag == "argument":
            arguments.append(said)
        elif child.tag == "input" and not text:
            text = said
        else:
            raise _wrong(f"expected argument, and one input, in a command, found <{child.tag!s}>")
    return _placed(service, arguments), text


def _placed(service: Command, arguments: list[str]) -> list[str]:
    """The words of a program, with the arguments in order at each {}, or else at the end."""
    places = sum("{}" in word for word in service.run)
    if places and places != len(arguments):
        raise _wrong(f"{service}: expected {places} arguments, found {len(arguments)}")
    left, words, is_guarded = iter(arguments), list[str](), False
    for word in service.run if places else (*service.run, *["{}"] * len(arguments)):
        is_guarded = is_guarded or word == "--"
        if "{}" in word:
            value = next(left)
            if word.replace("{}", value).startswith("-") and not (
                word.startswith("-") or is_guarded or service.dashes
            ):
                raise _wrong(
                    f"{service}: expected an argument that is no option, found {value[:80]!r}; end run with "
                    f'"--" where {service.run[0]} knows that, or say dashes = true'
                )
            word = word.replace("{}", value)
            if len(word.encode()) > LONGEST_WORD:
                raise _wrong(
                    f"{service}: expected arguments of {LONGEST_WORD:,} bytes at most; say it by input"
                )
        words.append(word)
    return words


def _elements(service: Command, printed: Printed) -> list[bytes]:
    """The elements that a program printed. Raises ActionError for other output, and for control elements."""
    if printed.is_cut:
        raise ActionError(f"{service}: it printed more than its bytes allow", "bad-output")
    try:
        elements = elements_of(bytes(printed.output)) if printed.output.strip() else []
    except NarvalError as error:
        raise ActionError(f"{service}: expected XML, found {error}", "bad-output") from None
    if any(is_reserved(Element(0, element).name) for element in elements):
        raise ActionError(f"{service}: expected elements that narval does not obey", "bad-output")
    return elements


def _wrong(message: str, kind: str = "bad-command") -> ActionError:
    return ActionError(message, kind, final=True)
