"""Folding: the same function with fewer layers, and a reason for everything that stays."""

from __future__ import annotations

import copy
import io
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.errors import InputError, InputTypeError, NetworkError, OptionError
from sigmascope.linearize import Affine
from sigmascope.linearize.folding.latency import latency, threads_of_torch
from tests.linearize.small import IMAGES, VECTORS, Residual, built, images, vectors
from tests.linearize.test_fold_chains import folded, no_clock, norm


def conv(before: int = 4, after: int = 4, side: int = 1, **options: Any) -> nn.Conv2d:
    return nn.Conv2d(before, after, side, **options)


def affine(channels: int = 4) -> Affine:
    return Affine(torch.randn(channels), torch.randn(channels), 1)


def maps_of(n: int = 2) -> Tensor:
    return torch.randn(n, 4, 6, 6)


class Blocks(nn.Module):
    """A residual block with a map inside and one after the addition."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1, self.inside = conv(4, 8), norm(2, 8), affine(8)
        self.conv2, self.after, self.conv3 = conv(8, 4), affine(), conv()

    def forward(self, x: Tensor) -> Tensor:
        x = self.after(x + self.conv2(self.inside(self.bn1(self.conv1(x)))))
        return x + self.conv3(x)


class Branching(nn.Module):
    """A network that looks at values, with a part that does not."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Sequential(conv(), affine(), conv())

    def forward(self, x: Tensor) -> Tensor:
        x = self.part(x)
        return x if x.sum() > 0 else 2 * x


class Indexing(Branching):
    """The same, which reads a layer of its part."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.part(x) + self.part[2].bias.sum()
        return x if x.sum() > 0 else 2 * x


class Wrapped(nn.Module):
    """A module that cannot be traced, inside a network that can."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.map, self.then = conv(), affine(), conv()
        self.inner = Branching()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.then(self.map(self.first(x))))


class Twice(nn.Module):
    """Layers that are called twice, with something else in between."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.map, self.then = conv(), affine(), conv()

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.relu(self.then(self.map(self.conv(x)))))


class Keeping(nn.Module):
    """A network in which the value between two layers is read elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.map, self.conv2 = conv(), affine(), conv()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.conv1(x)
        return self.conv2(self.map(x)), x


@pytest.mark.parametrize("maps", ["channel", "full", "identity"])
@pytest.mark.parametrize("kind", [*IMAGES, *VECTORS])
def test_networks_with_maps_in_place_of_any_call(kind: type[nn.Module], maps: Any) -> None:
    network = built(kind).eval()
    x, other = ((images if kind in IMAGES else vectors)(seed=seed).double() for seed in (0, 1))
    plan = sg.linearize.plan(network, x, budget=1.0, by="r2", scores=False, maps=maps)
    linear = sg.linearize.apply(network, plan)
    before = copy.deepcopy(linear.state_dict())
    found = folded(linear, None)
    wanted = linear(other)
    torch.testing.assert_close(found.network(other), wanted, rtol=1e-9, atol=1e-9)
    assert found.error < 1e-12
    assert all(torch.equal(before[name], value) for name, value in linear.state_dict().items())
    assert not any(one is two for one in found.network.modules() for two in linear.modules())
    if kind in (*IMAGES[:-1],) and maps != "identity":
        assert (found.before.layers, found.after.layers, found.after.maps) == (3, 2, 0)


def test_inside_a_residual_block_layers_merge_and_after_the_addition_a_map_stays() -> None:
    found = folded(Blocks(), maps_of())
    assert found.steps == ("conv1 + bn1 + inside + conv2 → one convolution of 1 × 1, 4 channels",)
    assert found.refused == (
        "after: it follows an addition, and is read by conv3 (Conv2d), an addition; it saves a "
        "non-linearity but no layer",
    )
    assert (found.before.layers, found.after.layers) == (3, 2)
    assert (found.before.maps, found.after.maps) == (3, 1)
    assert found.before.multiply_adds == 36 * (32 + 32 + 16)
    assert found.after.multiply_adds == 36 * (16 + 16)
    assert found.before.parameters == sum(one.numel() for one in Blocks().parameters())


