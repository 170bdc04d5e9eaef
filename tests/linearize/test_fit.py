"""A whole linearization: what each part of the data is for, and what is left after a kill."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import sigmascope as sg
from sigmascope.errors import FileFormatError, InputError, InputTypeError, OptionError, ResumeError
from sigmascope.linearize import Judgment, Linearization, Split, fit
from sigmascope.linearize.fitting import spaced
from sigmascope.linearize.linearization import CurvePoint, best_of
from sigmascope.store import claim, write_json

QUICK: dict[str, Any] = {"budget": 2, "by": "r2", "epochs": 2, "fold": False, "progress": False}


def samples(n: int = 600, seed: int = 0) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, 6, generator=torch.Generator().manual_seed(seed))
    return x, (x[:, :3] + x[:, 3:].square()).argmax(1)


def net() -> nn.Sequential:
    """Return a small network that was trained."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for width in (6, 16, 16):
        layers += [nn.Linear(width, 16), nn.BatchNorm1d(16), nn.ReLU()]
    made = nn.Sequential(*layers, nn.Linear(16, 3))
    return sg.linearize.tune(made, samples(), epochs=6, rate=0.1, batch=32).network.eval()  # type: ignore[return-value]


@pytest.fixture(scope="module")
def network() -> nn.Sequential:
    return net()


def data() -> Split:
    return Split.divided(samples())


def files(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir()}


def test_a_fit_is_its_parts(network: nn.Sequential) -> None:
    split = data()
    found = fit(network, split, **QUICK)
    plan = sg.linearize.plan(network, [split.held_out], budget=2, by="r2")
    assert [site.name for site in found.plan.chosen] == [site.name for site in plan.chosen]
    made = sg.linearize.apply(network, found.plan)
    tuned = sg.linearize.tune(
        made, split.train, teacher=network, held_out=[split.held_out], epochs=2, batch=16
    )
    best = found.chosen
    assert best.epochs == 2
    assert found.network is not None
    assert torch.equal(found.network(split.test[0]), tuned.network(split.test[0]))
    assert [epoch.loss for epoch in found.tunings[0].history] == tuned.losses
    right = (tuned.network(split.test[0]).argmax(1) == split.test[1]).float().mean()
    assert found.after.accuracy == pytest.approx(100 * float(right), abs=1e-4)
    assert found.samples == sg.linearize.linearization.Sizes(360, 120, 120)


def test_the_curve_has_every_number_in_the_order_of_the_ranking(network: nn.Sequential) -> None:
    split = data()
    found = fit(network, split, **{**QUICK, "epochs": 0})
    assert [(one.replaced, one.left) for one in found.points] == [(0, 3), (1, 2), (2, 1), (3, 0)]
    assert [one.elements for one in found.points] == [48, 32, 16, 0]
    assert found.tunings == ()
    assert found.settings is None
    for point in found.points[1:]:
        made = sg.linearize.apply(network, found.plan.with_budget(point.replaced))
        right = (made(split.held_out[0]).argmax(1) == split.held_out[1]).float().mean()
        assert point.held_out.accuracy == pytest.approx(100 * float(right), abs=1e-4)


def test_points_and_baseline_are_tuned_from_the_original(network: nn.Sequential) -> None:
    found = fit(network, data(), **{**QUICK, "epochs": 1, "budget": 3}, points=2, baseline=True)
    assert [one.replaced for one in found.tunings] == [0, 2, 3]
    assert [one.replaced for one in found.curve(tuned=True)] == [0, 2, 3]


def test_the_test_data_is_read_in_the_end_only(network: nn.Sequential) -> None:
    split = data()
    reads: list[str] = []

    class Noted:
        def __init__(self, name: str, batches: list[Any]) -> None:
            self.name, self.batches = name, batches

        def __iter__(self) -> Any:
            reads.append(self.name)
            return iter(self.batches)

        def __len__(self) -> int:
            return len(self.batches)

    noted = Split(
        Noted("train", [split.train]), Noted("held", [split.held_out]), Noted("test", [split.test])
    )
    fit(network, noted, **QUICK)
    first = reads.index("test")
    assert set(reads[:first]) == {"train", "held"}
    assert "held" not in reads[first:]


