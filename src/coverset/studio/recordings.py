"""Recordings of people's trials: moves only, nothing about the person. docs/how-to/studio.md specifies the format."""

import re
import secrets
from pathlib import Path
from typing import Any

from coverset.checks import check_type
from coverset.runs.game_names import game_title
from coverset.runs.storage import DamagedFile, write_json
from coverset.studio.files import NotFound, OutsideDirectory, SafeDirectory
from coverset.studio.values import as_count, as_number, as_object, as_text

FORMAT = "coverset recording 2"
FOLDER = "recordings"
NAME = re.compile(r"recording-[0-9a-f]{12}")
MOST_RECORDING_BYTES = 2**20
MOST_RECORDINGS = 1000
MOST_STEPS = 100_000


class RecordingStore:
    """The recordings below the studio's directory."""

    def __init__(self, directory: SafeDirectory) -> None:
        self.directory = directory
        self.folder = directory.path / FOLDER

    def new_name(self) -> str:
        """Make a random name."""
        return f"recording-{secrets.token_hex(6)}"

    def check_room(self) -> None:
        """Raise ValueError if the maximum number of recordings is reached."""
        if self.folder.is_dir() and sum(1 for _ in self.folder.iterdir()) >= MOST_RECORDINGS:
            raise ValueError(f"There are {MOST_RECORDINGS:,} recordings already: delete some first.")

    def save(self, name: str, content: dict[str, Any]) -> None:
        """Write a recording atomically."""
        self.directory.inside(self.folder)
        write_json(self._path(name), content)

    def load(self, name: str) -> dict[str, Any]:
        """Read and check a recording."""
        path = self._existing_path(name)
        return check_recording(self.directory.read_record(path, MOST_RECORDING_BYTES), self.directory.name(path))

    def content(self, name: str) -> bytes:
        """Read the bytes of a recording, for download."""
        self.load(name)
        return self.directory.read(self._path(name), MOST_RECORDING_BYTES)

    def delete(self, name: str) -> None:
        """Delete a recording."""
        self.directory.inside(self.folder)
        self._existing_path(name).unlink()

    def briefs(self) -> list[dict[str, Any]]:
        """List the recordings, newest first; damaged ones have an error."""
        try:
            self.directory.inside(self.folder)
            found = [path for path in self.folder.glob("recording-*.json") if NAME.fullmatch(path.stem)]
            newest = sorted(found, key=lambda path: path.lstat().st_mtime, reverse=True)[:MOST_RECORDINGS]
        except (OSError, OutsideDirectory):
            return []
        return [self._brief(path.stem) for path in newest]

    def _brief(self, name: str) -> dict[str, Any]:
        try:
            content = self.load(name)
        except (DamagedFile, NotFound, OutsideDirectory, OSError) as error:
            sentence = "The file cannot be read." if isinstance(error, OSError) else str(error)
            return {"name": name, "damaged": sentence}
        return {
            "name": name,
            "env": as_text(content["env"]),
            "game": game_title(content["env"], content["env_parameters"]),
            "partner": as_text(content["partner"].get("name")),
            "run": as_text(content["partner"].get("run")),
            "seat": content["seat"],
            "planned": as_count(content.get("planned_episodes")),
            "returns": [as_number(episode.get("return")) for episode in content["episodes"]],
            "oracles": [as_number(episode.get("oracle")) for episode in content["episodes"]],
        }

    def _path(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise NotFound("There is no such recording.")
        return self.folder / f"{name}.json"

    def _existing_path(self, name: str) -> Path:
        path = self._path(name)
        if not path.is_file():
            raise NotFound("There is no such recording.")
        return path


def check_recording(content: dict[str, Any], source: str) -> dict[str, Any]:
    """Return `content` if it is a recording; raise DamagedFile otherwise."""
    _check_format(content.get("format"), source)
    types = {"env": str, "env_parameters": Any, "env_version": int, "seed": int, "seat": int}
    try:
        for name, annotation in types.items():
            check_type(name, content.get(name), annotation)
        _check_episodes(content)
    except ValueError as error:
        raise DamagedFile(f"{source} is damaged: {error}") from error
    return content | {
        "env_parameters": as_object(content.get("env_parameters")),
        "partner": as_object(content["partner"]),
    }


def _check_format(found: Any, source: str) -> None:
    if isinstance(found, str) and found != FORMAT and found.rpartition(" ")[0] == FORMAT.rpartition(" ")[0]:
        raise DamagedFile(
            f"{source} was recorded by another version of coverset ('{found[:100]}'), which this one cannot replay "
            f"('{FORMAT}')."
        )
    if found != FORMAT:
        raise DamagedFile(f"{source} is not a recording of this version ('{FORMAT}').")


def _check_episodes(content: dict[str, Any]) -> None:
    if content["seat"] < 0 or not 0 <= content["seed"] < 2**32:
        raise ValueError("seat must not be negative, and seed a number from 0 to 2^32 - 1.")
    if not isinstance(content.get("partner"), dict) or not isinstance(content.get("episodes"), list):
        raise ValueError("it must have a partner and a list of episodes.")
    for episode in content["episodes"]:
        if not isinstance(episode, dict):
            raise ValueError("each of its episodes must be an object.")
        check_type("actions", episode.get("actions"), tuple[tuple[int, ...], ...])
        check_type("rewards", episode.get("rewards"), tuple[float, ...])
        if len(episode["actions"]) != len(episode["rewards"]):
            raise ValueError("an episode must have as many rewards as actions.")
        if any(len(actions) <= max(content["seat"], 1) for actions in episode["actions"]):
            raise ValueError("each step must have an action of every seat, the person's among them.")
    if sum(len(episode["actions"]) for episode in content["episodes"]) > MOST_STEPS:
        raise ValueError(f"it must not have more than {MOST_STEPS:,} steps.")
