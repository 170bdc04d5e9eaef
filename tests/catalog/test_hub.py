"""Whether the hub can be reached, and what is left of the settings of logging."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest

import sigmascope as sg
from sigmascope.catalog import hub as module, model
from sigmascope.catalog.hub import hub_cache, is_kept, quiet, unreachable
from sigmascope.catalog.optional import optional


class Session:
    """Answers, or fails as a session without a network does."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.asked = error, []

    def head(self, url: str, *, timeout: float) -> None:
        self.asked.append((url, timeout))
        if self.error:
            raise self.error


def test_the_hub_is_asked_once_and_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, expected in ((None, None), (ConnectionError("no route\nat all"), "no route")):
        session = Session(error)
        monkeypatch.setattr(module._library().utils, "get_session", lambda session=session: session)
        assert unreachable() == expected
        assert [timeout <= 5 for _, timeout in session.asked] == [True]


def test_what_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "models--org--name"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc")
    (folder / "snapshots" / "abc").mkdir(parents=True)
    (folder / "snapshots" / "abc" / "config.json").write_text("{}")
    cached: Any = module._library().try_to_load_from_cache
    monkeypatch.setattr(
        module._library(),
        "try_to_load_from_cache",
        lambda *names: cached(*names, cache_dir=tmp_path),
    )
    assert is_kept("org/name", "config.json")
    assert not is_kept("org/name", "model.safetensors")
    assert not is_kept("no/name/of/the/hub", "config.json")


@pytest.mark.parametrize(
    ("name", "match"),
    [
        (
            "timm/resnet10t",
            r"\(no route\)\. Download model\.safetensors of timm/resnet10t\.\w+ from the hub "
            r"and pass weights=FILE",
        ),
        (
            "hf/org/none",
            r"hf/org/none .*\(no route\)\. Put its config\.json, model\.safetensors and "
            r"tokenizer files in a directory",
        ),
    ],
)
def test_without_a_connection_the_answer_comes_at_once(
    monkeypatch: pytest.MonkeyPatch, name: str, match: str
) -> None:
    session = Session(ConnectionError("no route"))
    monkeypatch.setattr(module._library().utils, "get_session", lambda: session)
    optional("timm")
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("it waits to try again"))
    with pytest.raises(sg.InputError, match=match) as caught:
        model(name)
    assert str(hub_cache()) in str(caught.value)
    assert len(session.asked) == 1


def test_warnings_are_held_back_for_a_while() -> None:
    logger, inner = (
        logging.getLogger("huggingface_hub"),
        logging.getLogger("huggingface_hub.utils._http"),
    )
    levels = [logging.getLogger(name).level for name in module.NOISY]
    with quiet():
        assert not inner.isEnabledFor(logging.WARNING)
        assert inner.isEnabledFor(logging.ERROR)
    assert [logging.getLogger(name).level for name in module.NOISY] == levels
    logger.setLevel(logging.CRITICAL)
    try:
        with quiet():
            assert not logger.isEnabledFor(logging.ERROR)  # what is quieter already stays so
    finally:
        logger.setLevel(levels[0])
