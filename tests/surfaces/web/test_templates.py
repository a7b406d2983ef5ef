"""Templates and the style as files: nothing in them lets a text become markup, and all can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.surfaces.web.vendored import STATIC

TEMPLATES = sorted((ROOT / "narval" / "surfaces" / "web" / "templates").glob("*.html"))
MODULES = [
    path for part in ("http", "web") for path in sorted((ROOT / "narval" / "surfaces" / part).rglob("*.py"))
]
STYLE = (STATIC / "narval.css").read_text()


# --- M71 ------------------------------------------------------------------------------------------------

MARKUP = {
    "a filter that does not escape": r"\|\s*(safe|forceescape|xmlattr|tojson|striptags|urlize)\b",
    "a block without escapes": r"\{%-?\s*(raw|autoescape|filter)\b",
    "a script of its own": r"<script(?![^>]*\bsrc=)",
    "a style of its own": r"<style|\sstyle\s*=",
    "a handler": r"""<[^%>]*\son\w+=["']""",
    "an address that is a script": r"javascript:",
    "an attribute without quotes": r"\s[\w:-]+=\{\{",
    "something from elsewhere": r"""(src|href)=["'](https?:)?//""",
    "an embedded page": r"<(iframe|object|embed|base)\b",
}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_M71_templates_let_no_text_become_markup(path: Path) -> None:
    text = path.read_text()
    assert {what for what, pattern in MARKUP.items() if re.search(pattern, text)} == set()


def test_M71_no_module_makes_markup() -> None:
    assert TEMPLATES
    assert MODULES
    for path in MODULES:
        text = path.read_text()
        assert not re.search(r"\bMarkup\b|markupsafe|autoescape=False|from_string\(|\|\s*safe\b", text), path
        assert not re.search(r"""["']<(?!%|http)/?[a-z]+[ >]""", text), path


def test_M71_the_environment_escapes_everything() -> None:
    from narval.surfaces.http.rendering import environment

    made = environment("narval.surfaces.web")
    assert made.autoescape is True
    assert made.from_string("{{ x }}").render(x="<b>'\"&\u202e\x07") == "&lt;b&gt;&#39;&#34;&amp;\\u202e\\x07"


# --- M83, M90 -------------------------------------------------------------------------------------------


def test_M83_the_style_is_small_and_wants_nothing_else() -> None:
    assert len(STYLE.encode()) <= 24_000
    assert not re.search(r"@import|url\(|@font-face", STYLE)


def palettes() -> dict[str, dict[str, str]]:
    """The colours of each scheme, by their names."""
    blocks = re.findall(r"(:root[^{]*)\{([^}]*)\}", STYLE)
    found = {}
    for selector, body in blocks:
        colours = dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6})", body))
        if colours:
            found[selector.strip()] = colours
    return found


LIGHT, DARK, CHOSEN = ":root", ':root:not([data-theme="light"])', ':root[data-theme="dark"]'
STATES = ("waiting", "active", "done", "failed", "cancelled", "idle")

TEXTS = [
    *((text, ground) for text in ("text", "dim", "accent") for ground in ("bg", "card", "wash")),
    ("on-accent", "accent"),
    *((state, f"{state}-bg") for state in STATES),
    *((state, ground) for state in STATES for ground in ("card", "bg", "wash")),
    *(("text", f"{state}-bg") for state in STATES),
    ("accent", "failed-bg"),
]
"""Colours of texts, and those that they stand on."""

LINES = [
    ("edge", "card"),
    ("edge", "bg"),
    ("accent", "card"),
    *((state, ground) for state in STATES for ground in ("card", f"{state}-bg")),
]
"""Colours of lines that tell something, and those that they stand on."""


def luminance(colour: str) -> float:
    """The relative luminance of WCAG."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_M92_both_ways_into_the_dark_have_the_same_colours() -> None:
    found = palettes()
    assert set(found) == {LIGHT, DARK, CHOSEN}
    assert found[DARK] == found[CHOSEN]
    assert set(found[DARK]) == set(found[LIGHT])


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_M90_texts_and_lines_stand_out(scheme: str) -> None:
    colours = palettes()[scheme]
    poor = {
        f"{front} on {ground}": round(contrast(colours[front], colours[ground]), 2)
        for pairs, least in ((TEXTS, 4.5), (LINES, 3.0))
        for front, ground in pairs
        if contrast(colours[front], colours[ground]) < least
    }
    assert poor == {}


def test_M90_no_colour_is_outside_of_the_palette() -> None:
    rules = re.sub(r":root[^{]*\{[^}]*\}", "", STYLE)
    assert not re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[;\s}])|rgba?\(|hsla?\(", rules)
