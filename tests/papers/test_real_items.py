"""Items on networks of others: rules that can fail, images in honest groups, stored signatures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import sigmascope as sg
from sigmascope.errors import InputError, OptionError
from sigmascope.maths.grouped_sums import GROUPS
from sigmascope.measure.result import Signature
from sigmascope_papers.item import FAILS, HOLDS, OURS, UNTESTED, WEAKLY, Check
from sigmascope_papers.nonlinearity import places
from sigmascope_papers.nonlinearity.lineup import Lineup
from sigmascope_papers.real import (
    before,
    builders,
    capped,
    companions,
    decade,
    images,
    measuring,
    residual,
)
from sigmascope_papers.real.measuring import POPULATION, by_population, is_scored
from sigmascope_papers.real.networks import NETWORKS, as_caffe, network, normalized
from sigmascope_papers.real.proofs import Proof
from sigmascope_papers.setting import Setting
from sigmascope_papers.table import PAPERS, item
from tests.compare.made import made
from tests.papers.staged import verdicts


def both(name: str, scores: Any, population: Any = None, **more: Any) -> Signature:
    """A signature with published and population scores, the same by default."""
    found = made(name, scores, **more)
    others = scores if population is None else population
    sites = [
        replace(site, population=float(other))
        for site, other in zip(found.sites, others, strict=True)
    ]
    return replace(found, sites=tuple(sites), options=replace(found.options, estimator="both"))


def split_network(name: str, gap: float, blocks: int = 9) -> Signature:
    """Scores around 0.5 inside the blocks, and higher by a gap at their ends."""
    random = np.random.default_rng(len(name))
    return both(name, np.tile([0.5, 0.5 + gap], blocks) + random.normal(0, 0.01, 2 * blocks))


def networks(*gaps: float, plain: float = 0.0) -> residual.Residual:
    """ResNets of ImageNet and CIFAR-10 with these gaps, the shallowest first, and a plain one."""
    first = zip(residual.IMAGENET, gaps, strict=False)
    return residual.Residual(
        {name: split_network(name, gap) for name, gap in first},
        {name: split_network(name, gap) for name, gap in zip(residual.CIFAR, gaps, strict=True)},
        {name: split_network(name, plain) for name in residual.PLAIN},
    )


ENDS = "activations at the end of a block score above those inside, "
MODES = "the scores of residual networks have two modes, "
PLAIN = "ours: in MobileNetV1, without residual connections, they do not"
GAP, APART = "the gap widens with depth, ", "the two are apart at every depth, "


def test_a_split_holds_and_its_absence_is_noticed() -> None:
    found = verdicts(item("real-fig7").judge(networks(0.3, 0.31, 0.32, 0.33, 0.34, 0.35)))
    assert set(found.values()) == {HOLDS}
    assert {ENDS + "on ImageNet", POPULATION + ENDS + "on CIFAR-10", PLAIN} <= set(found)
    none = verdicts(item("real-fig7").judge(networks(*[0.0] * 6, plain=0.3)))
    assert none[ENDS + "on ImageNet"] == none[MODES + "on CIFAR-10"] == none[PLAIN] == FAILS
    one = networks(*[0.3] * 5, 0.0)  # the deepest of CIFAR-10 alone
    assert verdicts(item("real-fig7").judge(one))[ENDS + "on CIFAR-10"] == FAILS
    assert verdicts(item("real-fig7").judge(one))[MODES + "on CIFAR-10"] == WEAKLY


def test_population_scores_are_judged_apart() -> None:
    found = networks(*[0.3] * 6)
    name, one = next(iter(found.cifar.items()))
    flat = [replace(site, population=0.5 + 0.001 * n) for n, site in enumerate(one.sites)]
    checks = item("real-fig7").judge(
        replace(found, cifar={**found.cifar, name: replace(one, sites=tuple(flat))})
    )
    assert verdicts(checks)[ENDS + "on CIFAR-10"] == HOLDS
    assert verdicts(checks)[POPULATION + ENDS + "on CIFAR-10"] == FAILS
    assert all(check.claim.startswith(OURS) for check in checks if check.verdict == FAILS)


def test_without_scores_at_the_ends_nothing_is_judged() -> None:
    found = networks(*[0.3] * 6)
    bare = both("resnet18", [0.5, np.nan] * 9)
    checks = item("real-fig7").judge(replace(found, imagenet={**found.imagenet, "resnet18": bare}))
    assert verdicts(checks)[ENDS + "on ImageNet"] == UNTESTED
    assert "too few scores in ResNet-18" in [check.obtained for check in checks]


def test_the_gap_by_depth() -> None:
    rising = verdicts(item("real-fig15").judge(networks(0.1, 0.2, 0.3, 0.4, 0.45, 0.47)))
    assert rising[GAP + "on CIFAR-10"] == rising[APART + "on CIFAR-10"] == HOLDS
    once = verdicts(item("real-fig15").judge(networks(0.1, 0.3, 0.2, 0.4, 0.45, 0.47)))
    assert once[GAP + "on CIFAR-10"] == WEAKLY
    falling = verdicts(item("real-fig15").judge(networks(0.4, 0.3, 0.2, 0.15, 0.1, 0.05)))
    assert falling[GAP + "on CIFAR-10"] == falling[GAP + "on ImageNet"] == FAILS


def test_lines_between_many_calls_get_thinner() -> None:
    few, many = (both(str(blocks), [0.5, 0.9] * blocks) for blocks in (50, 300))
    panels = places.draw_panels([few, many], [places.places_in(one) for one in (few, many)], "ab")
    thick, thin = (
        max(line.get_linewidth() for line in panel.lines if line.get_linestyle() == "-")
        for panel in panels.figure.axes
    )
    assert thin == pytest.approx(thick * places.MANY / 600)


def lineup(**changes: tuple[float, float]) -> Lineup:
    """The decade with scores between two numbers that rise with the years, or the given ones."""
    made_up = {}
    for member in decade.CAST.members:
        low, high = 0.5 - 0.02 * (member.year - 2012), 0.6 + 0.03 * (member.year - 2012)
        low, high = (0.3, 0.4) if member.group == "ViTs" else (low, high)
        low, high = changes.get(member.group, (low, high))
        scores = high - (high - low) * np.linspace(0, 1, 12) ** 4
        made_up[member.name] = both(member.name, scores)
    return Lineup(decade.CAST, made_up)


def test_the_decade() -> None:
    rises = "until 2019 the median rises with the years"
    found = verdicts(decade.ITEMS["real-fig5a"].judge(lineup()))
    assert found[rises] == found[POPULATION + rises] == HOLDS
    assert set(found.values()) <= {HOLDS, WEAKLY}
    worse = verdicts(decade.ITEMS["real-fig5a"].judge(lineup(VGGs=(0.1, 0.99), ViTs=(0.9, 0.95))))
    assert worse["early convolutional networks spread little"] == FAILS
    assert worse["ViTs are more non-linear than all before"] == FAILS
    without = lineup()
    bare = by_population(without.signatures["resnet18"])
    sparse = [replace(site, population=np.nan) for site in bare.sites[3:]]
    half = replace(without.signatures["resnet18"], sites=(*bare.sites[:3], *sparse))
    assert not is_scored(half)
    assert is_scored(without.signatures["resnet18"])


@pytest.mark.parametrize("batches", [1, 2])
def test_the_decade_tells_of_single_batches_only_where_there_are_several(batches: int) -> None:
    found = lineup()
    several = {
        name: replace(
            one, sites=tuple(replace(site, scores=(site.score,) * batches) for site in one.sites)
        )
        for name, one in found.signatures.items()
    }
    told = {
        check.claim: check.obtained
        for check in decade.ITEM.judge(replace(found, signatures=several))
    }
    assert ("single batches" in told["until 2019 the median rises with the years"]) == (batches > 1)
    # there is one ViT, whose median is no range
    own = told["ViTs are more non-linear than all before"].partition(", before ")[0]
    assert own == "0.393"


def test_relu6_beside_relu() -> None:
    own = np.linspace(0.6, 0.9, 20)

    def judged(gap: float, few: float = 0.0) -> dict[str, str]:
        other = own + gap
        other[:1] += few
        one = capped.Beside({name: np.array([own, other]) for name in capped.CAPPED})
        return verdicts(capped.ITEM.judge({"published": one, "population": one}))

    more, alike = (
        "ReLU6 is more non-linear than ReLU on the same inputs",
        "ReLU6 and ReLU have very similar scores",
    )
    assert judged(0.01) == {more: HOLDS, alike: HOLDS, POPULATION + more: HOLDS} | {
        POPULATION + alike: HOLDS
    }
    assert judged(0.01, 0.2)[alike] == WEAKLY
    assert judged(0.03)[alike] == judged(-0.01)[more] == FAILS
    assert judged(-0.001, 0.1)[more] == WEAKLY  # above in the mean, by one call


def test_both_functions_see_the_same_inputs() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 6), nn.ReLU6(), nn.Linear(6, 6), nn.ReLU6())
    batch = 5 * torch.randn(64, 4)
    expected, alone = plain(batch), sg.signature(plain, batch, progress=False)
    beside = measuring.with_relu_beside(plain)
    assert torch.equal(beside(batch), expected)
    found = sg.signature(beside, batch, progress=False)
    assert [site.kind for site in found.sites] == ["relu", "relu6"] * 2
    pairs = capped._pairs(found, "published")
    assert np.array_equal(pairs[0], alone.scores)
    relu = sg.signature(nn.Sequential(plain[0], nn.ReLU()), batch, progress=False)
    assert pairs[1, 0] == relu.scores[0]
    assert abs(pairs[1, 0] - pairs[0, 0]) > 1e-3


def test_training_and_its_absence() -> None:
    names = before.LIGHT
    rising, low = np.linspace(0.5, 0.99, 10), np.full(10, 0.5) + 0.01 * np.arange(10)

    def judged(first: Any, last: Any) -> dict[str, str]:
        found = before.Trainings(
            {name: both(name, first) for name in names}, {name: both(name, last) for name in names}
        )
        return verdicts(before.ITEM.judge(found))

    assert set(judged(rising, low).values()) == {HOLDS}
    turned = judged(low[::-1], rising)
    assert turned["training makes networks more non-linear"] == FAILS
    assert turned["at initialization the score of plain networks increases with depth"] == FAILS
    assert judged(low, low + 0.001)["the signature tells training from none"] == FAILS


def test_rows_of_the_papers_table() -> None:
    scores = np.linspace(0.4, 0.9, 20)

    def judged(sign: float) -> list[Check]:
        random = np.random.default_rng(0)
        metrics = {
            metric: sign * scores + random.normal(0, 0.05, 20) for metric in companions.METRICS
        }
        some = [made(name, scores, metrics) for name in companions.NAMES]
        found = sg.correlations(some)
        return companions.ITEMS["real-table2"].judge(companions.Rows(found, found, trained=False))

    claims = verdicts(judged(1.0))
    assert claims["no metric can replace the score"] == FAILS
    assert claims["correlations differ between networks"] == FAILS
    assert claims["resnet18"] == FAILS  # its signs differ in the paper
    assert [claim for claim in claims if claim.startswith(f"{OURS} resnet50")]
    assert not [claim for claim in claims if "mobilenet" in claim]  # not in the paper


# Images


@pytest.fixture
def made_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of one gray each, its number, of several sizes."""
    some = [Image.new("RGB", (40 + n % 7, 60 - n % 5), (n, n, n)) for n in range(images.PICTURES)]
    monkeypatch.setattr(images, "pictures", lambda: some)


