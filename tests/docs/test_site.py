"""The site builds without a warning, no link in it is broken, and it has what it promises."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import coverset
import pages
from coverset.presets import resolve_generation


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name == "id" and value:
                self.anchors.add(value)


def broken_links(site: Path) -> list[str]:
    """Links within the site to files that are not there or to anchors that no page has."""
    read = {path: Page(path) for path in site.rglob("*.html")}
    broken = []
    for path, page in read.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor_lost = parts.fragment and target in read and parts.fragment not in read[target].anchors
            if not target.exists() or anchor_lost:
                broken.append(f"{path.relative_to(site)}: {link}")
    return broken


def build(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """As `make docs` does it."""
    options = ["--fail-on-warning", "--keep-going", "--nitpicky", "--quiet"]
    command = [sys.executable, "-m", "sphinx", *options, str(source), str(out)]
    return subprocess.run(command, cwd=pages.ROOT, capture_output=True, text=True, check=False)


def test_the_site(tmp_path: Path) -> None:
    site = tmp_path / "site"
    built = build(pages.ROOT / "docs", site)
    assert built.returncode == 0, built.stderr
    assert built.stderr == ""
    assert broken_links(site) == []

    documented = Page(site / "reference" / "api.html").anchors
    assert {f"coverset.{name}" for name in coverset.__all__} <= documented
    assert "coverset.teammates.method.Rollout" in documented
    bridges = (pages.ROOT / "docs" / "how-to" / "integrations.md").read_text()
    taught = re.findall(r"(coverset\.adapters\.\w+)(?::| import )(\w+)", bridges)
    assert len(taught) > 5
    assert {".".join(name) for name in taught} <= documented

    presets = (site / "reference" / "settings.html").read_text()
    assert f"{resolve_generation('foraging', 'lbrdiv', 'paper')[0].total_steps:,}" in presets
    assert "Number of pairs (best response, teammate) to train" in presets


def test_make_docs_is_what_is_tested_here() -> None:
    recipe = (pages.ROOT / "Makefile").read_text()
    assert "sphinx --fail-on-warning --keep-going --nitpicky --quiet docs build/docs" in recipe


def test_a_broken_link_stops_the_build(tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_text('extensions = ["myst_parser"]\nmyst_heading_anchors = 3\n')
    (tmp_path / "index.md").write_text("# A page\n\n[nowhere](nowhere.md), [no heading](#nothing)\n")
    built = build(tmp_path, tmp_path / "site")
    assert built.returncode != 0
    assert "nowhere.md" in built.stderr
    assert "nothing" in built.stderr


def test_a_broken_link_in_the_site_is_seen(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<a href="a.html#here">a</a><a href="#there">b</a><img src="c.png">')
    (tmp_path / "a.html").write_text('<h1 id="here">A</h1><a href="index.html?x#">back</a><a href="d%20e.html">d</a>')
    assert sorted(broken_links(tmp_path)) == ["a.html: d%20e.html", "index.html: #there", "index.html: c.png"]