def test_what_tuning_makes_worse_is_not_taken(network: nn.Sequential) -> None:
    found = fit(network, data(), **{**QUICK, "budget": 1, "epochs": 1}, rate=3.0, clip=0.5)
    assert found.chosen.epochs == 0
    assert "the result is not tuned" in repr(found)
    made = sg.linearize.apply(network, found.plan)
    assert found.network is not None
    assert torch.equal(found.network(samples()[0]), made(samples()[0]))


def test_a_fold_computes_the_same(network: nn.Sequential) -> None:
    found = fit(network, data(), **{**QUICK, "fold": True})
    plain = fit(network, data(), **QUICK)
    assert found.folding is not None
    assert plain.folding is None
    assert found.network is not None
    assert plain.network is not None
    torch.testing.assert_close(found.network(samples()[0]), plain.network(samples()[0]))
    assert found.after.accuracy == plain.after.accuracy
    assert "folded: " in repr(found)


def test_a_loader_that_shuffles_is_the_same_data_again(
    network: nn.Sequential, tmp_path: Path
) -> None:
    def shuffled(n: int, seed: int) -> DataLoader[Any]:
        return DataLoader(TensorDataset(*samples(n, seed)), batch_size=16, shuffle=True)

    def made(folder: Path, seed: int = 1) -> Linearization:
        split = Split(shuffled(64, seed), shuffled(32, 2), shuffled(32, 3))
        return fit(network, split, **{**QUICK, "epochs": 1}, folder=folder)

    torch.manual_seed(1)
    first = made(tmp_path / "one")
    torch.manual_seed(2)
    again, other = made(tmp_path / "one"), made(tmp_path / "two")
    assert again.after == first.after
    assert first.network is not None
    assert other.network is not None
    assert torch.equal(other.network(samples()[0]), first.network(samples()[0]))
    with pytest.raises(ResumeError, match=r"data\.train"):
        made(tmp_path / "one", seed=7)


def test_the_network_is_left_alone(network: nn.Sequential) -> None:
    before = {name: value.clone() for name, value in network.state_dict().items()}
    torch.manual_seed(1)
    wanted = torch.rand(1)
    torch.manual_seed(1)
    fit(network, data(), **QUICK)
    assert torch.equal(torch.rand(1), wanted)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert not network.training


# directories


def test_a_finished_fit_is_read_again(network: nn.Sequential, tmp_path: Path) -> None:
    found = fit(network, data(), **QUICK, folder=tmp_path)
    assert sorted(files(tmp_path)) == [
        "linearization.json",
        "network.json",
        "network.safetensors",
        "plan.json",
        "plan.safetensors",
        "request.json",
    ]
    before = files(tmp_path)
    again = fit(network, data(), **QUICK, folder=tmp_path)
    assert files(tmp_path) == before
    assert repr(again) == repr(found)
    x = samples()[0]
    assert found.network is not None
    for other in (again.network, sg.linearize.load(tmp_path, net())):
        assert other is not None
        assert torch.equal(other(x), found.network(x))
    for loaded in (sg.load(tmp_path), sg.load(tmp_path / "linearization.json")):
        assert isinstance(loaded, Linearization)
        assert repr(loaded) == repr(found)
        assert loaded.network is None
    assert repr(sg.load(tmp_path / "plan.json")) == repr(found.plan)
    assert isinstance(sg.load(tmp_path / "network.json"), sg.linearize.SavedNetwork)
    with pytest.raises(FileFormatError, match=r"not finished\. Run the same command again"):
        sg.load(tmp_path / "request.json")


class Stop(BaseException):
    """Stands for a kill."""


def test_a_killed_fit_goes_on(network: nn.Sequential, tmp_path: Path) -> None:
    whole = fit(network, data(), **QUICK)
    steps = 0

    def forward(model: nn.Module, batch: Any) -> Any:
        nonlocal steps
        steps += model.training
        if steps == 30:  # of 22 in an epoch
            steps += 1
            raise Stop("in the second epoch")
        return model(batch[0])

    with pytest.raises(Stop, match="in the second epoch"):
        fit(network, data(), **QUICK, folder=tmp_path, forward=forward)
    assert {".tune-2.checkpoint", "plan.json"} <= files(tmp_path).keys()
    assert "linearization.json" not in files(tmp_path)
    before = steps
    found = fit(network, data(), **QUICK, folder=tmp_path, forward=forward)
    assert steps == before + 22  # the second epoch only
    x = samples()[0]
    assert found.network is not None
    assert whole.network is not None
    assert torch.equal(found.network(x), whole.network(x))
    assert repr(found) == repr(whole)
    assert ".tune-2.checkpoint" not in files(tmp_path)


def test_directories_of_others_are_refused(network: nn.Sequential, tmp_path: Path) -> None:
    fit(network, data(), **QUICK, folder=tmp_path)
    before = files(tmp_path)
    cases: list[tuple[str, dict[str, Any]]] = [
        ("budget is '2 sites' there and '1 site' here", {"budget": 1}),
        ("by is 'r2' there and 'depth' here", {"by": "depth"}),
        ("settings.epochs is 2 there and 3 here", {"epochs": 3}),
        ("settings is {.*} there and None here", {"epochs": 0}),
        ("options.fold is False there and True here", {"fold": True}),
        ("options.seed is 0 there and 1 here", {"seed": 1}),
        ("options.maps is 'channel' there and 'full' here", {"maps": "full"}),
        ("sites: relu only here", {"sites": "relu"}),
    ]
    for told, changes in cases:
        with pytest.raises(ResumeError, match=told):
            fit(network, data(), **{**QUICK, **changes}, folder=tmp_path)
    other = Split.divided(samples(seed=1))
    with pytest.raises(ResumeError, match=r"data.held_out is .* data.test is .* data.train is"):
        fit(network, other, **QUICK, folder=tmp_path)
    with (
        claim(tmp_path / ".linearize.lock"),
        pytest.raises(ResumeError, match="another process is working in"),
    ):
        fit(network, data(), **QUICK, folder=tmp_path)
    assert files(tmp_path) == before
    (tmp_path / "request.json").unlink()
    with pytest.raises(InputError, match=r"holds linearization\.json.* no request\.json"):
        fit(network, data(), **QUICK, folder=tmp_path)


def test_a_run_without_results_leaves_no_directory(
    network: nn.Sequential, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, there = tmp_path / "new", tmp_path / "there"
    there.mkdir()
    (there / "notes.txt").write_text("mine")
    for folder in (new, there):
        with pytest.raises(OptionError, match="Pass at most 3"):
            fit(network, data(), **{**QUICK, "budget": 9}, folder=folder)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert [path.name for path in there.iterdir()] == ["notes.txt"]

    # a kill before the plan is made leaves the request, which binds nobody
    write_json(there / "request.json", "linearization-request", 1, {"budget": "9 sites"})
    fit(network, data(), **QUICK, folder=there)
    with pytest.raises(ResumeError, match="belongs to another run"):
        fit(network, data(), **{**QUICK, "budget": 1}, folder=there)

    # what took time stays, and belongs to its run
    def fails(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt("while tuning")

    monkeypatch.setattr("sigmascope.linearize.fitting.tune", fails)
    with pytest.raises(KeyboardInterrupt, match="while tuning"):
        fit(network, data(), **QUICK, folder=new)
    assert {path.name for path in new.iterdir()} == {
        *("plan.json", "plan.safetensors", "request.json")
    }
    with pytest.raises(ResumeError, match="belongs to another run"):
        fit(network, data(), **{**QUICK, "budget": 1}, folder=new)


def test_damaged_results_are_named(network: nn.Sequential, tmp_path: Path) -> None:
    found = fit(network, data(), **QUICK, folder=tmp_path)
    path = tmp_path / "linearization.json"
    text = path.read_text()
    path.write_text(text.replace('"seed": 0', '"seed": 7'))
    with pytest.raises(FileFormatError, match="does not match its digest"):
        sg.load(tmp_path)
    path.write_text(text)
    found.plan.with_budget(3).save(tmp_path / "plan.json")
    loaded = dataclasses.replace(found, points=found.points[:2])
    loaded.save(tmp_path / "other")
    with pytest.raises(FileFormatError, match="do not belong together"):
        sg.load(tmp_path / "other")


# what bad input gets


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"budget": 9}, OptionError, "budget=9 is more than the 3 activation sites"),
        ({"budget": 0}, OptionError, "budget"),
        ({"by": "afinity"}, OptionError, "Did you mean 'affinity'"),
        ({"epochs": -1}, OptionError, "epochs must be a whole number >= 0"),
        ({"points": 0}, OptionError, "points must be a whole number >= 1"),
        ({"maps": "matrix"}, OptionError, "maps='matrix' is not a valid choice"),
        ({"polds": 0}, OptionError, "option='polds' is not a valid choice"),
        ({"data": samples()}, InputTypeError, "data must be of type Split"),
        ({"data": Split([], [], None)}, InputError, "holds no batch"),
        ({"data": Split([samples()[0]], [samples()[0]])}, InputError, "have no labels"),
    ],
)
def test_bad_options(
    network: nn.Sequential, options: dict[str, Any], error: type[Exception], match: str
) -> None:
    given = {**QUICK, **options}
    with pytest.raises(error, match=match):
        fit(network, given.pop("data", data()), **given)


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(InputError, match="3 samples are too few to be divided into 3 parts"):
        Split.divided(samples(3))