@pytest.mark.usefixtures("made_pictures")
def test_all_crops_of_a_picture_are_in_one_group_of_samples() -> None:
    assert images.PICTURES % GROUPS == 0
    count = 2 * images.PICTURES + 24
    batches = list(images.Samples("pictures", count, 50, 8, lambda rgb: rgb))
    assert [len(batch) for batch in batches] == [50] * 8 + [8]
    shown = (255 * torch.cat(batches)[:, 0, 0, 0]).round().long()
    number = torch.arange(count)
    groups = {int(p): set((number[shown == p] % GROUPS).tolist()) for p in shown.unique()}
    assert len(groups) == images.PICTURES
    assert all(len(of) == 1 for of in groups.values())


def test_crops_are_inside_their_picture_and_differ() -> None:
    boxes = [images.box_of((40, 90), (3, turn))[0] for turn in range(1, 200)]
    left, top, right, bottom = np.array(boxes).T
    assert (left >= 0).all()
    assert (top >= 0).all()
    assert (right <= 40 + 1e-9).all()
    assert (bottom <= 90 + 1e-9).all()
    assert len(set(boxes)) == len(boxes)
    assert images.box_of((40, 90), (3, 1)) == images.box_of((40, 90), (3, 1))


def test_the_first_crop_is_the_middle() -> None:
    picture = Image.new("RGB", (400, 200), "black")
    picture.paste("white", (150, 50, 250, 150))
    found = images.tensor_of(images.middle(picture, 56))
    assert found.shape == (3, 56, 56)
    assert found[:, 28, 28].tolist() == [1, 1, 1]
    assert found[:, :8].max() == 0


