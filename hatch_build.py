"""The description of a package index: the README with links that work elsewhere too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(?P<before>\]\(|(?:src|srcset|href)=\")(?P<path>(?![a-z]+:|//|#)[^)\"\s]+)")
PICTURE = (".png", ".svg", ".jpg")


def with_absolute_links(text: str, repository: str, version: str) -> str:
    """Return Markdown whose relative links lead to the files of this version in a repository."""

    def absolute(found: re.Match[str]) -> str:
        kind = "raw" if found["path"].endswith(PICTURE) else "blob"
        return f"{found['before']}{repository}/{kind}/v{version}/{found['path']}"

    return LINK.sub(absolute, text)


class ReadmeHook(MetadataHookInterface):
    """Fills in `readme`, which pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the description to the metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = metadata["urls"]["Source"]
        description = with_absolute_links(text, repository, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": description}
