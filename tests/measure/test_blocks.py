"""The blocks of transformers: closed forms, an independent reference, invariances, hold-out."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.capture.block_finding import find_blocks
from sigmascope.catalog.cifar_transformers import SwinTransformer, VisionTransformer
from sigmascope.catalog.optional import optional
from sigmascope.measure.block_result import MEASURES

DIM, SEQUENCES, TOKENS = 6, 80, 12


class Attention(nn.Module):
    """Mixes nothing: every token keeps to itself."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(DIM, DIM)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(x)
        return found


class MadeUp(nn.Module):
    """A block whose feed-forward part is any function."""

    def __init__(self, act: nn.Module) -> None:
        super().__init__()
        self.attention = Attention()
        self.mlp = nn.Sequential(nn.Linear(DIM, 2 * DIM), act, nn.Linear(2 * DIM, DIM))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(x)
        found: Tensor = x + self.mlp(x)
        return found


class Noise(nn.Module):
    """Adds numbers that have nothing to do with the input."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.seen = 0

    def forward(self, x: Tensor) -> Tensor:
        self.seen += 1
        generator = torch.Generator().manual_seed(7)
        return x + torch.randn(x.shape, generator=generator, dtype=x.dtype)


class Stack(nn.Module):
    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(blocks)

    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        for block in self.layers:
            x = block(x)
        return x


def stack(*blocks: nn.Module) -> Stack:
    return Stack(*blocks).double().eval()


@pytest.fixture
def made() -> Stack:
    torch.manual_seed(0)
    return stack(MadeUp(nn.Identity()), MadeUp(nn.ReLU()))


@pytest.fixture
def data() -> Tensor:
    return torch.randn(
        SEQUENCES, TOKENS, DIM, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )


def rows(tokens: Tensor) -> tuple[Any, Any]:
    """The tokens of sequences with even and with odd numbers."""
    return tokens[0::2].reshape(-1, DIM).numpy(), tokens[1::2].reshape(-1, DIM).numpy()


def reference(x: Tensor, y: Tensor) -> tuple[float, float]:
    """R² of numpy's least squares where it is fitted, and on the other half."""
    (fit_x, held_x), (fit_y, held_y) = rows(x), rows(y)
    with_one = np.c_[fit_x, np.ones(len(fit_x))]
    solution = np.linalg.lstsq(with_one, fit_y, rcond=None)[0]

    def r2(inputs: Any, outputs: Any) -> float:
        left = outputs - np.c_[inputs, np.ones(len(inputs))] @ solution
        return float(1 - np.square(left).sum() / np.square(outputs - outputs.mean(axis=0)).sum())

    return r2(fit_x, fit_y), r2(held_x, held_y)


def test_a_linear_block_is_explained_and_another_as_least_squares_explain_it(
    made: Stack, data: Tensor
) -> None:
    found = sg.blocks(made, data)
    linear, other = found
    for measure in ("feed_forward", "increment", "stream", "procrustes", "procrustes_increment"):
        assert float(getattr(linear, measure)) == pytest.approx(1, abs=1e-9)
    with torch.no_grad():
        x = made.layers[0](data)
        y = made.layers[1](x)
        inner = x + made.layers[1].attention(x)
        fed = made.layers[1].mlp(inner)
    for name, outputs in (("stream", y), ("increment", y - x)):
        fitted, held_out = reference(x, outputs)
        assert float(getattr(other, name)) == pytest.approx(held_out, abs=1e-9)
        in_sample = "procrustes" if name == "stream" else "procrustes_increment"
        assert float(getattr(other, in_sample)) == pytest.approx(fitted, abs=1e-9)
    assert float(other.feed_forward) == pytest.approx(reference(inner, fed)[1], abs=1e-9)
    assert 0.5 < float(other.feed_forward) < 0.95
    assert (other.ridge, other.feed_forward_ridge) == (0, 0)
    assert (other.fitted, other.held_out, other.width) == (480, 480, DIM)


