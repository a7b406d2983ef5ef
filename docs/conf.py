"""The site of these pages (`make docs`), made by Sphinx; they can be read as Markdown without it."""

import gc
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

gc.disable()  # all that is read stays until the site is built: looking it through takes a third of the time

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_site"))

project = "narval"
html_title = "narval"
extensions = ["myst_parser", "drawings", "lexers"]
exclude_patterns = ["README.md", "_site"]
nitpicky = True
myst_heading_anchors = 4

html_theme = "furo"
html_static_path = ["_site/static"]
html_css_files = ["narval.css"]
html_favicon = html_logo = "../narval/surfaces/web/static/narval.svg"
html_show_sphinx = html_show_copyright = False
html_copy_source = False
html_theme_options: dict[str, Any] = {
    "sidebar_hide_name": False,
    "light_css_variables": {
        "color-brand-primary": "#2a5bd7",
        "color-brand-content": "#2a5bd7",
        "color-brand-visited": "#5a4b9a",
    },
    "dark_css_variables": {
        "color-brand-primary": "#8fb0ff",
        "color-brand-content": "#8fb0ff",
        "color-brand-visited": "#c1b1e8",
    },
}

_ROW = re.compile(r"^\| \[([^\]]*)\]\(([\w/-]+)\.md\) \|", re.MULTILINE)

_FILE = re.compile(r"^```(\w+) title=(\S+)$", re.MULTILINE)


def shelves(index: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The sections of the index that name pages, and of each page its title and its path."""
    above = ""
    for level, title, text in re.findall(r"^(##+) (.*)\n((?:(?!^##).*\n?)*)", index, re.MULTILINE):
        above = title if level == "##" else above
        if pages := _ROW.findall(text):
            yield (title if title == above else f"{above}: {title.lower()}"), pages


def captions(app: Any, name: str, text: list[str]) -> None:
    """Show above each block that is a file where that is."""
    text[0] = _FILE.sub(r"```{code-block} \1\n:caption: \2\n", text[0])


def first_page(app: Any, name: str, text: list[str]) -> None:
    """Give the site its first page, the index, and with it what the margin shows."""
    if name == "index":
        index = (DOCS / "README.md").read_text(encoding="utf-8")
        trees = (
            f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n"
            + "\n".join(f"{short} <{path}>" for short, path in pages)
            + "\n```\n"
            for title, pages in (*shelves(index), ("More", unnamed(index)))
            if pages
        )
        text[0] = index + "".join(trees)


def unnamed(index: str) -> list[tuple[str, str]]:
    """The pages that no row of the index names, by path."""
    named = {path for _, pages in shelves(index) for _, path in pages} | {"README", "index"}
    found = (path.relative_to(DOCS).with_suffix("").as_posix() for path in sorted(DOCS.rglob("*.md")))
    return [(path, path) for path in found if path not in named]


def setup(app: Any) -> None:
    """Hear when a page is read."""
    app.connect("source-read", first_page)
    app.connect("source-read", captions)