# small parts


def test_splits_are_disjoint_and_whole() -> None:
    x = torch.arange(100)[:, None].float()
    y = torch.zeros(100, dtype=torch.long)
    for split in (Split.divided((x, y)), Split.of((x, y), (x, y))):
        train, held_out = (
            set(part[0].flatten().tolist()) for part in (split.train, split.held_out)
        )
        assert not train & held_out
        if split.test[0] is not x:
            rest = set(split.test[0].flatten().tolist())
            assert train | held_out | rest == set(range(100))
            assert not rest & (train | held_out)
        else:
            assert train | held_out == set(range(100))
            assert len(held_out) == 10
    other = Split.divided((x, y), seed=1)
    assert not torch.equal(other.train[0], Split.divided((x, y)).train[0])


def test_numbers_are_spaced_and_hold_the_budget() -> None:
    for last in range(1, 60):
        for most in (1, 2, 5, 24):
            for included in {1, last, (last + 1) // 2}:
                found = spaced(last, most, included)
                assert included in found
                assert len(found) <= most
                assert found == sorted({*found})
                assert 1 <= found[0] <= found[-1] <= last


def test_the_best_point() -> None:
    def point(accuracy: float, loss: float, epochs: int) -> CurvePoint:
        return CurvePoint(1, 1, 1, epochs, Judgment(loss, accuracy, 1))

    assert best_of([point(90, 1, 0), point(89, 0.5, 5)]).epochs == 0
    assert best_of([point(90, 1, 0), point(90, 1, 5)]).epochs == 5
    nan = math.nan
    assert best_of([point(nan, 1, 0), point(nan, 0.5, 5)]).epochs == 5


def test_figures(network: nn.Sequential) -> None:
    found = fit(network, data(), **QUICK)
    drawn = found.plot()
    [axes] = drawn.axes
    lines = {line.get_label(): line for line in axes.get_lines()}
    plain = found.curve(tuned=False)
    assert [*lines["not tuned"].get_xdata()] == [3, 2, 1, 0]
    assert [*lines["not tuned"].get_ydata()] == [one.held_out.accuracy for one in plain]
    assert [*lines["tuned, 2 epochs"].get_xdata()] == [1]
    assert [*lines["result"].get_ydata()] == [found.chosen.held_out.accuracy]
    assert axes.xaxis_inverted()
    assert [row["replaced"] for row in drawn.table] == [0, 1, 2, 3, 2]
    tuned = sg.linearize.tune(network, samples(), held_out=samples(seed=1), epochs=1)
    [panel] = tuned.plot().axes
    assert [*panel.get_lines()[0].get_ydata()] == tuned.accuracies
    with pytest.raises(InputTypeError, match="result must be of type Linearization"):
        sg.figures.draw_linearization(tuned)
    with pytest.raises(InputTypeError, match="result must be of type Tuned"):
        sg.figures.draw_tuned(found)
