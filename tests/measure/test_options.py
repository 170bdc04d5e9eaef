"""The options of a measurement: one dataclass behind the keywords, checked once, in one form."""

from __future__ import annotations

import inspect
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.checks import options_from
from sigmascope.measure.affinity import AffinityOptions, Scoring
from sigmascope.measure.options import Options, RescoreOptions, SignatureOptions
from sigmascope.store import decode, encode

X = torch.randn(24, 4, generator=torch.Generator().manual_seed(0))


def network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.Tanh())


def test_typed_dicts_and_dataclasses_agree() -> None:
    names = {field.name for field in fields(Options)}
    assert set(SignatureOptions.__annotations__) == names
    assert set(RescoreOptions.__annotations__) < names
    assert set(AffinityOptions.__annotations__) == {field.name for field in fields(Scoring)}
    assert set(AffinityOptions.__annotations__) == {*inspect.signature(sg.affinity).parameters} - {
        "x",
        "y",
    }


@pytest.mark.parametrize("verb", [sg.signature, sg.rescore, sg.affinity, sg.affinities])
def test_no_verb_names_more_than_eight_parameters(verb: Any) -> None:
    parameters = inspect.signature(verb).parameters.values()
    assert sum(one.kind is not one.VAR_KEYWORD for one in parameters) <= 8


def test_the_docstring_names_every_default() -> None:
    text = inspect.getdoc(sg.signature)
    for name, value in encode(Options()).items():
        value = {"activations": "pointwise", "channel_axis": None, "sample_axis": None}.get(
            name, value
        )
        value = () if value == [] else value
        shown = f'"{value}"' if isinstance(value, str) else f"{value}".replace("1e-06", "1e-6")
        assert f"{name}={shown}" in text


def test_options_repeat_a_measurement() -> None:
    first = sg.signature(network(), X, covariance="unbiased", metrics="cka", eps=1e-4)
    again = sg.signature(network(), X, options=first.options)
    assert again.options == first.options
    assert np.array_equal(again.scores, first.scores)
    changed = sg.signature(network(), X, options=first.options, eps=1e-5)
    assert changed.options == replace(first.options, eps=1e-5)


def test_eps_is_stored_as_none_or_as_a_number(tmp_path: Path) -> None:
    relative = sg.signature(network(), X, resume=tmp_path / "run.jsonl")
    relative.save(tmp_path / "relative.json")
    assert json.loads((tmp_path / "relative.json").read_text())["content"]["options"]["eps"] is None
    assert sg.load(tmp_path / "relative.json").options == relative.options == Options(eps=None)
    again = sg.signature(network(), X, resume=tmp_path / "run.jsonl")
    assert np.array_equal(again.scores, relative.scores)
    with pytest.raises(sg.ResumeError, match=r"options\.eps is None there and 1e-06 here"):
        sg.signature(network(), X, resume=tmp_path / "run.jsonl", eps=1e-6)
    # what files of 0.1.0 hold, which measured with it
    earlier = decode(Options, {**encode(Options()), "eps": 1e-6})
    assert earlier == Options(eps=1e-6) != Options()


def test_eps_is_scored_again_as_a_share(tmp_path: Path) -> None:
    absolute = sg.signature(network(), 1e-3 * X, keep=tmp_path, eps=1e-6)
    assert sg.rescore(tmp_path).options.eps == 1e-6
    relative = sg.rescore(tmp_path, eps=None)
    assert relative.options.eps is None
    assert np.array_equal(relative.scores, sg.signature(network(), 1e-3 * X).scores)
    assert np.abs(relative.scores - absolute.scores).max() > 1e-3


def test_a_function_is_kept_by_name_and_must_be_given_again() -> None:
    def halves(x: Tensor) -> Tensor:
        return x[:, :2]

    first = sg.signature(network(), X, pool=halves)
    assert first.options.pool.startswith("function ")
    assert first.options.pool.endswith("halves")
    with pytest.raises(sg.OptionError, match=r"keep only its name\. Pass the function again"):
        sg.signature(network(), X, options=first.options)
    again = sg.signature(network(), X, options=first.options, pool=halves)
    assert np.array_equal(again.scores, first.scores)


def test_the_old_name_of_a_value_is_the_new_one() -> None:
    new, old = (Options(pool=name, degenerate=name) for name in ("published", "released"))
    assert new == old
    assert (old.pool, old.degenerate) == ("published", "published")
    stored = {**encode(new), "pool": "released", "degenerate": "released"}
    assert decode(Options, stored) == new
    assert sg.affinity(X, X * 0, degenerate="released").score == 1