def test_procrustes_is_the_published_formula(made: Stack, data: Tensor) -> None:
    with torch.no_grad():
        x = made.layers[0](data)
        y = made.layers[1](x)
    x_fit, y_fit = rows(x)[0], rows(y)[0]
    normalized = [
        (one - one.mean(axis=0)) / np.linalg.norm(one - one.mean(axis=0)) for one in (x_fit, y_fit)
    ]
    solution = np.linalg.pinv(normalized[0]) @ normalized[1]
    score = 1 - np.square(normalized[0] @ solution - normalized[1]).sum()
    found = sg.blocks(made, data)["layers.1"]
    assert float(found.procrustes) == pytest.approx(float(score), abs=1e-9)


def test_influence_is_one_minus_the_mean_cosine(made: Stack, data: Tensor) -> None:
    with torch.no_grad():
        y = made.layers[0](data)
    expected = 1 - torch.cosine_similarity(data, y, dim=-1).mean()
    found = sg.blocks(made, data)["layers.0"].influence
    assert float(found) == pytest.approx(float(expected), abs=1e-12)
    assert found.low < float(found) < found.high


def test_what_is_linear_does_not_depend_on_the_basis(made: Stack, data: Tensor) -> None:
    """R² of the increment under any invertible map of the inputs, as the fit absorbs it."""
    turned = copy.deepcopy(made)
    torch.manual_seed(3)
    mixing = torch.randn(DIM, DIM, dtype=torch.float64) + 3 * torch.eye(DIM, dtype=torch.float64)

    class Turned(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner
            self.attention = Attention()

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.inner(x @ mixing)
            return found

    turned.layers[1] = Turned(made.layers[1]).double()
    first = made.layers[0]

    class Back(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = Attention()

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = first(x) @ torch.linalg.inv(mixing)
            return found

    turned.layers[0] = Back().double()
    one = sg.blocks(made, data, blocks="layers.1")["layers.1"]
    other = sg.blocks(turned, data, blocks="layers.1")["layers.1"]
    assert float(other.stream) == pytest.approx(float(one.stream), abs=1e-9)
    assert float(other.influence) != pytest.approx(float(one.influence), abs=1e-3)


def test_noise_is_not_explained_out_of_sample(data: Tensor) -> None:
    """The negative control: in sample noise is explained, held out it is not."""
    found = sg.blocks(stack(Noise()), data[:40])["layers.0"]
    assert float(found.procrustes_increment) > 0.01
    assert -0.2 < float(found.increment) < 0.01
    assert found.increment.low < 0
    assert float(found.stream) > 0.3  # the stream holds the input itself


def test_few_tokens_need_a_ridge_and_say_so(made: Stack, data: Tensor) -> None:
    found = sg.blocks(made, data[:4, :1])
    assert found.blocks[1].ridge == 1e-6
    assert "a ridge of 1e-06 of the variance of each input" in repr(found)
    assert "fewer than 5 tokens per channel to fit" in repr(found)


def test_padding_does_not_count(made: Stack, data: Tensor) -> None:
    mask = torch.ones(SEQUENCES, TOKENS, dtype=torch.long)
    mask[:, 9:] = 0
    spoilt = data.clone()
    spoilt[:, 9:] = 100 * spoilt[:, 9:].square()
    masked = sg.blocks(made, {"x": spoilt, "attention_mask": mask})["layers.1"]
    short = sg.blocks(made, data[:, :9].contiguous())["layers.1"]
    seen = sg.blocks(made, spoilt)["layers.1"]
    assert masked.held_out == short.held_out == 360
    for measure in MEASURES:
        value = float(getattr(masked, measure))
        assert value == pytest.approx(float(getattr(short, measure)), abs=1e-9)
    assert float(seen.stream) != pytest.approx(float(masked.stream), abs=1e-3)


def test_batches_of_any_size_give_the_same(made: Stack, data: Tensor) -> None:
    whole, parts = sg.blocks(made, data), sg.blocks(made, iter(data.split([1, 30, 49])))
    for one, other in zip(whole, parts, strict=True):
        for measure in MEASURES[1:]:
            for end in ("value", "low", "high"):
                expected = getattr(getattr(one, measure), end)
                assert getattr(getattr(other, measure), end) == pytest.approx(expected, abs=1e-9)


def test_the_network_is_not_changed(made: Stack, data: Tensor) -> None:
    made.train()
    before = copy.deepcopy(made.state_dict())
    state = torch.get_rng_state()
    sg.blocks(made, data)
    assert made.training
    assert all(module.training for module in made.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in made.modules())
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], value) for name, value in made.state_dict().items())


