"""Tests for two networks compared layer by layer: against the features themselves, and everything
left as it was.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sigmascope.errors import (
    FileFormatError,
    InputError,
    InputTypeError,
    MissingExtraError,
    NoActivationError,
    OptionError,
)
from sigmascope.symmetry.cka_similarity import cka
from sigmascope.symmetry.equivalence import check_equivalence
from sigmascope.symmetry.layer_similarity import LayerSimilarity
from sigmascope.symmetry.layers import compare
from sigmascope.symmetry.passes import Copies
from sigmascope.symmetry.procrustes_similarity import procrustes
from sigmascope.symmetry.similarity_options import ProcrustesOptions
from tests.resealing import without_digest


def network(
    seed: int, *, widths: tuple[int, int, int] = (4, 6, 5), inplace: bool = False
) -> nn.Sequential:
    torch.manual_seed(seed)
    a, b, c = widths
    return nn.Sequential(
        nn.Conv2d(3, a, 3, padding=1),
        nn.ReLU(inplace),
        nn.AvgPool2d(2),
        nn.Conv2d(a, b, 3, padding=1),
        nn.ReLU(inplace),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(b, c),
        nn.ReLU(inplace),
    )


def images(n: int = 40) -> Tensor:
    return torch.randn(n, 3, 8, 8, generator=torch.Generator().manual_seed(99))


def outputs(model: nn.Sequential, x: Tensor) -> list[Tensor]:
    """Return what each ReLU gives, without the library."""
    found = []
    with torch.no_grad():
        for layer in model:
            x = layer(x)
            if isinstance(layer, nn.ReLU):
                found.append(x.clone())
    return found


@pytest.mark.parametrize("group", ["relu", "orthogonal"])
@pytest.mark.parametrize("measure", ["procrustes", "cka"])
def test_every_entry_is_that_of_the_features(measure: str, group: str) -> None:
    one, other, data = network(0).double(), network(1, widths=(5, 6, 3)).double(), images().double()
    found = compare(
        one, other, list(torch.split(data, 16)), measure=measure, group=group, dtype="float64"
    )
    function = {"procrustes": procrustes, "cka": cka}[measure]
    expected = [
        [function(x, y, group=group).similarity for y in outputs(other, data)]
        for x in outputs(one, data)
    ]
    np.testing.assert_allclose(found.similarity, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.distance, 1 - found.similarity)
    assert (found.rows, found.columns) == (("1", "4", "8"), ("1", "4", "8"))
    assert found.channels == ((4, 6, 5), (5, 6, 3))
    assert found.samples == 40
    assert not found.missing
    single = compare(one, other, data, measure=measure, group=group)
    np.testing.assert_allclose(single.similarity, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("measure", ["procrustes", "cka"])
def test_a_network_is_exactly_like_itself(measure: str) -> None:
    model = network(0)
    twin = network(0)
    for other in (model, twin):
        found = compare(model, other, torch.split(images(), 16), measure=measure)
        assert found.similarity.diagonal().tolist() == [1, 1, 1]
        assert (found.similarity[~np.eye(3, dtype=bool)] < 1).all()


@pytest.mark.parametrize(
    ("measure", "what"), [("procrustes", "zero everywhere"), ("cka", "constant")]
)
def test_channels_that_carry_nothing_are_noted(measure: str, what: str) -> None:
    one, other = network(0), network(1)
    with torch.no_grad():
        one[3].bias[:2] = -1e3  # type: ignore[index,operator]
        one[7].bias[1] = -1e3  # type: ignore[index,operator]
    found = compare(one, other, images(), measure=measure, names=("one", "other"))
    assert found.live == ((4, 4, found.live[0][2]), (4, 6, found.live[1][2]))
    assert (
        f"\nChannels of one (rows) that are {what}: 2 of 6 in 4, {5 - found.live[0][2]} of 5 in 8."
        in repr(found)
    )
    whole = compare(other[:5], other[:5], images(), measure=measure)
    assert "Channels of" not in repr(whole)


@pytest.mark.parametrize("measure", ["procrustes", "cka"])
def test_the_diagonal_alone_leaves_nan_elsewhere(measure: str) -> None:
    one, other = network(0), network(1)
    whole = compare(one, other, images(), measure=measure)
    found = compare(one, other, images(), measure=measure, pairs="diagonal")
    np.testing.assert_allclose(found.similarity.diagonal(), whole.similarity.diagonal(), atol=1e-6)
    assert np.isnan(found.similarity[~np.eye(3, dtype=bool)]).all()
    assert not found.missing
    assert "same place" in repr(found)
    with pytest.raises(InputError, match="as many layers in both networks, not 3 and 2"):
        compare(one, other[:5], images(), measure=measure, pairs="diagonal")


@pytest.mark.parametrize("measure", ["procrustes", "cka"])
def test_networks_that_overwrite_their_features(measure: str) -> None:
    class Overwriting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = network(3)

        def forward(self, x: Tensor) -> Tensor:
            first = self.parts[1](self.parts[0](x))
            second = first.mul_(-3).add_(1)  # after the activation was shown
            return self.parts[4](self.parts[3](self.parts[2](second)))

    torch.manual_seed(0)
    model, plain = Overwriting(), network(4, inplace=True)
    with torch.no_grad():
        true = model.parts[1](model.parts[0](images()))
    found = compare(model, plain, torch.split(images(), 16), measure=measure, dtype="float64")
    function = {"procrustes": procrustes, "cka": cka}[measure]
    expected = function(true, outputs(plain, images())[0]).similarity
    assert found.similarity[0, 0] == pytest.approx(expected, abs=1e-9)


def test_copies_use_their_memory_again_and_outlive_the_network() -> None:
    copies = Copies()
    first = torch.rand(6, 3, 2, 2)
    copies.keep("a", first)
    kept = copies.sites["a"]
    first.zero_()
    assert float(kept.min()) > 0
    place = kept.data_ptr()
    copies.begin()
    assert not copies.sites
    smaller = torch.rand(4, 2, 2, 3).permute(0, 3, 1, 2)
    copies.keep("a", smaller)
    assert torch.equal(copies.sites["a"], smaller)
    assert copies.sites["a"].data_ptr() == place
    for other in (torch.rand(9, 3, 2, 2), torch.rand(2, 3, 2, 2).double()):
        copies.keep("a", other)
        assert torch.equal(copies.sites["a"], other)
        assert copies.sites["a"].dtype == other.dtype


def test_everything_is_left_as_it_was() -> None:
    one, other = network(0).train(), network(1)
    one.append(nn.Dropout(0.5))
    before = {name: value.clone() for name, value in one.state_dict().items()}
    x = images()
    kept = x.clone()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    for measure in ("procrustes", "cka"):
        compare(one, other, [x], measure=measure)
    assert torch.equal(torch.rand(3), expected)
    assert one.training
    assert not any(
        module._forward_hooks or module._forward_pre_hooks
        for model in (one, other)
        for module in model.modules()
    )
    assert torch.equal(x, kept)
    assert all(torch.equal(value, before[name]) for name, value in one.state_dict().items())


def test_rounds_and_files_give_the_same_as_memory(tmp_path: Path) -> None:
    one, other = network(0), network(1)
    batches = torch.split(images(), 16)
    expected = compare(one, other, batches, measure="cka")
    found = compare(one, other, batches, measure="cka", memory=1, folder=tmp_path)
    np.testing.assert_array_equal(found.similarity, expected.similarity)
    assert not list(tmp_path.iterdir())


def test_cka_wants_data_that_comes_again_in_one_order() -> None:
    one, other = network(0), network(1)
    with pytest.raises(InputTypeError, match="reads the data several times"):
        compare(one, other, iter([images()]), measure="cka")

    class Restless:
        def __init__(self) -> None:
            self.turns = 0

        def __iter__(self) -> Any:
            self.turns += 1
            return iter(torch.split(images() + self.turns, 16))

    with pytest.raises(InputError, match="shuffle=False"):
        compare(one, other, Restless(), measure="cka")
    assert compare(one, other, iter([images()])).samples == 40
    shuffled = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(images()), batch_size=16, shuffle=True
    )
    # the seed makes one order of it
    assert math.isfinite(compare(one, other, shuffled, measure="cka").similarity[0, 0])


def test_pairs_that_cannot_be_compared_have_a_reason() -> None:
    one = network(0)
    torch.manual_seed(1)
    other = nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2), nn.ReLU()
    )
    nn.init.constant_(other[3].weight, 0)
    nn.init.constant_(other[3].bias, -1)  # dead
    found = compare(one, other, images())
    assert np.isnan(found.similarity[:, 1]).all()
    assert math.isfinite(found.similarity[0, 0]), "8 × 8 and 2 × 2"
    assert {(lost.row, lost.column) for lost in found.missing} == {
        ("1", "4"),
        ("4", "4"),
        ("8", "4"),
    }
    assert "2 of 2 channels of y are zero everywhere" in found.missing[0].reason
    assert found.live[1] == (4, 0)
    assert "1 and 4: 2 of 2 channels" in repr(found)
    by_kernel = compare(one, other, images(), measure="cka")
    assert np.isnan(by_kernel.similarity[:, 1]).all()
    assert "the kernel of y is the same" in by_kernel.missing[0].reason
    uneven = nn.Sequential(nn.Conv2d(3, 4, 4), nn.ReLU())
    assert "8 × 8 and 5 × 5" in compare(one, uneven, images()).missing[0].reason


class Moody(nn.Module):
    """Calls its second activation for the first batch only."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.relu, self.tanh = nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Tanh()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.relu(self.conv(x))
        return self.tanh(y) if len(x) == 16 else y


