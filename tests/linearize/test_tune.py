"""Tuning: the loss, the schedule, what is left alone, and the same bits after a kill."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import sigmascope as sg
from sigmascope.errors import (
    FileFormatError,
    GradientError,
    InputError,
    InputTypeError,
    OptionError,
    ResumeError,
)
from sigmascope.linearize import TuneSettings, tune
from sigmascope.store import claim_beside, read_features, write_features

State = dict[str, Tensor]


def net(seed: int = 0, *, dropout: float = 0.0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(dropout), nn.Linear(12, 3)
    )


def samples(n: int = 192, seed: int = 0) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, 6, generator=torch.Generator().manual_seed(seed))
    return x, (x[:, :3] + x[:, 3:].square()).argmax(1)


def state(network: nn.Module) -> State:
    return {name: value.clone() for name, value in network.state_dict().items()}


def same(one: State, other: State) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# what is computed


@pytest.mark.parametrize("distill", [0.0, 0.3, 1.0])
def test_a_step_follows_the_formula(distill: float) -> None:
    network, teacher = net().double(), net(1).double().eval()
    x, y = samples(16)
    x = x.double()
    options: dict[str, Any] = {"momentum": 0.0, "decay": 0.0, "clip": 0.0, "warm_up": 0.0}
    found = tune(
        network,
        [(x, y)],
        teacher=teacher,
        epochs=1,
        rate=0.5,
        distill=distill,
        temperature=3.0,
        **options,
    )
    reference = copy.deepcopy(network).train()
    logits, wanted = reference(x), teacher(x).detach()
    p = (wanted / 3).softmax(1)
    apart = (p * (p.log() - (logits / 3).log_softmax(1))).sum(1).mean()
    loss = (1 - distill) * F.cross_entropy(logits, y) + distill * 9 * apart
    loss.backward()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter -= 0.5 * parameter.grad
    assert found.losses == [pytest.approx(float(loss.detach()), rel=1e-6)]
    for name, value in state(found.network).items():
        torch.testing.assert_close(value, reference.state_dict()[name], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_many_steps_are_those_of_torch(optimizer: Any) -> None:
    network, (x, y) = net(), samples(64)
    batches = [(x[:32], y[:32]), (x[32:], y[32:])]
    found = tune(network, batches, epochs=3, optimizer=optimizer, clip=0.1)
    settings = found.settings
    reference = copy.deepcopy(network).train()
    weights = [one for one in reference.parameters() if one.ndim > 1]
    rest = [one for one in reference.parameters() if one.ndim == 1]
    groups = [{"params": weights, "weight_decay": settings.decay}, {"params": rest}]
    made: torch.optim.Optimizer
    if optimizer == "sgd":
        made = torch.optim.SGD(groups, momentum=0.9, nesterov=True, lr=1.0)
    else:
        made = torch.optim.AdamW([groups[0], {**groups[1], "weight_decay": 0.0}], lr=1.0)
    for step in range(6):
        for group in made.param_groups:
            group["lr"] = settings.rate_at(step, 6)
        inputs, labels = batches[step % 2]
        made.zero_grad()
        F.cross_entropy(reference(inputs), labels).backward()
        nn.utils.clip_grad_norm_(reference.parameters(), 0.1)
        made.step()
    for name, value in state(found.network).items():
        torch.testing.assert_close(value, reference.state_dict()[name])
    # negative control: the network did move
    assert not same(state(network), state(found.network))


def test_the_rate_rises_in_a_line_and_falls_like_a_cosine() -> None:
    settings = TuneSettings(rate=2.0, warm_up=0.25)
    rates = [settings.rate_at(step, 16) for step in range(16)]
    assert rates[:4] == [0.5, 1.0, 1.5, 2.0]
    for step in range(4, 16):
        expected = 1 + math.cos(math.pi * (step - 4) / 12)
        assert rates[step] == pytest.approx(expected)
    assert TuneSettings(warm_up=0.0).rate_at(0, 5) == TuneSettings().rate == 0.03
    assert settings.rate_at(99, 16) == pytest.approx(0)


def test_decay_leaves_maps_alone() -> None:
    network, (x, y) = net(), samples()
    plan = sg.linearize.plan(network, x, budget=1, by="r2", maps="full", scores=False)
    made: Any = sg.linearize.apply(network, plan)
    for rate in (0.0, 0.1):
        options: dict[str, Any] = {"rate": rate, "clip": 0.0, "distill": 1.0, "warm_up": 0.0}
        # nothing to learn from a teacher that is the network itself but for batch statistics
        tuned: Any = tune(made, (x, y), teacher=made, epochs=1, decay=1.0, **options).network
        ratio = float((tuned[2].weight.norm() / made[2].weight.norm()).detach())
        assert ratio == pytest.approx(1, abs=0.1)
        shrunk = float((tuned[0].weight.norm() / made[0].weight.norm()).detach())
        assert shrunk == 1 if rate == 0 else shrunk < 0.95


def test_tuning_gets_back_what_the_maps_cost() -> None:
    network, train, test = net(), samples(2048), samples(512, seed=1)
    original = tune(network, train, held_out=test, epochs=8, rate=0.1).network.eval()
    plan = sg.linearize.plan(original, train[0], budget=1, maps="identity", by="r2", scores=False)
    made = sg.linearize.apply(original, plan)
    found = tune(made, train, teacher=original, held_out=test, epochs=4, rate=0.1)
    assert found.history[-1].held_out.loss < found.before.loss - 0.3
    assert found.accuracies == [
        found.before.accuracy,
        *(e.held_out.accuracy for e in found.history),
    ]
    wrong = (found.network.eval()(test[0]).argmax(1) != test[1]).float().mean()
    assert found.accuracy == pytest.approx(100 * (1 - float(wrong)), abs=1e-4)


# what is left alone


def test_the_networks_the_modes_and_random_numbers_are_left_alone() -> None:
    network, teacher = net(dropout=0.3), net(1)
    network[1].eval()
    before = [state(network), state(teacher)]
    flags = [one.training for one in network.modules()]
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    found = tune(network, samples(), teacher=teacher, epochs=1)
    assert torch.equal(torch.rand(3), expected)
    assert same(before[0], state(network))
    assert same(before[1], state(teacher))
    assert all(one.training for one in teacher.modules())
    assert [one.training for one in found.network.modules()] == flags
    # batch statistics follow, although this module was in evaluation mode
    assert int(found.network.state_dict()["1.num_batches_tracked"]) == 1
    assert not torch.equal(found.network.state_dict()["1.running_mean"], network[1].running_mean)


def test_frozen_parameters_stay() -> None:
    network = net()
    network[0].requires_grad_(False)
    found: Any = tune(network, samples(), epochs=1).network
    assert torch.equal(found[0].weight, network[0].weight)
    assert not torch.equal(found[4].weight, network[4].weight)


def test_any_other_training_loop_does_as_well() -> None:
    network, (x, y) = net(), samples()
    made = sg.linearize.apply(
        network, sg.linearize.plan(network, x, budget=1, by="r2", scores=False)
    )
    optimizer = torch.optim.Adam(made.parameters(), lr=0.01)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = F.cross_entropy(made(x), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] - 0.1


# after a kill


class Stop(BaseException):
    """Stands for a kill."""


def killed_after(steps: int) -> Any:
    done = [0]

    def forward(model: nn.Module, batch: Any) -> Any:
        if model.training:
            done[0] += 1
            if done[0] > steps:
                raise Stop
        return model(batch[0])

    return forward


def loader_of(data: tuple[Tensor, Tensor]) -> Any:
    return DataLoader(TensorDataset(*data), batch_size=32, shuffle=True)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("form", ["tensors", "loader"])
def test_a_killed_run_ends_in_the_same_bits(tmp_path: Path, optimizer: Any, form: str) -> None:
    network, teacher = net(dropout=0.5), net(1)
    data: Any = samples() if form == "tensors" else loader_of(samples())
    options: dict[str, Any] = {
        "teacher": teacher,
        "held_out": samples(64, seed=1),
        "optimizer": optimizer,
        "batch": 32,
        "epochs": 4,
        "seed": 3,
    }
    whole = tune(network, data, **options)
    path = tmp_path / "tune.checkpoint"
    for steps in (3, 8, 13, 100):  # of 6 in an epoch
        try:
            found = tune(network, data, checkpoint=path, forward=killed_after(steps), **options)
        except Stop:
            continue
    assert same(state(found.network), state(whole.network))
    assert found.history == whole.history
    assert found.before == whole.before
    again = tune(network, data, checkpoint=path, forward=killed_after(0), **options)
    assert same(state(again.network), state(whole.network))
    # negative control: another seed, another network
    other = tune(network, data, **{**options, "seed": 4})
    assert not same(state(other.network), state(whole.network))


def test_checkpoints_of_other_runs_are_refused(tmp_path: Path) -> None:
    path, data = tmp_path / "a.checkpoint", samples()
    tune(net(), data, epochs=1, checkpoint=path)
    cases: list[tuple[str, dict[str, Any]]] = [
        ("settings.epochs is 1 there and 2 here", {"epochs": 2}),
        ("settings.rate is 0.03 there and 0.1 here", {"rate": 0.1}),
        ("seed is 0 there and 1 here", {"seed": 1}),
        ("teacher is None there", {"teacher": net()}),
        ("data.held_out is absent there", {"held_out": data}),
    ]
    for told, options in cases:
        with pytest.raises(ResumeError, match=told):
            tune(net(), data, checkpoint=path, **{"epochs": 1, **options})
    with pytest.raises(ResumeError, match=r"weights is '.*' there"):
        tune(net(1), data, epochs=1, checkpoint=path)
    with pytest.raises(ResumeError, match=r"data.train is '.*' there"):
        tune(net(), samples(seed=1), epochs=1, checkpoint=path)
    with claim_beside(path), pytest.raises(ResumeError, match="is open in another run"):
        tune(net(), data, epochs=1, checkpoint=path)


def test_damaged_checkpoints_are_named(tmp_path: Path) -> None:
    path, data = tmp_path / "a.checkpoint", samples()
    tune(net(), data, epochs=1, checkpoint=path)
    tensors, about = read_features(path)
    write_features(path, {name: tensors[name] for name in [*tensors][1:]}, about)
    with pytest.raises(FileFormatError, match=r"a\.checkpoint is corrupt: .*Remove it and start"):
        tune(net(), data, epochs=1, checkpoint=path)
    write_features(path, tensors, {})
    with pytest.raises(FileFormatError, match="is not a checkpoint of a tuning"):
        tune(net(), data, epochs=1, checkpoint=path)
    path.write_bytes(b"12345678" * 4)
    with pytest.raises(FileFormatError, match="truncated, damaged or not a safetensors file"):
        tune(net(), data, epochs=1, checkpoint=path)


# what bad input gets


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"epochs": 0}, OptionError, "epochs must be a whole number >= 1, got 0"),
        ({"optimizer": "adam"}, OptionError, "optimizer='adam' is not a valid choice"),
        ({"rate": -1.0}, OptionError, "rate must be a number >= 0"),
        ({"distill": 1.5}, OptionError, "distill must be a number"),
        ({"temperature": 0}, OptionError, "temperature must be a number > 0"),
        ({"warm_up": 1.0}, OptionError, "warm_up"),
        ({"augment": "flip"}, OptionError, "augment='flip' is not a valid choice"),
        ({"setp": 1}, OptionError, "option='setp' is not a valid choice"),
        ({"seed": -1}, OptionError, "seed"),
        ({"batches": []}, InputError, "batches holds no batch"),
        ({"batches": 3}, InputTypeError, "batches is a int"),
        ({"batches": [torch.randn(8, 6)]}, InputError, "have no labels, which are needed here"),
        (
            {"batches": [torch.randn(8, 6)], "teacher": net()},
            InputError,
            "have no labels. Pass distill=1.0",
        ),
        ({"batches": [samples(1)]}, InputError, "a single sample.*drop_last=True"),
        ({"teacher": nn.Linear(6, 5)}, InputError, r"returns \[128, 5\], the network \[128, 3\]"),
        ({"teacher": "resnet"}, InputTypeError, r"not a torch.nn.Module"),
        ({"rate": 1e30, "clip": 0.0, "epochs": 3}, InputError, "tuning diverged in epoch"),
        ({"augment": "flip-shift"}, InputError, "needs images"),
        (
            {"augment": "flip-shift", "batches": [samples()]},
            InputError,
            "needs all samples as two tensors",
        ),
        ({"loss": lambda y, _: y.detach().mean()}, GradientError, "the loss has no gradient"),
        ({"checkpoint": "."}, InputError, "is a directory"),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception], match: str) -> None:
    given = dict(options)
    batches = given.pop("batches", samples())
    with pytest.raises(error, match=match):
        tune(net(), batches, **{"epochs": 1, **given})


def test_networks_that_cannot_be_tuned() -> None:
    with pytest.raises(InputError, match="no parameter of the network is trainable"):
        tune(net().requires_grad_(False), samples())
    with pytest.raises(InputTypeError, match=r"not a torch.nn.Module"):
        tune(nn.ReLU, samples())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="meta device"):
        tune(net().to("meta"), samples())


def test_a_teacher_alone_needs_no_labels() -> None:
    teacher = net(1).eval()
    batches = [samples()[0][:96], samples()[0][96:]]
    found = tune(net(), batches, teacher=teacher, epochs=6, distill=1.0, rate=0.1)
    assert found.losses[-1] < 0.5 * found.losses[0]
    assert math.isnan(found.accuracy)
    assert "pass held_out= for the accuracy" in repr(found)


def test_a_tuning_shows_itself() -> None:
    found = tune(net(), samples(), teacher=net(1), held_out=samples(seed=1), epochs=2)
    text = repr(found)
    assert text.startswith("Sequential, tuned on 128 samples an epoch (sgd, rate 0.03, seed 0)")
    assert f"{found.losses[0]:.4f}" in text
    assert "0.1 of that of the labels, 0.9 of the distance to a Sequential" in text
    assert [*found.to_frame()["accuracy"]] == found.accuracies