def test_a_block_that_writes_into_its_input_is_measured_before_it_does(
    made: Stack, data: Tensor
) -> None:
    class InPlace(MadeUp):
        def forward(self, x: Tensor) -> Tensor:
            x += self.attention(x)
            x += self.mlp(x)
            return x

    torch.manual_seed(5)
    plain = MadeUp(nn.ReLU()).double()
    writes = InPlace(nn.ReLU()).double()
    writes.load_state_dict(plain.state_dict())
    one, other = (sg.blocks(stack(made.layers[0], block), data) for block in (plain, writes))
    assert float(one.blocks[1].increment) == pytest.approx(
        float(other.blocks[1].increment), abs=1e-12
    )


def test_intervals_come_from_sequences_not_tokens(made: Stack, data: Tensor) -> None:
    """Tokens that repeat one another within a sequence add nothing to what is known."""
    repeated = data[:, :1].expand(-1, TOKENS, -1).contiguous()
    many, single = (
        sg.blocks(made, one)["layers.1"].influence for one in (repeated, data[:, :1].contiguous())
    )
    assert many.high - many.low == pytest.approx(single.high - single.low, rel=1e-9)


def test_a_result_prints_saves_draws_and_becomes_a_frame(
    made: Stack, data: Tensor, tmp_path: Path
) -> None:
    found = sg.blocks(made, data, name="made up")
    assert repr(found).startswith("made up: 2 blocks, 80 sequences; ±")
    assert "480 tokens to fit, 480 held out" in repr(found)
    assert "no activation: no activation call was seen in it (layers.0)" in repr(found)
    assert sg.load(found.save(tmp_path / "blocks.json")) == found
    frame = found.to_frame()
    assert list(frame["block"]) == ["layers.0", "layers.1"]
    assert frame["stream"][1] == float(found.blocks[1].stream)
    drawn = found.plot()
    (line,) = [one for one in drawn.axes[0].lines if "increment" in str(one.get_label())]
    assert np.allclose(np.asarray(line.get_ydata(), dtype=float), found.values("increment"))
    assert drawn.table[1]["influence"] == float(found.blocks[1].influence)


def test_the_activation_is_that_of_the_feed_forward_part(made: Stack, data: Tensor) -> None:
    found = sg.blocks(made, data)["layers.1"]
    scored = sg.signature(made, data, samples="tokens", estimator="population")
    assert found.site == "layers.1.mlp.1"
    assert float(found.activation) == scored["layers.1.mlp.1"].population
    given = sg.blocks(made, data, signature=scored)["layers.1"]
    assert given == found


def test_a_block_that_runs_twice_has_two_rows(made: Stack, data: Tensor) -> None:
    shared = stack(made.layers[1])

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = shared

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.inner.layers[0](self.inner.layers[0](x))
            return found

    found = sg.blocks(Twice(), data)
    assert [one.name for one in found] == ["inner.layers.0", "inner.layers.0#1"]
    assert float(found.blocks[0].stream) != float(found.blocks[1].stream)


