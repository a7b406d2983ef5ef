"""Numbers as people write them: by an example such as `1.234,56 €`, or with a currency sign.

A form parses what matches it, and nothing else: an ambiguous text is not a number.
"""

from __future__ import annotations

import re
import unicodedata

import msgspec

BLANKS = " \u00a0\u2009\u202f"
"""The blanks that separate thousands."""

CURRENCY = "currency"
"""The word for a number with a currency sign, in any of the common notations."""

_EXAMPLE = re.compile(rf"(?P<before>[^\d]*?)(?P<number>\d(?:[\d.,'’{BLANKS}]*\d)?)(?P<after>\D*)")
_NUMBER = re.compile(
    rf"(?P<sign>[+−-]?)\s*(?P<before>[^\s\d.,'’+−()-]{{0,5}}\.?)\s*(?P<inner>[+−-]?)\s*"
    rf"(?P<number>\d(?:[\d.,'’{BLANKS}]*\d)?)(?P<round>[.,][-–—])?\s*(?P<after>[^\s\d,'’+−()-]{{0,5}})"
)
_CODE = re.compile(r"[A-Z]{3}")
_WORDS = frozenset({"kr", "kr.", "zł", "Kč", "Ft", "Fr", "Fr.", "lei", "Rs", "Rs."})
_UNITED = re.compile(r"[A-Z]{1,3}")


class NumberForm(msgspec.Struct, frozen=True):
    """A notation for numbers: the separators of thousands and decimals, "" for none, and the texts around,
    which may be left out. `is_currency` accepts any notation of an amount that is unambiguous.
    """

    thousands: str = ""
    decimal: str = ""
    before: str = ""
    after: str = ""
    is_currency: bool = False

    def plain(self, text: str) -> str | None:
        """The number in a text, as digits with a point before decimals; None for any other text."""
        text = text.strip().strip(BLANKS)
        if self.is_currency:
            return _amount(text)
        sign, text = _signed(text)
        text = text.removeprefix(self.before).removesuffix(self.after).strip().strip(BLANKS)
        inner, text = _signed(text)
        if sign and inner:
            return None
        return _digits(sign or inner, _common(text), self.thousands, self.decimal)


def form_of(text: str) -> NumberForm:
    """The form that a text describes: `currency`, or an example of a number.

    Raises ValueError for an example with ambiguous separators.
    """
    if text.strip().lower() == CURRENCY:
        return NumberForm(is_currency=True)
    parts = _EXAMPLE.fullmatch(text.strip())
    if parts is None:
        raise ValueError(f"an example of a number, such as 1.234,56, or {CURRENCY}")
    number = _common(parts["number"])
    separators = re.findall(r"\D", number)
    tail = number[-4:-3]
    if not separators:
        thousands = decimal = ""
    elif separators[-1] not in separators[:-1] and not (len(separators) == 1 and tail == separators[0]):
        decimal, thousands = separators[-1], "".join(dict.fromkeys(separators[:-1]))
    elif len(separators) == 1 and separators[0] in ".,":
        message = "an example that shows thousands and decimals, such as 1.234,56 or 1,234.56"
        raise ValueError(message)
    else:
        decimal, thousands = "", separators[0]
    around = parts["before"].strip(" +−-"), parts["after"].strip()
    if len(thousands) > 1 or decimal in ("'", " ") or _digits("", number, thousands, decimal) is None:
        raise ValueError("an example of a number, such as 1.234,56")
    return NumberForm(thousands, decimal, *around)


def _signed(text: str) -> tuple[str, str]:
    if text[:1] in ("+", "-", "−"):
        return ("-" if text[0] != "+" else "+"), text[1:].strip()
    return "", text


def _common(text: str) -> str:
    """A text with one kind of blank, and one kind of apostrophe."""
    return re.sub(f"[{BLANKS}]", " ", text).replace("’", "'")


def _digits(sign: str, text: str, thousands: str, decimal: str) -> str | None:
    """Convert digits in a notation to a plain number; None if they do not match it."""
    grouped = rf"\d{{1,3}}(?:{re.escape(thousands)}\d{{3}})+|" if thousands else ""
    part = rf"(?:{re.escape(decimal)}(\d+))?" if decimal else "()"
    parts = re.fullmatch(rf"({grouped}\d+){part}", text, re.ASCII)
    if parts is None:
        return None
    whole = parts[1].replace(thousands, "") if thousands else parts[1]
    return f"{'-' * (sign == '-')}{whole}{'.' if parts[2] else ''}{parts[2] or ''}"


def _amount(text: str) -> str | None:
    """The number in an amount, if it is unambiguous: `1,250 €` is a thousand in some places, and one in
    others.
    """
    parts = _NUMBER.fullmatch(text)
    if parts is None or (parts["sign"] and parts["inner"]):
        return None
    if not all(_is_currency(parts[side]) for side in ("before", "after")):
        return None
    number = _common(parts["number"])
    points = [sign for sign in number if sign in ".,"]
    grouped = [sign for sign in number if sign in " '"]
    thousands, decimal = "".join(dict.fromkeys(grouped)), ""
    if len(points) == 1:
        decimal = points[0]
        whole, _, part = number.partition(decimal)
        if len(part) == 3 and not grouped and whole != "0" and len(whole) <= 3:
            return None
    elif points and points[-1] in points[:-1]:
        thousands += points[0]
    elif points:
        decimal, thousands = points[-1], thousands + points[0]
    if len(thousands) > 1 or (parts["round"] and decimal):
        return None
    return _digits("-" if parts["sign"] + parts["inner"] in ("-", "−") else "", number, thousands, decimal)


def _is_currency(text: str) -> bool:
    """True for a currency sign or code, or nothing."""
    if not text or text in _WORDS or _CODE.fullmatch(text):
        return True
    return unicodedata.category(text[-1]) == "Sc" and (len(text) == 1 or bool(_UNITED.fullmatch(text[:-1])))
