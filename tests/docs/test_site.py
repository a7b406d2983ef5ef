"""The site of the pages (`make docs`): strict, whole, drawn, and nothing in it comes from elsewhere."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
INDEX = (DOCS / "README.md").read_text(encoding="utf-8")
NO_PAGES = {"README.md", "index.md"}

needs_sphinx = pytest.mark.skipif(importlib.util.find_spec("myst_parser") is None, reason="make docs first")


def built(docs: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build a site as `make docs` does."""
    given = ("--quiet", "--nitpicky", "--fail-on-warning", "--keep-going")
    return subprocess.run(
        [sys.executable, "-m", "sphinx", *given, str(docs), str(site)],
        capture_output=True,
        text=True,
        check=False,
    )


MADE = ROOT / "build" / "site"
"""The site that `make docs` has built, as strictly."""


def is_of_now(site: Path) -> bool:
    """True if no page has changed, come or gone since a site was built without a fault."""
    last, sources = site / "searchindex.js", (DOCS, *DOCS.rglob("*"))
    return last.exists() and all(path.stat().st_mtime < last.stat().st_mtime for path in sources)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if is_of_now(MADE):
        return MADE
    place = tmp_path_factory.mktemp("site")
    done = built(DOCS, place)
    assert (done.returncode, done.stderr) == (0, "")
    return place


def test_each_page_is_a_row_of_the_index_once() -> None:
    rows = re.findall(r"^\| \[[^\]]+\]\(([\w/-]+\.md)\) \| \S", INDEX, re.MULTILINE)
    assert sorted(rows) == [page for page in PAGES if page not in NO_PAGES]


@needs_sphinx
def test_each_page_is_on_the_site_and_in_its_margin(site: Path) -> None:
    first = (site / "index.html").read_text(encoding="utf-8")
    margin = set(re.findall(r'<a class="reference internal" href="([^"]+\.html)">', first))
    pages = {page.replace(".md", ".html") for page in PAGES if page not in NO_PAGES}
    assert pages <= margin
    assert [page for page in pages if not (site / page).is_file()] == []


@needs_sphinx
def test_a_file_that_a_page_shows_says_where_it_is(site: Path) -> None:
    text = (site / "how-to" / "run-nightly.html").read_text(encoding="utf-8")
    shown = re.findall(r'class="caption-text">(~[^<]+)<', text)
    assert shown == [
        f"~/.narval/{path}" for path in ("recipes/nightly.xml", "modules/nightly.py", "data/memory.xml")
    ]


@needs_sphinx
def test_pages_can_be_searched_for_words(site: Path) -> None:
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert all(word in index for word in ("backoff", "reference/recipe", "webhook"))


@needs_sphinx
def test_nothing_of_the_site_comes_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]* src=\"([^\"]+)\"", text)
        loaded += re.findall(r"<link[^>]* href=\"([^\"]+)\"", text)
        assert [link for link in loaded if re.match(r"(?:[a-z]+:)?//", link)] == []


@needs_sphinx
@pytest.mark.skipif(shutil.which("dot") is None, reason="no Graphviz here")
def test_diagrams_are_drawn_in_the_colours_of_the_page(site: Path) -> None:
    text = (site / "reference" / "work.html").read_text(encoding="utf-8")
    (figure,) = re.findall(r'<figure class="states">.*?</figure>', text, re.DOTALL)
    assert "offered to claimed" in figure
    assert "black" not in figure
    assert "stateDiagram" not in text


LINKS = ("gone.md", "other.md#gone", "../etc/gone.toml")
"""Links that lead nowhere: to no page, to no heading, and to what is no page."""


@needs_sphinx
def test_a_link_that_leads_nowhere_fails(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(DOCS / "_site", docs / "_site")
    logo = tmp_path / "narval" / "surfaces" / "web" / "static"
    logo.mkdir(parents=True)
    shutil.copy(ROOT / "narval/surfaces/web/static/narval.svg", logo)
    for name in ("conf.py", "index.md"):
        shutil.copy(DOCS / name, docs)
    (docs / "README.md").write_text("# All\n\n## Some\n\n| | |\n|---|---|\n| [O](other.md) | is |\n")
    links = "".join(f"[there]({link})\n" for link in (*LINKS, "#here"))
    (docs / "other.md").write_text(f"# Other\n\n## Here\n\n{links}")
    done = built(docs, tmp_path / "site")
    assert done.returncode != 0
    assert done.stderr.count("WARNING") == len(LINKS)
    for link in LINKS:
        assert f"'{link}'" in done.stderr or f"'{link.partition('#')[2]}'" in done.stderr
