"""The penalty: its value and gradient, what it does to training, and where it works."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.utils.checkpoint import checkpoint

import sigmascope as sg
from sigmascope.errors import (
    GradientError,
    InputError,
    NetworkError,
    NoActivationError,
    OptionError,
    ResumeError,
)
from sigmascope.training.running_scores import (
    EPS,
    HORIZON,
    RunningScores,
    scores_with_gradient,
    slopes,
    stacked,
    sums_of,
)


class Net(nn.Module):
    """A network with a module that is called twice, in place, and two functions."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width)
        self.act, self.second = nn.ReLU(inplace=True), nn.Conv2d(width, width, 3, padding=1)
        self.last = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.norm(self.first(x)))
        x = F.silu(self.second(x))
        x = self.act(self.second(x))
        return self.last(torch.tanh(x).mean((2, 3)))


SITES = ["act", "forward.silu", "act#1", "forward.tanh#1"]


def images(n: int = 72, seed: int = 0) -> Tensor:
    return torch.randn(n, 3, 6, 6, generator=torch.Generator().manual_seed(seed))


def net(width: int = 6) -> Net:
    torch.manual_seed(0)
    return Net(width)


def run(penalty: sg.AffinityPenalty, model: nn.Module, x: Tensor) -> Tensor:
    with penalty:
        model(x)
    return penalty.value


def mlp(width: int = 8) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2)
    )


def hooks_of(model: nn.Module) -> int:
    return sum(
        len(one._forward_hooks) + len(one._forward_pre_hooks) + ("forward" in vars(one))
        for one in model.modules()
    )


