"""Real servers of mail on this machine: OpenSMTPD takes and keeps it, Dovecot gives it out over IMAP."""

from __future__ import annotations

import email
import email.policy
import fcntl
import imaplib
import os
import shutil
import smtplib
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.message import EmailMessage, Message
from pathlib import Path

import pytest

from tests.ports import free_port

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
    with open(Path(tempfile.gettempdir(), "narval-mail-servers.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker of these tests may be about to install them
        return "" if all(map(os.path.exists, PROGRAMS)) else _missing_after_installing()


def _missing_after_installing() -> str:
    if shutil.which("apt-get") is None:
        return f"{' and '.join(PACKAGES)} are not installed"
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    waits = ("-o", "DPkg::Lock::Timeout=120")
    install = ("apt-get", "install", "-qq", "-y", "--no-install-recommends", *waits, *PACKAGES)
    for command in (("apt-get", "update", "-qq"), install):
        try:
            subprocess.run(command, env=environment, capture_output=True, timeout=240, check=True)
        except (subprocess.SubprocessError, OSError) as error:
            return f"{' and '.join(PACKAGES)} cannot be installed: {error}"
    return "" if all(map(os.path.exists, PROGRAMS)) else "they were installed somewhere else"


class Servers:
    """The servers at work; everybody has a mailbox, by the first part of their address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.smtp, self.imap = free_port(), free_port()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        values = {"folder": folder, "smtp": self.smtp, "imap": self.imap, "password": PASSWORD}
        for name, text in (("smtpd.conf", SMTPD), ("dovecot.conf", DOVECOT)):
            (folder / name).write_text(text.format(**values))
        (folder / "boxes").mkdir()
        shutil.chown(folder / "boxes", "nobody")

    @contextmanager
    def running(self) -> Iterator[None]:
        """The servers at work, once those of other workers have ended: OpenSMTPD has one control socket, at a
        place that no setting moves, and a second one does not start beside the first.
        """
        with open(Path(tempfile.gettempdir(), "narval-mail-servers-at-work.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                self.begin("smtp")
                self.begin("imap")
                yield
            finally:
                for name in list(self._running):
                    self.end(name)

    def begin(self, name: str) -> None:
        """Have a server listen: `smtp` or `imap`."""
        line = {
            "smtp": [PROGRAMS[0], "-d", "-f", str(self.folder / "smtpd.conf")],
            "imap": [PROGRAMS[1], "-F", "-c", str(self.folder / "dovecot.conf")],
        }[name]
        self._running[name] = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _wait_for(self.smtp if name == "smtp" else self.imap)

    def end(self, name: str) -> None:
        """Have a server end, and all its connections with it."""
        server = self._running.pop(name)
        server.terminate()
        server.wait(30)

    @contextmanager
    def opened(self, user: str) -> Iterator[imaplib.IMAP4]:
        """A person's mailbox, opened by their program."""
        box = imaplib.IMAP4("127.0.0.1", self.imap)
        try:
            box.login(user, PASSWORD)
            yield box
        finally:
            box.logout()

    def send(self, mail: Message) -> None:
        """A person sends a mail."""
        with smtplib.SMTP("127.0.0.1", self.smtp) as server:
            server.send_message(mail)

    def mails(self, user: str, folder: str = "INBOX") -> list[EmailMessage]:
        """The mails that a person has, as their program fetches them."""
        with self.opened(user) as box:
            box.select(folder, readonly=True)
            numbers = box.search(None, "ALL")[1][0].split()
            raws = [box.fetch(number.decode(), "(BODY.PEEK[])")[1][0] for number in numbers]
        found = [
            email.message_from_bytes(raw[1].replace(b"\r\n", b"\n"), policy=email.policy.default)
            for raw in raws
            if isinstance(raw, tuple)  # a letter that is moved just now is told of without its text
        ]
        return [mail for mail in found if isinstance(mail, EmailMessage)]


def _wait_for(port: int) -> None:
    for _ in range(600):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise AssertionError(f"nobody listens on port {port}")


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """The servers, for the tests of a file; they are left out where there can be none."""
    if why := missing():
        pytest.skip(f"tests with real servers of mail are left out: {why}")
    with tempfile.TemporaryDirectory(prefix="narval-mail-") as folder:
        Path(folder).chmod(0o755)
        made = Servers(Path(folder))
        with made.running():
            yield made
