"""Texts of mails: decoded whatever charset they claim, made valid for XML, and bounded."""

from __future__ import annotations

import binascii
import codecs
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from lxml import etree

from narval.api import xml_safe

CHUNK = 1 << 20
Problems = dict[str, str]
"""The survivable faults of a mail: a stable word, and a sentence for people."""
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_NOT_BASE64 = bytes(set(range(256)) - set(_BASE64))
_ENCODED_WORD = re.compile(r"=\?([^?\s*]+)(?:\*[^?\s]*)?\?([bq])\?([^?]*)\?=", re.IGNORECASE)
_NO_CHARSETS = ("idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined")
"""Encodings that Python counts as text; the first two take time quadratic in the text."""
_LATIN = ("", "ascii", "us-ascii", "latin-1", "latin1", "iso-8859-1", "iso-8859-15", "windows-1252", "cp1252")
_SUPERSETS = {
    label: codec
    for codec, labels in (
        ("cp1252", "latin-1 latin1 iso-8859-1"),
        ("cp932", "shift_jis x-sjis windows-31j"),
        ("cp949", "euc-kr ks_c_5601-1987"),
        ("big5hkscs", "big5"),
        ("gb18030", "gb2312 gbk x-gbk"),
        ("iso2022_jp_ext", "iso-2022-jp"),
        ("utf-7", "unicode-1-1-utf-7"),
    )
    for label in labels.split()
}
"""Labels used for more than they mean, and the charset that reads the text really sent under them."""


def decode(data: bytes, label: str, problems: Problems) -> str:
    """Bytes as text, whatever the label says: valid UTF-8 is UTF-8, the last resort is Latin-1."""
    label = label.strip(" \t'\"").lower()[:60]
    if label in (*_LATIN, "utf-8"):
        with suppress(UnicodeDecodeError):
            text = data.decode("utf-8")
            if label != "utf-8" and not text.isascii():
                problems["bad-charset"] = f"declared {label or 'no charset'}, is UTF-8"
            return text
    try:
        codec = codecs.lookup(_SUPERSETS.get(label, label))
        if codec.name in _NO_CHARSETS:
            raise LookupError(f"no charset: {label}")
        return data.decode(codec.name)
    except (LookupError, ValueError) as error:
        problems["bad-charset"] = f"cannot be read as {label or 'ASCII'}: {error}"
    if data.decode("utf-8", "ignore").isascii():  # it has not one character of UTF-8
        return data.decode("cp1252", "replace")
    return data.decode("utf-8", "replace")


def unwrap(text: str, problems: Problems) -> str:
    """The encoded words of RFC 2047, decoded; neighbours are joined first: some end within a character."""
    pieces: list[tuple[str, bytes]] = []  # charset and bytes; plain text counts as UTF-8
    end = 0
    for word in _ENCODED_WORD.finditer(text):
        between = text[end : word.start()]
        if not pieces or between.strip():
            pieces.append(("", between.encode("utf-8", "replace")))
        payload = word[3].encode("utf-8", "replace")
        if word[2] in "bB":
            data = b"".join(base64_decoded([payload], problems))
        else:
            data = binascii.a2b_qp(payload, header=True)
        if pieces[-1][0] == word[1].lower():
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + data)
        else:
            pieces.append((word[1].lower(), data))
        end = word.end()
    pieces.append(("", text[end:].encode("utf-8", "replace")))
    return "".join(decode(data, label, problems) if label else data.decode() for label, data in pieces)


def unflow(text: str, delete_space: bool) -> str:
    """The paragraphs of format=flowed text in one line each (RFC 3676)."""
    lines: list[str] = []
    flowing = -1  # the quote depth of the paragraph that continues; -1 for none
    for line in text.split("\n"):
        content = line.lstrip(">")
        depth = len(line) - len(content)
        content = content.removeprefix(" ")
        flows = content.endswith(" ") and content != "-- "
        shown = content[:-1] if flows and delete_space else content
        if depth == flowing:
            lines[-1] += shown
        else:
            lines.append(f"{'>' * depth} {shown}" if depth else shown)
        flowing = depth if flows else -1
    return "\n".join(lines)


_BREAKS = {
    tag: space
    for space, tags in (
        ("\x02", "blockquote h1 h2 h3 h4 h5 h6 ol p pre table ul"),
        ("\x01", "address article aside dd div dl dt figure footer form header hr li main nav section tr"),
        (" ", "td th"),
    )
    for tag in tags.split()
}
"""The signs that set an element apart: \\x02 a blank line, \\x01 a new line."""
_HIDDEN = ("head", "script", "style", "template", "title", "object", "svg")


def readable(html: str) -> str:
    """The text of an HTML page as a person would copy it: no markup, separate blocks, links spelled out."""
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
    parser.feed(b"<html>" + xml_safe(html, "").encode())
    root = parser.close()
    out: list[str] = []
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, node in walk:
        tag, opening = str(node.tag), event == "start"
        out.append(_BREAKS.get(tag, ""))
        if opening and (tag in _HIDDEN or "display:none" in node.get("style", "").replace(" ", "")):
            walk.skip_subtree()
        elif opening:
            out.append({"br": "\n", "li": "- ", "img": node.get("alt") or ""}.get(tag, ""))
            out.append(re.sub(r"\s+", " ", node.text or ""))
        else:
            target = node.get("href") or ""
            if tag == "a" and target.startswith("http") and target != (node.text or "").strip():
                out.append(f" <{target}>")
            out.append(re.sub(r"\s+", " ", node.tail or ""))
    text = re.sub(r"[ \xa0]+", " ", "".join(out))
    text = re.sub(r"[\s\x01]*\x02[\s\x01\x02]*", "\n\n", text)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r" *(\n|\x01)[ \x01]*", "\n", text)).strip()


def base64_decoded(chunks: Iterable[bytes], problems: Problems) -> Iterator[bytes]:
    """Base64 decoded as it arrives; text after the padding, such as a list's footer, is dropped."""
    left = b""
    for chunk in chunks:
        left, padding, _ = (left + chunk.translate(None, _NOT_BASE64)).partition(b"=")
        whole = len(left) // 4 * 4
        yield binascii.a2b_base64(left[:whole])
        left = left[whole:]
        if padding:
            break
    if len(left) == 1:
        problems["bad-encoding"] = "base64 that was cut short"
        left = b""
    yield binascii.a2b_base64(left + b"=" * (-len(left) % 4))
