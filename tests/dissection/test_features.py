"""Features of networks, read as often as they are wanted."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from sigmascope.dissection.dissecting import dissect, rotation_experiment
from sigmascope.dissection.masks import pixel_masks
from sigmascope.dissection.network_maps import network_features
from sigmascope.errors import InputError, InputTypeError, NoActivationError, OptionError


class Block(nn.Module):
    """A residual block with an activation in place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.act = nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.drop(self.act(x + self.conv(x)))
        return y


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 3, 3, padding=1)
        self.block = Block()
        self.head = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(F.relu(self.block(F.gelu(self.stem(x)))).mean(dim=(2, 3)))
        return y


@pytest.fixture
def net() -> Net:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Net()


def images(count: int = 10) -> Tensor:
    return torch.randn(count, 1, 6, 6, generator=torch.Generator().manual_seed(1))


def read(*args: object, **options: object) -> Tensor:
    return torch.cat(list(network_features(*args, **options)))  # type: ignore[arg-type]


def test_sites_and_sides(net: Net) -> None:
    net.eval()
    x = images()
    stem = F.gelu(net.stem(x))
    before = stem + net.block.conv(stem)
    with torch.no_grad():
        assert torch.equal(read(net, "(network)", x), stem)
        assert torch.equal(read(net, "block.act", x, side="input"), before)
        assert torch.equal(read(net, "block.act", x), before.relu())
        assert torch.equal(read(net, "block.conv", x), net.block.conv(stem))  # any module
        assert torch.equal(read(net, "block", x), before.relu())


def test_the_network_is_left_as_it_was(net: Net) -> None:
    net.train()
    hooks = [len(module._forward_hooks) for module in net.modules()]
    state = torch.random.get_rng_state()
    features = network_features(net, "block.act", [images(4), images(6)])
    first = next(iter(features))
    assert net.training
    assert torch.is_grad_enabled()
    assert len(first) == 4
    assert [len(module._forward_hooks) for module in net.modules()] == hooks
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(("keep", "runs"), [(1e9, 2), (0.0, 4), (700.0, 4)])
def test_features_are_kept_where_there_is_room(net: Net, keep: float, runs: int) -> None:
    seen = []
    net.stem.register_forward_hook(lambda *_: seen.append(1))
    features = network_features(net, "block.act", [images(1), images(1)], keep=keep)
    once, again = torch.cat(list(features)), torch.cat(list(features))
    assert torch.equal(once, again)
    assert len(seen) == runs


def test_dissecting_a_network_is_dissecting_its_features(net: Net) -> None:
    x = images()
    masks = torch.randn(10, 2, 6, 6, generator=torch.Generator().manual_seed(3)) > 1
    loader = DataLoader(TensorDataset(x, torch.zeros(10)), batch_size=4)
    found = dissect(network_features(net, "block.act", loader), masks, quantile=0.9)
    assert found.name == "block.act"
    assert torch.equal(found.iou, dissect(read(net, "block.act", x), masks, quantile=0.9).iou)


def test_shuffled_data_are_refused(net: Net) -> None:
    loader = DataLoader(TensorDataset(images(40)), batch_size=20, shuffle=True)
    with pytest.raises(InputError, match="batch 0 differs between readings"):
        dissect(
            network_features(net, "block.act", loader), torch.zeros(40, 1, 6, 6, dtype=torch.bool)
        )


def test_the_experiment_compares_both_sides(net: Net) -> None:
    masks = pixel_masks(torch.randn(10, 2, 6, 6, generator=torch.Generator().manual_seed(3)) > 1)
    sites = ["block.act", ("block.act", "input")]
    found = rotation_experiment(net, sites, images(), masks, seeds=[0, 1], powers=[0, 1])
    assert list(found) == ["block.act", "block.act (input)"]
    for side in ("input", "output"):
        by_hand = dissect(
            read(net, "block.act", images(), side=side), masks, seeds=[0, 1], powers=[0, 1]
        )
        assert torch.equal(
            found["block.act (input)" if side == "input" else "block.act"].iou, by_hand.iou
        )
    assert found["block.act"].fraction.shape == (2, 2)
    with pytest.raises(InputError, match="must be a list of names"):
        rotation_experiment(net, [], images(), masks)


def test_channels_last_and_max_batches() -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line, self.act = nn.Linear(3, 5), nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.act(self.line(x.permute(0, 2, 3, 1)))
            return y

    x = torch.randn(4, 3, 2, 7)
    net = Last()
    with torch.no_grad():
        assert torch.equal(read(net, "act", x), net(x).permute(0, 3, 1, 2))
    assert len(read(net, "act", [x, x, x], max_batches=2)) == 8


def test_bad_sites_are_named(net: Net) -> None:
    with pytest.raises(
        NoActivationError,
        match=r"site='blok' has no output features .* activation calls: forward\.gelu, block",
    ):
        read(net, "blok", images())
    with pytest.raises(NoActivationError, match="has no input features"):
        read(net, "block.conv", images(), side="input")
    with pytest.raises(OptionError, match="side='inside'"):
        network_features(net, "block", images(), side="inside")
    with pytest.raises(InputTypeError, match="only once"):
        network_features(net, "block", iter([images()]))
    with pytest.raises(InputTypeError, match=r"not a torch\.nn\.Module"):
        network_features(lambda x: x, "block", images())  # type: ignore[arg-type]
