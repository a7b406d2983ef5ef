"""`python -m tests.house.pages` (make pages) writes the pages that are made from the code anew."""

from __future__ import annotations

from tests.house.pages.all import write

write()
