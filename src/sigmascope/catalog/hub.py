"""The Hugging Face hub: where it keeps its files, and whether it can be reached.

Offline, huggingface_hub retries for half a minute with many warnings, so it is asked once before.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 5.0  # seconds for the hub to answer
NOISY = ("huggingface_hub", "timm", "transformers")


def _library() -> Any:
    importlib.import_module("huggingface_hub.utils")  # not an attribute of the package before
    return importlib.import_module("huggingface_hub")  # a dependency of transformers and timm


def hub_cache() -> Path:
    """Return the directory in which files of the hub are kept."""
    return Path(_library().constants.HF_HUB_CACHE)


def is_kept(name: str, file: str) -> bool:
    """Return whether a file of a repository is in the cache."""
    try:
        return isinstance(_library().try_to_load_from_cache(name, file), str)
    except ValueError:  # not a valid name of a repository
        return False


def unreachable() -> str | None:
    """Return why the hub cannot be reached, or None when it answers, whatever it answers."""
    library = _library()
    try:
        library.utils.get_session().head(library.constants.ENDPOINT, timeout=PATIENCE)
    except Exception as error:  # of httpx or of requests, depending on the version
        return str(error).partition("\n")[0]
    return None


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings of libraries whose failures are raised as errors here."""
    loggers = [logging.getLogger(name) for name in NOISY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(max(logger.getEffectiveLevel(), logging.ERROR))
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
