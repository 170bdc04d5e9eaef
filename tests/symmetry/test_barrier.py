"""Barriers and averages: ends, corrections, known shapes, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.symmetry import (
    Monomial,
    align,
    average,
    barrier,
    check_equivalence,
    interpolation,
    move,
)
from sigmascope.symmetry.barriers import Curve
from sigmascope.symmetry.labeled_batches import evaluated
from sigmascope.symmetry.wiring.trace import trace
from tests.symmetry.lively import lively

CURVES = ["naive", "naive, corrected", "aligned", "aligned, corrected"]


def network(*, norm: bool = False, width: int = 12) -> nn.Module:
    between = [nn.BatchNorm1d(width)] if norm else []
    layers = [nn.Linear(4, width), *between, nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 3))


def data(samples: int = 60) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(samples, 4, generator=source, dtype=torch.float64)
    return x, x[:, :3].argmax(dim=1)


@pytest.mark.parametrize("norm", [False, True])
def test_a_moved_network_has_no_barrier_after_aligning(norm: bool) -> None:
    a = lively(network(norm=norm))
    b, (x, _) = move(a, 1), data()
    labels = a(x).argmax(dim=1)  # which both networks know
    line = barrier(a, b, (x, labels), points=5)
    assert list(line.curves) == CURVES
    assert line.points == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert line.correction == ("batch norm" if norm else "repair")
    assert line.height("naive") > 0.05
    assert abs(line.height("aligned")) < 1e-9
    assert abs(line.height("aligned, corrected")) < 1e-9
    assert line.accuracy_loss("aligned") == 0


def test_loss_and_accuracy_are_those_of_the_networks() -> None:
    a, b, (x, labels) = lively(network()), lively(network(), 1), data()
    line = barrier(a, b, [(x[:7], labels[:7]), (x[7:], labels[7:])], points=3)
    for end, net in ((0, a), (-1, b)):
        logits = net(x).detach()
        expected = float(nn.functional.cross_entropy(logits, labels))
        assert line.curves["naive"].losses[end] == pytest.approx(expected)
        assert line.curves["aligned"].losses[end] == pytest.approx(expected)
        right = float((logits.argmax(1) == labels).double().mean())
        assert line.curves["naive"].accuracies[end] == pytest.approx(right)
    middle = interpolation.mean_network([a, b], [0.5, 0.5])
    expected = float(nn.functional.cross_entropy(middle(x).detach(), labels))
    assert line.curves["naive"].losses[1] == pytest.approx(expected)
    chord = sum(line.curves["naive"].losses[::2]) / 2
    assert line.height("naive") == pytest.approx(max(0, expected - chord))


def test_repair_gives_channels_the_statistics_between_the_ends() -> None:
    a, b, (x, _) = lively(network()), lively(network(), 1), data()
    layers = interpolation.layers_within(trace(a), a)
    assert layers == {"0": 1, "2": 1}  # not the last one
    ends = [interpolation.statistics_of(net, [x], layers) for net in (a, b)]
    target = interpolation.between(*ends, 0.3)
    middle = interpolation.mean_network([a, b], [0.7, 0.3])
    plain = interpolation.statistics_of(middle, [x], layers)
    with interpolation.repaired(middle, [x], layers, target):
        found = interpolation.statistics_of(middle, [x], layers)
    for path, (mean, std) in target.items():
        torch.testing.assert_close(found[path][0], mean)
        torch.testing.assert_close(found[path][1], std)
        assert not torch.allclose(plain[path][1], std, rtol=0.05)
    assert not middle[0]._forward_hooks


@pytest.mark.parametrize("norm", [False, True])
def test_a_network_with_other_scales_has_no_barrier_once_corrected(norm: bool) -> None:
    """All points on the line from a network to itself, rescaled, have to be that network."""
    a, (x, labels) = lively(network(norm=norm)), data()
    scales = {
        site: Monomial(torch.arange(12), torch.linspace(0.2, 5, 12).double())
        for site in (("1", "3") if norm else ("0", "2"))
    }
    b = move(a, scales)
    unmoved = align(a, a)  # the identity, so that "aligned" is the line to b as it is
    if norm:
        interpolation.reset_batch_norm(a, [x])
        b = move(a, scales)
    line = barrier(a, b, (x, labels), alignment=unmoved, points=5)
    known = line.curves["naive"].losses[0]
    assert max(abs(loss - known) for loss in line.curves["naive"].losses) > 0.02 * known
    assert line.curves["naive, corrected"].losses == pytest.approx([known] * 5, rel=1e-9)
    assert abs(line.height("naive, corrected", calibrated=True)) < 1e-9


def test_a_corrected_line_does_not_depend_on_scales() -> None:
    a, b = lively(network()), lively(network(), 1)
    scales = {site: Monomial(torch.arange(12), torch.linspace(3, 0.1, 12)) for site in ("0", "2")}
    unmoved = align(a, a)
    lines = [barrier(a, one, data(), alignment=unmoved, points=3) for one in (b, move(b, scales))]
    first, second = (one.curves["naive, corrected"].losses for one in lines)
    assert first == pytest.approx(second, rel=1e-9)
    plain = [one.curves["naive"].losses[1] for one in lines]
    assert plain[0] != pytest.approx(plain[1], rel=0.01)


def test_the_calibrated_loss_does_not_depend_on_the_size_of_logits() -> None:
    a, (x, labels) = lively(network()), data()
    labels = torch.where(torch.arange(60) % 4 > 0, a(x).argmax(dim=1), labels)  # mostly right
    loud = interpolation.mean_network([a], [1.0])
    with torch.no_grad():
        loud[4].weight *= 7
        loud[4].bias *= 7
    found = [evaluated(one, [(x, labels)]) for one in (a, loud)]
    assert found[0][2] == pytest.approx(found[1][2], rel=1e-6)
    assert found[1][0] > 1.5 * found[0][0]
    logits = a(x).detach()
    grid = torch.linspace(-4.6, 4.6, 2001).double().exp()
    best = min(float(nn.functional.cross_entropy(logits * one, labels)) for one in grid)
    assert found[0][2] == pytest.approx(best, rel=1e-4)
    assert found[0][2] <= found[0][0]


def test_statistics_of_batch_norm_are_those_of_the_data() -> None:
    a, (x, _) = lively(network(norm=True)), data()
    interpolation.reset_batch_norm(a, [x[:30], x[30:]])
    features = a[0](x).detach()
    torch.testing.assert_close(a[1].running_mean, features.mean(dim=0))
    parts = torch.stack([features[:30].var(dim=0), features[30:].var(dim=0)])
    torch.testing.assert_close(a[1].running_var, parts.mean(dim=0))
    assert a[1].momentum == 0.1
    assert not a[1].training


def test_batches_count_by_their_sizes() -> None:
    a, (x, _) = lively(network(norm=True)), data()
    parts = [x[:50], x[50:59], x[59:]]  # the last of one sample, which has no variance
    interpolation.reset_batch_norm(a, parts)
    features = a[0](x[:59]).detach()
    torch.testing.assert_close(a[1].running_mean, features.mean(dim=0))
    expected = (50 * features[:50].var(dim=0) + 9 * features[50:].var(dim=0)) / 59
    torch.testing.assert_close(a[1].running_var, expected)
    with pytest.raises(InputError, match="every batch has one sample, of which batch norm"):
        interpolation.reset_batch_norm(a, [x[:1], x[1:2]])
    assert a[1].momentum == 0.1
    assert not a[1].training


def test_single_images_have_statistics() -> None:
    net = nn.Sequential(nn.Conv2d(1, 3, 2), nn.BatchNorm2d(3)).double()
    images = torch.randn(4, 1, 6, 6, generator=torch.Generator().manual_seed(0)).double()
    interpolation.reset_batch_norm(net, list(images.split(1)))
    torch.testing.assert_close(net[1].running_mean, net[0](images).detach().mean(dim=(0, 2, 3)))


def test_the_networks_are_not_changed() -> None:
    a, b = lively(network(norm=True)), lively(network(norm=True), 1)
    states = [{name: one.clone() for name, one in net.state_dict().items()} for net in (a, b)]
    barrier(a, b, data(), points=3, by="activations")
    average([a, b], data()[0])
    for net, state in zip((a, b), states, strict=True):
        assert all(torch.equal(one, state[name]) for name, one in net.state_dict().items())


def test_a_given_alignment_is_used() -> None:
    a, b = lively(network()), lively(network(), 1)
    found = align(a, b, data()[0], by="activations")
    line = barrier(a, b, data(), alignment=found, points=3)
    assert line.alignment is found


def test_it_prints_and_draws_itself() -> None:
    a = lively(network())
    line = barrier(a, move(a, 0), data(), points=3)
    assert repr(line).startswith("Barrier between Sequential and Sequential, 60 samples")
    assert "REPAIR" in repr(line)
    drawn = line.plot()
    loss, calibrated, accuracy = drawn.axes
    assert [one.get_label() for one in loss.lines] == CURVES
    for place, name in enumerate(CURVES):
        assert tuple(loss.lines[place].get_ydata()) == line.curves[name].losses
        assert tuple(calibrated.lines[place].get_ydata()) == line.curves[name].calibrated
        assert tuple(accuracy.lines[place].get_ydata()) == line.curves[name].accuracies
    assert len(drawn.table) == 12


def test_a_note_tells_a_correction_that_makes_the_mean_sure_of_itself() -> None:
    a = lively(network())
    line = barrier(a, move(a, 0), data(), points=3)
    ends = {"accuracies": (0.9, 0.5, 0.9), "calibrated": (0.3, 0.9, 0.3)}
    quiet, better = Curve((0.3, 1.0, 0.3), **ends), {"accuracies": (0.9, 0.6, 0.9)}
    for corrected, told in (
        (Curve((0.3, 1.2, 0.3), **ends | better), True),
        (Curve((0.3, 0.8, 0.3), **ends | better), False),  # better in both
        (Curve((0.3, 1.2, 0.3), **ends | {"accuracies": (0.9, 0.4, 0.9)}), False),  # worse in both
    ):
        curves = {name: corrected if "corrected" in name else quiet for name in CURVES}
        note = "raises the loss of the naive and the aligned line" in repr(
            replace(line, curves=curves)
        ).replace("\n", " ")
        assert note is told


def test_bad_input_of_a_barrier() -> None:
    a, (x, labels) = lively(network()), data()
    with pytest.raises(InputTypeError, match=r"no labels\. Yield pairs"):
        barrier(a, a, x)
    with pytest.raises(InputError, match=r"read once only\. Pass a loader"):
        barrier(a, a, iter([(x, labels)]))
    with pytest.raises(InputError, match="batches is empty"):
        barrier(a, a, [])
    with pytest.raises(OptionError, match="points"):
        barrier(a, a, (x, labels), points=2)
    with pytest.raises(InputError, match="must return logits"):
        barrier(a, a, (x[:, None], labels), points=3)
    for shift, told in ((1, "from 1 to 3"), (-1, "from -1 to 1")):
        with pytest.raises(InputError, match=f"must be from 0 to 2, .* got labels {told}"):
            barrier(a, a, (x, labels + shift), points=3)


def test_moved_copies_average_to_the_original() -> None:
    a, (x, _) = lively(network(norm=True)), data()
    merged = average([a, move(a, 1), move(a, 2)])
    assert check_equivalence(a, merged, x).holds
    again = average([a, move(a, 1)], x)
    reset = interpolation.mean_network([a], [1.0])
    interpolation.reset_batch_norm(reset, [x])
    assert check_equivalence(reset, again, x).holds
    naive = interpolation.mean_network([a, move(a, 1)], [0.5, 0.5])
    assert not check_equivalence(a, naive, x).holds


def test_rounds_do_not_raise_the_spread() -> None:
    nets = [lively(network(), seed) for seed in range(4)]

    # permutations alone, which keep norms
    gelu = [
        nn.Sequential(*(nn.GELU() if isinstance(part, nn.ReLU) else part for part in one))
        for one in nets
    ]

    def energy(rounds: int) -> float:
        """The squared norm of the mean: larger where networks are closer, if norms are equal."""
        merged = average(gelu, rounds=rounds)
        return sum(float(one.detach().square().sum()) for one in merged.parameters())

    assert energy(5) >= energy(0) * (1 - 1e-12)


def test_bad_input_of_an_average() -> None:
    a = lively(network())
    with pytest.raises(InputTypeError, match=r"one network\. Pass a list"):
        average(nn.ModuleList([a, a]))
    with pytest.raises(InputError, match="two networks or more, got 1"):
        average([a])
    with pytest.raises(InputError, match="different architectures"):
        average([a, lively(network(width=7))])
    with_norm = lively(network(norm=True))
    with pytest.raises(InputError, match=r"read once only\. Pass a loader"):
        average([with_norm, with_norm], iter([data()[0]]), by="activations")
    with pytest.raises(InputError, match="batches is empty"):
        average([with_norm, with_norm], [])