def test_a_value_that_is_read_elsewhere_is_kept() -> None:
    network, x = Keeping().eval(), maps_of()
    found = folded(network, x)
    # the map goes forward into the layer that alone reads it
    assert found.steps == ("map + conv2 → one convolution of 1 × 1, 4 channels",)
    for one, two in zip(found.network(x), network(x), strict=True):
        torch.testing.assert_close(one, two)
    network.conv2 = nn.Identity()  # type: ignore[assignment]
    found = folded(network, x)
    assert found.steps == ()
    assert "conv1 (Conv2d) before it is read elsewhere, too, by the output" in found.refused[0]


def test_layers_that_are_called_again_stay_for_the_other_calls() -> None:
    network, x = Twice().eval(), maps_of()
    found = folded(network, x)
    assert found.steps == ("conv + map + then → one convolution of 1 × 1, 4 channels",)
    torch.testing.assert_close(found.network(x), network(x))
    assert (found.before.layers, found.after.layers) == (3, 2)


@pytest.mark.parametrize("kind", ["register_forward_hook", "register_forward_pre_hook"])
def test_layers_with_hooks_stay_and_their_hooks_run(kind: str) -> None:
    network, seen = nn.Sequential(conv(), affine(), conv(), affine(), conv()).eval(), []
    getattr(network[2], kind)(lambda *_: seen.append(1))
    found = folded(network, maps_of())
    assert found.steps[0].startswith("0 + 1 →")
    assert found.steps[1].startswith("3 + 4 →")
    assert found.refused == ("2: it has a hook, which a merged layer would not call",)
    seen.clear()
    found.network(maps_of())
    assert seen == [1]


def test_a_network_in_training_mode_is_refused() -> None:
    network = nn.Sequential(conv(), norm(2, 4)).train()
    with pytest.raises(NetworkError, match=r"in training mode.*network\.eval\(\)"):
        sg.linearize.fold(network, maps_of())
    network.eval()[1].train()
    with pytest.raises(NetworkError, match=r"the part '1' of the network is in training mode"):
        sg.linearize.fold(network, maps_of())


def test_norms_without_running_statistics_stay() -> None:
    network = nn.Sequential(conv(), nn.BatchNorm2d(4, track_running_stats=False))
    found = folded(network, maps_of())
    assert found.steps == ()
    assert "no running statistics" in found.refused[0]


def test_networks_that_cannot_be_traced_are_folded_part_by_part() -> None:
    network, x = Branching().eval(), maps_of()
    found = folded(network, x)
    assert found.steps == ("part.0 + part.1 + part.2 → one convolution of 1 × 1, 4 channels",)
    assert "Branching cannot be traced by torch.fx" in found.refused[0]
    for sign in (1, -1):
        torch.testing.assert_close(found.network(sign * x), network(sign * x))
    assert isinstance(found.network, Branching)
    again = folded(network, x, merges=found.merges)
    assert again.steps == found.steps


def test_modules_that_cannot_be_traced_are_left_out_and_folded_inside() -> None:
    network, x = Wrapped().eval(), maps_of()
    found = folded(network, x)
    assert [step.partition(" → ")[0] for step in found.steps] == [
        "first + map + then",
        "inner.part.0 + inner.part.1 + inner.part.2",
    ]
    assert "inner: torch.fx cannot trace it" in found.refused[0]
    torch.testing.assert_close(found.network(x), network(x))


def test_parts_that_a_network_takes_apart_are_kept() -> None:
    network, x = Indexing().eval(), maps_of()
    found = folded(network, x)
    assert found.steps == ()
    assert any("does not run the same" in reason for reason in found.refused)
    assert torch.equal(found.network(x), network(x))


def test_random_networks_are_refused() -> None:
    class Noisy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.randn_like(x)

    with pytest.raises(NetworkError, match="returns something else when it is called again"):
        folded(nn.Sequential(conv(), Noisy()), maps_of())


