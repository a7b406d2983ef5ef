"""A home at work, its daemon and its pages as programs of their own, that can be killed and begun again."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

from narval.files.home import Home
from narval.surfaces.control.client import Client
from tests.forked_commands import Command
from tests.surfaces.cli.command_line import begun, line_of, make_home, separately

STAGES = """\
<cookbook group="show">
  <recipe group="show" name="stages" start_step="first" end_step="last">
    <step id="first" type="action" target="talk.nothing"/>
    <step id="second" type="action" target="talk.nothing"/>
    <step id="last" type="action" target="talk.nothing"/>
    <transition id="one"><in idref="first"/><out idref="second"/>
      <condition use="yes"><match>go[@stage='1']</match></condition></transition>
    <transition id="two"><in idref="second"/><out idref="last"/>
      <condition use="yes"><match>go[@stage='2']</match></condition></transition>
  </recipe>
  <recipe group="show" name="still" start_step="first" end_step="last">
    <step id="first" type="action" target="talk.nothing"/>
    <step id="last" type="action" target="talk.nothing"/>
    <transition id="never"><in idref="first"/><out idref="last"/>
      <condition use="yes"><match>never[@so='yes']</match></condition></transition>
  </recipe>
  <recipe group="show" name="asks" start_step="judge" end_step="judge">
    <step id="judge" type="work" target="show.judge"/>
  </recipe>
  <work group="show" name="judge">
    <title>Is this to be answered?</title>
    <for roles="operator"/>
    <outcome name="yes"/><outcome name="no"/>
  </work>
  <work group="show" name="form">
    <title>Why is that so?</title>
    <for roles="operator"/>
    <field name="why" type="text">Your words</field><field name="limit" type="decimal">How much</field>
    <outcome name="yes"/>
  </work>
  <work group="show" name="long">
    <title>Is this the question that is too long for one line on a telephone, or is one longer?</title>
    <for roles="operator"/><outcome name="yes"/>
  </work>
</cookbook>
"""

PROCESS = """\
<process-definition name="order">
  <node name="enter" type="wait" isStart="true"><arc to="bill"/></node>
  <node name="bill" type="wait"/>
</process-definition>
"""

PEOPLE = """
[people.ann]
login = "root"
web = "operator"
roles = ["operator"]

[people.ben]
login = "ben"
web = "person"
roles = ["operator"]
"""

LINK = re.compile(rb"https?://\S+/login\S+")


class Household:
    """A home with a daemon and the program of its pages."""

    def __init__(self, place: Path) -> None:
        self.home = make_home(place)
        (self.home / "recipes" / "show.xml").write_text(STAGES)
        (self.home / "recipes" / "order.xml").write_text(PROCESS)
        (self.home / "etc" / "people.toml").write_text(PEOPLE)
        with (self.home / "etc" / "narval.toml").open("a") as settings:
            settings.write("\n[web]\nedit = true\n")
        self._daemon: Command | None = None
        self._web: Command | None = None
        self.link, self.address = "", ""

    def begin_daemon(self) -> None:
        self._daemon = begun(self.home, "run")
        assert b"is ready" in line_of(self._daemon)

    def begin_web(self, *arguments: object) -> None:
        """Start the pages, at the port they had before."""
        port = ("--port", self.address.rpartition(":")[2]) if self.address else ("--port", 0)
        self._web = begun(self.home, "web", *port, *arguments)
        line = line_of(self._web)
        found = LINK.search(line)
        assert found, (line, self._web.stderr.read() if self._web.poll() is not None else "")  # type: ignore[union-attr]
        self.link = found[0].decode()
        self.address = self.link.partition("/login")[0]

    def kill_daemon(self) -> None:
        _killed(self._daemon)
        self._daemon = None

    def kill_web(self) -> None:
        _killed(self._web)
        self._web = None

    def close(self) -> None:
        self.kill_web()
        self.kill_daemon()

    def narval(self, *arguments: object, given: str = "") -> str:
        """What a command writes that ends well."""
        result = separately(self.home, *arguments, given=given.encode())
        assert result.returncode == 0, (arguments, result.stdout, result.stderr)
        return result.stdout.decode()

    def data(self, *arguments: object, given: str = "") -> Any:
        return json.loads(self.narval(*arguments, "--json", given=given))

    def client(self, person: str = "") -> Client:
        """A connection to the daemon, in a person's name."""
        path = Home(self.home).known_socket()
        assert path is not None
        return Client(path, acting_as=person)

    def start(self, definition: str) -> int:
        """Start a run; its number."""
        with self.client() as client:
            return int(client.ask("start", name=definition)["eid"])

    def add(self, xml: str) -> int:
        """Add an element; its number."""
        with self.client() as client:
            return int(client.ask("add", elements=[xml.encode()])["eids"][0])


def log_in(page: Any, link: str) -> None:
    """Use a login link as a person does."""
    page.goto(link)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(lambda url: "/login" not in url)


def _killed(running: Command | None) -> None:
    if running is None:
        return
    if running.poll() is None:
        running.send_signal(signal.SIGKILL)
    running.communicate()
