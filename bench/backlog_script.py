"""W19, the limit: a script that answers the mails of a Maildir, by Python's `email` and `mailbox` alone.

    python -m bench.backlog_script [MAILS]

It parses each mail, reads its text and its files, leaves alone what is from lists and programs, and puts one
answer for an address into another Maildir, synced as `mailbox` does it. Killed, it begins again and answers
all of them twice; nothing is kept of what it did, and nothing tells why.
"""

from __future__ import annotations

import mailbox
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import make_msgid
from pathlib import Path
from time import process_time

from bench import mails
from bench.measure import argument, emit, now, scratch

TEXT = """Dear {name},

thank you for your message "{subject}". It has arrived and will be read."""
ME = "assistant@example.org"


def answer(raw: bytes, answered: set[str]) -> EmailMessage | None:
    """The answer to a mail; None for one that is left alone."""
    message = message_from_bytes(raw, policy=policy.default)
    assert isinstance(message, EmailMessage)
    text = message.get_body(("plain", "html"))
    assert text is not None
    text.get_content()
    for file in message.iter_attachments():
        file.get_payload(decode=True)
    if message["list-id"] or message["auto-submitted"] or message["precedence"]:
        return None
    sender = message["from"].addresses[0]
    to = str(message["return-path"]).strip("<> ") or sender.addr_spec
    if to in answered:
        return None
    answered.add(to)
    made = EmailMessage()
    made["From"], made["To"] = f"Demo Assistant <{ME}>", to
    made["Subject"], made["Message-ID"] = f"Re: {message['subject']}", make_msgid(domain="example.org")
    made["In-Reply-To"] = made["References"] = str(message["message-id"])
    made["Date"], made["Auto-Submitted"] = message["date"].datetime, "auto-replied"
    made.set_content(TEXT.format(name=sender.display_name or to, subject=message["subject"]))
    return made


def main() -> None:
    count = argument(1, 10_000)
    with scratch() as folder:
        asked = mails.fill(folder / "in", count)
        began, worked = now(), process_time()
        outbox, answered = mailbox.Maildir(folder / "out"), set[str]()
        for path in sorted(Path(folder / "in/new").iterdir()):
            made = answer(path.read_bytes(), answered)
            if made is not None:
                outbox.add(made)
        seconds, worked = now() - began, process_time() - worked
        assert len(list((folder / "out/new").iterdir())) == asked
    emit(f"W19-{count}", count, seconds, peer="script", processor_s=round(worked, 2), answers=asked)


if __name__ == "__main__":
    main()
