"""Real servers of mail on this machine: OpenSMTPD takes and keeps it, Dovecot gives it out over IMAP."""

from __future__ import annotations

import email
import email.policy
import imaplib
import os
import shutil
import smtplib
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.message import EmailMessage
from pathlib import Path

PACKAGES = ("opensmtpd", "dovecot-imapd")
PROGRAMS = ("/usr/sbin/smtpd", "/usr/sbin/dovecot")
PASSWORD = "secret"

SMTPD = """
table people {{ "@" = "nobody" }}
listen on 127.0.0.1 port {smtp}
action "keep" maildir "{folder}/boxes/%{{rcpt.user}}" virtual <people>
match from any for any action "keep"
"""
DOVECOT = """
protocols = imap
base_dir = {folder}/run
log_path = {folder}/dovecot.log
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
first_valid_uid = 1
mail_location = maildir:{folder}/boxes/%n
default_internal_user = nobody
default_login_user = nobody
default_internal_group = nogroup
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid=nobody gid=nogroup home={folder}/boxes
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {imap}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service anvil {{
  chroot =
}}
"""


def missing() -> str:
    """The reason why there are no servers here; they are installed where that can be done."""
    if os.geteuid() != 0:
        return "only root can run a server that keeps mail for others"
    if all(map(os.path.exists, PROGRAMS)):
        return ""
    if shutil.which("apt-get") is None:
        return f"{' and '.join(PACKAGES)} are not installed"
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    install = ("apt-get", "install", "-qq", "-y", "--no-install-recommends", *PACKAGES)
    for command in (("apt-get", "update", "-qq"), install):
        try:
            subprocess.run(command, env=environment, capture_output=True, timeout=120, check=True)
        except (subprocess.SubprocessError, OSError) as error:
            return f"{' and '.join(PACKAGES)} cannot be installed: {error}"
    return "" if all(map(os.path.exists, PROGRAMS)) else "they were installed somewhere else"


class Servers:
    """The servers at work; everybody has a mailbox, by the first part of their address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.smtp, self.imap = _free_port(), _free_port()
        values = {"folder": folder, "smtp": self.smtp, "imap": self.imap, "password": PASSWORD}
        for name, text in (("smtpd.conf", SMTPD), ("dovecot.conf", DOVECOT)):
            (folder / name).write_text(text.format(**values))
        (folder / "boxes").mkdir()
        shutil.chown(folder / "boxes", "nobody")

    @contextmanager
    def running(self) -> Iterator[None]:
        commands = (
            [PROGRAMS[0], "-d", "-f", str(self.folder / "smtpd.conf")],
            [PROGRAMS[1], "-F", "-c", str(self.folder / "dovecot.conf")],
        )
        begun = [
            subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for line in commands
        ]
        try:
            for port in (self.smtp, self.imap):
                _wait_for(port)
            yield
        finally:
            for server in begun:
                server.terminate()
                server.wait(30)

    def send(self, mail: EmailMessage) -> None:
        """A person sends a mail."""
        with smtplib.SMTP("127.0.0.1", self.smtp) as server:
            server.send_message(mail)

    def mails(self, user: str) -> list[EmailMessage]:
        """The mails that a person has, as their program fetches them."""
        box = imaplib.IMAP4("127.0.0.1", self.imap)
        try:
            box.login(user, PASSWORD)
            box.select("INBOX", readonly=True)
            numbers = box.search(None, "ALL")[1][0].split()
            raws = [box.fetch(number.decode(), "(BODY.PEEK[])")[1][0] for number in numbers]
        finally:
            box.logout()
        found = [
            email.message_from_bytes(raw[1].replace(b"\r\n", b"\n"), policy=email.policy.default)
            for raw in raws
            if raw
        ]
        return [mail for mail in found if isinstance(mail, EmailMessage)]


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(200):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise AssertionError(f"nobody listens on port {port}")
