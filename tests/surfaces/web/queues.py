"""Tasks, a dataflow that remembers, and letters that could not be sent, for the pages that show them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.surfaces.cli.command_line import narval
from tests.surfaces.web.household import PagesOfHome

TASKS = """
TASK TYPE scan
  INITIAL scanning
  STATE scanning EXPOSED
    ON EVENT scanned GOTO reading
  STATE reading EXPOSED
    ON EVENT ev.never
      AFTER 1 HRS
      CONDITION
      ACTION
    ON EVENT ev.now
      BEFORE 1 HRS
      CONDITION "nothing[@of='this']"
      ACTION
    ON EVENT stored GOTO FORWARD
  ON FORWARD
    route(book);

TASK TYPE book
  ROLES: operator
  INITIAL booking
  STATE booking EXPOSED
    ON EVENT done GOTO COMMIT

TASK TYPE fork
  INITIAL here
  STATE here EXPOSED
    ON EVENT done GOTO FORWARD
  ON FORWARD
    if (obj.n == 99) route(book);

GLOBAL EVENT NIGHT EVERY 24 HRS
  CONDITION "true"
  ACTION
"""

FLATS = json.dumps([{"link": n, "price": 100 * n} for n in range(60)])
PLAN = """
PLAN Watch {
  BODY {
    makestream2("FLATS" : flats)
    remember("flats", "link", flats : new, _)
    print(new)
  }
}
"""


def add_queues(home: Path) -> None:
    """Write the types of w.task and the dataflow of flats.plan into a home."""
    (home / "recipes" / "w.task").write_text(TASKS)
    (home / "recipes" / "flats.plan").write_text(PLAN.replace("FLATS", FLATS.replace('"', '\\"')))


def send_in_vain(pages: PagesOfHome, count: int, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Send letters to an agent that takes none and is removed; `meanwhile` is done while they wait."""
    for act in ("add", "suspend"):
        assert narval(pages.home.path, "agents", act, "ada").exit_code == 0
    for n in range(count):
        pages.ask("send", to="ada", elements=[b"<note n='%d'/>" % n])
    meanwhile()
    assert narval(pages.home.path, "agents", "remove", "ada", "--now").exit_code == 0


def hold(pages: PagesOfHome) -> int:
    """An object of w.fork that no script routes, and so is held."""
    [row] = pages.ask("task_put", name="w.fork", elements=[b"<sheet n='7'/>"])["cases"]
    task = pages.ask("task_init", name="w.fork")["task"]
    pages.ask("task_get", task=task, wait=60.0)
    pages.ask("task_assert", task=task, state="FORWARD")
    return int(row["object"])
