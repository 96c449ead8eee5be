"""The pictures of the method come from real runs, and those in the repository are of the present methods."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pages
import toy_study


def drawing() -> ModuleType:
    spec = spec_from_file_location("draw_pictures", pages.ROOT / "docs" / "draw_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def titles(picture: Path) -> list[str]:
    return re.findall(r">((?:independent|LIPO|BRDiv|L-BRDiv)[^<]*)</text>", picture.read_text())


def test_a_run_is_drawn(tmp_path: Path) -> None:
    script = drawing()
    sizes = {key: tuple(value) if isinstance(value, list) else value for key, value in toy_study.GENERATION.items()}
    script.draw(script.train(tmp_path / "run", **sizes), tmp_path)
    drawn, kept = (titles(place / "pair-weights.svg") for place in (tmp_path, script.IMAGES))
    assert len(drawn) == 4
    assert drawn[:3] == kept[:3]
    assert "pairs 1 and 2" in (tmp_path / "constraints.svg").read_text()
