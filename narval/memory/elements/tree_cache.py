"""A bounded cache of parsed trees."""

from __future__ import annotations

from narval.memory.elements.element import Element, Tree


class TreeCache:
    """The trees looked at last, so that an element tried by many patterns is parsed once; bounded.

    They are in two halves. What is asked for comes into the newer; when that is full it becomes the older,
    and what nobody asked for since goes as a whole. So keeping a tree costs no more than putting it there.
    """

    def __init__(self, most: int = 1024, most_bytes: int = 8 * 1024 * 1024) -> None:
        self._most, self._most_bytes = max(1, most // 2), most_bytes // 2
        self._newer: dict[int, Tree] = {}
        self._older: dict[int, Tree] = {}
        self._bytes = 0
        """How many bytes of XML came into the newer half."""

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
        """Forget one tree, because its element changed or is gone."""
        self._newer.pop(eid, None)
        self._older.pop(eid, None)