def test_values_kept_from_an_earlier_call_do_not_pass_the_check() -> None:
    class Remembering(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.seen = conv(), norm(2, 4), None

        def forward(self, x: Tensor) -> Tensor:
            self.__dict__["seen"] = float(x.sum().detach())  # a proxy has no float
            return self.two(self.one(x))

    class Reading(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.conv, self.norm = Remembering(), conv(), norm(2, 4)

        def forward(self, x: Tensor) -> Tensor:
            x = self.norm(self.conv(self.inner(x)))
            return x if self.inner.seen is None else x * self.inner.seen

    network = Reading().eval()
    found = folded(network, maps_of())
    for _ in range(3):
        x = maps_of()
        torch.testing.assert_close(found.network(x), network(x))


def test_a_network_with_nothing_to_fold_says_so() -> None:
    network, x = nn.Sequential(conv(), nn.ReLU(), conv()).eval(), maps_of()
    found = folded(network, x)
    assert found.steps == found.refused == found.merges == ()
    assert found.before == found.after
    assert "nothing to fold" in repr(found)
    assert torch.equal(found.network(x), network(x))
    assert found.network is not network


def seconds(*of_layers: float, network: Sequence[float] = (2.0, 1.0)) -> Any:
    """Return a timer: that of layers for more than two calls."""

    def timer(calls: Sequence[Any]) -> Sequence[float]:
        for call in calls:
            call()
        return network[: len(calls)] if len(calls) <= 2 else of_layers

    return timer


def test_only_merges_that_are_faster_are_made() -> None:
    network, x = nn.Sequential(conv(), affine(), conv()), maps_of()
    fast = folded(network, x, keep="faster", timer=seconds(1, 1, 1.5))
    assert len(fast.steps) == 1
    assert (fast.before.seconds, fast.after.seconds, fast.speedup) == (2.0, 1.0, 2.0)
    slow = folded(network, x, keep="faster", timer=seconds(1, 1, 2.5))
    assert slow.steps == ("0 + 1 → one convolution of 1 × 1, 4 channels",)
    assert slow.refused == ("0 + 1 + 2: one layer takes 2500.000 ms, 2 layers take 2000.000 ms",)
    torch.testing.assert_close(slow.network(x), fast.network(x))


def test_three_layers_merge_where_two_would_be_slower() -> None:
    network, x = nn.Sequential(conv(4, 6), conv(6, 6, groups=6), conv(6, 4)), maps_of()
    found = folded(network, x, keep="faster", timer=seconds(1, 1, 1, 9, 0.5, 9))
    assert found.merges == ("_0:_2",)
    found = folded(network, x, keep="faster", timer=seconds(1, 1, 1, 9, 9, 0.5))
    assert found.merges == ("_1:_2",)
    assert found.refused == ("0 + 1 + 2: one layer takes 9000.000 ms, 2 layers take 1500.000 ms",)


def test_a_network_that_becomes_slower_is_not_folded() -> None:
    network, x = nn.Sequential(conv(), affine()).eval(), maps_of()
    found = folded(network, x, keep="faster", timer=seconds(network=(1.0, 2.0)))
    assert found.steps == ()
    assert "the network takes 2.00 times as long" in found.refused[0]
    assert found.before == found.after
    assert torch.equal(found.network(x), network(x))


def test_fewer_multiply_adds() -> None:
    wide = nn.Sequential(nn.Linear(4, 32), nn.Linear(32, 4), nn.ReLU())
    assert len(folded(wide, torch.randn(2, 4), keep="fewer").steps) == 1
    narrow = nn.Sequential(nn.Linear(32, 2), nn.Linear(2, 32), nn.ReLU())
    found = folded(narrow, torch.randn(2, 32), keep="fewer")
    assert found.steps == ()
    assert found.refused == ("0 + 1: one layer would take 8.0 times the multiply-adds",)
    assert len(folded(narrow, torch.randn(2, 32), keep="all").steps) == 1


def test_the_same_merges_again() -> None:
    network, x = nn.Sequential(conv(), affine(), conv(), nn.ReLU(), conv(), norm(2, 4)), maps_of()
    first = folded(network, x)
    assert len(first.merges) == 2

    def broken(calls: Sequence[object]) -> list[float]:
        assert len(calls) == 2  # of the networks only
        return [1.0, 5.0]

    again = folded(network, x, keep="faster", merges=first.merges, timer=broken)
    assert (again.merges, again.steps) == (first.merges, first.steps)
    assert torch.equal(again.network(x), first.network(x))
    again.network.load_state_dict(first.network.state_dict())
    assert folded(network, x, merges=first.merges[1:]).merges == first.merges[1:]
    assert folded(network, x, merges=[]).steps == ()
    with pytest.raises(OptionError, match=r"merges has '_7:_9', which is not possible"):
        folded(network, x, merges=["_7:_9"])
    with pytest.raises(OptionError, match=r"list of names.*folded\.merges"):
        folded(network, x, merges="_0:_2")


def test_dtypes_copies_files_and_tables() -> None:
    network, x = nn.Sequential(conv(), affine(), conv(side=3, padding=1), nn.ReLU()), maps_of()
    found = folded(network, x)
    assert {one.dtype for one in found.network.parameters()} == {torch.float32}
    assert not any(one.training for one in found.network.modules())
    wanted = found.network(x)
    torch.testing.assert_close(wanted, network(x))
    assert torch.equal(copy.deepcopy(found.network)(x), wanted)
    file = io.BytesIO()
    torch.save(found.network, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(x), wanted)
    text = repr(found)
    assert text.startswith("Sequential: 1 merge\n")
    assert "merged: 0 + 1 + 2 → one convolution of 3 × 3, 4 channels, a shift that" in text
    assert found.to_dict()["layers/after"] == 1
    half = folded(copy.deepcopy(network).bfloat16(), x.bfloat16())
    assert {one.dtype for one in half.network.parameters()} == {torch.bfloat16}


def test_examples() -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    x = torch.randn(40, 3)
    plan = sg.linearize.plan(network, (x, torch.zeros(40).long()), budget=1, scores=False)
    linear = sg.linearize.apply(network, plan)
    for example in (None, plan, x, x.numpy(), (x, torch.zeros(40)), [x[:1]]):
        assert len(folded(linear, example).steps) == 1
    assert folded(folded(linear, None).network, None).steps == ()
    with pytest.raises(InputError, match=r"needs an example.*Pass example=batch"):
        sg.linearize.fold(network)
    with pytest.raises(InputError, match="does not run on the example"):
        sg.linearize.fold(network, torch.randn(2, 5))
    with pytest.raises(InputTypeError, match="example must be a batch or a Plan, got str"):
        sg.linearize.fold(network, "images")
    with pytest.raises(InputTypeError, match=r"not a torch\.nn\.Module"):
        sg.linearize.fold(x, x)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"keep='fast' is not a valid choice.*'faster'"):
        sg.linearize.fold(network, x, keep="fast")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="timer must be a function"):
        sg.linearize.fold(network, x, timer=3)  # type: ignore[arg-type]


