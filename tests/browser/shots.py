"""Pictures of all pages for docs/reference/monitor.md (M99): `python -m tests.browser.shots` (make shots)."""

from __future__ import annotations

import base64
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from narval.files.home import Home
from narval.files.new_home import create_home
from narval.surfaces.control.client import Client
from narval.system.logins import login
from tests.browser.finding import ADVICE, browser_path
from tests.browser.programs import LINK, log_in
from tests.places import ROOT
from tests.surfaces.cli.command_line import begun, line_of

PICTURES = ROOT / "docs" / "reference" / "pictures"
WIDE, NARROW = (1280, 800), (390, 800)
QUALITIES, MOST = (75, 60, 45, 30), 60_000

FILES = {
    "recipes/shop.xml": """\
<cookbook group="shop">
  <recipe group="shop" name="bill" start_step="price" end_step="post">
    <step id="price" type="action" target="shop.price"/>
    <step id="print" type="action" target="shop.print_bill" retries="1" backoff="0.2"/>
    <step id="post" type="action" target="shop.post"/>
    <transition id="priced"><in idref="price"/><out idref="print"/></transition>
    <transition id="printed"><in idref="print"/><out idref="post"/></transition>
  </recipe>
  <recipe group="shop" name="parcel" start_step="pack" end_step="thank">
    <step id="pack" type="action" target="shop.price"/>
    <step id="carry" type="action" target="shop.carry"/>
    <step id="thank" type="action" target="shop.post"/>
    <transition id="packed"><in idref="pack"/><out idref="carry"/></transition>
    <transition id="signed"><in idref="carry"/><out idref="thank"/>
      <condition use="yes"><match>signature[@parcel]</match></condition></transition>
  </recipe>
</cookbook>
""",
    "recipes/order.xml": """\
<process-definition name="order">
  <node name="enter" type="wait" isStart="true"><arc to="bill"/><arc to="pack"/></node>
  <node name="bill" type="wait"><arc to="hand over"/></node>
  <node name="pack" type="wait"><arc to="hand over"/></node>
  <node name="hand over" joinType="and"><arc to="thank"/></node>
  <node name="thank" type="wait"/>
</process-definition>
""",
    "modules/shop.py": """\
import asyncio

from narval import Input, Output, action


@action(inputs=[Input("order", "order")], outputs=[Output("bill", "bill")], runs="inline",
        description="Says what an order costs.")
def price(order):
    return f"<bill order='{order.attributes['id']}' sum='{order.attributes['sum']}'/>"


@action(inputs=[Input("bill", "bill")], runs="inline", description="Prints a bill.")
def print_bill(bill):
    if float(bill.attributes["sum"]) > 100:
        raise ConnectionError(f"the printer 'desk' did not answer about bill {bill.attributes['order']}")


@action(runs="inline", description="Posts what is ready.")
def post():
    pass


@action(description="Has a parcel carried.")
async def carry():
    await asyncio.sleep(3600)
""",
    "recipes/bank.task": """\
TASK TYPE scan
  INITIAL scanning
  STATE scanning EXPOSED
    ON EVENT scanned GOTO checking
  STATE checking EXPOSED
    ON EVENT bank.update
      AFTER 1 HRS
      CONDITION
      ACTION
    ON EVENT bank.hurry
      BEFORE 2 HRS
      CONDITION "call[@of='the customer']"
      ACTION
    ON EVENT checked GOTO FORWARD
  ON FORWARD
    route(book);

TASK TYPE book
  ROLES: operator
  INITIAL booking
  STATE booking EXPOSED
    ON EVENT booked GOTO COMMIT
""",
    "recipes/flats.plan": """\
PLAN Watch {
  BODY {
    makestream2("[{FLATS}]" : flats)
    remember("flats", "link", flats : new, _)
    print(new)
  }
}
""".replace(
        "FLATS",
        "}, {".join(f'\\"link\\": \\"homes.example/{n}\\", \\"rooms\\": {n % 4 + 1}' for n in range(7)),
    ),
    "etc/people.toml": """\
[people.ann]
login = "{login}"
web = "operator"
roles = ["operator"]
""",
}

HOOK = f"""
[hooks.build]
sha256 = "{"0" * 64}"
element = "build"
"""

GOOD = """\
<recipe group="shop" name="greet" start_step="say" end_step="say">
  <step id="say" type="action" target="shop.post"/>
</recipe>
"""

