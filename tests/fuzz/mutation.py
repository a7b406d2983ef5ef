"""Hostile input from a seed: good input spoilt at random, and input that was never good."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

TOKENS = (
    *(
        b"",
        b"<",
        b">",
        b"/>",
        b"</",
        b'"',
        b"'",
        b"&",
        b"&#0;",
        b"&lt;",
        b"&x;",
        b"$",
        b"[",
        b"]",
        b"]]>",
        b"@",
    ),
    *(
        b"<!--",
        b"-->",
        b"<?",
        b"?>",
        b"<!DOCTYPE r [<!ENTITY a 'aaaaaaaaaa'>]>",
        b"<![CDATA[",
        b"\x00",
        b"\x07",
    ),
    *(b"\xff", b"\xfe\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b"\xef\xbf\xbe"),
    *(b"(" * 300, b"<a>" * 300, b"a" * 5000, b"9" * 400, b"-1", b"0", b"1e999", b"NaN", b"\n", b"\r", b"\t"),
    *(b"' or '1'='1", b"../../etc/passwd", b"%s%n", b"\\", b"xmlns:n='urn:n'", b"\x7f\xff\xff\xff"),
    *(
        b"Content-Type: multipart/mixed; boundary=b",
        b"--b",
        b"=?utf-8?b?",
        b"=?x?q?=ff?=",
        b"encoding='utf-16'",
    ),
)


def spoilt(chance: Random, corpus: tuple[bytes, ...]) -> bytes:
    """A good input with pieces cut, doubled, exchanged or overwritten; now and then whole, or none at all."""
    if chance.random() < 0.05:
        return chance.randbytes(chance.randrange(300))
    data = chance.choice(corpus)
    if chance.random() < 0.1:
        return data
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        data = _piece(chance, data, corpus)
    return data


def _piece(chance: Random, data: bytes, corpus: tuple[bytes, ...]) -> bytes:
    start = chance.randrange(len(data) + 1)
    end = min(len(data), start + chance.choice((0, 0, 1, 1, 4, 30, 200)))
    kind = chance.randrange(8)
    if kind == 0:
        new = chance.randbytes(chance.randrange(1, 5))
    elif kind == 1:
        new = data[start:end] * chance.choice((2, 3, 50))
    elif kind == 2:
        other = chance.choice(corpus)
        at = chance.randrange(len(other) + 1)
        new = other[at : at + chance.randrange(60)]
    elif kind == 3:
        new = struct.pack("!I", chance.choice((0, 1, 127, 2**31 - 1, 2**32 - 1, chance.randrange(2**32))))
    elif kind == 4 and end > start:
        new = bytes([data[start] ^ (1 << chance.randrange(8))]) + data[start + 1 : end]
    elif kind == 5:
        return data[:start]
    else:
        new = chance.choice(TOKENS)
    return data[:start] + new + data[end:]


def value(chance: Random, depth: int = 0) -> Any:
    """Plain data of any type, as a frame may carry it."""
    kind = chance.randrange(13 if depth < 3 else 9)
    if kind == 0:
        return None
    if kind == 1:
        return chance.random() < 0.5
    if kind == 2:
        return chance.choice((0, -1, 1, 2**31, 2**63 - 1, -(2**63), 2**64 - 1, chance.randrange(300)))
    if kind == 3:
        return chance.choice((0.0, -0.5, 1e308, float("inf"), float("nan"), 5e-324))
    if kind < 7:
        return text(chance)
    if kind < 9:
        return spoilt(chance, (b"<mail n='1'>text</mail>", b"<memory><a/><b/></memory>"))
    if kind < 11:
        return [value(chance, depth + 1) for _ in range(chance.randrange(5))]
    return {text(chance): value(chance, depth + 1) for _ in range(chance.randrange(4))}


def text(chance: Random) -> str:
    """Text that means something somewhere, or nothing anywhere."""
    return chance.choice(
        (
            *(
                "",
                "a",
                "w.note",
                "plan",
                "done",
                "mail[@n]",
                "//*",
                "$x",
                "last()",
                "\x00",
                "\ud800",
                "é" * 50,
            ),
            *(
                "a" * 3000,
                "../..",
                "/dev/zero",
                "2026-02-30",
                "-1",
                "1e9",
                "<mail/>",
                "stop",
                "status",
                "\n\n",
            ),
        )
    )
