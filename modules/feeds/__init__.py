"""Feeds: the items of RSS and Atom feeds, each once (N36, N37; the page is docs/reference/modules/feeds.md).

`<feed name="…" url="https://…" every="900"/>` is fetched over HTTP at intervals; `<feed name="…" path="…"/>`
is a file, read again when the system reports a change. `watch` is a source that runs on, `read` makes one
pass. A malformed feed is read as far as possible; an unreadable one is reported by an `error` element.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from narval import ActionError, Element, Input, Needs, Output, action, call
from narval.api import is_web

from ..files.places import absolute
from .origins import DAY_SECONDS, File, Web
from .reading import LONGEST, FeedError, Items, cut, line_of

USUAL_SECONDS, SHORTEST_SECONDS = 900.0, 1.0

NEEDS = Needs(hosts=["{feed/@url}"], folders=["{feed/@path} r"])
FEED = Input("feed", "feed[@url or @path]", holds={"every": "number"}, reads="url path name every")
ITEMS = Output(
    "items", "item[@feed and @id]", list=True, optional=True, unique="concat(@feed,' ',@id)", own=["@feed"]
)
TROUBLES = Output("troubles", "error[@feed]", list=True, optional=True)
"""The output for errors, declared so that a temporary one does not end a source that runs on."""


# --- actions --------------------------------------------------------------------------------------------


@action(
    source=True,
    inputs=[FEED],
    outputs=[ITEMS, TROUBLES],
    description="The items of a feed, as they appear.",
    where=["feed/@url", "feed/@path"],
    keeps={"items/@feed": "feed"},
    label="feed",
    needs=NEEDS,
)
async def watch(feed: Element) -> AsyncIterator[Items]:
    """Yield the items of a feed, then new ones; a trouble is reported once until it has passed."""
    here = call()
    source = Feed.of(feed)
    reported, caught_up = set[str](), False
    async with source.origin(here.home, watched=True) as origin:
        while True:
            try:
                items, reported = await origin.items(), set()
            except FeedError as error:
                items = [error.element(source.name)] if str(error) not in reported else []
                reported.add(str(error))
            if items:
                yield items
            if not reported:
                here.recovered()
            await origin.recorded()
            if not caught_up:
                here.caught_up()
                caught_up = True
            await origin.news()


@action(
    inputs=[FEED],
    outputs=[ITEMS],
    description="The items that a feed holds now.",
    where=["feed/@url", "feed/@path"],
    keeps={"items/@feed": "feed"},
    label="feed",
    needs=NEEDS,
)
async def read(feed: Element) -> Items:
    """Return the current items of a feed; an unreadable one is an error."""
    source = Feed.of(feed)
    try:
        async with source.origin(call().home, watched=False) as origin:
            return await origin.items()
    except FeedError as error:
        return [error.element(source.name)]


class Feed(NamedTuple):
    """The values of a `feed` element."""

    name: str
    url: str
    path: str
    every: float

    @classmethod
    def of(cls, element: Element) -> Feed:
        """Parse the element; items are identified by its name, so a missing name is derived."""
        attributes = element.attributes
        url, path = attributes.get("url", "").strip(), attributes.get("path", "")
        if url and not is_web(url):
            raise ActionError(
                f"expected a feed's url to begin with http:// or https://, got {url!r}", "bad-feed"
            )
        derived = f"{urlsplit(url).hostname}{urlsplit(url).path}" if url else path
        name = cut(line_of(attributes.get("name")) or derived, LONGEST["feed"])
        return cls(name, url, path, _seconds(attributes.get("every")))

    def origin(self, home: Path | None, *, watched: bool) -> Web | File:
        """The origin of its items; if it is not watched, it returns all of them, even if seen before."""
        if self.url:
            return Web(self.name, self.url, self.every, home if watched else None)
        return File(self.name, absolute(self.path, home), watched=watched)


def _seconds(text: str | None) -> float:
    if text is None:
        return USUAL_SECONDS
    with contextlib.suppress(ValueError):
        if SHORTEST_SECONDS <= float(text) <= 366 * DAY_SECONDS:
            return float(text)
    raise ActionError(
        f"expected every to be seconds, at least {SHORTEST_SECONDS:g}, got {text!r}", "bad-feed"
    )
