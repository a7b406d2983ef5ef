"""The browser of the tests: where it is looked for, and what to do without one (M96)."""

from __future__ import annotations

import os
import shutil

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

ARGUMENTS = (
    "--no-sandbox",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""The arguments it is started with: it asks nobody but the pages that it is shown."""

ADVICE = "apt-get install chromium-headless-shell graphviz, or name a Chromium in NARVAL_BROWSER"


def browser_path() -> str | None:
    """The program to start: that of NARVAL_BROWSER, else the first there is; None without one."""
    named = os.environ.get("NARVAL_BROWSER")
    if named:
        return named
    return next((path for name in NAMES if (path := shutil.which(name))), None)
