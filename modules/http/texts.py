"""Texts of answers: which answers are texts, and their encodings."""

from __future__ import annotations

import codecs
import re

_TEXTS = re.compile(
    r"text/.*|application/(json|xml|javascript|x-www-form-urlencoded|x-ndjson|yaml)|.*\+(json|xml|yaml)"
)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9._:-]+)", re.IGNORECASE)
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_KNOWN = re.compile(
    r"utf-(8|16|32)(-[bl]e)?|ascii|iso8859-\d+|cp\d+|koi8-[ru]|shift_jis|euc_(jp|kr)|gb(k|2312|18030)|big5|mac-roman"
)
"""The accepted encodings, by their names in Python; Python's special codecs are not text encodings."""


def is_text(type: str) -> bool:
    """True if an answer of this media type is a text; one without a type may be."""
    media = type.partition(";")[0].strip().lower()
    return not media or _TEXTS.fullmatch(media) is not None


def text_of(body: bytes, type: str) -> str:
    """The text of a body: by its byte order mark, by the charset of its type if known, as UTF-8, or as
    Windows-1252.

    It never raises: bytes that are no character in the encoding become U+FFFD.
    """
    for mark, encoding in _BOMS:
        if body.startswith(mark):
            return body.decode(encoding, "replace")
    said = _CHARSET.search(type)
    if said is not None and (encoding := _known(said[1])):
        return body.decode(encoding, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body.decode("cp1252", "replace")


def _known(charset: str) -> str:
    """The name in Python of a text encoding; "" for any other."""
    try:
        name = codecs.lookup(charset).name
    except LookupError:
        return ""
    return name if _KNOWN.fullmatch(name) else ""