PROPOSED = """\
<recipe group="books" name="forward" start_step="listen" end_step="tell" restart="parallel">
  <description lang="en">Write to the accountant about each invoice.</description>
  <step id="listen" type="action" target="basic.nothing"/>
  <step id="tell" type="action" target="mail.write" retries="12" backoff="30">
    <arguments>
      <draft to="books@example.org" subject="{$invoice/@subject}">An invoice has come.</draft>
    </arguments>
  </step>
  <transition id="came">
    <in idref="listen"/><out idref="tell"/>
    <condition as="invoice" use="yes"><match>email[contains(@subject, 'invoice')]</match></condition>
  </transition>
</recipe>
"""

Picture = tuple[str, str, dict[str, Any]]


def pictures(seen: dict[str, int | str]) -> Iterator[Picture]:
    """The name of each picture, the address of its page, and how it is looked at."""
    pages = {
        "status": "/",
        "runs": "/runs",
        "gantt": "/runs/gantt?minutes=10",
        "run": "/runs/{asks}",
        "errors": "/errors",
        "part": "/runs/{failed}/parts/print",
        "timeline": "/runs/{failed}/timeline",
        "replay": "/runs/{asks}/replay",
        "story": "/runs/{asks}/story",
        "history": "/runs/{failed}/history",
        "retry": "/runs/{failed}/retry",
        "cancel": "/runs/{parcel}/cancel",
        "signal": "/runs/{parcel}/signal",
        "start": "/start/shop.bill",
        "tokens": "/runs/{order}/tokens",
        "memory": "/memory?xpath=triage",
        "element": "/memory/{answer}",
        "add": "/memory/add",
        "definitions": "/definitions",
        "definition": "/definitions/mail.triage?kind=recipe",
        "edit": "/definitions/shop.greet/edit?kind=recipe",
        "difference": "/definitions/shop.greet/diff?kind=recipe&old={old}",
        "incident": "/errors/{incident}",
        "many-runs": "/runs/all/retry?incident={incident}",
        "work": "/work",
        "work-item": "/work/{item}",
        "simulate": "/simulate?definition=shop.parcel",
        "trial": "/simulate/{trial}",
        "past": "/past/{job}",
        "proposals": "/proposals",
        "proposal": "/proposals/forward-invoices",
        "example": "/examples/invoice",
        "tasks": "/tasks",
        "object": "/tasks/objects/{object}",
        "letters": "/letters?dead=yes",
        "calendar": "/calendar",
        "log": "/log",
        "search": "/search?q=mail",
    }
    for name, path in pages.items():
        yield name, "/a/narval" + path.format(**seen), {}
    for name in ("status", "run", "errors"):
        yield f"{name}-dark", "/a/narval" + pages[name].format(**seen), {"color_scheme": "dark"}
    yield "gantt-narrow", "/a/narval" + pages["gantt"], {"viewport": NARROW}
    yield "run-narrow", "/a/narval" + pages["run"].format(**seen), {"viewport": NARROW}
    yield "sessions", "/sessions", {}


@contextlib.contextmanager
def at_work(home: Home) -> Iterator[str]:
    """The daemon of a home and its pages; the login link."""
    daemon = begun(home.path, "run")
    web = None
    try:
        assert b"is ready" in line_of(daemon)
        web = begun(home.path, "web", "--port", "0")
        found = LINK.search(line_of(web))
        assert found is not None
        yield found[0].decode()
    finally:
        for program in filter(None, (web, daemon)):
            program.terminate()
            program.communicate()


def make(place: Path) -> Home:
    """The home of the demo, with a shop in it."""
    home = create_home(place)
    for name, text in FILES.items():
        (home.path / name).write_text(text.replace("{login}", login(os.getuid())))
    (home.path / "recipes" / "greet.xml").write_text(GOOD)
    settings = home.path / "etc" / "narval.toml"
    text = settings.read_text().replace('grants = "ask"', 'grants = "trust"')
    settings.write_text(f'timezone = "UTC"\n{text}\n[web]\nedit = true\n{HOOK}')
    return home