def test_stored_signatures_with_the_old_value_load() -> None:
    root = Path(__file__).parents[2] / "papers/src/sigmascope_papers/results/signatures"
    paths = [path for path in root.glob("*/*.json") if '"released"' in path.read_text("utf-8")]
    signatures = [
        sg.load(path) for path in paths if '"kind": "signature"' in path.read_text("utf-8")
    ]
    assert signatures
    for signature in signatures:
        assert "published" in (signature.options.pool, signature.options.degenerate)


BAD: dict[str, tuple[type[Exception], dict[str, Any], str]] = {
    "no option": (sg.OptionError, {"covarianse": "biased"}, "Did you mean 'covariance'"),
    "pool": (sg.OptionError, {"pool": "chanels"}, "chanels"),
    "pool of another type": (sg.OptionError, {"pool": 3}, "pool"),
    "samples": (sg.OptionError, {"samples": "token"}, "token"),
    "tokens of what": (
        sg.InputError,
        {"samples": "tokens", "pool": "sum"},
        r"samples='tokens'.*pool='sum'.*Leave pool out",
    ),
    "axes": (
        sg.InputTypeError,
        {"channel_axis": 1},
        r"channel_axis must map patterns.*'blocks\.\*': -1.*got 1",
    ),
    "axes by number": (sg.InputTypeError, {"channel_axis": {0: 1}}, "must map patterns of paths"),
    "axes that are flags": (
        sg.InputTypeError,
        {"channel_axis": {"*": True}},
        "must map patterns of paths",
    ),
    "positions of what": (
        sg.InputError,
        {"samples": "positions", "pool": "flatten"},
        r"samples='positions'.*pool='flatten'.*Leave pool out",
    ),
    "estimator": (
        sg.OptionError,
        {"estimator": "populaton"},
        r"estimator='populaton' is not a valid choice\. Did you mean 'population'",
    ),
    "no positions": (
        sg.OptionError,
        {"max_positions": 0},
        "max_positions must be a whole .* 1, got 0",
    ),
    "no limit": (sg.OptionError, {"max_tokens": 1}, "max_tokens must be a whole .* 2, got 1"),
    "a limit of another type": (sg.OptionError, {"max_tokens": 10.0}, r"max_tokens.*got 10\.0"),
    "a limit that is a flag": (sg.OptionError, {"max_tokens": True}, "max_tokens.*got True"),
    "no batches": (sg.OptionError, {"max_batches": 0}, "max_batches must be a whole .* got 0"),
    "activations": (sg.OptionError, {"activations": 3}, "activations must be .* got 3"),
}


@pytest.mark.parametrize(("error", "options", "message"), BAD.values(), ids=BAD)
def test_bad_options(error: type[Exception], options: dict[str, Any], message: str) -> None:
    with pytest.raises(error, match=message):
        options_from(Options, options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pool": torch.flatten},
        {"samples": "tokens"},
        {"samples": "positions"},
        {"samples": "positions", "estimator": "both", "max_positions": 1},
        {"estimator": None},
        {"channel_axis": {}},
        {"channel_axis": {"a.*": -1}},
        {"channel_axis": None},
        {"max_tokens": 2},
        {"seed": 2**62 + 1},
    ],
)
def test_good_options(options: dict[str, Any]) -> None:
    chosen = options_from(Options, options)
    assert options_from(Options, {}, base=chosen) == chosen
    assert decode(Options, encode(chosen)) == chosen


@pytest.mark.parametrize(
    ("given", "estimator"),
    [
        ({}, "both"),
        ({"samples": "tokens"}, "both"),
        ({"samples": "positions"}, "population"),
        ({"samples": "positions", "estimator": "published"}, "published"),
        ({"estimator": "population"}, "population"),
    ],
    ids=str,
)
def test_the_estimator_suits_the_samples(given: dict[str, Any], estimator: str) -> None:
    options = Options(**given)
    assert options.estimator == estimator
    assert options.published == (estimator in ("both", "published"))
    assert options.population == (estimator in ("both", "population"))


def test_options_of_earlier_versions_are_those_of_the_published_score() -> None:
    stored = encode(Options(seed=3))
    for name in ("estimator", "max_positions"):
        del stored[name]
    assert decode(Options, stored) == Options(seed=3, estimator="published")


def test_a_generator_is_a_seed() -> None:
    one, two, other = (
        Options(seed=torch.Generator().manual_seed(n)).seed  # type: ignore[arg-type]
        for n in (3, 3, 4)
    )
    assert one == two != other
    assert type(one) is int


@pytest.mark.parametrize("value", ["no", 0, None])
def test_a_flag_is_true_or_false(value: object) -> None:
    with pytest.raises(sg.OptionError, match=r"^fuse must be True or False, got "):
        Options(fuse=value)  # type: ignore[arg-type]