@pytest.mark.parametrize("measure", ["procrustes", "cka"])
def test_a_layer_that_is_not_always_called_has_a_reason(measure: str) -> None:
    torch.manual_seed(0)
    found = compare(Moody(), network(0), torch.split(images(24), 16), measure=measure, group="relu")
    row = found.rows.index("tanh")
    assert np.isnan(found.similarity[row]).all()
    reasons = [lost.reason for lost in found.missing if lost.row == "tanh"]
    assert reasons
    assert all("not called in every batch" in reason for reason in reasons)
    assert np.isfinite(found.similarity[1 - row, 2]) or measure == "procrustes"


def test_tokens_are_read_along_their_channels() -> None:
    class Mixer(nn.Module):
        def __init__(self, seed: int) -> None:
            super().__init__()
            torch.manual_seed(seed)
            self.embed, self.act = nn.Linear(6, 9), nn.GELU()

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.act(self.embed(x))
            return y.mean(dim=1)

    one, other = Mixer(0), Mixer(1)
    x = torch.randn(20, 7, 6, generator=torch.Generator().manual_seed(0))
    found = compare(one, other, x, dtype="float64")
    with torch.no_grad():
        expected = procrustes(one.act(one.embed(x)), other.act(other.embed(x)))
    assert found.similarity[0, 0] == pytest.approx(expected.similarity, abs=1e-12)
    assert found.channels == ((9,), (9,))
    with pytest.raises(InputError, match="hides some tokens"):
        compare(one, other, {"x": x, "attention_mask": torch.arange(7).expand(20, 7) < 5})


