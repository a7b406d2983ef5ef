"""HTTP: a request to a service of the settings, or to a public address (docs/reference/modules/http.md).

Only the settings say where a secret goes. The content of elements is encoded for its place: a segment
of a path, a value of a query, a field, a member of JSON; none of it is parsed as part of an address.
"""

from __future__ import annotations

from lxml import etree

import narval
from narval import ActionError, Element, Fetched, FetchError, Input, Needs, Output, action, call
from narval.api import xml_safe

from ..files.places import atomically, place
from .texts import is_text, text_of
from .wanted import Wanted

KEPT_HEADERS = ("location", "link", "etag", "last-modified", "retry-after")
"""The headers of an answer that become attributes of its element."""
PASSING = (408, 425, 429, 500, 502, 503, 504)
"""The statuses that may be temporary: a retry may help."""
BUSY = (429, 503)
"""The statuses of a server that has not begun, and says when to retry."""
MOST_WAITS, LONGEST_WAIT = 3, 60.0
"""The most waits for a busy server, and the most seconds of one."""
SAID = 500
"""The most characters of an answer that an error repeats."""


@action(
    inputs=[
        Input(
            "request",
            "request[@url or @service]",
            reads="service url path method accept once most seconds",
        )
    ],
    outputs=[Output("response", "response[@status]", own=["@status", "@size"])],
    description="A request to a service of the settings, or to a public address.",
    where=[
        f"request/{part}" for part in ("@url", "@service", "@path", "@method", "segment", "header", "save")
    ],
    label="web",
    needs=Needs(
        hosts=["{request/@url}", "[services]"],
        folders=["[home] rw", "{request/target/@folder} rw"],
        secrets=["[services]"],
    ),
)
async def request(request: Element) -> etree._Element:
    """Make the request that `<request service="…" path="…"/>` or `<request url="…"/>` describes.

    A status from 300 on is an error such as `http-404`, unless `accept` names it.
    """
    parsed = Wanted.of(request)
    response = await _patiently(parsed)
    if not (response.status < 300 or parsed.accepts(response.status)):
        raise _refused(parsed, response)
    type = response.headers.get("content-type", "")
    made = etree.Element("response", status=str(response.status), url=xml_safe(parsed.told(response.url)))
    made.set("type", xml_safe(type))
    made.set("size", str(len(response.body)))
    for name in KEPT_HEADERS:
        if name in response.headers:
            made.set(name, xml_safe(response.headers[name]))
    if parsed.target is not None:
        atomically(place(parsed.target), lambda file: file.write(response.body))
        made.set("path", parsed.target.attributes["path"])
    elif is_text(type):
        made.text = xml_safe(text_of(response.body, type))
    return made


async def _patiently(parsed: Wanted) -> Fetched:
    """The answer; a busy server that soon allows a retry is asked again then."""
    for waits in range(MOST_WAITS + 1):
        response = await _asked(parsed)
        if waits == MOST_WAITS or response.status not in BUSY or parsed.accepts(response.status):
            return response
        now, deadline = narval.now().timestamp(), call().deadline
        seconds = response.retry_after(now)
        if seconds is None or seconds > LONGEST_WAIT or (deadline is not None and now + seconds > deadline):
            return response
        await narval.sleep(seconds)
    raise AssertionError("the last answer is given")


async def _asked(parsed: Wanted) -> Fetched:
    try:
        return await narval.fetch(
            parsed.url,
            method=parsed.method,
            headers=parsed.headers,
            body=parsed.body,
            service=parsed.service,
            most=parsed.most,
            seconds=parsed.seconds,
        )
    except FetchError as error:
        final = error.kind in ("forbidden", "bad-address", "too-large")
        raise ActionError(f"{parsed.shown}: {parsed.told(str(error))}", error.kind, final=final) from None


def _refused(parsed: Wanted, response: Fetched) -> ActionError:
    """The error for a status that is not accepted; a temporary one may be retried."""
    type = response.headers.get("content-type", "")
    said = " ".join(text_of(response.body[: SAID * 4], type).split())[:SAID] if is_text(type) else ""
    why = f"{response.status} {response.reason}"
    if response.status < 400:
        why += f", to {response.headers.get('location', 'nowhere')}, which is not followed"
    elif said:
        why += f": {said}"
    return ActionError(
        xml_safe(f"{parsed.shown}: {why}"), f"http-{response.status}", final=response.status not in PASSING
    )