def test_networks_with_keywords_and_several_outputs() -> None:
    class Keywords(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(4, 6), nn.Linear(6, 4)

        def forward(self, ids: Tensor, scale: float = 2.0, mask: Tensor | None = None) -> Any:
            y = self.two(self.one(ids)) * scale
            return {"y": y, "pair": (y + 1, mask)}

    network, x = Keywords().eval(), torch.randn(3, 4)
    found = folded(network, {"ids": x, "mask": x})
    assert len(found.steps) == 1
    torch.testing.assert_close(found.network(ids=x)["y"], network(x)["y"])


def test_residual_network_in_single_calls() -> None:
    network = built(Residual).eval()
    plan = sg.linearize.plan(network, images().double(), budget=3, by="early", scores=False)
    found = folded(sg.linearize.apply(network, plan), plan)
    assert sg.signature(found.network, images().double(), progress=False).sites
    assert len(sg.signature(found.network, images().double(), progress=False).sites) == 7


def test_latency_takes_turns_and_threads_are_restored() -> None:
    order: list[int] = []
    found = latency([lambda: order.append(0), lambda: order.append(1)])
    assert len(found) == 2
    assert min(found) > 0
    assert {0, 1} == {*order[:4]} == {*order[-len(order) // 2 :]}
    before = torch.get_num_threads()
    with threads_of_torch(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
    assert no_clock(order)[0] == 1.0


def test_a_busy_machine_does_not_make_one_of_two_calls_slower(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = random.Random(0)

    def seconds(call: Any, count: int, device: Any) -> float:
        interrupted = draw.random() < 0.75
        return float(count * (call() + 5 * interrupted))

    monkeypatch.setattr("sigmascope.linearize.folding.latency._seconds", seconds)
    assert latency([lambda: 2.0, lambda: 1.0]) == [2.0, 1.0]