def fill(home: Home) -> dict[str, int | str]:
    """Have something happen in the home; what there is to be looked at."""
    socket = home.known_socket()
    assert socket is not None
    with Client(socket, acting_as="ann") as client:

        def start(name: str, *elements: str) -> int:
            return int(client.ask("start", name=name, elements=[xml.encode() for xml in elements])["eid"])

        def until_quiet() -> None:
            left = -1
            while left != (left := client.ask("status")["turns"]) or not client.ask("worklist"):
                time.sleep(2)

        (before,) = client.ask("versions", name="shop.greet", kind="recipe")
        start("shop.greet")
        until_quiet()
        for number, price in enumerate((40, 250, 120, 80, 310)):
            failed = start("shop.bill", f"<order id='{number + 1}' sum='{price}'/>")
        parcel = start("shop.parcel", "<order id='7' sum='30'/>")
        order = start("order.order")
        client.ask("complete", run=order, node="enter")
        (home.path / "recipes" / "greet.xml").write_text(GOOD.replace("say", "wave"))
        client.ask("reload")
        faulty = FILES["recipes/order.xml"].replace("joinType", "jointype")
        (home.path / "recipes" / "order.xml").write_text(faulty)
        client.ask("reload")
        client.ask("wait", run=failed, timeout=30)
        until_quiet()
        (item,) = client.ask("worklist")[:1]
        (incident,) = (row for row in client.ask("incidents") if row["definition"] == "shop.bill")
        answer = client.ask("elements", xpath="email[@kind='ack']", limit=1)["elements"][0]
        greet = (home.path / "recipes" / "greet.xml").read_text()
        digest = client.ask("edit", name="shop.greet")["digest"]
        with Client(socket) as owner:
            owner.ask("save_edit", name="shop.greet", text=f"<!-- for the shop -->\n{greet}", digest=digest)
        order_of_parcel = [b"<order id='8' sum='20'/>", b"<signature parcel='8'/>"]
        trial = client.ask("simulate", definition="shop.parcel", elements=order_of_parcel, duration="1h")
        cheques = [f"<cheque n='{n}' amount='{n * 40}'/>".encode() for n in range(1, 6)]
        first = client.ask("task_put", name="bank.scan", elements=cheques)["cases"][0]
        for _ in range(2):  # one of them has the first object
            task = client.ask("task_init", name="bank.scan")["task"]
            client.ask("task_get", task=task, wait=60.0)
            client.ask("task_assert", task=task, state="checking")
        for event in ("bank.update", "bank.hurry"):
            client.ask("task_raise", name="bank.scan", event=event)
        start("flats.Watch")
        client.ask("add_agent", name="shop")
        client.ask("suspend", name="shop")
        for n in (1, 2):
            client.ask("send", to="shop", elements=[f"<order n='{n}' item='milk'/>".encode()])
        client.ask("remove_agent", name="shop", now=True)
        with Client(socket) as owner:
            for n in (1, 2, 3):
                owner.ask("take_hook", name="build", element=f"<build n='{n}' state='failed'/>".encode())
            owner.ask("note_refused", name="build", statuses={"401": 2, "429": 14})
        wish = "forward invoices to my accountant"
        client.ask("propose", name="forward-invoices", texts={"invoices.xml": PROPOSED}, wish=wish)
        job = client.ask("try_on_past", definition="mail.triage", since="1d")["job"]
        while client.ask("job", job=job)["state"] == "running":
            time.sleep(1)
        return {
            "trial": trial["trial"],
            "object": first["object"],
            "job": job,
            "failed": failed, "parcel": parcel, "order": order, "asks": item["run"]["run"],
            "item": item["item"],
            "incident": incident["incident"], "answer": answer["eid"], "old": before["digest"],
        }  # fmt: skip


def take(browser: Any, link: str, seen: dict[str, int | str], wanted: list[str]) -> None:
    """Take the pictures."""
    base = link.partition("/login")[0]
    context = browser.new_context()
    page = context.new_page()
    log_in(page, link)
    state = context.storage_state()
    PICTURES.mkdir(exist_ok=True)
    for name, address, look in pictures(seen):
        if wanted and name not in wanted:
            continue
        width, height = look.get("viewport", WIDE)
        context = browser.new_context(
            storage_state=state,
            viewport={"width": width, "height": height},
            color_scheme=look.get("color_scheme", "light"),
            reduced_motion="reduce",
        )
        page = context.new_page()
        answer = page.goto(base + address)
        page.locator("main").wait_for()
        page.wait_for_timeout(500)
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            print(f"{name} is wider than the window", file=sys.stderr)
        file = PICTURES / f"{name}.webp"
        camera = context.new_cdp_session(page)
        for quality in QUALITIES:
            shot = camera.send("Page.captureScreenshot", {"format": "webp", "quality": quality})
            file.write_bytes(base64.b64decode(shot["data"]))
            if file.stat().st_size <= MOST:
                break
        print(f"{answer.status} {file.relative_to(ROOT)} {file.stat().st_size // 1000} kB")
        context.close()


def main() -> None:
    """Make a home, have its assistant work, and take the pictures of its pages, or those that are named."""
    path = browser_path()
    if path is None:
        sys.exit(f"no browser: {ADVICE}")
    with tempfile.TemporaryDirectory() as scratch:
        home = make(Path(scratch) / "home")
        with at_work(home) as link, sync_playwright() as playwright:
            seen = fill(home)
            browser = playwright.chromium.launch(
                executable_path=path, args=["--no-sandbox", "--disable-background-networking"]
            )
            take(browser, link, seen, sys.argv[1:])
            browser.close()


if __name__ == "__main__":
    main()
