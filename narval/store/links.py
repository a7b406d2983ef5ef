"""Links in a store: what the row that stands for a peer keeps of it, among its results and facts."""

from __future__ import annotations

LINK = "link"
"""The scope of results that has how far each sender of the peer has come, by its id; and, as `MET`, what the
peer was as the link began last.
"""

MET = "met"

FORMER = "former links"
"""The scope of results whose keys are what the peer was before, and is no more."""

RESTORED = "restored"
"""The scope of results that has the number of the last message of each sender here, by its id, as a backup of
the store was put back.
"""

INCARNATION = "incarnation"
"""The fact that has the incarnation of the store once a backup was put back; before, the row's id is it."""
