"""Static files: a table read at the start, so that no path is made from a request (M72).

Their address contains a digest of all of them, so browsers may cache them forever (M94).
"""

from __future__ import annotations

import hashlib
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Mounted

TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""The types of files that are served, by suffix."""


class StaticFiles:
    """The files in the folder `static` of a package, by name."""

    def __init__(self, package: str) -> None:
        folder = files(package) / "static"
        found = sorted(folder.iterdir(), key=lambda file: file.name)
        self._files = {
            file.name: (file.read_bytes(), TYPES[ending])
            for file in found
            if (ending := file.name.rpartition(".")[2]) in TYPES
        }
        everything = hashlib.sha256(b"\0".join(data for data, _ in self._files.values()))
        self._digest = everything.hexdigest()[:16]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files."""
        return tuple(self._files)

    def url(self, name: str) -> str:
        """The address of a file. Raises KeyError for an unknown name."""
        self._files[name]
        return f"/static/{self._digest}/{name}"

    def route(self) -> Mounted:
        """The route that serves them, for any digest."""
        return Mounted("/static/{digest}/{name}", self._serve, methods=["GET"])

    async def _serve(self, request: Request) -> Response:
        data, kind = self._files.get(request.path_params["name"], (None, "text/plain"))
        if data is None:
            return Response("There is no such file.", 404, media_type="text/plain")
        is_current = request.path_params["digest"] == self._digest
        keep = "public, max-age=31536000, immutable" if is_current else "no-store"
        return Response(data, headers={"Cache-Control": keep}, media_type=kind)
