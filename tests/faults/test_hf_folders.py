"""Directories of transformers that were changed: a network, or an error of ours."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import pytest

import sigmascope as sg
from sigmascope.catalog import model
from sigmascope.catalog.optional import optional
from tests.faults.mutating import mutations
from tests.faults.scale import as_many, write_down

pytest.importorskip("transformers")
WRONG = {
    "sizes that are words": '{"model_type": "vit", "image_size": "large"}',
    "a type that is a list": '{"model_type": []}',
    "no type": "{}",
    "a list": "[]",
    "a number": "3",
    "negative sizes": '{"model_type": "bert", "hidden_size": -4}',
    "heads that do not divide": '{"model_type": "bert", "hidden_size": 5}',
    "deep": "[" * 5000,
    "binary": "\x00\x01",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    transformers = optional("transformers")
    place = tmp_path_factory.mktemp("hf")
    sizes = {"hidden_size": 4, "num_attention_heads": 1, "intermediate_size": 4}
    config = transformers.BertConfig(
        vocab_size=8, num_hidden_layers=1, max_position_embeddings=8, **sizes
    )
    transformers.BertModel(config).save_pretrained(place)
    return place


def raw_error(name: str, **more: None) -> str:
    """Return what was raised beside errors of ours; "" if nothing was."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model(name, **more)
    except sg.SigmascopeError:
        return ""
    except Exception as error:
        return f"{error!r:.200}"
    return ""


def test_mutated_folders(folder: Path) -> None:
    logging.disable(logging.CRITICAL)
    each, bad, total = as_many(10, 500), [], 0
    for seed, name in enumerate(("config.json", "model.safetensors")):
        whole = (folder / name).read_bytes()
        for data in mutations(whole, each, seed):
            (folder / name).write_bytes(data)
            total += 1
            if told := raw_error(f"hf/{folder}"):
                bad.append(f"{name}: {told}")
        (folder / name).write_bytes(whole)
    logging.disable(logging.NOTSET)
    write_down("mutated directories of transformers", tried=total, failed=len(bad))
    assert not bad


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_configuration_is_refused_by_name(what: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(WRONG[what])
    assert raw_error(f"hf/{tmp_path}") == ""
    assert raw_error(f"hf/{tmp_path}", weights=None) == ""
