"""Every link between pages leads somewhere as they stand in the repository; test_site.py looks at the built site."""

import re
from pathlib import Path

import pytest

import pages

LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The names of a page's headings as links spell them: no punctuation, hyphens for blanks, numbers for repeats."""
    found: set[str] = set()
    for heading in HEADING.findall(without_code(text)):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        repeats = sum(name == slug or re.fullmatch(rf"{re.escape(slug)}-\d+", name) is not None for name in found)
        found.add(f"{slug}-{repeats}" if repeats else slug)
    return found


def without_code(text: str) -> str:
    """A page without its fenced blocks, in which brackets and hashes mean other things."""
    return re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)


def broken_links(page: Path) -> list[str]:
    """Links of a page to files that are not there, or to headings that nobody has written."""
    broken = []
    for link in LINK.findall(without_code(page.read_text())):
        if re.match(r"\w+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        lost = not target.exists() or (anchor and anchor not in anchors(target.read_text()))
        broken += [link] * bool(lost)
    return broken


@pytest.mark.parametrize("name", pages.pages())
def test_every_link_leads_somewhere(name: str) -> None:
    assert broken_links(pages.pages()[name]) == []


def test_the_readme_has_links() -> None:
    assert len(LINK.findall((pages.ROOT / "README.md").read_text())) > 10


def test_what_is_lost_is_seen(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Other\n\n## `a_b`: Two, words\n\n## Twice\n\n## Twice\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n[a](other.md) [b](other.md#a_b-two-words) [c](#page) [d](other.md#twice-1) [e](https://example.org)\n"
        "[f](nowhere.md) [g](other.md#three-words) [h](#other) ![i](picture.png)\n```\n[j](code.md)\n```\n"
    )
    assert broken_links(page) == ["nowhere.md", "other.md#three-words", "#other", "picture.png"]
