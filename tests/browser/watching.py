"""Pages in a real browser, with all that goes wrong in them: errors, refusals, foreign requests."""

from __future__ import annotations

from typing import Any

PATIENCE = 60_000
"""Milliseconds in which what is to appear does so, on a machine that has other things to do."""


class Watched:
    """Contexts of a browser in which somebody is logged in; `trouble` lists what went wrong in them."""

    def __init__(self, browser: Any, address: str, session: Any) -> None:
        self._browser, self.address, self._session = browser, address, session
        self._contexts: list[Any] = []
        self.trouble: list[str] = []

    def context(self, **settings: Any) -> Any:
        """A new context, with settings of playwright."""
        given = {"viewport": {"width": 1280, "height": 800}, "storage_state": self._session} | settings
        context = self._browser.new_context(**given)
        context.set_default_timeout(PATIENCE)
        context.on("request", self._requested)
        context.on("console", self._said)
        context.on("weberror", lambda error: self.trouble.append(str(error.error)))
        self._contexts.append(context)
        return context

    def page(self, **settings: Any) -> Any:
        """A page in a context of its own."""
        return self.context(base_url=self.address, **settings).new_page()

    def close(self) -> None:
        for context in self._contexts:
            context.close()

    def _requested(self, request: Any) -> None:
        if not request.url.startswith((f"{self.address}/", "data:")):
            self.trouble.append(f"asked elsewhere: {request.url}")

    def _said(self, message: Any) -> None:
        if "Policy" in message.text or "Refused" in message.text:
            self.trouble.append(message.text)