def pairs_of(model: nn.Module, x: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    """The pooled inputs and outputs, by the recorder."""
    found: dict[str, tuple[Tensor, Tensor]] = {}

    def observe(call: object, x: Tensor) -> Callable[[Tensor], None]:
        before = x.double().mean((2, 3))

        def finish(y: Tensor) -> None:
            found[call.name] = before, y.double().mean((2, 3))

        return finish

    with torch.no_grad(), sg.recording(model, observe):
        model(x)
    return found


def test_scores_are_those_of_affinity() -> None:
    model = net().double()
    penalty = sg.AffinityPenalty(model, weight=0.5, eps=1e-6)
    for step in range(2):  # the first is watched by the recorder, the second by hooks
        x = images(seed=step).double()
        expected = {
            name: float(sg.affinity(*pair, covariance="biased", coupling="paired").score)
            for name, pair in pairs_of(copy.deepcopy(model), x).items()
        }
        value = run(penalty, model, x)
        assert list(penalty.scores) == list(expected) == SITES
        assert penalty.scores == pytest.approx(expected, abs=1e-9)
        mean = sum(1 - score for score in expected.values()) / 4
        assert float(value.detach()) == pytest.approx(0.5 * mean, abs=1e-9)


@pytest.mark.parametrize("target", [None, 0.3])
def test_gradient_is_that_of_finite_differences(target: float | None) -> None:
    model = nn.Sequential(nn.Tanh(), nn.Linear(3, 3), nn.Softplus()).double()

    def value(x: Tensor) -> Tensor:
        return run(sg.AffinityPenalty(model, weight=-0.7, target=target), model, x)

    x = torch.randn(33, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert gradcheck(value, (2 * x).requires_grad_(), eps=1e-6, atol=1e-7, rtol=1e-5)


def test_gradient_of_positions_is_that_of_finite_differences() -> None:
    model = nn.Sequential(nn.Conv2d(2, 2, 1), nn.Sigmoid()).double()

    def value(x: Tensor) -> Tensor:
        return run(sg.AffinityPenalty(model, samples="positions"), model, x)

    x = torch.randn(3, 2, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert gradcheck(value, (2 * x).requires_grad_(), eps=1e-6, atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize("samples", ["batch", "positions"])
@pytest.mark.parametrize("shape", [(64, 3), (64, 3, 4, 4)])
def test_the_input_is_read_before_it_is_overwritten(shape: tuple[int, ...], samples: str) -> None:
    x, scores = torch.randn(shape, generator=torch.Generator().manual_seed(0)), []
    for inplace in (False, True):
        torch.manual_seed(0)
        first = nn.Linear(3, 3) if len(shape) == 2 else nn.Conv2d(3, 3, 1)
        model = nn.Sequential(first, nn.ReLU(inplace))
        penalty = sg.AffinityPenalty(model, samples=samples)
        run(penalty, model, x)
        scores.append(penalty.scores["1"])
    assert scores[0] == scores[1] < 0.9


def test_gradient_near_equal_eigenvalues_is_finite() -> None:
    x = torch.cat([torch.eye(4), -torch.eye(4)] * 8).double().requires_grad_()
    value = run(sg.AffinityPenalty(model := nn.Sequential(nn.Softplus())), model, x)
    value.backward()
    assert x.grad.isfinite().all()
    assert x.grad.abs().max() > 0


@pytest.mark.parametrize(("weight", "goes"), [(1.0, 1), (-1.0, -1)])
def test_scores_are_pushed(weight: float, goes: int) -> None:
    model, x = mlp(), torch.randn(256, 4, generator=torch.Generator().manual_seed(1))
    penalty = sg.AffinityPenalty(model, weight=weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    first: dict[str, float] = {}
    for _ in range(30):
        optimizer.zero_grad()
        run(penalty, model, x).backward()
        optimizer.step()
        first = first or penalty.scores
    for name, score in penalty.scores.items():
        assert goes * (score - first[name]) > 0.02


def test_scores_reach_a_target() -> None:
    model, x = mlp(), torch.randn(256, 4, generator=torch.Generator().manual_seed(1))
    penalty = sg.AffinityPenalty(model, sites="relu", weight=5.0, target=0.8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(60):
        optimizer.zero_grad()
        run(penalty, model, x).backward()
        optimizer.step()
    assert penalty.scores == {"1": pytest.approx(0.8, abs=0.02)}


def test_few_samples_accumulate_and_push() -> None:
    """Batches of 16 rows with 32 channels: no batch could be scored, but running sums can."""
    model = mlp(32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    penalty = sg.AffinityPenalty(model, sites="1", weight=1.0)
    found = []
    generator = torch.Generator().manual_seed(0)
    for step in range(160):
        value = run(penalty, model, torch.randn(16, 4, generator=generator))
        if step < 5:
            assert float(value) == 0
            assert "are needed" in penalty.skipped["1"]
            assert not value.requires_grad
            continue
        if penalty.scores:
            found.append(penalty.scores["1"])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    assert len(found) > 100
    assert found[-1] > found[0] + 0.1


def slope_of(running: RunningScores, rows: Tensor) -> Tensor | None:
    running.note(rows.shape[1])
    added = running.add(rows.detach())
    return running.scored(added)[1] if running.is_ready else None


def test_running_sums_estimate_the_gradient_of_the_distribution() -> None:
    """The mean gradient of small batches is that of one large batch."""
    d, n, steps = 8, 8, 600
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(d, d, generator=generator, dtype=torch.float64)
    shift = torch.linspace(-1, 1, d, dtype=torch.float64).requires_grad_()

    def rows(count: int) -> Tensor:
        x = torch.randn(count, d, generator=generator, dtype=torch.float64) @ mixing + shift
        return stacked([(x, x.relu())])

    large = rows(20_000)
    slope = slope_of(RunningScores(d, eps=1e-3), large)
    (exact,) = torch.autograd.grad(large, shift, slope)
    assert n < HORIZON * d == 32
    running, total = RunningScores(d, eps=1e-3), torch.zeros(d, dtype=torch.float64)
    for step in range(steps):
        batch = rows(n)
        slope = slope_of(running, batch)
        if slope is not None and step >= 20:
            total += torch.autograd.grad(batch, shift, slope)[0] / (steps - 20)
    assert float((total - exact).norm() / exact.norm()) < 0.3
    assert float(F.cosine_similarity(total, exact, dim=0)) > 0.95


def test_every_dilutes_and_scales() -> None:
    model, x = mlp(), torch.randn(64, 4)
    full = run(sg.AffinityPenalty(model, weight=1.0), model, x)
    penalty = sg.AffinityPenalty(model, weight=1.0, every=3)
    values = []
    for step in range(7):
        with penalty:
            assert bool(hooks_of(model)) == (step % 3 == 0)
            model(x)
        values.append(float(penalty.value.detach()))
        assert bool(penalty.scores) == (step % 3 == 0)
    whole = 3 * float(full.detach())
    assert values == pytest.approx([whole, 0, 0, whole, 0, 0, whole])


def test_sites_are_chosen_by_path_name_or_kind() -> None:
    model, x = net(), images()
    chosen = {
        "*": SITES,
        "act*": ["act", "act#1"],
        "act#1": ["act#1"],
        "silu": ["forward.silu"],
        "forward.*": ["forward.silu", "forward.tanh#1"],
    }
    for sites, expected in chosen.items():
        penalty = sg.AffinityPenalty(model, sites=sites)
        for _ in range(2):
            run(penalty, model, x)
            assert list(penalty.scores) == expected
    penalty = sg.AffinityPenalty(model, sites=["tanh", "act"])
    run(penalty, model, x)
    assert list(penalty.scores) == ["act", "act#1", "forward.tanh#1"]


def test_a_pattern_without_a_site_is_an_error_that_names_the_sites() -> None:
    model = net()
    with pytest.raises(OptionError, match=r"matches no activation call.*act#1, forward\.tanh#1"):
        run(sg.AffinityPenalty(model, sites="layer9.*"), model, images())
    assert hooks_of(model) == 0


def test_channels_are_found_as_in_a_signature() -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches, self.mlp = nn.Conv2d(3, 5, 2, stride=2), nn.Linear(5, 7)

        def forward(self, x: Tensor) -> Tensor:
            return F.gelu(self.mlp(self.patches(x).flatten(2).mT)).mean(1)

    model = Tokens()
    penalty = sg.AffinityPenalty(model)
    run(penalty, model, images())
    ((_, _, channels, _),) = penalty._running
    assert channels == (7,)


@pytest.mark.parametrize("width", [12, 11])  # blocks alike, and of two widths
def test_wide_layers_are_scored_in_blocks(width: int) -> None:
    """The mean over blocks of channels, each as a layer of its own, and its gradient."""
    torch.manual_seed(0)
    x = torch.randn(200, width).double().requires_grad_()
    penalty = sg.AffinityPenalty(act := nn.Sequential(nn.ReLU()), weight=1.0, block=4)
    value = run(penalty, act, x)
    scores = []
    for part in x.detach().split([4, 4, width - 8], dim=1):
        one = sg.AffinityPenalty(act, weight=1.0, block=None)
        part.requires_grad_()
        run(one, act, part).backward()
        scores.append((one.scores["0"], part.grad))
    assert penalty.scores == {"0": pytest.approx(sum(score for score, _ in scores) / 3)}
    value.backward()
    torch.testing.assert_close(x.grad, torch.cat([slope for _, slope in scores], dim=1) / 3)


def test_blocks_push_the_score_of_the_whole_layer() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 4))
    many, optimizer = torch.randn(2000, 24), torch.optim.SGD(model.parameters(), lr=1.0)

    def whole() -> float:
        x = model[0](many).detach().double()
        return float(sg.affinity(x, x.relu(), covariance="biased", coupling="paired"))

    before, penalty = whole(), sg.AffinityPenalty(model, weight=1.0, block=8)
    for _ in range(30):
        optimizer.zero_grad()
        run(penalty, model, torch.randn(256, 24)).backward()
        optimizer.step()
    assert whole() > before + 0.1


@pytest.mark.parametrize("block", [0, -1, 2.5, True])
def test_blocks_are_whole_numbers(block: object) -> None:
    with pytest.raises(sg.errors.OptionError, match="block must be a whole number >= 1"):
        sg.AffinityPenalty(mlp(), block=block)


def test_sums_go_on_with_a_batch_of_another_size() -> None:
    model = mlp(32)
    penalty = sg.AffinityPenalty(model, sites="1")
    for n in (48, 48, 16):  # 16 rows of 32 channels alone would not do
        run(penalty, model, torch.randn(n, 4))
    assert list(penalty.scores) == ["1"]


def test_gradients_of_sums_over_positions_are_those_of_means() -> None:
    """Also of an activation that overwrites its input, and of sites with other image sizes."""
    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3), nn.ReLU(inplace=True))
    model = model.double()
    torch.manual_seed(0)
    x = torch.randn(40, 3, 8, 8).double()
    penalty = sg.AffinityPenalty(model, weight=1.0)
    run(penalty, model, x).backward()
    found = [one.grad.clone() for one in model.parameters()]
    model.zero_grad()
    first = model[0](x)
    second = model[2](F.relu(first))
    rows = [torch.cat([one.mean((2, 3)), F.relu(one).mean((2, 3))], 1) for one in (first, second)]
    for one in rows:
        known = (one - one[:1]).detach()[None]
        sums = sums_of(known)
        _, gradients = scores_with_gradient(*sums, eps=EPS)
        one.backward(-slopes(known, gradients, *sums[:2])[0] / 2, retain_graph=True)
    for one, other in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(one, other.grad)


def test_constant_outputs_are_skipped_with_the_reason() -> None:
    model = mlp()
    with torch.no_grad():
        model[0].bias.fill_(-1e3)  # a dead ReLU; what follows has constant inputs
    penalty = sg.AffinityPenalty(model)
    value = run(penalty, model, torch.randn(64, 4))
    assert float(value.detach()) == 0
    assert penalty.scores == {}
    assert penalty.skipped == dict.fromkeys(
        "13", "its inputs or its outputs do not vary, or are not finite"
    )
    (value + model[0].weight.sum() * 0).backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_a_dead_site_does_not_disturb_the_others() -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(x) + torch.relu(-x.detach().abs() - 1)

    x = torch.randn(64, 4, dtype=torch.float64, requires_grad=True)
    alone = run(sg.AffinityPenalty(model := Two(), sites="tanh", weight=1.0), model, x)
    (expected,) = torch.autograd.grad(alone, x)
    both = run(penalty := sg.AffinityPenalty(model, weight=1.0), model, x)
    (gradient,) = torch.autograd.grad(both, x)
    assert list(penalty.scores) == ["forward.tanh"]
    torch.testing.assert_close(both, alone)
    torch.testing.assert_close(gradient, expected)


def test_a_mask_of_huge_values_changes_nothing() -> None:
    x = torch.randn(64, 3, dtype=torch.float64)
    x[:, 1] = 0
    masked = x.clone()
    masked[:, 1] = -1e30
    scores = []
    for one in (x, masked):
        run(penalty := sg.AffinityPenalty(model := nn.Sequential(nn.ReLU())), model, one)
        scores.append(penalty.scores["0"])
    assert scores[0] == pytest.approx(scores[1], abs=1e-9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_value_has_the_dtype_of_the_loss(dtype: torch.dtype) -> None:
    model, x = mlp().to(dtype), torch.randn(64, 4, dtype=dtype)
    penalty = sg.AffinityPenalty(model)
    with penalty:
        loss = model(x).square().mean()
    assert penalty.value.dtype == dtype == (loss + penalty.value).dtype
    (loss + penalty.value).backward()
    assert all(p.grad.dtype == dtype for p in model.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype: torch.dtype) -> None:
    model, x = net(), images()
    exact = run(sg.AffinityPenalty(model), model, x)
    penalty = sg.AffinityPenalty(model)
    with torch.autocast("cpu", dtype), penalty:
        out = model(x)
    assert out.dtype == dtype
    assert penalty.value.dtype == torch.float32
    assert float(penalty.value.detach()) == pytest.approx(float(exact.detach()), abs=1e-3)
    with torch.autocast("cpu", dtype):  # left inside of it
        value = run(penalty, model, x)
    value.backward()
    assert model.first.weight.grad.abs().max() > 0


class Checkpointed(nn.Module):
    def __init__(self, *, reentrant: bool) -> None:
        super().__init__()
        self.body, self.reentrant = net(), reentrant
        self.after = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.after(checkpoint(self.body, x, use_reentrant=self.reentrant))


def gradients(model: nn.Module) -> list[Tensor]:
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def test_checkpoints() -> None:
    plain, model = net(), Checkpointed(reentrant=False)
    penalty = sg.AffinityPenalty(plain)
    saved = sg.AffinityPenalty(model)
    names = {"body.act", "body", "body#1", "body.act#1"}
    for step in range(2):
        plain.zero_grad()
        model.zero_grad()
        run(penalty, plain, images(seed=step)).backward()
        run(saved, model, images(seed=step)).backward()
        assert set(saved.scores) == names
        torch.testing.assert_close(gradients(model.body), gradients(plain))
    with saved:  # computed again inside of the context, which is not recorded
        (0 * model(images()).sum()).backward(retain_graph=True)
    torch.testing.assert_close(saved.value, run(penalty, plain, images()))


def test_reentrant_checkpoints_are_skipped_with_the_remedy() -> None:
    model = Checkpointed(reentrant=True)
    penalty = sg.AffinityPenalty(model)
    value = run(penalty, model, images().requires_grad_())
    assert float(value) == 0
    assert not value.requires_grad
    assert len(penalty.skipped) == 4
    assert all("use_reentrant=False" in reason for reason in penalty.skipped.values())


def test_without_gradients_the_scores_are_known() -> None:
    model = net()
    penalty = sg.AffinityPenalty(model)
    with torch.no_grad():
        value = run(penalty, model, images())
    assert len(penalty.scores) == 4
    assert not value.requires_grad


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # the compiler looks at it
def test_compiled_parts_beside_the_sites() -> None:
    model, plain = net(), net()
    model.first = torch.compile(model.first, backend="eager")
    model.second = torch.compile(model.second, backend="eager")
    penalty, expected = sg.AffinityPenalty(model), sg.AffinityPenalty(plain)
    for step in range(3):
        value = run(penalty, model, images(seed=step))
        torch.testing.assert_close(value, run(expected, plain, images(seed=step)))
    value.backward()
    assert penalty.scores.keys() == expected.scores.keys()


@pytest.mark.slow
def test_compiled_sites_are_refused_or_skipped_with_the_remedy() -> None:
    model = nn.Sequential(
        torch.compile(nn.Sequential(nn.Linear(4, 8), nn.ReLU()), backend="eager"), nn.Tanh()
    )
    with pytest.raises(NetworkError, match=r"every chosen site is compiled.*sg\.nn\.Scored"):
        run(sg.AffinityPenalty(model, sites="relu"), model, torch.randn(64, 4))
    penalty = sg.AffinityPenalty(model)
    run(penalty, model, torch.randn(64, 4))
    assert list(penalty.scores) == ["1"]
    assert "sg.nn.Scored" in penalty.skipped["0.1"]
    for compiled in (torch.compile(mlp(), backend="eager"), mlp()):
        if isinstance(compiled, nn.Sequential):
            compiled.compile(backend="eager")
        with pytest.raises(NetworkError, match=r"whole network is compiled.*sg\.nn\.Scored"):
            sg.AffinityPenalty(compiled)


def test_no_weight_changes_nothing() -> None:
    results = []
    for weight in (None, 0.0):
        model = net()
        penalty = None if weight is None else sg.AffinityPenalty(model, weight=weight)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        torch.manual_seed(1)
        for step in range(3):
            optimizer.zero_grad()
            x = images(seed=step) + torch.randn(1)
            if penalty is None:
                loss = model(x).square().mean()
            else:
                with penalty:
                    loss = model(x).square().mean()
                assert len(penalty.scores) == 4
                loss = loss + penalty.value
            loss.backward()
            optimizer.step()
        results.append([*model.state_dict().values()])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


def test_several_passes_in_one_context_are_one_sample() -> None:
    model, x = net().eval(), images(128)
    whole = run(sg.AffinityPenalty(model), model, x)
    penalty = sg.AffinityPenalty(model)
    for _ in range(2):
        with penalty:
            model(x[:50])
            model(x[50:])
        torch.testing.assert_close(penalty.value, whole)
        assert list(penalty.scores) == SITES


def test_what_ends_early_leaves_nothing() -> None:
    class Failing(Net):
        fails = False

        def forward(self, x: Tensor) -> Tensor:
            out = super().forward(x)
            if self.fails:
                raise ZeroDivisionError("as asked")
            return out

    model = Failing()
    penalty = sg.AffinityPenalty(model)
    for _ in range(2):
        model.fails = True
        with pytest.raises(ZeroDivisionError, match="as asked"):
            run(penalty, model, images())
        assert hooks_of(model) == 0
        assert torch._C._len_torch_function_stack() == 0
        with pytest.raises(NoActivationError, match="has not run"):
            _ = penalty.value
        model.fails = False
        assert run(penalty, model, images()).requires_grad
        assert hooks_of(model) == 0
        assert len(penalty.scores) == 4


def test_misuse_names_the_remedy() -> None:
    model = mlp()
    penalty = sg.AffinityPenalty(model)
    with pytest.raises(NoActivationError, match=r"with penalty: out = model\(x\)"):
        _ = penalty.value
    with penalty:
        with pytest.raises(InputError, match="Leave it first"), penalty:
            pass
        with pytest.raises(InputError, match="Read it after"):
            _ = penalty.value
    with pytest.raises(NoActivationError, match="has not run inside"):
        _ = penalty.value
    wrong = {
        "weight": math.nan,
        "target": "high",
        "every": 0,
        "eps": 0.0,
        "samples": "pixels",
        "sites": [],
    }
    for name, value in wrong.items():
        with pytest.raises(OptionError, match=name):
            sg.AffinityPenalty(model, **{name: value})
    value = run(penalty, model, torch.randn(64, 4, requires_grad=True))
    with pytest.raises(GradientError, match="first derivatives only"):
        value.backward(create_graph=True)


def test_the_inside_of_distributed_networks_is_watched(tmp_path: object) -> None:
    if not torch.distributed.is_available():
        pytest.skip("torch was built without distributed")
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        model = nn.parallel.DistributedDataParallel(net())
        penalty = sg.AffinityPenalty(model)
        for _ in range(2):
            (model(images()).mean() * 0 + run(penalty, model, images())).backward()
            assert list(penalty.scores) == SITES
    finally:
        torch.distributed.destroy_process_group()


def resumed(options: dict[str, object], tmp_path: Path, *, stops: int | None) -> list[Tensor]:
    """Train for 12 steps, with a checkpoint after `stops`; return the weights and the values."""
    model = net()
    penalty = sg.AffinityPenalty(model, **options)
    values, step = [], 0
    while step < 12:
        with penalty:
            loss = model(images(16, seed=step)).square().mean()
        values.append(penalty.value.detach().clone())
        model.zero_grad()
        (loss + penalty.value).backward()
        with torch.no_grad():
            for one in model.parameters():
                one -= 0.05 * one.grad
        step += 1
        if step == stops:
            torch.save([model.state_dict(), penalty.state_dict()], tmp_path / "checkpoint.pt")
            weights, state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
            model = net()
            model.load_state_dict(weights)
            penalty = sg.AffinityPenalty(model, **options)
            penalty.load_state_dict(state)
    return [*model.state_dict().values(), *values]


@pytest.mark.parametrize("options", [{}, {"every": 3}, {"samples": "positions"}])
def test_a_checkpoint_goes_on_bit_for_bit(options: dict[str, object], tmp_path: Path) -> None:
    straight = resumed({**options, "weight": 1.0}, tmp_path, stops=None)
    stopped = resumed({**options, "weight": 1.0}, tmp_path, stops=7)
    assert any(float(value) for value in straight[-5:])
    assert all(map(torch.equal, straight, stopped))


def test_a_checkpoint_of_another_penalty_is_refused() -> None:
    model = mlp()
    penalty = sg.AffinityPenalty(model)
    run(penalty, model, torch.randn(16, 4))
    state = penalty.state_dict()
    with pytest.raises(ResumeError, match=r"of another penalty: .*samples"):
        sg.AffinityPenalty(model, samples="positions").load_state_dict(state)
    with penalty, pytest.raises(InputError, match="Leave it first"):
        penalty.load_state_dict(state)
    run(penalty, model, torch.randn(16, 4))
    other = sg.AffinityPenalty(model)
    other.load_state_dict(state)  # of one context: the state is a copy
    rows = [
        [group.running.rows for sites in one._running.values() for group in sites.groups]
        for one in (other, penalty)
    ]
    assert rows == [[16], [28]]