def test_what_is_not_finite_has_a_reason(data: Tensor) -> None:
    class Broken(MadeUp):
        def forward(self, x: Tensor) -> Tensor:
            return x / 0

    found = sg.blocks(stack(Broken(nn.ReLU())), data)
    assert math.isnan(float(found.blocks[0].stream))
    assert found.blocks[0].stream.reason == "its inputs or outputs are not finite"
    held_out = data.clone()
    held_out[1] = math.inf  # maps are fitted to sequences of even numbers
    found = sg.blocks(stack(MadeUp(nn.ReLU())), held_out)
    assert found.blocks[0].stream.reason == "the inputs or outputs are not finite"


class TestBadInput:
    def test_a_network_without_blocks(self) -> None:
        with pytest.raises(
            sg.NoBlockError, match=r"Sequential has no transformer blocks.*blocks='layers\.\*'"
        ):
            sg.blocks(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(8, 4))

    def test_a_pattern_that_fits_nothing(self, made: Stack, data: Tensor) -> None:
        with pytest.raises(sg.NoBlockError, match=r"blocks='layer\.\*' fits none.*'layers\.0'"):
            sg.blocks(made, data, blocks="layer.*")

    def test_a_feed_forward_part_that_is_not_there(self, made: Stack, data: Tensor) -> None:
        with pytest.raises(sg.NoBlockError, match=r"there is no module 'layers\.0\.ffn'"):
            sg.blocks(made, data, feed_forward="ffn")

    def test_patterns_of_another_type(self, made: Stack, data: Tensor) -> None:
        with pytest.raises(sg.InputTypeError, match=r"blocks must be a pattern or several"):
            sg.blocks(made, data, blocks=[3])  # type: ignore[list-item]

    def test_too_few_sequences(self, made: Stack, data: Tensor) -> None:
        with pytest.raises(sg.InputError, match=r"hold 3 sequences.*at least 4 are needed"):
            sg.blocks(made, data[:3])

    @pytest.mark.parametrize("nothing", [[], iter(())])
    def test_no_batch(self, made: Stack, nothing: Any) -> None:
        with pytest.raises(sg.InputError, match=r"batches is empty\. Pass a loader"):
            sg.blocks(made, nothing)

    def test_another_measure_and_another_block(self, made: Stack, data: Tensor) -> None:
        found = sg.blocks(made, data)
        with pytest.raises(sg.OptionError, match=r"measure='r2' is not a valid choice"):
            found.values("r2")
        with pytest.raises(sg.UnknownSiteError, match=r"'layers\.7' is not one of the 2 blocks"):
            found["layers.7"]

    def test_something_other_than_a_signature(self, made: Stack, data: Tensor) -> None:
        with pytest.raises(sg.InputTypeError, match=r"signature must be of type Signature"):
            sg.blocks(made, data, signature=3)  # type: ignore[arg-type]


def test_blocks_can_be_named(made: Stack, data: Tensor) -> None:
    found = sg.blocks(made, data, blocks=["layers.1"], feed_forward="mlp.0:mlp.1")
    assert [one.name for one in found] == ["layers.1"]
    assert math.isfinite(float(found.blocks[0].feed_forward))
    assert [one.path for one in find_blocks(made, "*.0")] == ["layers.0"]


def families() -> dict[str, tuple[Callable[[Any], nn.Module], str, int]]:
    """Architecture -> how to build it from transformers, the path of its blocks, its batches."""
    small: dict[str, Any] = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    words: dict[str, Any] = {**small, "vocab_size": 50}
    ends: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    return {
        "llama": (
            lambda t: t.LlamaModel(t.LlamaConfig(**words, num_key_value_heads=1, **ends)),
            "layers.{}",
            2,
        ),
        "gpt2": (
            lambda t: t.GPT2Model(
                t.GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=50, **ends)
            ),
            "h.{}",
            2,
        ),
        "bert": (lambda t: t.BertModel(t.BertConfig(**words)), "encoder.layer.{}", 2),
        "t5": (
            lambda t: t.T5EncoderModel(
                t.T5Config(d_model=16, d_ff=32, num_layers=2, num_heads=2, d_kv=8, vocab_size=50)
            ),
            "encoder.block.{}",
            2,
        ),
        "vit": (
            lambda t: t.ViTModel(t.ViTConfig(**small, image_size=32, patch_size=8)),
            "layers.{}",
            4,
        ),
    }


