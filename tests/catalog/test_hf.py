"""Networks of transformers, from folders made here: with a tokenizer, with a preprocessing of
images, and without.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import sigmascope as sg
from sigmascope.catalog import data, hf as module, model
from sigmascope.catalog.optional import optional
from tests.catalog.stubs import Code

TINY = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat"]
SENTENCES = "the cat sat\n\n  the cat sat on the mat  \n\ncat\n"
IMAGES = torch.randint(
    0, 256, (2, 3, 50, 40), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
)


def save(folder: Path, kind: str, **settings: Any) -> Path:
    """Save a small network as transformers does."""
    library = optional("transformers")
    library.AutoModel.from_config(library.AutoConfig.for_model(kind, **settings)).save_pretrained(
        folder
    )
    return folder


@pytest.fixture
def reader(tmp_path: Path) -> Path:
    """A BERT of ten words, with its tokenizer."""
    folder = save(tmp_path / "bert", "bert", vocab_size=10, max_position_embeddings=9, **TINY)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    return folder


@pytest.fixture
def viewer(tmp_path: Path) -> Path:
    """A ViT for images of 32 × 32."""
    return save(tmp_path / "vit", "vit", image_size=32, patch_size=8, **TINY)


@pytest.fixture
def text(tmp_path: Path) -> str:
    (tmp_path / "sentences.txt").write_text(SENTENCES)
    return f"text:{tmp_path / 'sentences.txt'}"


def test_sentences_become_arguments_by_name(reader: Path, text: str) -> None:
    found = model(f"hf/{reader}")
    assert found.transform is not None
    assert found.transform.takes == "text"
    (batch,) = data(text, transform=found.transform)
    assert set(batch) >= {"input_ids", "attention_mask"}
    # [CLS] the cat sat [SEP], cut to the seven positions that are left, and padded to the longest.
    assert batch["input_ids"].tolist() == [
        [2, 5, 6, 7, 3, 0, 0],
        [2, 5, 6, 7, 8, 5, 3],
        [2, 6, 3, 0, 0, 0, 0],
    ]
    assert batch["attention_mask"].sum(1).tolist() == [5, 7, 3]


def test_a_network_reads_a_file_of_text(reader: Path, text: str) -> None:
    found = model(f"hf/{reader}")
    batches = data(text, transform=found.transform, batch_size=2)
    signature = sg.signature(found.network, batches, samples="tokens", progress=False)
    assert [site.kind for site in signature.sites][:2] == ["gelu", "gelu"]
    assert len(batches) == 2


def test_weights_come_from_the_folder(reader: Path) -> None:
    stored = load_file(reader / "model.safetensors")
    found, drawn, again = (
        model(f"hf/{reader}", weights=weights, seed=5) for weights in ("default", None, None)
    )
    key = "encoder.layer.0.intermediate.dense.weight"
    assert torch.equal(found.network.state_dict()[key], stored[key])
    assert not torch.equal(drawn.network.state_dict()[key], stored[key])
    assert torch.equal(drawn.network.state_dict()[key], again.network.state_dict()[key])
    assert (found.weights, drawn.weights) == (str(reader), "random (seed 5)")
    assert drawn.transform is not None
    assert drawn.transform(["the cat"])["input_ids"].tolist() == [[2, 5, 6, 3]]


def test_a_decoder_reads_the_sentence_too(tmp_path: Path) -> None:
    settings = {
        "d_model": 16,
        "d_ff": 32,
        "d_kv": 8,
        "num_layers": 1,
        "num_heads": 2,
        "vocab_size": 10,
    }
    folder = save(tmp_path / "t5", "t5", **settings)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    found = model(f"hf/{folder}")
    assert found.transform is not None
    batch = found.transform(["the cat", "mat"])
    assert torch.equal(batch["decoder_input_ids"], batch["input_ids"])
    assert torch.equal(batch["decoder_attention_mask"], batch["attention_mask"])
    assert found.facts()["depth"] == 2


@pytest.mark.parametrize("weights", ["default", None])
def test_without_a_tokenizer_the_remedy_is_named(
    reader: Path, text: str, weights: str | None
) -> None:
    for name in ("vocab.txt", "tokenizer_config.json"):
        (reader / name).unlink()
    found = model(f"hf/{reader}", weights=weights)
    with pytest.raises(
        sg.InputError,
        match=r"no tokenizer for sentences. Pass a directory that has one, as hf/FOLDER",
    ):
        next(iter(data(text, transform=found.transform)))


def test_a_type_has_no_tokenizer(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = optional("transformers").AutoConfig
    small = config.for_model("bert", vocab_size=10, **TINY)
    monkeypatch.setattr(config, "for_model", lambda name: small)
    found = model("hf/bert", weights=None)
    assert found.facts()["depth"] == 3
    with pytest.raises(sg.InputError, match="no tokenizer"):
        next(iter(data(text, transform=found.transform)))


def test_images_are_prepared_as_the_folder_says(viewer: Path) -> None:
    usual = model(f"hf/{viewer}").transform
    settings = {
        "image_processor_type": "ViTImageProcessor",
        "size": {"height": 32, "width": 32},
        "image_mean": [0.4, 0.5, 0.6],
        "image_std": [0.2, 0.25, 0.3],
        "resample": 3,
    }
    (viewer / "preprocessor_config.json").write_text(json.dumps(settings))
    found = model(f"hf/{viewer}")
    functional = optional("torchvision.transforms.v2.functional")
    size = functional.resize(
        IMAGES, [32, 32], interpolation=functional.InterpolationMode.BICUBIC, antialias=True
    )
    mean, std = (torch.tensor(settings[key])[:, None, None] for key in ("image_mean", "image_std"))
    expected = (size.float() / 255 - mean) / std
    assert found.transform is not None
    assert usual is not None
    assert (found.transform(IMAGES) - expected).abs().max() < 1e-5
    assert usual(IMAGES).shape == expected.shape  # scaled by its shorter side and cut
    assert (usual(IMAGES) - expected).abs().max() > 0.1
    ((images, _),) = data("embedded", transform=found.transform, limit=4)
    assert found.network(images).last_hidden_state.shape == (4, 17, 16)


def test_the_wrong_kind_of_data(reader: Path, viewer: Path, text: str) -> None:
    with pytest.raises(
        sg.InputError,
        match=r"^embedded gives images, and the network takes text. Choose text:FILE or hf/NAME\.$",
    ):
        data("embedded", transform=model(f"hf/{reader}").transform)
    with pytest.raises(
        sg.InputError,
        match=r"gives text, and the network takes images. Choose cifar10 or imagefolder:DIR\.$",
    ):
        data(text, transform=model(f"hf/{viewer}").transform)


@pytest.mark.parametrize(
    ("kind", "settings", "takes"),
    [
        (
            "wav2vec2",
            {
                "conv_dim": [8] * 7,
                "num_conv_pos_embeddings": 4,
                "num_conv_pos_embedding_groups": 2,
                **TINY,
            },
            "sound",
        ),
        (
            "clip",
            {
                "text_config": {
                    "vocab_size": 10,
                    "eos_token_id": 1,
                    "bos_token_id": 0,
                    "pad_token_id": 1,
                    **TINY,
                },
                "vision_config": {"image_size": 32, "patch_size": 8, **TINY},
            },
            "images and text",
        ),
    ],
)
def test_networks_for_which_there_is_no_data(
    tmp_path: Path, kind: str, settings: dict[str, Any], takes: str
) -> None:
    found = model(f"hf/{save(tmp_path / kind, kind, **settings)}")
    assert found.facts()["flops"] > 0
    with pytest.raises(
        sg.InputError, match=rf"gives images, and the network takes {takes}. Choose another network"
    ):
        data("embedded", transform=found.transform)


def test_code_in_weights_is_refused(
    reader: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (reader / "model.safetensors").unlink()
    torch.save({"a": Code()}, reader / "pytorch_model.bin")
    with pytest.raises(
        sg.FileFormatError, match=r"bert: contains more than tensors.*could run code"
    ):
        model(f"hf/{reader}")
    assert not (tmp_path / "ran").exists()


def test_code_beside_weights_is_refused(
    reader: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (reader / "own.py").write_text("import pathlib; pathlib.Path('ran').touch()")
    config = json.loads((reader / "config.json").read_text())
    (reader / "config.json").write_text(
        json.dumps({**config, "model_type": "own", "auto_map": {"AutoConfig": "own.C"}})
    )
    for weights in ("default", None):
        with pytest.raises(sg.FileFormatError, match="could run code"):
            model(f"hf/{reader}", weights=weights)
    assert not (tmp_path / "ran").exists()


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(
        sg.FileFormatError, match=r"not a directory written by save_pretrained of transformers"
    ):
        model(f"hf/{tmp_path}")


@pytest.mark.parametrize("name", ["bert", "org/none"])
def test_the_hub_has_nothing_of_that_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def offline(*_: object, **__: object) -> None:
        raise OSError("no route")

    library = optional("transformers")
    monkeypatch.setattr(library.AutoConfig, "from_pretrained", offline)
    monkeypatch.setattr(module, "unreachable", lambda: None)
    with pytest.raises(
        sg.InputError,
        match=rf"hf/{name} are not on this .* downloaded \(no route\)\..*pass hf/FOLDER; "
        r"connect once.*or pass weights=None",
    ):
        model(f"hf/{name}")


@pytest.mark.parametrize("weights", ["default", None])
def test_a_name_without_an_owner_is_a_type(
    monkeypatch: pytest.MonkeyPatch, weights: str | None
) -> None:
    def asked() -> None:
        pytest.fail("the hub was asked")

    monkeypatch.setattr(module, "unreachable", asked)
    with pytest.raises(
        sg.OptionError, match=r"hf/brt is neither a type .* Did you mean 'hf/bert'.*hf/OWNER/NAME"
    ):
        model("hf/brt", weights=weights)


def change(
    folder: Path, edit: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]
) -> None:
    """Edit the weights of a folder."""
    path = folder / "model.safetensors"
    save_file(
        {key: value.contiguous() for key, value in edit(load_file(path)).items()},
        path,
        metadata={"format": "pt"},
    )


def test_weights_that_are_missing(reader: Path) -> None:
    change(
        reader,
        lambda state: {key: value for key, value in state.items() if "layer.1.output" not in key},
    )
    with pytest.raises(
        sg.FileFormatError,
        match=r"its file lacks encoder\.layer\.1\.output\.\S+, .* and 1 more\. Save it again",
    ):
        model(f"hf/{reader}")
    assert model(f"hf/{reader}", weights=None).weights == "random (seed 0)"


def test_a_pooler_that_is_not_there_is_left_out(reader: Path) -> None:
    whole = model(f"hf/{reader}")
    assert whole.network.pooler is not None
    change(
        reader, lambda state: {key: value for key, value in state.items() if "pooler" not in key}
    )
    found = model(f"hf/{reader}")
    assert found.network.pooler is None
    assert found.depth == whole.depth - 1
    key = "encoder.layer.0.intermediate.dense.weight"
    assert torch.equal(found.network.state_dict()[key], whole.network.state_dict()[key])


def test_a_pooler_that_cannot_be_left_out(reader: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change(
        reader, lambda state: {key: value for key, value in state.items() if "pooler" not in key}
    )
    kind = optional("transformers").BertModel
    build = kind.__init__
    monkeypatch.setattr(kind, "__init__", lambda self, config, **_: build(self, config))
    with pytest.raises(
        sg.FileFormatError,
        match=r"its file lacks pooler\.dense\.bias, pooler\.dense\.weight\. Save it again",
    ):
        model(f"hf/{reader}")


def test_weights_of_other_shapes(reader: Path) -> None:
    change(
        reader,
        lambda state: {
            key: value[:, :5] if "layer.0.inter" in key and value.ndim == 2 else value
            for key, value in state.items()
        },
    )
    with pytest.raises(
        sg.FileFormatError,
        match=r"shapes in its .* config\.json: encoder\.layer\.0\.inter\S+ of \(32, 5\) "
        r"for \(32, 16\)",
    ):
        model(f"hf/{reader}")


def test_random_images_have_the_size_of_the_configuration(viewer: Path) -> None:
    ((images, _),) = data("random", limit=2, transform=model(f"hf/{viewer}").transform)
    assert images.shape == (2, 3, 32, 32)
