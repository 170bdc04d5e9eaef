"""Kept features, scored again: the same bits for the same options, a direct run's numbers for
others.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.capture import activations
from sigmascope.store import encode, read_features, write_features


class Toy(nn.Module):
    """Good calls, a spoilt one, a dead one and one that is skipped."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.relu, self.linear = (
            nn.Conv2d(3, 6, 3),
            nn.ReLU(inplace=True),
            nn.Linear(6, 5),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.conv(x))
        F.silu(x * math.nan)
        F.elu(x * 0)
        F.gelu(x.mean())
        return torch.tanh(self.linear(x.mean((2, 3))))


def network(seed: int = 0) -> Toy:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Toy()


def images(count: int = 3, first: int = 0) -> list[Tensor]:
    return [
        torch.randn(20, 3, 6, 6, generator=torch.Generator().manual_seed(first + seed))
        for seed in range(count)
    ]


def sites(signature: sg.Signature) -> object:
    return encode(signature.sites)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "all metrics": {"metrics": "all"},
    "compat": {"metrics": "all", "compat": True},
    "unbiased": {"covariance": "unbiased", "eps": 1e-4},
    "published": {"degenerate": "published", "pool": "published"},
    "sum": {"pool": "sum", "metrics": "cka"},
    "flatten": {"pool": "flatten"},
    "tokens": {"samples": "tokens", "max_tokens": 50},
    "positions": {"samples": "positions", "max_positions": 5},
    "positions, both": {"samples": "positions", "max_positions": 5, "estimator": "both"},
    "population": {"estimator": "population"},
    "published alone": {"estimator": "published"},
    "function": {"pool": lambda t: t.flatten(1)},
    "softmax": {"activations": "all"},
}


@pytest.mark.parametrize("case", OPTIONS)
def test_the_same_options_give_the_same_bits(case: str, tmp_path: Path) -> None:
    direct = sg.signature(network(), images(), keep=tmp_path, **OPTIONS[case])
    again = sg.rescore(tmp_path)
    assert sites(again) == sites(direct)
    assert again.options == direct.options
    assert (again.model, again.data, again.batches, again.samples) == (
        direct.model,
        direct.data,
        3,
        60,
    )
    assert again.coverage.skipped == direct.coverage.skipped
    assert again.coverage.notes == (*direct.coverage.notes, "scored again from kept features")


CHANGES: dict[str, dict[str, Any]] = {
    "covariance": {"covariance": "unbiased"},
    "metrics": {"metrics": "all"},
    "a single metric": {"metrics": "r2"},
    "no metrics": {"metrics": ()},
    "compat": {"metrics": ("entropy", "norm"), "compat": True},
    "eps": {"eps": 1e-3},
    "degenerate": {"degenerate": "published"},
    "published alone": {"estimator": "published"},
    "population alone": {"estimator": "population"},
}


@pytest.mark.parametrize("case", CHANGES)
def test_other_options_give_what_a_direct_run_gives(case: str, tmp_path: Path) -> None:
    # Sparsity counts in feature maps, which only the first run sees.
    start = {"metrics": "sparsity"}
    sg.signature(network(), images(), keep=tmp_path, **start)
    direct = sg.signature(network(), images(), **{**start, **CHANGES[case]})
    again = sg.rescore(tmp_path, **CHANGES[case])
    assert sites(again) == sites(direct)
    assert again.options == direct.options
    assert sites(again) != sites(sg.rescore(tmp_path))


def test_sparsity_of_the_pooled_matrices_where_nothing_else_is_known(tmp_path: Path) -> None:
    sg.signature(network(), images(), keep=tmp_path)
    direct = (
        sg.signature(network(), images(), metrics="sparsity").sites[0].metrics["sparsity_after"]
    )
    again = sg.rescore(tmp_path, metrics="sparsity").sites[0].metrics["sparsity_after"]
    assert 0 == again < 0.1 < direct


def test_activations_that_this_process_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activations, "_registered_functions", {})
    square = sg.register_activation(lambda x: x.square(), "squared")

    class Squared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return square(self.linear(x))

    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    direct = sg.signature(Squared(), x, activations=["squared"], keep=tmp_path)
    monkeypatch.setattr(activations, "_registered_functions", {})
    again = sg.rescore(tmp_path, eps=1e-5)
    assert [site.kind for site in again.sites] == ["squared"]
    assert again.scores == pytest.approx(direct.scores, abs=1e-3)


