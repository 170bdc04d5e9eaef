"""What the networks of the zoo are trained for: each objective against its definition."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from sigmascope.catalog.cifar import NETWORKS

ZOO = Path(__file__).resolve().parents[1] / "zoo"
SCRIPTS = ("train", "trainer", "recipes", "objectives", "pack", "data")


class Tiny(nn.Module):
    """A network with a final layer `fc`, as a probe needs it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn, self.act, self.fc = (
            nn.Conv2d(3, 16, 5, 3),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Linear(64, 10),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(
            nn.functional.adaptive_avg_pool2d(self.act(self.bn(self.conv(x))), 2).flatten(1)
        )


@pytest.fixture
def zoo(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The scripts of the zoo by name."""
    monkeypatch.syspath_prepend(str(ZOO))
    yield {name: importlib.import_module(name) for name in SCRIPTS}
    for name in SCRIPTS:
        sys.modules.pop(name, None)


@pytest.fixture
def objectives(zoo: dict[str, ModuleType]) -> ModuleType:
    return zoo["objectives"]


def pictures(n: int = 64, contrast: float = 0.3) -> tuple[Tensor, Tensor]:
    """Smooth images whose class is the place of a bright square; the top is bright, so that turns
    can be seen.
    """
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(n) % 10
    images = nn.functional.interpolate(
        contrast * torch.randn(n, 3, 6, 6, generator=random), size=32, mode="bilinear"
    )
    images += torch.linspace(1, -1, 32)[:, None]
    for image, label in zip(images, labels.tolist(), strict=True):
        image[label % 3, 8 + 3 * (label // 3) :][:6, 4 + 2 * label :][:, :6] += 2.0
    return images, labels


WAYS: dict[str, dict[str, object]] = {
    "classify": {},
    "noaug": {"augment": False},
    "noisy": {"noise": 0.4, "augment": False},
    "adversarial": {"objective": "adversarial", "radius": 4.0},
    "rotation": {"objective": "rotation"},
    "simclr": {"objective": "simclr"},
}


@pytest.mark.parametrize("way", WAYS)
def test_the_loss_falls(zoo: dict[str, ModuleType], way: str) -> None:
    recipe = zoo["recipes"].Recipe(
        optimizer="adamw", rate=0.005, decay=0.0, epochs=30, batch=64, **WAYS[way]
    )
    torch.manual_seed(0)
    contrast = 3.0 if way == "simclr" else 0.3  # images that are alike cannot be told apart
    run = zoo["trainer"].Trainer(Tiny(), recipe, *pictures(contrast=contrast))
    losses = [run.epoch(number) for number in range(30)]
    share = 0.98 if way == "simclr" else 0.9  # one convolution learns few views by heart
    assert np.mean(losses[-5:]) < share * np.mean(losses[:3])
    if way == "simclr":
        # below chance, where all projections are alike
        assert np.mean(losses[-5:]) < math.log(127) - 0.1


def test_every_objective_is_tried(objectives: ModuleType) -> None:
    assert {way.get("objective", "classify") for way in WAYS.values()} == set(objectives.OBJECTIVES)


def test_a_step_of_the_old_kind_is_unchanged(zoo: dict[str, ModuleType]) -> None:
    """Classification is cross entropy of the augmented images, and draws no random number more."""
    images, labels = pictures()
    recipe = zoo["recipes"].Recipe(batch=64, cutout=8, smoothing=0.1)
    torch.manual_seed(1)
    model = Tiny()
    run = zoo["trainer"].Trainer(model, recipe, images, labels)
    torch.manual_seed(2)
    found, state = run.objective.loss(model, images, labels), torch.get_rng_state()
    torch.manual_seed(2)
    shown = (
        zoo["objectives"].augmented(images, recipe).contiguous(memory_format=torch.channels_last)
    )
    assert torch.equal(
        found, nn.functional.cross_entropy(model(shown), labels, label_smoothing=0.1)
    )
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_noise_replaces_the_stated_share_by_other_classes(
    objectives: ModuleType, share: float
) -> None:
    labels = torch.arange(5000) % 10
    noisy = objectives.noisy_labels(labels, share, 3)
    assert int((noisy != labels).sum()) == round(share * 5000)
    assert torch.equal(noisy, objectives.noisy_labels(labels, share, 3))
    assert torch.equal(labels, torch.arange(5000) % 10)
    assert torch.equal(noisy, objectives.noisy_labels(labels, share, 4)) == (share == 0)
    if share:
        counts = torch.bincount((noisy - labels)[noisy != labels] % 10, minlength=10)[1:].double()
        expected = counts.sum() / 9
        # chi², 8 degrees of freedom, p = 0.001
        assert float(((counts - expected) ** 2 / expected).sum()) < 26.1


def test_noise_is_not_the_order_of_the_images(objectives: ModuleType) -> None:
    labels, order = (
        torch.arange(5000) % 10,
        torch.randperm(5000, generator=torch.Generator().manual_seed(3)),
    )
    changed = (objectives.noisy_labels(labels, 0.4, 3) != labels)[order]
    assert abs(float(changed[:2000].double().mean()) - 0.4) < 0.04


def test_an_attack_stays_within_its_radius_raises_the_loss_and_leaves_no_trace(
    zoo: dict[str, ModuleType],
) -> None:
    (images, labels), recipes, attacked = pictures(), zoo["recipes"], zoo["objectives"].attacked
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (recipes.MEAN, recipes.STD))
    images = torch.clamp(images, -mean / std, (255 - mean) / std)
    torch.manual_seed(0)
    model = Tiny().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = attacked(model, images, labels, 4.0)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(
        module.track_running_stats
        for module in model.modules()
        if isinstance(module, nn.BatchNorm2d)
    )
    assert not found.requires_grad
    pixels = found * std + mean
    assert 3.99 < float((std * (found - images)).abs().max()) <= 4.0 + 1e-3
    assert float(pixels.min()) >= -1e-3
    assert float(pixels.max()) <= 255 + 1e-3
    steps = torch.randn(images.shape, generator=torch.Generator().manual_seed(1)).sign() * 4 / std
    with torch.no_grad():
        losses = [
            float(nn.functional.cross_entropy(model(x), labels))
            for x in (images, images + steps, found)
        ]
    assert losses[2] > max(losses[:2]) + 0.01


def test_quarters_of_a_turn(objectives: ModuleType) -> None:
    images, turns = torch.randn(5, 3, 32, 32), torch.tensor([0, 1, 2, 3, 1])
    expected = torch.stack(
        [image.rot90(int(turn), (1, 2)) for image, turn in zip(images, turns, strict=True)]
    )
    assert torch.equal(objectives.turned(images, turns), expected)


def test_nt_xent_is_its_definition(objectives: ModuleType) -> None:
    torch.manual_seed(0)
    first, second = torch.randn(5, 7), torch.randn(5, 7)
    z = [row / row.norm() for row in (*first.double(), *second.double())]
    total = 0.0
    for i, one in enumerate(z):
        scores = {j: float(one @ other) / 0.2 for j, other in enumerate(z) if j != i}
        total += math.log(sum(map(math.exp, scores.values()))) - scores[(i + 5) % 10]
    assert float(objectives.nt_xent(first, second, 0.2)) == pytest.approx(total / 10, rel=1e-5)
    assert float(objectives.nt_xent(first, first, 0.2)) < total / 10


def test_views_are_images_and_differ(objectives: ModuleType) -> None:
    images = torch.clamp(pictures()[0], -2, 2)
    torch.manual_seed(0)
    black, white = objectives._range(images)
    views = objectives.recolored(images.repeat(2, 1, 1, 1))
    assert bool(((views >= black) & (views <= white)).all())
    pixels = views - black
    gray = torch.isclose(pixels[:, 0], pixels[:, 1], atol=1e-4).flatten(1).float().mean(1) > 0.95
    assert 0.05 < float(gray.float().mean()) < 0.4
    assert not any(torch.equal(*pair) for pair in zip(*views.chunk(2), strict=True))


def test_a_probe_is_logistic_regression(objectives: ModuleType) -> None:
    images, labels = pictures(2000)
    images += torch.randn(images.shape, generator=torch.Generator().manual_seed(2))
    torch.manual_seed(0)
    model = Tiny()
    with torch.no_grad():
        model.conv.weight[3], model.conv.bias[3] = 0.0, -1.0  # features that never vary
    before = {name: value.clone() for name, value in model.state_dict().items()}
    objectives.probe(model, images[:1500], labels[:1500])
    changed = {
        name for name, value in model.state_dict().items() if not torch.equal(value, before[name])
    }
    assert changed == {"fc.weight", "fc.bias"}
    assert bool(torch.isfinite(model.fc.weight).all())
    with torch.no_grad():
        x, right = (
            objectives.features(model, images),
            (model(images).argmax(1) == labels)[1500:].double().mean(),
        )
    scaled = ((x - x[:1500].mean(0)) / x[:1500].std(0).clamp_min(1e-6)).double().numpy()
    reference = LogisticRegression(C=1e5 / 3000, max_iter=2000, tol=1e-6).fit(
        scaled[:1500], labels[:1500].numpy()
    )
    assert float(right) == pytest.approx(
        reference.score(scaled[1500:], labels[1500:].numpy()), abs=0.01
    )
    assert float(right) > 0.3


def test_a_network_without_a_final_layer_is_refused_before_it_is_trained(
    zoo: dict[str, ModuleType],
) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
    for objective in ("rotation", "simclr"):
        recipe = zoo["recipes"].Recipe(objective=objective, batch=64)
        with pytest.raises(
            SystemExit,
            match=r"^Sequential has no final linear layer `fc` .*train it with "
            r"objective='classify'$",
        ):
            zoo["trainer"].Trainer(model, recipe, *pictures())


@pytest.mark.parametrize("way", ["noisy", "adversarial", "rotation", "simclr"])
def test_an_interrupted_run_of_every_objective_ends_with_the_same_bits(
    zoo: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    train, recipes = zoo["train"], zoo["recipes"]
    monkeypatch.setitem(NETWORKS, "tiny", Tiny)
    monkeypatch.setitem(
        recipes.RECIPES, "tiny", recipes.Recipe(rate=0.01, epochs=3, batch=32, **WAYS[way])
    )
    images, labels = pictures(100)
    data = {
        f"{split}_{what}": values
        for split in ("train", "test")
        for what, values in (("images", images), ("labels", labels))
    }
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    job = recipes.planned("tiny:1")
    entry = train.train(job, data, whole)
    for epoch in (1, 2):
        with pytest.raises(train.OutOfTime, match=rf"tiny-s1 \({epoch} of 3 epochs\)"):
            train.train(job, data, parts, deadline=0.0)
    assert train.train(job, data, parts)["accuracy"] == entry["accuracy"]
    first, second = (load_file(folder / "tiny-s1.safetensors") for folder in (whole, parts))
    # the projection is thrown away
    assert first.keys() == second.keys() == Tiny().state_dict().keys()
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    if way in ("rotation", "simclr"):
        # of the probe, on the images it was fitted to; the network never saw a label
        assert entry["accuracy"] > 0.3
    assert {"objective", "augment", "noise", "radius"} <= entry.keys()