@pytest.mark.slow
@pytest.mark.parametrize("family", families())
def test_blocks_of_transformers_are_found(family: str) -> None:
    build, path, axes = families()[family]
    torch.manual_seed(0)
    network = build(optional("transformers")).eval()
    words = {"input_ids": torch.randint(50, (24, 9)), "attention_mask": torch.ones(24, 9)}
    found = sg.blocks(network, torch.randn(8, 3, 32, 32) if axes == 4 else words)
    assert [one.name for one in found] == [path.format(place) for place in range(2)]
    for one in found:
        assert all(math.isfinite(float(getattr(one, measure))) for measure in MEASURES)
        assert one.site.startswith(one.path)


@pytest.mark.slow
def test_blocks_of_vision_libraries_and_of_the_zoo_are_found() -> None:
    vision, timm = optional("torchvision").models, optional("timm")
    images = torch.randn(4, 3, 32, 32)
    tiny: dict[str, Any] = {"depth": 2, "embed_dim": 16, "num_heads": 2, "img_size": 32}
    networks = {
        "blocks.{}": timm.create_model("vit_tiny_patch16_224", patch_size=8, **tiny),
        "encoder.layers.encoder_layer_{}": vision.VisionTransformer(32, 8, 2, 2, 16, 32),
        "features.1.{}": vision.SwinTransformer([4, 4], 16, [2], [2], [4, 4]),
    }
    for path, network in networks.items():
        found = sg.blocks(network, images)
        assert [one.name for one in found] == [path.format(place) for place in range(2)]
        assert all(math.isfinite(float(one.feed_forward)) for one in found)
    swin = SwinTransformer((8, 16), (2, 1))
    assert [one.path for one in find_blocks(swin)] == ["blocks.0", "blocks.1", "blocks.3"]
    assert all(one.start.endswith("fc1") for one in find_blocks(swin))
    assert len(find_blocks(VisionTransformer(16, 3, 2))) == 3


@pytest.mark.slow
def test_the_gated_unit_of_swiglu_can_be_scored() -> None:
    build = families()["llama"][0]
    torch.manual_seed(0)
    network = build(optional("transformers")).eval()
    words = {"input_ids": torch.randint(50, (16, 6))}
    alone, unit = (sg.blocks(network, words, gates=gates) for gates in ("alone", "unit"))
    for one, other in zip(alone, unit, strict=True):
        assert float(one.activation) != float(other.activation)
        assert float(one.stream) == float(other.stream)


class Loose(nn.Module):
    """A block whose layers have names of their own, and whose attention is a function."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.up, self.down = nn.Linear(DIM, DIM), nn.Linear(DIM, 9), nn.Linear(9, DIM)

    def forward(self, x: Tensor) -> Tensor:
        q = self.q(x)
        x = x + nn.functional.scaled_dot_product_attention(q, q, q)
        found: Tensor = x + self.down(nn.functional.gelu(self.up(x)))
        return found


def test_layers_of_any_name_are_measured_once_they_are_named(data: Tensor) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(Loose(), Loose())
    with pytest.raises(sg.NoBlockError, match=r"Name the blocks"):
        sg.blocks(network, data)
    unnamed = sg.blocks(network, data, blocks="*")
    assert np.isnan(unnamed.values("feed_forward")).all()
    assert "Name it, feed_forward='mlp', or its first and last layer, 'fc1:fc2'" in repr(unnamed)
    named = sg.blocks(network, data, blocks="*", feed_forward="up:down")
    assert np.isfinite(named.values("feed_forward")).all()
    assert np.array_equal(named.values("increment"), unnamed.values("increment"))
