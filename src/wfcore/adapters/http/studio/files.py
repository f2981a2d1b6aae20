"""The built files of the studio. Only names of the manifest are read, so no path of a request reaches the disk."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import attrs

STATIC: Final = Path(__file__).with_name("static")

MEDIA_TYPES: Final = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}


@attrs.frozen
class Built:
    """The manifest of a build."""

    script: str
    style: str | None
    preload: tuple[str, ...]
    digests: Mapping[str, str]
    """The SHA-256 of each file, by its name."""


@attrs.frozen
class StaticFile:
    """One built file. `packed` is its content compressed with gzip."""

    content: bytes
    packed: bytes
    media_type: str
    etag: str


@cache
def built() -> Built:
    """The files of this installation. Raises FileNotFoundError in a checkout whose studio was never built."""
    found: dict[str, Any] = json.loads((STATIC / "manifest.json").read_text("utf-8"))
    digests = {name: entry["sha256"] for name, entry in found["files"].items()}
    app = found["app"]
    return Built(app["script"], app["style"], tuple(app["preload"]), digests)


@cache
def read(name: str) -> StaticFile | None:
    """The file of this name; None for a name that the manifest does not have."""
    digest = built().digests.get(name)
    if digest is None:
        return None
    path = STATIC / name
    return StaticFile(
        path.read_bytes(),
        path.with_name(f"{path.name}.gz").read_bytes(),
        MEDIA_TYPES.get(path.suffix, "application/octet-stream"),
        f'"{digest[:32]}"',
    )
