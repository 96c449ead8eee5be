"""The files that CONTRIBUTING.md names exist."""

import re

import pages


def test_every_file_of_the_map_exists() -> None:
    text = (pages.ROOT / "CONTRIBUTING.md").read_text().split("## Architecture map")[1]
    named = set(re.findall(r"`([a-z_/]+(?:\.py|\.js|/))`", text)) - {"src/coverset/"}
    assert len(named) > 50
    assert not [name for name in named if not (pages.ROOT / "src" / "coverset" / name).exists()]
