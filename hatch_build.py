"""The metadata that depend on where the project is published: its URLs, and the absolute links of the README.

`WFCORE_REPOSITORY` is the address of the repository for one build, such as `https://git.example.org/wfcore`. A build
without it has no URLs, and the README names files of the source distribution.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_IMAGE = re.compile(r"!\[([^\]]*)\]\((?!https?://)([^)\s]+)\)\n*")
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?://|#)([^)\s]+)\)")


class CustomMetadataHook(MetadataHookInterface):
    """Sets `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        repository = os.environ.get("WFCORE_REPOSITORY", "").rstrip("/")
        text = Path(self.root, "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_links(text, repository)}
        if repository:
            metadata["urls"] = urls(repository)


def with_links(text: str, repository: str) -> str:
    """The README with the links to its files as links to the repository; without one, as the paths of the files, and
    without images.
    """
    text = _IMAGE.sub(rf"![\1]({repository}/raw/main/\2)\n\n" if repository else "", text)
    target = rf"[\1]({repository}/blob/main/\2)" if repository else r"\1 (`\2`)"
    return _LINK.sub(target, text)


def urls(repository: str) -> dict[str, str]:
    return {
        "Repository": repository,
        "Documentation": f"{repository}/tree/main/docs",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }
