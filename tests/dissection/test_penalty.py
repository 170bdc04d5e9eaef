"""Networks behind a rotated layer."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.dissection.fine_tuning import modules_behind
from sigmascope.dissection.penalty import RotationPenalty, rotate_layer, rotation_penalty
from sigmascope.dissection.settings import FineTuning
from sigmascope.errors import InputError, NetworkError, OptionError
from sigmascope.symmetry.groups import group
from sigmascope.symmetry.rotations import random_rotation
from sigmascope.training.data import StitchData

GOLDEN = np.load(Path(__file__).resolve().parents[1] / "golden" / "symmetry_rotations.npz")
QUICK = FineTuning(epochs=4, batch=32, rate=1e-2)
NOISE = 2.0


def conv_net(width: int = 8) -> nn.Sequential:
    return nn.Sequential(
        *(
            nn.Conv2d(1, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ),
        *(nn.Flatten(), nn.Linear(9 * width, 4)),
    )


def samples(count: int, seed: int) -> tuple[Tensor, Tensor]:
    patterns = torch.randn(4, 1, 6, 6, generator=torch.Generator().manual_seed(99))
    source = torch.Generator().manual_seed(seed)
    labels = torch.randint(4, (count,), generator=source)
    return patterns[labels] + NOISE * torch.randn(count, 1, 6, 6, generator=source), labels


def data() -> StitchData:
    return StitchData(samples(512, 1), samples(256, 2))


@functools.cache
def trained_once() -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = conv_net()
    inputs, labels = samples(1024, 3)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for step in range(80):
        some = slice(step * 64 % 1024, step * 64 % 1024 + 64)
        optimizer.zero_grad()
        F.cross_entropy(network(inputs[some]), labels[some]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return network.eval()


def trained() -> nn.Sequential:
    return copy.deepcopy(trained_once())


@pytest.mark.parametrize("kind", ["Grelu", "orthogonal"])
def test_golden_layer(kind: str) -> None:
    conv = nn.Conv2d(3, 5, 3, padding=1).double()
    given = {
        name: torch.from_numpy(GOLDEN[f"rotlayer__{name}"]) for name in ("weight", "bias", "x")
    }
    conv.load_state_dict({"weight": given["weight"], "bias": given["bias"]})
    expected = GOLDEN[f"rotlayer__y_{kind}"]
    rotated = rotate_layer(nn.Sequential(conv), "0", GOLDEN[f"rotlayer__M_{kind}"])
    with torch.no_grad():
        assert rotated(given["x"]).numpy() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("layer", ["0", "2"])
def test_the_next_layer_absorbs_a_group_element_and_no_rotation(layer: str) -> None:
    network = trained().double()
    x = samples(20, 7)[0].double()
    for matrix, fits in ((group("relu").sample(8, 0), True), (random_rotation(8, 0), False)):
        rotated = rotate_layer(network, layer, matrix)
        following: nn.Conv2d | nn.Linear = rotated[int(layer) + (2 if layer == "0" else 4)]  # type: ignore[index]
        inverse = torch.linalg.inv(matrix).contiguous()  # φ(A) = A for ReLU
        if layer == "2":
            inverse = torch.kron(inverse, torch.eye(9, dtype=torch.float64))
        with torch.no_grad():
            following.weight.copy_(torch.einsum("oc...,cd->od...", following.weight, inverse))
            off = float((rotated(x) - network(x)).abs().max())
        assert (off < 1e-9) == fits


def test_nothing_is_changed_and_only_the_rest_is_trained() -> None:
    network = trained()
    before = copy.deepcopy(network.state_dict())
    network.train()
    state = torch.random.get_rng_state()
    found = rotation_penalty(
        network, "2", random_rotation(8, 0), data(), settings=FineTuning(epochs=1, batch=64)
    )
    assert network.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), state)
    assert found.trained == 9 * 8 * 4 + 4
    assert found.frozen == sum(one.numel() for one in network.parameters()) - found.trained
    assert found.samples == (461, 51, 256)


def test_a_rotation_costs_more_than_a_group_element() -> None:
    def penalty(matrix: Tensor) -> RotationPenalty:
        return rotation_penalty(trained(), "2", matrix, data(), settings=QUICK)

    identity = penalty(torch.eye(8))
    assert identity.start_accuracy == identity.base_accuracy
    assert identity.deviation == 0
    assert identity.penalty < 3
    free = [penalty(group("relu").sample(8, seed, log_std=0.3)).penalty for seed in range(3)]
    rotated = [penalty(random_rotation(8, seed)).penalty for seed in range(3)]
    assert np.mean(rotated) > np.mean(free) + 3  # so short a training leaves something of both


def test_a_run_repeats_itself_and_its_seed_matters() -> None:
    runs = [
        rotation_penalty(
            trained(), "0", random_rotation(8, 0), data(), settings=QUICK, seed=seed, progress=False
        )
        for seed in (0, 0, 1)
    ]
    assert runs[0] == runs[1]
    assert runs[0].history != runs[2].history
    assert len(runs[0].history) == 5
    assert runs[0].history[runs[0].best_epoch] == max(runs[0].history)


def test_selection_on_the_test_data_is_as_published() -> None:
    found = rotation_penalty(
        trained(),
        "0",
        random_rotation(8, 0),
        data(),
        settings=FineTuning(epochs=2, batch=64, select_on="test"),
    )
    assert found.samples == (512, 256, 256)
    assert found.accuracy == max(found.history)


def test_the_beginning_may_be_left_out_of_the_choice() -> None:
    def identity(least: int) -> RotationPenalty:
        # a rate that spoils the network
        changes = FineTuning(epochs=2, batch=64, rate=0.3, least_epoch=least)
        return rotation_penalty(trained(), "0", torch.eye(8), data(), settings=changes)

    assert identity(0).best_epoch == 0
    assert identity(0).penalty == 0
    later = identity(1)
    assert later.best_epoch == 1 + int(np.argmax(later.history[1:]))
    assert later.penalty > 0
    assert identity(2).best_epoch == 2


def test_frozen_batch_norms_keep_their_statistics() -> None:
    network = nn.Sequential(
        *(
            nn.Conv2d(1, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Conv2d(4, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
        ),
        *(nn.Flatten(), nn.Linear(16, 4)),
    )
    x = torch.randn(2, 1, 6, 6)
    behind = modules_behind(network, "3", x)
    assert network[4] in behind
    assert network[1] not in behind
    assert network not in behind
    found = rotation_penalty(
        network, "3", torch.eye(4), data(), settings=FineTuning(epochs=1, batch=64)
    )
    assert found.frozen == 4 * 9 + 4 + 8 + 16 * 9 + 4


def test_weights_that_are_used_without_a_call_are_trained_too() -> None:
    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.attention = (
                nn.Linear(4, 8),
                nn.MultiheadAttention(8, 2, batch_first=True),
            )

        def forward(self, x: Tensor) -> Tensor:
            y = self.first(x)
            return self.attention(y, y, y)[0].mean(dim=1)

    network = Attending()
    behind = modules_behind(network, "first", torch.randn(2, 3, 4))
    names = {name for name, module in network.named_modules() if module in behind}
    assert names == {"attention", "attention.out_proj"}


def test_the_published_schedule() -> None:
    rates = [FineTuning().rate_at(epoch) for epoch in range(50)]
    assert [epoch for epoch in range(1, 50) if rates[epoch] < rates[epoch - 1]] == [12, 24, 36, 48]
    assert rates[0] == 1e-3
    assert rates[-1] == pytest.approx(1e-3 / 16)
    assert FineTuning(epochs=2, drops=0).rate_at(1) == 1e-3
    assert FineTuning(epochs=3).rate_at(2) == pytest.approx(1e-3 / 4)


def test_it_prints_and_comes_back(tmp_path: Path) -> None:
    found = rotation_penalty(
        trained(), "2", random_rotation(8, 0), data(), settings=FineTuning(epochs=1, batch=64)
    )
    assert repr(found).startswith("Rotation of 8 channels behind 2 (distance from the identity ")
    assert f"penalty {found.penalty:.2f} points" in repr(found)
    assert RotationPenalty.load(found.save(tmp_path / "a.json")) == found


def test_bad_input_is_named() -> None:
    with pytest.raises(OptionError, match="layer='9' is not a module"):
        rotate_layer(trained(), "9", torch.eye(8))
    with pytest.raises(InputError, match="the matrix acts on 7 channels"):
        rotation_penalty(trained(), "0", torch.eye(7), data())
    with pytest.raises(InputError, match="nothing behind 6 has parameters"):
        rotation_penalty(trained(), "6", torch.eye(4), data())
    with pytest.raises(OptionError, match="epochs must be a whole number >= 1, got 0"):
        FineTuning(epochs=0)
    with pytest.raises(OptionError, match="least_epoch must be a whole number from 0 to 2, got 3"):
        FineTuning(epochs=2, least_epoch=3)
    with pytest.raises(OptionError, match="select_on='train'"):
        FineTuning(select_on="train")
    with pytest.raises(OptionError, match="validation must be a number between 0 and 1, got 1"):
        FineTuning(validation=1)


@pytest.mark.parametrize(("shift", "range_"), [(4, "4 to 7"), (-1, "-1 to 2")])
def test_labels_outside_the_classes_are_refused(shift: int, range_: str) -> None:
    inputs, labels = samples(64, 1)
    for given in (
        ((inputs, labels + shift), (inputs, labels)),
        ((inputs, labels), (inputs, labels + shift)),
    ):
        with pytest.raises(
            InputError, match=f"labels range from {range_}, but the network has 4 output classes, 0"
        ):
            rotation_penalty(trained(), "0", torch.eye(8), given)


def test_a_network_without_logits_is_refused() -> None:
    network = nn.Sequential(trained(), nn.Flatten(0))
    with pytest.raises(NetworkError, match=r"does not return one tensor \(n, classes\)"):
        rotation_penalty(network, "0.0", torch.eye(8), data())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_gradients_that_are_switched_off(
    mode: type[torch.no_grad] | type[torch.inference_mode],
) -> None:
    """The penalty does not depend on the mode of its caller, also where data and matrix were made
    in that mode.
    """
    changes = FineTuning(epochs=1, batch=64)
    expected = rotation_penalty(trained(), "0", random_rotation(8, 0), data(), settings=changes)
    with mode():
        found = rotation_penalty(trained(), "0", random_rotation(8, 0), data(), settings=changes)
        assert not torch.is_grad_enabled()
    assert found == expected


def test_training_that_diverges_is_named() -> None:
    changes = FineTuning(epochs=2, batch=64, rate=1e20)
    with pytest.raises(
        InputError, match=r"training diverged in epoch 1: .* infinite or NaN\. .* rate below 1e\+20"
    ):
        rotation_penalty(trained(), "0", random_rotation(8, 0), data(), settings=changes)
    with pytest.raises(InputError, match=r"training diverged in epoch 1: .*a network in float32"):
        rotation_penalty(trained().half(), "0", random_rotation(8, 0), data(), settings=QUICK)


def test_it_shows_itself_and_takes_options() -> None:
    changes = {"epochs": 1, "batch": 64}
    found = rotation_penalty(trained(), "0", torch.eye(8), data(), progress=False, **changes)
    assert found.settings == FineTuning(**changes)
    assert found._repr_html_().startswith("<pre>Rotation of 8 channels")
    assert found.to_dict("a/")["a/penalty"] == found.penalty
    line, *_ = found.plot().axes[0].get_lines()
    assert line.get_ydata().tolist() == list(found.history)
    with pytest.raises(OptionError, match="Did you mean 'epochs'"):
        rotation_penalty(trained(), "0", torch.eye(8), data(), epoch=1)  # type: ignore[call-arg]


def test_earlier_keywords_and_large_seeds() -> None:
    given: dict[str, Any] = {"data": data(), "seed": 2**63 - 1, "epochs": 1, "batch": 64}
    found = rotation_penalty(trained(), "0", torch.eye(8), progress=False, **given)
    assert found.seed == 2**63 - 1
