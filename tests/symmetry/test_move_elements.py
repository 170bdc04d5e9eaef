"""Elements by name: what they do to features, and which are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sigmascope.catalog.cifar import NETWORKS
from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.symmetry import check_equivalence, move, spaces
from sigmascope.symmetry.groups import group
from sigmascope.symmetry.monomial import Monomial
from tests.symmetry.lively import images, lively

ACTIVATIONS: dict[str, tuple[nn.Module, Any]] = {
    "relu": (nn.ReLU(), group("relu")),
    "leaky_relu": (nn.LeakyReLU(0.2), group("leaky_relu", slope=0.2)),
    "tanh": (nn.Tanh(), group("tanh")),
    "sigmoid": (nn.Sigmoid(), group("sigmoid")),
    "gelu": (nn.GELU(), group("gelu")),
}


def perceptron(sigma: nn.Module) -> nn.Sequential:
    return lively(nn.Sequential(nn.Linear(4, 6), sigma, nn.Linear(6, 5), sigma, nn.Linear(5, 3)))  # type: ignore[return-value]


def rows(count: int, width: int) -> Tensor:
    return torch.randn(
        count, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_proposition_3_4(name: str) -> None:
    """(a) The function stays; (b) hidden features move by φ(A); (c) what follows undoes it."""
    sigma, own = ACTIVATIONS[name]
    model, x = perceptron(sigma), rows(20, 4)
    elements = {"0": own.draw(6, 0), "2": own.draw(5, 1)}
    moved: Any = move(model, elements)
    assert check_equivalence(model, moved, x).relative_error < 1e-9
    for cut, element in ((2, elements["0"]), (4, elements["2"])):
        image = own.phi(element)
        torch.testing.assert_close(
            moved[:cut](x), image.apply(model[:cut](x), -1), rtol=1e-9, atol=1e-12
        )
        z = rows(20, len(element))
        torch.testing.assert_close(
            moved[cut:](z), model[cut:](image.inverse().apply(z, -1)), rtol=1e-9, atol=1e-12
        )


def test_any_loss_is_unchanged() -> None:
    model, x, labels = perceptron(nn.ReLU()), rows(20, 4), torch.arange(20) % 3
    moved = move(model, generator=4)
    losses = [nn.functional.cross_entropy(one(x), labels) for one in (model, moved)]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-12, atol=0)


@pytest.mark.parametrize("seed", [4, np.int64(4), torch.Generator().manual_seed(4)])
def test_a_generator_may_come_second(seed: Any) -> None:
    model = perceptron(nn.ReLU())
    expected, found = move(model, generator=4).state_dict(), move(model, seed).state_dict()
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    named = move(model, seed=4).state_dict()
    assert all(torch.equal(expected[name], named[name]) for name in expected)


def test_elements_and_a_generator_exclude_each_other() -> None:
    model = perceptron(nn.ReLU())
    for first in (3, {"0": group("relu").draw(6, 0)}):
        with pytest.raises(InputError, match="elements and a seed were both given"):
            move(model, first, generator=4)
    with pytest.raises(InputTypeError, match=r"elements must be a mapping.*got a bool"):
        move(model, True)


def test_hand_example() -> None:
    model: Any = nn.Sequential(
        nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 2, bias=False)
    ).double()
    with torch.no_grad():
        model[0].weight.copy_(torch.diag(torch.tensor([1.0, 2.0])))
        model[2].weight.copy_(torch.diag(torch.tensor([3.0, 1.0])))
    moved: Any = move(model, {"0": torch.tensor([[0.0, 1.0], [1.0, 0.0]])})
    assert moved[0].weight.tolist() == [[0.0, 2.0], [1.0, 0.0]]
    assert moved[2].weight.tolist() == [[0.0, 3.0], [1.0, 0.0]]
    A = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    assert group("relu").contains(A)
    assert check_equivalence(model, move(model, {"0": A}), rows(9, 2)).relative_error < 1e-12


def test_outside_the_group() -> None:
    model: Any = perceptron(nn.ReLU())
    element = Monomial(torch.arange(6), [1.0, 1, -1, 1, 1, 1])
    with pytest.raises(
        InputError, match=r"'0': channel 2 may not be scaled by -1: relu admits d > 0 \(1\)"
    ):
        move(model, {"0": element})
    with pytest.raises(InputError, match=r"not a scaled permutation: row 0 has 6 non-zero entries"):
        move(model, {"0": torch.linalg.qr(rows(6, 6))[0]})
    with pytest.raises(InputError, match=r"may not be scaled by 2: sigmoid admits d = 1"):
        move(perceptron(nn.Sigmoid()), {"0": Monomial(torch.arange(6), [1.0, 1, 2, 1, 1, 1])})
    # Rightly so: by hand, the function is another one.
    by_hand: Any = perceptron(nn.ReLU())
    with torch.no_grad():
        by_hand[0].weight.copy_(element.apply(model[0].weight))
        by_hand[0].bias.copy_(element.apply(model[0].bias))
        by_hand[2].weight.copy_(element.inverse().transpose().apply(model[2].weight, 1))
    assert check_equivalence(model, by_hand, rows(20, 4)).relative_error > 1e-2


def test_unequal_elements_in_a_residual_stage() -> None:
    model: Any = lively(NETWORKS["resnet20"]())
    x, twice, once = (
        images(32),
        Monomial(torch.arange(16), torch.full((16,), 2.0)),
        Monomial.identity(16),
    )
    alike = move(model, {"bn1": twice, "blocks.0.bn2": twice, "blocks.1": twice})
    assert check_equivalence(model, alike, x).relative_error < 1e-9
    with pytest.raises(InputError, match=r"'blocks\.0\.bn2' and 'bn1' share a scale"):
        move(model, {"bn1": twice, "blocks.0.bn2": once})
    with pytest.raises(InputError, match=r"'blocks\.0\.conv2' and 'conv1' share a permutation"):
        move(
            model,
            {"conv1": once, "blocks.0.conv2": Monomial(torch.arange(16).flip(0), torch.ones(16))},
        )
    # Rightly so: with the one element in the stage and the other behind the first block, the
    # function is another one.
    by_hand: Any = move(model, {"bn1": twice})
    with torch.no_grad():
        for tensor in (by_hand.blocks[0].bn2.weight, by_hand.blocks[0].bn2.bias):
            tensor /= 2
    assert check_equivalence(model, by_hand, x).relative_error > 1e-3


@pytest.mark.filterwarnings("ignore:the move changed no weight")
def test_zero_padding_does_not_mix_old_and_new_channels() -> None:
    model = lively(NETWORKS["resnet20"]())
    order = torch.arange(32)
    order[[0, 8]] = order[[8, 0]]
    with pytest.raises(
        InputError,
        match=r"'blocks\.3': channels 8 and 0 may not be exchanged: the network uses them in d",
    ):
        move(model, {"blocks.3": Monomial(order, torch.ones(32))})
    order = torch.cat([torch.arange(8).flip(0), 8 + torch.randperm(16), 24 + torch.randperm(8)])
    element = Monomial(order, torch.rand(32) + 0.5)
    assert (
        check_equivalence(model, move(model, {"blocks.3": element}), images(32)).relative_error
        < 1e-9
    )
    assert (
        check_equivalence(
            model, move(model, {"blocks.4.bn2[8:24]": Monomial.identity(16)}), images(32)
        ).relative_error
        == 0
    )


def test_max_pooling_under_signs() -> None:
    model = lively(
        nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 9, 2)
        )
    )
    signs = Monomial([1, 0, 3, 2], [-1.0, 1, 1, -1])
    with pytest.raises(
        InputError, match=r"may not be scaled by -1: max pooling commutes with d > 0 only \(2\)"
    ):
        move(model, {"0": signs}, example_input=images(8))
    assert (
        check_equivalence(
            model, move(model, generator=0, example_input=images(8)), images(8)
        ).relative_error
        < 1e-12
    )
    averaged = lively(
        nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4 * 9, 2)
        )
    )
    moved = move(averaged, {"0": signs}, example_input=images(8))
    assert check_equivalence(averaged, moved, images(8)).relative_error < 1e-12


def test_scales_in_front_of_batch_norm() -> None:
    model: Any = lively(
        nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, eps=1e-2), nn.ReLU(), nn.Linear(6, 3))
    )
    x, element = rows(50, 4), Monomial([2, 0, 1, 5, 3, 4], [0.5, -2, 3, 0.7, 1.5, -4])
    with pytest.raises(
        InputError,
        match=r"batch norm divides by √\(var \+ eps\): scale behind it, or pass exact_eval=True",
    ):
        move(model, {"0": element})
    moved: Any = move(model, {"0": element}, exact_eval=True)
    assert check_equivalence(model, moved, x).relative_error < 1e-14
    # Negative control: without the correction for eps the function is another one.
    moved[1].running_var.copy_(
        Monomial(element.permutation, element.scales**2).apply(model[1].running_var)
    )
    assert check_equivalence(model, moved, x).relative_error > 1e-4
    tiny = Monomial(torch.arange(6), [1e-3, 1, 1, 1, 1, 1])
    with pytest.raises(
        InputError, match=r"1\.running_var: the variance of channel 0 would become -0.01"
    ):
        move(model, {"0": tiny}, exact_eval=True)


def test_random_scales_leave_variances_positive() -> None:
    model: Any = lively(
        nn.Sequential(nn.Linear(4, 30), nn.BatchNorm1d(30, eps=0.5), nn.ReLU(), nn.Linear(30, 3))
    )
    model[1].running_var[::2] = 0
    for seed in range(3):
        moved: Any = move(model, generator=seed, exact_eval=True)
        assert float(moved[1].running_var.min()) >= 0
        assert check_equivalence(model, moved, rows(20, 4)).relative_error < 1e-12


@pytest.mark.filterwarnings("ignore:the move changed no weight")
def test_training_mode() -> None:
    """With all the scale behind batch norm the function is the same in training mode too; with
    exact_eval it is not.
    """
    model, x = lively(NETWORKS["myrtle"]()), images(32, 8)

    def trained(one: nn.Module) -> Tensor:
        return one.train()(x).detach()

    expected = trained(move(model, {}))
    scale = float(expected.abs().max())
    assert float((trained(move(model, generator=0)) - expected).abs().max()) < 1e-9 * scale
    assert (
        float((trained(move(model, generator=0, exact_eval=True)) - expected).abs().max())
        > 1e-9 * scale
    )


def test_elements_of_activations_and_of_copies() -> None:
    square = lively(nn.Sequential(nn.Linear(4, 6), Squared(), nn.Linear(6, 3)))
    moved: Any = move(square, {"1": Monomial(torch.arange(6), torch.full((6,), 4.0))})
    torch.testing.assert_close(moved[0].weight, 2 * square[0].weight)  # type: ignore[index]
    with pytest.raises(InputError, match="channel 0 is never negative here"):
        move(square, {"1": Monomial(torch.arange(6), torch.full((6,), -4.0))})
    flat = lively(nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)))
    x = images(4)
    whole = Monomial([1, 0], [2.0, 3.0])
    assert check_equivalence(
        move(flat, {"2": whole.spread(4)}, example_input=x),
        move(flat, {"0": whole}, example_input=x),
        x,
    ).holds
    with pytest.raises(InputError, match="'2': copies of one channel may not be exchanged"):
        move(flat, {"2": Monomial([1, 0, 2, 3, 4, 5, 6, 7], torch.ones(8))}, example_input=x)
    with pytest.raises(InputError, match="'2' and '2' share a scale"):
        move(flat, {"2": Monomial(torch.arange(8), torch.arange(1.0, 9))}, example_input=x)


class Squared(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.square()


@pytest.mark.filterwarnings("ignore:the move changed no weight")
def test_names() -> None:
    model = perceptron(nn.ReLU())
    with pytest.raises(
        OptionError, match=r"no channels are called '7'\..*spaces\(model\) lists the names"
    ):
        move(model, {"7": Monomial.identity(6)})
    with pytest.raises(OptionError, match=r"Did you mean 'blocks\.3\.bn1'"):
        move(NETWORKS["resnet20"](), {"block.3.bn1": Monomial.identity(32)})
    with pytest.raises(InputError, match="acts on 5 channels, and there are 6"):
        move(model, {"0": Monomial.identity(5)})
    with pytest.raises(
        InputError, match=r"channels 1 and 0 may not be exchanged: it is the output of the network"
    ):
        move(model, {"4": Monomial([1, 0, 2], torch.ones(3))})
    with pytest.raises(InputTypeError, match=r"elements must be a mapping.*got a list"):
        move(model, [Monomial.identity(6)])  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match=r"a whole number or a torch\.Generator, got 'a'"):
        move(model, generator="a")  # type: ignore[arg-type]
    assert check_equivalence(model, move(model, {}), rows(3, 4)).absolute_error == 0


def test_spaces_print_themselves() -> None:
    assert repr(spaces(nn.ReLU(), rows(2, 2))) == "no channels that begin in the network"
    found = spaces(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)))
    assert [space.group for space in found] == ["permutations, d = ±1", "fixed"]
    assert found[0].reasons == ("tanh admits d = ±1 (1)",)
    assert len(repr(found).splitlines()) == 3


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.bool])
def test_outputs_of_any_kind_are_compared(dtype: torch.dtype) -> None:
    """-128 has no absolute value in int8, and truth has none at all."""

    class Whole(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.to(dtype)

    x = torch.tensor([-128.0, 0.0, 1.0]) if dtype == torch.int8 else torch.tensor([0.0, 1.0])
    found = check_equivalence(Whole(), Whole(), x)
    assert found.holds
    assert found.scale == (128 if dtype == torch.int8 else 1)


def test_a_move_that_moves_nothing_warns() -> None:
    model = perceptron(nn.ReLU())
    identity = Monomial(range(6), [1.0] * 6)
    for given in ({}, {"0": identity}):
        with pytest.warns(UserWarning, match="changed no weight: only identities were given"):
            same = move(model, given)
        assert check_equivalence(model, same, rows(5, 4)).relative_error == 0
    fixed = lively(nn.Sequential(nn.Linear(4, 3)))
    for given in (0, None):
        with pytest.warns(UserWarning, match="changed no weight: no channels are free to move"):
            move(fixed, given)


def test_a_move_by_next_to_nothing_does_not_warn() -> None:
    element = Monomial(range(6), [1.0] * 5 + [1.0 + 1e-9])
    moved: Any = move(perceptron(nn.ReLU()), {"0": element})
    assert moved is not None  # a warning would have been an error