def test_refuses_what_cannot_be_run() -> None:
    one = network(0)
    for options in (
        {"measure": "mse"},
        {"group": "tanh"},
        {"pairs": "some"},
        {"dtype": "half"},
        {"normalizer": "all"},
    ):
        [(name, value)] = options.items()
        with pytest.raises(OptionError, match=f"{name}='{value}'"):
            compare(one, one, images(), **options)  # type: ignore[arg-type]
    for options in ({"kernel": "sum"}, {"normalize": "all"}, {"dtype": "half"}):
        [(name, value)] = options.items()
        with pytest.raises(OptionError, match=f"{name}='{value}'"):
            compare(one, one, images(), measure="cka", **options)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="memory must be a number > 0, got 0"):
        compare(one, one, images(), measure="cka", memory=0)
    with pytest.raises(NoActivationError, match="Linear has no features to compare"):
        compare(one, nn.Linear(8, 2), images())
    with pytest.raises(InputError, match="batches is empty"):
        compare(one, one, [])
    with pytest.raises(InputTypeError, match=r"not a torch\.nn\.Module"):
        compare(one, "resnet", images())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="3 samples"):
        compare(one, one, images(3), measure="cka")


@pytest.mark.parametrize(
    ("measure", "option", "match"),
    [
        (
            "procrustes",
            {"kernel": "median"},
            "kernel belongs to measure='cka', not to 'procrustes'",
        ),
        ("cka", {"normalizer": "live"}, "normalizer belongs to measure='procrustes', not to 'cka'"),
        ("cka", {"max_batch": 3}, "'max_batch' is not a valid choice. Did you mean 'max_batches'"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(
    measure: str, option: dict[str, Any], match: str
) -> None:
    with pytest.raises(OptionError, match=match):
        compare(network(0), network(0), images(), measure=measure, **option)


def test_options_reach_the_measure_and_the_run() -> None:
    one, other = network(0), network(1)
    with torch.no_grad():
        other[3].bias[:4] = -100  # dead channels, which the two normalizers count differently
    batches = torch.split(images(), 16)
    found = compare(
        one,
        other,
        batches,
        normalizer="live",
        max_batches=2,
        activations=["relu"],
        channel_axis=None,
    )
    expected = procrustes(
        outputs(one, images()[:32])[1], outputs(other, images()[:32])[1], normalizer="live"
    )
    assert found.similarity[1, 1] == pytest.approx(expected.similarity, abs=1e-5)
    assert found.samples == 32
    assert found.settings == {"normalizer": "live", "dtype": "float32"}
    options: dict[str, Any] = {"kernel": "median", "normalize": "none", "centered": False}
    found = compare(one, other, batches, measure="cka", **options)
    expected_cka = cka(outputs(one, images())[0], outputs(other, images())[0], **options)
    assert found.similarity[0, 0] == pytest.approx(expected_cka.similarity, abs=1e-5)
    assert found.settings == {
        "kernel": "median",
        "normalize": "none",
        "centered": "False",
        "dtype": "float32",
    }
    linear = compare(one, other, batches, measure="cka", group="orthogonal")
    assert linear.settings["kernel"] == "sum"


def test_older_names_and_options_as_one_object() -> None:
    one, other = network(0), network(1)
    expected = compare(one, other, images(), normalizer="live", seed=3)
    assert compare(one, other, images(), normaliser="live", seed=3) == expected
    options = ProcrustesOptions(normalizer="live", seed=7)
    assert compare(one, other, images(), options=options, seed=3) == expected
    assert replace(options, seed=torch.Generator().manual_seed(5)).seed >= 0
    kernels = compare(one, other, images(), measure="cka", normalize="none")
    assert compare(one, other, images(), measure="cka", normalise="none") == kernels
    with pytest.raises(OptionError, match="options must be a CkaOptions"):
        compare(one, other, images(), measure="cka", options=options)


def test_a_flat_dict_of_the_compared_pairs() -> None:
    found = compare(network(0), network(1), images())
    assert found.to_dict("sim/")["sim/4/8"] == found.similarity[1, 2]
    assert len(found.to_dict()) == 9
    diagonal = compare(network(0), network(1), images(), pairs="diagonal")
    assert list(diagonal.to_dict()) == ["1/1", "4/4", "8/8"]


def test_files_with_older_names_are_read(tmp_path: Path) -> None:
    found = compare(network(0), network(1), images(), measure="cka")
    path = found.save(tmp_path / "similar.json")
    path.write_text(without_digest(path.read_text()).replace('"normalize"', '"normalise"'))
    assert LayerSimilarity.load(path) == found


def test_saved_and_read_back(tmp_path: Path) -> None:
    found = compare(network(0), network(1)[:5], images(), names=("one", "other"))
    path = found.save(tmp_path / "similar.json")
    assert LayerSimilarity.load(path) == found
    path.write_text(path.read_text()[:-20])
    with pytest.raises(FileFormatError, match="truncated"):
        LayerSimilarity.load(path)


def test_prints_itself_and_becomes_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    found = compare(network(0), network(1), images(), names=("one", "other"))
    assert repr(found).startswith(
        "Procrustes similarity, group relu: one (rows) and other, 40 samples\n"
    )
    frame = found.to_frame()
    np.testing.assert_array_equal(frame.to_numpy(), found.similarity)
    assert list(frame.index) == list(found.rows)
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(MissingExtraError, match="needs pandas"):
        found.to_frame()


def test_draws_itself() -> None:
    found = compare(network(0), network(1), images(), names=("one", "other"))
    drawn = found.plot()
    assert len(drawn.table) == 9
    assert drawn.axes[0].get_title() == "Procrustes similarity, relu group"


def test_many_layers_are_listed_with_the_most_alike() -> None:
    torch.manual_seed(0)
    deep = nn.Sequential(*(part for _ in range(13) for part in (nn.Linear(4, 4), nn.ReLU())))
    shown = repr(compare(deep, deep, torch.randn(30, 4)))
    assert "most similar" in shown
    assert len(shown.splitlines()[3].split()) == 5


@pytest.mark.parametrize("measure", ["procrustes", "cka"])
def test_nan_in_one_layer_costs_the_others_nothing(measure: str) -> None:
    one, other = network(0), network(1)
    with torch.no_grad():
        other[7].weight[0, 0] = math.nan
    found = compare(one, other, images(), measure=measure)
    assert np.isnan(found.similarity[:, 2]).all()
    assert np.isfinite(found.similarity[:, :2]).all()
    assert all(lost.column == "8" and "NaN or infinite" in lost.reason for lost in found.missing)
    assert len(found.missing) == 3


def test_names_and_seeds_of_earlier_versions() -> None:
    expected = compare(network(0), network(1), images())
    old: Any = {"model_a": network(0), "model_b": network(1)}
    for seed in (2**40, 2**63 - 1):
        assert compare(batches=images(), seed=seed, **old) == expected


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"batch_axis": "a"}, OptionError, "batch_axis must be a whole number from 0 to 7"),
        ({"channel_axis": 3}, InputTypeError, "channel_axis must map patterns"),
        ({"max_batches": 0}, OptionError, "max_batches must be a whole number >= 1"),
        ({"seed": 2**63}, OptionError, "seed must be a whole number from 0"),
    ],
)
def test_options_are_checked(options: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        compare(network(0), network(1), images(), **options)


def test_html_shows_what_the_text_shows() -> None:
    found = compare(network(0), network(1), images(), names=("<one>", "other"))
    shown = found._repr_html_()
    assert "&lt;one&gt; (rows) and other, 40 samples" in shown
    assert f"<td>{found.similarity[1, 2]:.4f}</td>" in shown
    for one in (procrustes(images(), images()), cka(images(), images())):
        assert one._repr_html_() == f"<pre>{one!r}</pre>"
    same = check_equivalence(f=network(0), g=network(0), x=images())  # type: ignore[call-arg]
    assert same.holds
    assert same._repr_html_() == f"<pre>{same}</pre>"
