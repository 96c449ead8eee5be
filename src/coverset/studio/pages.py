"""The files of the page, held in memory: there is no path to lead astray, and nobody waits for the disk."""

import hashlib
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from coverset.studio.files import NotFound
from coverset.studio.snapshot import Content, answer

STATIC = Path(__file__).parent / "static"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class Pages:
    """What is shipped below `static`, by the address under which it is asked for."""

    def __init__(self, folder: Path = STATIC) -> None:
        self.files = {
            path.relative_to(folder).as_posix(): _content(path)
            for path in sorted(folder.rglob("*"))
            if path.suffix in MEDIA_TYPES
        }

    async def show(self, request: Request) -> Response:
        """A file, or the first page for the bare address."""
        found = self.files.get(request.path_params["path"] or "index.html")
        if found is None:
            raise NotFound("There is no such page.")
        return answer(request, found)


def _content(path: Path) -> Content:
    body = path.read_bytes()
    return Content(body, f'"{hashlib.sha256(body).hexdigest()[:24]}"', MEDIA_TYPES[path.suffix])