def test_preparations() -> None:
    rgb = torch.tensor([1.0, 0.5, 0.0]).reshape(1, 3, 1, 1)
    caffe = as_caffe(rgb).flatten()
    assert torch.allclose(caffe, torch.tensor([-103.939, 127.5 - 116.779, 255 - 123.68]))
    assert normalized(rgb).flatten()[0] == pytest.approx((1 - 0.485) / 0.229)


# Networks and settings


def test_a_cifar_resnet_has_the_calls_of_its_table() -> None:
    torch.manual_seed(0)
    model = builders.settle(builders.CifarResNet(20), torch.randn(16, 3, 32, 32))
    found = sg.signature(model, torch.randn(24, 3, 32, 32), estimator="published", progress=False)
    assert len(found.sites) == network("cifar-resnet20").calls["relu"]
    block = model.get_submodule("layer2.0").eval()
    x = torch.randn(2, 16, 8, 8).relu()
    block.bn2.weight.data.zero_()  # only the shortcut is left
    out = block(x)
    assert torch.equal(out[:, 8:24], x[:, :, ::2, ::2])
    assert not out[:, :8].any()
    assert not out[:, 24:].any()


def test_mobilenet_v1_has_the_calls_of_its_table() -> None:
    with torch.device("meta"):
        model = builders.mobilenet_v1()
    relus = [one for one in model.modules() if isinstance(one, nn.ReLU)]
    assert len(relus) == network("mobilenet_v1").calls["relu"]
    assert model(torch.empty(2, 3, 224, 224, device="meta")).shape == (2, 1000)


