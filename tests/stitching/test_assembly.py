"""Cutting and joining: Theorem 4.2, shortcuts on the right side, names of sites, and networks that
are refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.catalog.cifar import NETWORKS
from sigmascope.catalog.cifar_convnets import MyrtleCNN, ResNet
from sigmascope.stitching.assembly import assemble, prepare
from sigmascope.stitching.families import FAMILIES, Moments
from sigmascope.stitching.permutations import round_permutation
from sigmascope.stitching.tracing import cut_sites
from sigmascope.symmetry.action import move
from tests.stitching.small import equal, state
from tests.symmetry.lively import images, lively

FOLDER = Path(__file__).parents[1] / "golden"
STITCHES = dict(np.load(FOLDER / "symmetry_stitching.npz"))
NETWORKS_GOLDEN = dict(np.load(FOLDER / "symmetry_move.npz"))


class Block(nn.Module):
    """A residual block with a projection on its shortcut, its activations functions."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.shortcut = nn.Sequential(
            nn.Conv2d(width_in, width, 1, 2, bias=False), nn.BatchNorm2d(width)
        )
        self.conv1, self.bn1 = (
            nn.Conv2d(width_in, width, 3, 2, 1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        y += self.shortcut(x)
        return F.relu(y)


class Projected(nn.Module):
    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.stem, self.relu = nn.Conv2d(3, width, 3, padding=1), nn.ReLU(inplace=True)
        self.block1, self.block2 = Block(width, 2 * width), Block(2 * width, 2 * width)
        self.head = nn.Linear(2 * width, 4)

    def forward(self, x: Tensor) -> Tensor:
        batch = x.shape[0]
        x = self.block2(self.block1(self.relu(self.stem(x))))
        return self.head(x.mean((2, 3)).view(batch, -1))


def mlp(sigma: type[nn.Module] = nn.ReLU) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(192, 6), sigma(), nn.Linear(6, 5), sigma(), nn.Linear(5, 3)
    )


CASES = {
    "mlp": mlp,
    "myrtle": lambda: MyrtleCNN(widths=(2, 4, 8, 16)),
    "resnet": lambda: ResNet(8),
    "plain": lambda: ResNet(8, residual=False),
    "projected": Projected,
}
SIDES = {"mlp": 8, "myrtle": 32}


def features_of(network: nn.Module, other: nn.Module, at: str, x: Tensor) -> tuple[Tensor, Tensor]:
    joint = prepare(network, other, site=at, inputs=x)
    one, two = (half.before(x)[0] for half in (joint.front, joint.back))
    return tuple(value.movedim(1, -1).flatten(0, -2) for value in (one, two))  # type: ignore[return-value]


def element_between(network: nn.Module, other: nn.Module, at: str, x: Tensor) -> Tensor:
    """The group element that takes the features of one to those of the other."""
    one, two = features_of(network, other, at, x)
    fit = FAMILIES["permutation"].fit
    assert fit is not None
    found = fit(Moments(one.T @ one, one.T @ two, two.square().sum(dim=0)))
    torch.testing.assert_close(one @ found.T, two, atol=1e-9, rtol=1e-9)  # it is one
    return found


@pytest.mark.parametrize("name", CASES)
def test_theorem_4_2(name: str) -> None:
    """A network stitched to its moved copy by φ(A) is the network, in both directions; by another
    element it is not.
    """
    model = lively(CASES[name]())
    x = images(SIDES.get(name, 16), count=12)
    other = move(model, seed=3, example_input=x)
    expected = model(x)
    outer = [site for site in cut_sites(model) if not site.inner]
    assert outer
    for site in outer:
        element = element_between(model, other, site.name, x)
        for front, back, psi in (
            (model, other, element),
            (other, model, torch.linalg.inv(element)),
        ):
            stitched = assemble(front, back, site=site.name, inputs=x, stitch=psi)
            torch.testing.assert_close(stitched(x), expected, atol=1e-9, rtol=1e-9)
            wrong = assemble(front, back, site=site.name, inputs=x, stitch=psi.roll(1, 0))
            assert (wrong(x) - expected).abs().max() > 1e-4


@pytest.mark.parametrize(
    ("sigma", "name"), [(nn.ReLU, "relu"), (nn.Tanh, "tanh"), (nn.Sigmoid, "sigmoid")]
)
def test_theorem_4_2_with_a_given_element(sigma: type[nn.Module], name: str) -> None:
    model, x = lively(mlp(sigma)), images(8, count=5)
    group = sg.symmetry.group(name)
    element = group.draw(6, 5)
    other = move(model, {"1": element})
    stitched = assemble(model, other, site="2", inputs=x, stitch=group.phi(element))
    torch.testing.assert_close(stitched(x), model(x), atol=1e-12, rtol=0)


class Square(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x**2


def test_theorem_4_2_needs_phi() -> None:
    """For x² the features move by φ(A), the squares of the scales, and not by A; the site is a
    module that is no activation.
    """
    model, x = lively(mlp(Square)), images(8, count=5)
    element = sg.symmetry.group("power", degree=2).draw(6, 5)
    other = move(model, {"1": element})
    phi = sg.symmetry.group("power", degree=2).phi(element)
    torch.testing.assert_close(
        assemble(model, other, site="2", inputs=x, stitch=phi)(x), model(x), atol=1e-9, rtol=1e-9
    )
    assert (
        assemble(model, other, site="2", inputs=x, stitch=element)(x) - model(x)
    ).abs().max() > 1e-2


def test_inside_a_block_no_stitch_is_right() -> None:
    """E.54: what goes past the site keeps the coordinates of the front. Where these do not move,
    the stitch is right again.
    """
    model, x = lively(ResNet(8)), images(16, count=12)
    for other, right in (
        (move(model, seed=3, example_input=x), False),
        (
            move(model, {"blocks.1.act1": sg.symmetry.group("relu").draw(32, 1)}, example_input=x),
            True,
        ),
    ):
        element = element_between(model, other, "blocks.1.act1", x)
        stitched = assemble(model, other, site="blocks.1.act1", inputs=x, stitch=element)
        assert ((stitched(x) - model(x)).abs().max() < 1e-9) == right


def test_sites_inside_blocks_are_marked() -> None:
    marks = [str(site) for site in cut_sites(ResNet(8))]
    blocks = [f"blocks.{k}.{act}" for k in range(3) for act in ("act1*", "act2")]
    assert marks == ["act1", *blocks]
    assert [str(site) for site in cut_sites(Projected())] == [
        "relu",
        "block1*",
        "block1#1",
        "block2*",
        "block2#1",
    ]
    assert not any(site.inner for site in cut_sites(MyrtleCNN(widths=(2, 4, 8, 16))))


@pytest.mark.parametrize(
    "name", ["resnet20", "myrtle", "densenet", "googlenet", "mobilenetv2", "vit", "convnext", "vgg"]
)
def test_sites_are_named_as_signatures_name_them(name: str) -> None:
    model = NETWORKS[name]().eval()
    seen: list[str] = []

    def observe(call: Any, x: Tensor) -> None:
        seen.append((call.path or "(network)") + (f"#{call.number}" if call.number else ""))

    with sg.recording(model, observe):
        model(torch.zeros(2, 3, 32, 32))
    assert [site.name for site in cut_sites(model)] == seen


def test_a_projection_goes_with_the_output_of_its_block() -> None:
    """At a block's output the front's projection is used; inside, the back's, on what the front
    puts into the block.
    """
    front, back, x = lively(Projected(), 1), lively(Projected(), 2), images(16)
    z = F.relu(front.stem(x))
    at_output = assemble(front, back, site="block1#1", inputs=x)(x)
    torch.testing.assert_close(at_output, back.head(back.block2(front.block1(z)).mean((2, 3))))
    inside = F.relu(front.block1.bn1(front.block1.conv1(z)))
    y = back.block1.bn2(back.block1.conv2(inside)) + back.block1.shortcut(z)
    expected = back.head(back.block2(F.relu(y)).mean((2, 3)))
    torch.testing.assert_close(assemble(front, back, site="block1", inputs=x)(x), expected)


def test_buffers_travel_and_inputs_stay() -> None:
    front, back, x = (
        lively(MyrtleCNN(widths=(2, 4, 8, 16)), 1),
        lively(MyrtleCNN(widths=(2, 4, 8, 16)), 2),
        images(32),
    )
    before = state(front), state(back)
    stitched = assemble(front, back, site="5", inputs=x)
    torch.testing.assert_close(stitched(x), nn.Sequential(*list(front)[:6], *list(back)[6:])(x))
    stitched.train()
    stitched(x)
    assert equal(state(front), before[0])
    assert equal(state(back), before[1])
    assert not front.training
    assert all(parameter.requires_grad for parameter in front.parameters())
    own = {id(parameter) for parameter in (*front.parameters(), *back.parameters())}
    assert not own & {id(parameter) for parameter in stitched.parameters()}


@pytest.mark.parametrize("number", [3, 6, 10, 14])
def test_stitched_networks_are_the_published_ones(number: int) -> None:
    pair = []
    for name in "ab":
        network = MyrtleCNN(widths=(2, 4, 8, 16))
        prefix = f"mcnn_{name}__"
        weights = {
            k.removeprefix(prefix): torch.from_numpy(v)
            for k, v in NETWORKS_GOLDEN.items()
            if k.startswith(prefix)
        }
        network.load_state_dict({k: v for k, v in weights.items() if k != "logits"}, strict=False)
        pair.append(network.eval())
    site = [name for name, _ in pair[0].named_modules()][number]
    x = torch.from_numpy(NETWORKS_GOLDEN["mcnn__x"])
    soft, scales = (
        torch.from_numpy(STITCHES[f"stitch{number}__{part}"]) for part in ("perms", "scalars")
    )
    stitched = assemble(*pair, site=site, inputs=x, stitch=round_permutation(soft) * scales)
    expected = torch.from_numpy(STITCHES[f"stitch{number}__logits_eval"])
    torch.testing.assert_close(stitched(x), expected, atol=1e-5, rtol=0)


def test_a_module_may_be_a_site() -> None:
    front, back, x = lively(ResNet(8), 1), lively(ResNet(8), 2), images(16)
    by_module = assemble(front, back, site="blocks.1", inputs=x)(x)
    torch.testing.assert_close(
        by_module, assemble(front, back, site="blocks.1.act2", inputs=x)(x), atol=0, rtol=0
    )
    torch.testing.assert_close(
        by_module, assemble(front, back, site="blocks.1.act2#0", inputs=x)(x), atol=0, rtol=0
    )


def test_tokens_are_stitched_on_their_last_axis() -> None:
    vit = NETWORKS["vit"]().eval()
    joint = prepare(vit, vit, site="blocks.2", inputs=torch.zeros(2, 3, 32, 32))
    assert (joint.style, joint.channels, joint.site.inner) == (
        "linear",
        vit.blocks[0].norm1.weight.numel(),
        False,
    )


def test_a_parameter_that_both_sides_use_is_each_side_its_own() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.head = nn.Parameter(torch.randn(4, 4)), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            weight = self.weight * 2
            return self.head(torch.relu(torch.relu(x @ weight) @ weight))

    torch.manual_seed(0)
    front, back, x = Tied(), Tied(), torch.randn(3, 4)
    expected = back.head(torch.relu(torch.relu(x @ front.weight * 2) @ back.weight * 2))
    torch.testing.assert_close(assemble(front, back, site="(network)", inputs=x)(x), expected)
    assert not cut_sites(front)[0].inner


def test_a_wrong_name_lists_the_choices() -> None:
    model, x = ResNet(8).eval(), torch.zeros(2, 3, 16, 16)
    with pytest.raises(
        sg.OptionError,
        match=r"site='blocks\.1\.act' is not in .*Did you mean 'blocks\.1\.act.'.*act1, blocks",
    ):
        assemble(model, model, site="blocks.1.act", inputs=x)


class Deciding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Decision()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


class Decision(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x) if x.sum() > 0 else x


class ToldDropout(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(torch.relu(x), 0.5, self.training)


class Hidden(nn.Module):
    """Changes a value in place where the graph does not show it."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(x)
        y.add_(1)
        return y


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.relu(x), x


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (Deciding(), "Deciding cannot be traced in inner .*must not branch on values"),
        (ToldDropout(), "computes something else in training mode.*nn.Dropout"),
        (Hidden(), "joined again, the network computes something else.*in-place"),
        (Pair(), r"does not return one tensor \(n, classes\)"),
    ],
)
def test_networks_that_cannot_be_cut(model: nn.Module, match: str) -> None:
    with pytest.raises(sg.NetworkError, match=match):
        assemble(model, model, site="(network)", inputs=torch.randn(3, 4))


def test_networks_must_be_alike() -> None:
    x = torch.zeros(2, 3, 32, 32)
    with pytest.raises(
        sg.NetworkError, match="operation 2 is ReLU 1 in the front and Tanh 1 in the back"
    ):
        assemble(
            nn.Sequential(nn.Flatten(), nn.ReLU()),
            nn.Sequential(nn.Flatten(), nn.Tanh()),
            site="1",
            inputs=x,
        )
    with pytest.raises(sg.NetworkError, match="differ in structure"):
        assemble(ResNet(8), ResNet(14), site="act1", inputs=x)
    with pytest.raises(
        sg.NetworkError,
        match=r"the front ResNet and the back MyrtleCNN differ in structure: operation 1 is Conv2d",
    ):
        assemble(ResNet(8), MyrtleCNN(), site="act1", inputs=x)
    with pytest.raises(sg.NetworkError, match="the front one and the back two differ in structure"):
        prepare(ResNet(8), ResNet(14), site="act1", inputs=x, names=("one", "two"))
    with pytest.raises(
        sg.InputError, match=r"the front has features \(2, 32, 32\) and the back \(3, 32, 32\)"
    ):
        assemble(
            MyrtleCNN(widths=(2, 4, 8, 16)).eval(),
            MyrtleCNN(widths=(3, 6, 12, 24)).eval(),
            site="2",
            inputs=x,
        )
    with pytest.raises(sg.InputTypeError, match=r"not a torch\.nn\.Module"):
        assemble(ResNet, ResNet(8), site="act1", inputs=x)  # type: ignore[arg-type]


def test_the_value_must_have_a_row_for_each_sample() -> None:
    class Mean(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.relu(x.mean(0))

    with pytest.raises(sg.NetworkError, match="not a tensor with one row per sample"):
        assemble(Mean(), Mean(), site="(network)", inputs=torch.randn(3, 4))
