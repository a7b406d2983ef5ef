r"""Regular expressions that may take for ever, found before they are tried on mail from a stranger.

Python's matcher backtracks: where a repeated group can split the same text in several ways, the ways
multiply, and thirty letters keep it busy for hours. That needs a part of varying length in a group that is
itself repeated, or alternatives in one that can begin alike. Both are refused unless it is plain that there
is one way only, as in `(\.[a-z]+)*`, where each turn begins with a dot that nothing else in it matches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_ATOM = re.compile(r"\\[pP]\{[^}]*\}|\\.|\[(?:\\.|\[[^]]*\]|[^]\\[])*\]|[^\\[()|]", re.DOTALL)
_QUANTIFIER = re.compile(r"(?P<sign>[*+?])\??|\{(?P<least>\d+)(?P<comma>,)?(?P<most>\d*)\}\??")
_FEW = 8
"""The most repetitions of a group that cannot do harm."""
_MANY_GROUPS = 100


@dataclass
class _Piece:
    """A part of a regular expression: an atom, or a group with alternatives.

    `varies` if its number of repetitions does, `repeats` if they may be many.
    """

    text: str
    alternatives: list[list[_Piece]] = field(default_factory=list)
    varies: bool = False
    repeats: bool = False

    @property
    def varying(self) -> bool:
        """True if the text it matches can have several lengths."""
        return self.varies or any(piece.varying for sequence in self.alternatives for piece in sequence)

    def atoms(self) -> list[_Piece]:
        """All atoms within."""
        if not self.alternatives:
            return [self]
        return [atom for sequence in self.alternatives for piece in sequence for atom in piece.atoms()]


def hazard(regex: str) -> str | None:
    """The part of a regular expression that can make matching take for ever; None when there is none."""
    if regex.count("(") > _MANY_GROUPS:
        return f"more than {_MANY_GROUPS} groups"
    return _hazard_in(_Piece(regex, _RegexReader(regex).alternatives()))


def _hazard_in(group: _Piece) -> str | None:
    if group.repeats and not _has_one_way(group):
        return group.text
    inner = (_hazard_in(piece) for sequence in group.alternatives for piece in sequence if piece.alternatives)
    return next((found for found in inner if found), None)


def _has_one_way(group: _Piece) -> bool:
    """True if a repeated group surely can match a text in one way only."""
    starts = [sequence[0] for sequence in group.alternatives if sequence]
    if len(starts) < len(group.alternatives):
        return False
    if len(starts) > 1 and any(start.varies for start in starts):
        return False
    if any(_overlap(a, b) for at, a in enumerate(starts) for b in starts[at + 1 :]):
        return False
    return all(
        not any(piece.varying for piece in sequence) or _is_separated(sequence)
        for sequence in group.alternatives
    )


def _is_separated(sequence: list[_Piece]) -> bool:
    """True if a sequence begins or ends with an atom that nothing else in it matches."""
    for separator, others in ((sequence[0], sequence[1:]), (sequence[-1], sequence[:-1])):
        rest = [atom for piece in others for atom in piece.atoms()]
        if not separator.varies and not any(_overlap(separator, atom) for atom in rest):
            return True
    return False


def _overlap(a: _Piece, b: _Piece) -> bool:
    """False if two pieces surely never match the same character."""
    if a.alternatives or b.alternatives:
        return True
    for one, other in ((a, b), (b, a)):
        letter = one.text[-1]
        if (one.text == letter and letter not in ".^$") or re.fullmatch(r"\\[^a-zA-Z]", one.text):
            try:
                return re.fullmatch(other.text, letter, re.IGNORECASE) is not None
            except re.error:
                return True
    return True


class _RegexReader:
    """A recursive descent over a regular expression, which makes its pieces."""

    def __init__(self, regex: str) -> None:
        self.regex, self.at = regex, 0

    def alternatives(self) -> list[list[_Piece]]:
        sequences: list[list[_Piece]] = [[]]
        while self.at < len(self.regex) and self.regex[self.at] != ")":
            if self.regex[self.at] == "|":
                self.at += 1
                sequences.append([])
            else:
                sequences[-1].append(self.piece())
        return sequences

    def piece(self) -> _Piece:
        start = self.at
        if self.regex[start] == "(":
            self.at += 3 if self.regex.startswith("(?:", start) else 1
            piece = _Piece("", self.alternatives())
            self.at += 1
        else:
            atom = _ATOM.match(self.regex, start)
            self.at = atom.end() if atom else start + 1
            piece = _Piece(self.regex[start : self.at])
        self.quantify(piece)
        if piece.alternatives:
            piece.text = self.regex[start : self.at]
        return piece

    def quantify(self, piece: _Piece) -> None:
        found = _QUANTIFIER.match(self.regex, self.at)
        if found is None:
            return
        self.at = found.end()
        if found["sign"]:
            piece.varies, piece.repeats = True, found["sign"] != "?"
            return
        endless = found["comma"] is not None and not found["most"]
        most = int(found["most"] or found["least"])
        piece.varies = endless or most != int(found["least"])
        piece.repeats = endless or most > _FEW