def test_an_unknown_network_is_named() -> None:
    with pytest.raises(OptionError, match=r"network='resnet19' is not a valid choice"):
        network("resnet19")
    assert not Proof("", 0.5, 0.6).convinces


@pytest.mark.parametrize("name", ["real-fig7", "language-depth", "language-replace"])
@pytest.mark.parametrize(
    "changes",
    [
        {"networks": ("sigmascope/resnet20:0",)},
        {"weights": "default", "data": "imagefolder:x"},
        {"weights": "none", "data": "noise", "limit": 8},
    ],
)
def test_items_with_networks_of_their_own_take_no_others(name: str, changes: Any) -> None:
    folder = name.partition("-")[0]
    with pytest.raises(InputError, match=f"Items {folder}-… have networks and data of their own"):
        item(name).measure(Setting(**changes))


def test_what_is_not_stored_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"real.* has no signature of resnet18"):
        item("real-fig7").measure(Setting(results=tmp_path))


def test_a_measured_network_is_kept_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def random(start: int, stop: int, side: int) -> torch.Tensor:
        generators = [torch.Generator().manual_seed(number) for number in range(start, stop)]
        return torch.stack([torch.rand(3, side, side, generator=one) for one in generators])

    torch.manual_seed(0)
    tiny = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10))
    one = replace(NETWORKS["cifar-resnet20"], name="tiny", load=lambda: tiny, side=8)
    monkeypatch.setitem(NETWORKS, "tiny", one)
    monkeypatch.setitem(images.SOURCES, "pictures", random)
    monkeypatch.setattr(measuring, "prove", lambda *_: None)
    monkeypatch.setattr(measuring, "BATCH", 64)
    monkeypatch.setattr(measuring, "OF_IMAGENET", 128)
    setting = Setting(from_scratch=True, keep=tmp_path, progress=False)
    found = measuring.signatures(setting, ["tiny"])["tiny"]
    assert (found.batches, found.sites[0].n, found.sites[0].population_n) == (2, 64, 128)
    assert set(found.sites[0].metrics) >= {"cka", "norm", "sparsity", "entropy", "r2"}
    assert list((tmp_path / "real" / "pictures").glob("tiny-*.json"))
    monkeypatch.setattr(measuring, "prove", None)  # it would be needed to measure again
    assert measuring.signatures(setting, ["tiny"])["tiny"].scores.tolist() == found.scores.tolist()


@pytest.mark.parametrize("name", PAPERS["real"])
def test_stored_signatures_are_judged_and_drawn(name: str) -> None:
    one = item(name)
    found = one.measure(Setting())
    checks = one.judge(found)
    assert len(verdicts(checks)) == len(checks) >= 3
    drawn = one.draw(found)
    assert drawn
    assert all(part.table for part in drawn.values())
