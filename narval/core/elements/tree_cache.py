"""A bounded cache of parsed trees."""

from __future__ import annotations

from narval.core.elements.element import Element, Tree


class TreeCache:
    """The most recently used trees, so that an element tested by many patterns is parsed once.

    At most `most` trees and `most_bytes` of XML are cached, in two halves. A requested tree goes into the
    newer half; when that is full it becomes the older, and the older is dropped. So caching a tree costs no
    more than inserting it.
    """

    def __init__(self, most: int = 1024, most_bytes: int = 8 * 1024 * 1024) -> None:
        self._most, self._most_bytes = max(1, most // 2), most_bytes // 2
        self._newer: dict[int, Tree] = {}
        self._older: dict[int, Tree] = {}
        self._bytes = 0
        """The bytes of XML in the newer half."""

    def of(self, element: Element) -> Tree:
        """The element's tree; an element without an eid is parsed each time."""
        eid = element.eid
        tree = self._newer.get(eid)
        if tree is not None:
            return tree
        tree = self._older.pop(eid, None) or Tree(element)
        if eid and tree.size * 4 <= self._most_bytes:
            if len(self._newer) >= self._most or self._bytes + tree.size > self._most_bytes:
                self._newer, self._older, self._bytes = {}, self._newer, 0
            self._newer[eid] = tree
            self._bytes += tree.size
        return tree

    def drop(self, eid: int) -> None:
        """Drop the tree of an element that has left memory."""
        self._newer.pop(eid, None)
        self._older.pop(eid, None)