def test_a_folder_of_another_run(tmp_path: Path) -> None:
    sg.signature(network(), images(), keep=tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for model, batches in ((network(), images()), (network(1), images())):
        with pytest.raises(
            sg.InputError, match=r"keep=.* holds batches of another run\. Pass an empty directory"
        ):
            sg.signature(model, batches, keep=tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(sg.InputError, match=r"keep=.*file' is a file\. Pass a directory"):
        sg.signature(network(), images(), keep=tmp_path / "file")


def test_a_folder_goes_on_with_its_run(tmp_path: Path) -> None:
    """Cut off after two batches, whether or not the third was kept already."""

    def stopping() -> Any:
        yield from images()[:2]
        raise KeyboardInterrupt

    whole = sg.signature(network(), images(), keep=tmp_path / "whole")
    for case in ("noted", "kept"):
        keep, journal = tmp_path / case, tmp_path / f"{case}.jsonl"
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            sg.signature(network(), stopping(), keep=keep, resume=journal)
        if case == "kept":
            lines = journal.read_bytes().splitlines(keepends=True)
            journal.write_bytes(b"".join(lines[:-1]))
        assert len(list(keep.iterdir())) == 2
        assert sites(sg.signature(network(), images(), keep=keep, resume=journal)) == sites(whole)
        assert sites(sg.rescore(keep)) == sites(whole)


def interrupted(keep: Path | None, journal: Path, **options: Any) -> None:
    """Leave two batches behind."""
    sg.signature(network(), images(2), keep=keep, resume=journal, **options)


FOREIGN: dict[str, tuple[Callable[[Path], object], str]] = {
    "more batches than were scored": (
        lambda folder: sg.signature(network(), images(5), keep=folder),
        r"holds batches of another run\. Pass an empty directory",
    ),
    "other options": (
        lambda folder: sg.signature(network(), images(2), keep=folder, eps=1e-3),
        r"belongs to another run: ",
    ),
    "another network": (
        lambda folder: sg.signature(network(1), images(2), keep=folder),
        r"belongs to another run: ",
    ),
    "other data": (
        lambda folder: sg.signature(network(), images(2, first=7), keep=folder),
        r"belongs to another run: ",
    ),
    "another name": (
        lambda folder: sg.signature(network(), images(2), keep=folder, name="x"),
        r"belongs to another run: ",
    ),
    "too few": (
        lambda folder: sg.signature(network(), images(1), keep=folder),
        r"lacks batches that the run to resume has scored\. Pass the directory of that "
        r"run, or none",
    ),
    "none": (lambda folder: None, r"lacks batches that the run to resume has scored"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_run_does_not_go_on_in_the_folder_of_another(case: str, tmp_path: Path) -> None:
    fill, match = FOREIGN[case]
    interrupted(tmp_path / "own", tmp_path / "run.jsonl")
    fill(tmp_path / "other")
    with pytest.raises((sg.InputError, sg.ResumeError), match=match):
        sg.signature(network(), images(), keep=tmp_path / "other", resume=tmp_path / "run.jsonl")
    assert (
        sg.signature(
            network(), images(), keep=tmp_path / "own", resume=tmp_path / "run.jsonl"
        ).batches
        == 3
    )


def kept(folder: Path) -> list[Path]:
    sg.signature(network(), images(), keep=folder)
    return sorted(folder.iterdir())


def test_nothing_kept(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(
            sg.InputError,
            match=r"holds no kept batches \(batch-\*\.safetensors\)\. Run signature\(.*keep=",
        ):
            sg.rescore(folder)


@pytest.mark.parametrize("missing", [0, 1])
def test_a_missing_batch(missing: int, tmp_path: Path) -> None:
    kept(tmp_path)[missing].unlink()
    match = (
        r"does not hold the batches of one run from the first on: see "
        rf"batch-00000{missing + 1}\.safetensors"
    )
    with pytest.raises(sg.InputError, match=match):
        sg.rescore(tmp_path)


def test_batches_of_two_runs(tmp_path: Path) -> None:
    first = kept(tmp_path / "a")
    sg.signature(network(), images(), keep=tmp_path / "b", eps=1e-3)
    shutil.copy(tmp_path / "b" / first[1].name, first[1])
    with pytest.raises(
        sg.InputError, match=r"does not hold the batches of one run.*: see batch-000001"
    ):
        sg.rescore(tmp_path / "a")


@pytest.mark.parametrize("number", [0, 2])
def test_a_truncated_batch(number: int, tmp_path: Path) -> None:
    path = kept(tmp_path)[number]
    whole = path.read_bytes()
    for end in (0, 4, 8, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(
            sg.FileFormatError, match=rf"batch-00000{number}\.safetensors is truncated, damaged"
        ):
            sg.rescore(tmp_path)


def spoil(path: Path, change: Callable[[dict[str, Tensor], dict[str, Any]], object]) -> None:
    tensors, info = read_features(path)
    change(tensors, info)
    write_features(path, tensors, info)


SPOILT: dict[str, tuple[Callable[[dict[str, Tensor], dict[str, Any]], object], str]] = {
    "no matrices": (
        lambda t, i: t.pop("0.x"),
        r"batch-000001\.safetensors: call 0 has no two matrices\. Run the network",
    ),
    "no matrix": (
        lambda t, i: t.update({"0.y": torch.zeros(3)}),
        r"batch-000001\.safetensors: call 0 has no two matrices",
    ),
    "foreign": (
        lambda t, i: i.clear(),
        r"batch-000001\.safetensors: kept: expected the fields of _KeptBatch, found None",
    ),
    "hostile": (
        lambda t, i: i["kept"].update(size="x"),
        r"batch-000001\.safetensors: kept\.size: expected a whole number",
    ),
    "deep": (
        lambda t, i: i["kept"]["calls"][0].update(shape=[1, "x"]),
        r"kept\.calls\[0\]\.shape\[1\]: expected a whole number, found 'x'",
    ),
}


@pytest.mark.parametrize("case", SPOILT)
def test_a_spoilt_batch_is_named(case: str, tmp_path: Path) -> None:
    change, match = SPOILT[case]
    spoil(kept(tmp_path)[1], change)
    with pytest.raises(sg.FileFormatError, match=match):
        sg.rescore(tmp_path)


def test_matrices_that_fit_no_longer_are_a_reason(tmp_path: Path) -> None:
    paths = kept(tmp_path)
    spoil(
        paths[0],
        lambda tensors, _: tensors.update(
            {"0.x": torch.zeros(3, 3), "0.y": torch.zeros(2, 2, dtype=torch.long)}
        ),
    )
    site = sg.rescore(tmp_path, metrics="all").sites[0]
    assert site.batches == 2
    assert "(1 of 3 batches)" in site.reason


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        (
            {"covariance": "lw"},
            sg.OptionError,
            r"covariance='lw' is not a valid choice.*'ledoit-wolf'",
        ),
        (
            {"metrics": "ckka"},
            sg.OptionError,
            r"metrics='ckka' is not a valid choice\. Did you mean 'cka'",
        ),
        ({"degenerate": "x"}, sg.OptionError, r"degenerate='x' is not a valid choice"),
        (
            {"eps": math.nan},
            sg.InputError,
            r"eps must be None or a number >= 0 such as 1e-6, got nan",
        ),
    ],
)
def test_a_bad_option(
    options: dict[str, Any], error: type[Exception], match: str, tmp_path: Path
) -> None:
    kept(tmp_path)
    with pytest.raises(error, match=match):
        sg.rescore(tmp_path, **options)


def test_the_files_hold_no_more_than_the_matrices(tmp_path: Path) -> None:
    (path, *_) = kept(tmp_path)
    tensors, _ = read_features(path)
    assert {tuple(tensor.shape) for tensor in tensors.values()} == {(20, 6), (20, 5)}
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    assert np.isfinite(sg.rescore(tmp_path).scores).sum() == 2


@pytest.mark.parametrize("estimator", ["both", "published", "population"])
@pytest.mark.parametrize("kept", ["both", "population"])
def test_a_last_batch_that_is_smaller(kept: Any, estimator: Any, tmp_path: Path) -> None:
    """The published score leaves it out, whatever it was kept for."""
    items = [*images(2), images(1, first=7)[0][:9]]
    sg.signature(network(), items, keep=tmp_path, estimator=kept)
    again = sg.rescore(tmp_path, estimator=estimator)
    direct = sg.signature(network(), items, estimator=estimator)
    assert sites(again) == sites(direct)
    assert (again.batches, again.samples, again.data) == (
        direct.batches,
        direct.samples,
        direct.data,
    )


def test_a_folder_of_an_earlier_version(tmp_path: Path) -> None:
    """It says neither which batches are complete nor whose rows are whose."""
    options: dict[str, Any] = {"samples": "tokens", "max_tokens": 100}
    direct = sg.signature(network(), images(), keep=tmp_path, estimator="published", **options)
    for path in tmp_path.iterdir():
        spoil(
            path,
            lambda tensors, info: (
                [tensors.pop(name) for name in [*tensors] if name.endswith("index")],
                [info["kept"]["options"].pop(name) for name in ("estimator", "max_positions")],
                info["kept"].pop("complete"),
            ),
        )
    again = sg.rescore(tmp_path)
    assert sites(again) == sites(direct)
    assert again.options == direct.options
    both = sg.rescore(tmp_path, estimator="both").sites[0]
    assert both.score == direct.sites[0].score
    assert both.population == pytest.approx(
        sg.signature(network(), images(), **options).sites[0].population, abs=0.02
    )


def test_what_was_not_seen_is_kept_too(tmp_path: Path) -> None:
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.ParameterList(torch.randn(12, 4) for _ in range(2))

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(torch.gru_cell(x, x, *self.weights))

    direct = sg.signature(Gated(), torch.randn(40, 4), keep=tmp_path / "kept", progress=False)
    (note,) = direct.coverage.notes
    assert note == "2 sigmoid, 1 tanh computed inside gru_cell were not seen"
    again = sg.rescore(tmp_path / "kept", progress=False)
    assert again.coverage.notes == (note, "scored again from kept features")


def test_small_batches_are_scored_together_as_one_large_one(tmp_path: Path) -> None:
    whole, metrics = torch.cat(images(6)), "all"
    options: dict[str, Any] = {"progress": False, "metrics": metrics, "estimator": "both"}
    direct = sg.signature(network(), list(whole.split(60)), **options)
    kept = {"progress": False, "metrics": ("sparsity",), "estimator": "published"}
    sg.signature(network(), list(whole.split(20)), keep=tmp_path / "kept", **kept)
    found = sg.rescore(tmp_path / "kept", together=3, metrics=metrics, estimator="both")
    assert found.batches == direct.batches == 2
    for one, other in zip(found.sites, direct.sites, strict=True):
        assert (one.n, one.batches, one.reason) == (other.n, other.batches, other.reason)
        assert np.allclose(one.scores, other.scores, rtol=0, atol=1e-6, equal_nan=True)
        assert one.population == pytest.approx(other.population, abs=1e-6, nan_ok=True)
        for metric, value in other.metrics.items():
            assert one.metrics[metric] == pytest.approx(value, rel=1e-4, abs=1e-6, nan_ok=True)
    alone = sg.rescore(tmp_path / "kept", metrics=metrics, estimator="both")
    assert abs(alone["relu"].score - found["relu"].score) > 1e-3  # the size of batches matters


def test_a_smaller_last_batch_does_not_count_together_either(tmp_path: Path) -> None:
    batches = list(torch.cat(images(5)).split(20))
    sg.signature(network(), batches, keep=tmp_path, progress=False)
    together = sg.rescore(tmp_path, together=2)
    assert together["relu"].batches == 2
    assert together["relu"].population_n == 100
    first = sg.rescore(tmp_path, together=9)  # fewer than asked for: all in one
    assert first["relu"].batches == 1
    assert first["relu"].n == 100


@pytest.mark.parametrize("together", [0, 1.5, True])
def test_together_is_a_whole_number(tmp_path: Path, together: Any) -> None:
    sg.signature(network(), images(), keep=tmp_path, progress=False)
    with pytest.raises(sg.OptionError, match="together must be a whole number"):
        sg.rescore(tmp_path, together=together)
