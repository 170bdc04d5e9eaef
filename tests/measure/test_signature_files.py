"""A signature as a table, a frame, a summary and a file: exact, strict and safe."""

from __future__ import annotations

import copy
import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.measure.options import Options
from sigmascope.measure.result import Scatter
from sigmascope.store import encode
from tests.resealing import edit, without_digest


def network() -> nn.Module:
    class Toy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.relu, self.last = nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5)
            self.unused = nn.ELU()

        def forward(self, x: Tensor) -> Tensor:
            x = self.relu(self.first(x))
            nn.functional.glu(x)
            nn.functional.silu(x * math.nan)
            return torch.tanh(self.last(x))

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Toy()


def batches(count: int = 2) -> list[Tensor]:
    return [
        torch.randn(24, 4, generator=torch.Generator().manual_seed(seed)) for seed in range(count)
    ]


def measured(estimator: Any = None, **options: Any) -> sg.Signature:
    given = {"metrics": ["r2", "cka"], "name": "toy", **options}
    return sg.signature(network(), [*batches(), batches()[0][:3]], estimator=estimator, **given)


RESULT = measured()


def rounded(signature: sg.Signature) -> sg.Signature:
    """The same with numbers and a reason that are short, to compare texts."""
    published, population = signature.options.published, signature.options.population
    chosen = iter([(0.5, 0.25, 0.0), (0.9375, 0.9125, 0.0005)])
    sites = []
    for site in signature.sites:
        numbers: dict[str, Any] = {"metrics": {"r2": 0.25, "cka": math.nan}}
        good = math.isfinite(site.score) or math.isfinite(site.population)
        value, other, half = next(chosen) if good else (math.nan,) * 3
        if published:
            numbers |= {"score": value, "scatter": Scatter(0.0123 * value / value, 0.0, 1.0)}
            numbers |= {"reason": "" if good else "it is spoilt"}
        if population:
            numbers |= {"population": other, "low": other - half, "high": other + half}
            numbers |= {"population_reason": "" if good else "it is spoilt"}
        sites.append(replace(site, moved=0, **numbers))
    return replace(signature, sites=tuple(sites))


FEW = (
    "\nNote: the published score rests on fewer than 32 samples a batch at 2 of 3 sites (relu: 24) "
    "and depends much on which ones; use larger batches."
)
FOOT = """\
4 activation calls seen, 2 scored, 1 without a score, 1 skipped, 1 activation module never ran.
No score at 1 site: it is spoilt.
{}Skipped: forward.glu (glu): input [24, 6] and output [24, 3] differ in shape, so no affine map compares them; gates='unit' scores it as a function of what it multiplies.
Never ran: unused."""

TABLES = {
    "both": """\
Signature of toy: 3 activation calls, 48 samples in 2 batches, ledoit-wolf

site            activation  dim   score       population                         r2  cka
relu            relu          6  0.5000  0.2500 ± 0.0000  ██████████           0.25  nan
forward.silu#1  silu          6       –                –  no score             0.25  nan
forward.tanh#2  tanh          5  0.9375  0.9125 ± 0.0005  ██████████████████▊  0.25  nan

Score 1 is affine, lower is more non-linear: min 0.500, median 0.719, max 0.938, mean 0.719, std 0.219, spread 0.438, iqr 0.219.
"""
    + FOOT.format(
        "Note: the bias of the published score, which depends on the size of the batches, exceeds "
        "the half-width at 2 of 3 sites (most at relu: +0.2500).\n"
    )
    + FEW
    + "\nNote: the last batch of 3 samples counts for the population score only, the first has 24.",
    "published": """\
Signature of toy: 3 activation calls, 48 samples in 2 batches, ledoit-wolf

site            activation  dim   score     std                         r2  cka
relu            relu          6  0.5000  0.0123  ██████████           0.25  nan
forward.silu#1  silu          6       –       –  no score             0.25  nan
forward.tanh#2  tanh          5  0.9375  0.0123  ██████████████████▊  0.25  nan

Score 1 is affine, lower is more non-linear: min 0.500, median 0.719, max 0.938, mean 0.719, std 0.219, spread 0.438, iqr 0.219.
"""
    + FOOT.format("")
    + FEW
    + "\nNote: the last batch of 3 samples was left out, the first has 24.",
    "population": """\
Signature of toy: 3 activation calls, 51 samples in 3 batches, population

site            activation  dim       population                         r2  cka
relu            relu          6  0.2500 ± 0.0000  █████                0.25  nan
forward.silu#1  silu          6                –  no score             0.25  nan
forward.tanh#2  tanh          5  0.9125 ± 0.0005  ██████████████████▎  0.25  nan

Score 1 is affine, lower is more non-linear: min 0.250, median 0.581, max 0.912, mean 0.581, std 0.331, spread 0.662, iqr 0.331.
"""
    + FOOT.format(""),
}
TABLE = TABLES["both"]


@pytest.mark.parametrize("estimator", TABLES)
def test_the_table(estimator: Any) -> None:
    assert repr(rounded(measured(estimator))) == TABLES[estimator]


def test_the_table_of_one_batch() -> None:
    options = {"activations": ["relu"], "name": "toy", "estimator": "published"}
    result = rounded(sg.signature(network(), batches(1), **options))
    sites = (replace(result.sites[0], metrics={}),)
    assert repr(replace(result, sites=sites)).splitlines()[:4] == [
        "Signature of toy: 1 activation call, 24 samples in 1 batch, ledoit-wolf",
        "",
        "site  activation  dim   score",
        "relu  relu          6  0.5000  ██████████",
    ]


def test_scores_that_are_missing_for_different_reasons() -> None:
    """Batches of one row have no published score, and few samples no population score."""
    single = sg.signature(network(), torch.cat(batches()).split(1), activations=["relu", "tanh"])
    text = repr(single)
    assert "3 activation calls seen, 2 scored, 1 skipped" in text
    assert "No published score at 2 sites: a batch of one sample has none: use larger" in text
    assert "nan" not in text
    few = repr(sg.signature(network(), batches(1), activations=["relu", "tanh"]))
    assert few.count("No population score at ") == 2
    assert "at 1 site: 24 samples are too few for 6 channels: 32 would do." in few


def test_a_bias_of_rounding_is_not_noted() -> None:
    exact = replace(RESULT.sites[0], population=1.0, low=1.0, high=1.0, moved=0)
    for score, is_noted in ((1 - 1e-12, False), (0.9999, True)):
        text = repr(replace(RESULT, sites=(replace(exact, score=score),)))
        assert ("the bias of the published score" in text) == is_noted


def test_rows_that_move_are_noted() -> None:
    sites = (
        replace(RESULT.sites[0], moved=5, tested=48),
        replace(RESULT.sites[1], moved=9, tested=48),
        RESULT.sites[2],
    )
    assert (
        "Note: the population score couples each input with its own output, which is not optimal "
        "at 2 of 3 sites (most at forward.silu#1: 9 of 48 sampled rows move): a lower bound there."
        in repr(replace(RESULT, sites=sites))
    )
    only = repr(replace(RESULT, sites=(sites[0], *RESULT.sites[2:])))
    assert "not optimal at 1 of 2 sites (relu: 5 of 48 sampled rows move)" in only
    assert "sampled rows" not in repr(replace(RESULT, sites=RESULT.sites[2:]))


REASONS = ("reason", "population_reason")


def test_reasons_stand_below_the_table_once_and_in_full() -> None:
    reasons = ["x has 1 row; " + "so much is needed " * 9, "it is spoilt"]
    failed = [
        replace(RESULT.sites[1], call=call, **dict.fromkeys(REASONS, reasons[call > 18]))
        for call in range(20)
    ]
    text = repr(replace(RESULT, sites=tuple(failed)))
    assert text.count("it is spoilt") == text.count("x has 1 row") == 1
    assert f"\nNo score at 19 sites: {reasons[0]}.\nNo score at 1 site: it is spoilt.\n" in text


def test_one_sample_is_not_plural() -> None:
    assert "3 activation calls, 1 sample in 2 batches" in repr(replace(RESULT, samples=1))


def test_long_names_are_cut_in_the_middle() -> None:
    site = replace(RESULT.sites[0], path="a" * 40 + "b" * 40)
    text = repr(replace(RESULT, sites=(site,)))
    assert "a" * 23 + "…" + "b" * 24 + " " in text
    assert "a" * 24 not in text


class Tags(HTMLParser):
    """Collects what a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_escapes_hostile_names() -> None:
    hostile = "<script>alert('x')</script><img src=x onerror=\"y\">&amp;"
    site = replace(RESULT.sites[0], path=hostile, kind=hostile, metrics={hostile: 0.5})
    failed = replace(RESULT.sites[1], **dict.fromkeys(REASONS, hostile))
    coverage = replace(RESULT.coverage, notes=(hostile,))
    page = Tags()
    page.feed(replace(RESULT, name=hostile, sites=(site, failed), coverage=coverage)._repr_html_())
    assert {*page.tags} == {
        "table",
        "caption",
        "thead",
        "tr",
        "th",
        "tbody",
        "td",
        "div",
        "p",
        "br",
    }
    assert page.text.count(hostile) == 6
    assert page.tags.count("td") == 2 * (6 + 3)  # the metrics of all sites are columns of each


def test_html_holds_what_the_table_holds() -> None:
    page = Tags()
    page.feed(RESULT._repr_html_())
    for text in (
        "relu",
        "forward.tanh#2",
        f"{RESULT.scores[0]:.4f}",
        "x contains NaN",
        "the last batch of 3 samples",
        "r2",
    ):
        assert text in page.text


def test_html_shows_what_the_text_shows() -> None:
    page = Tags()
    page.feed(rounded(RESULT)._repr_html_())
    for cell in TABLE.replace("█", "").replace("▊", "").split():
        assert cell in page.text


def test_sites_by_name() -> None:
    assert list(RESULT) == list(RESULT.sites)
    assert RESULT["relu"] is RESULT.sites[0]
    assert RESULT["forward.tanh#2"] is RESULT.sites[2]
    assert RESULT["(network)#2"] is RESULT.sites[2]  # the name in earlier versions
    assert "(network)#2" in RESULT
    with pytest.raises(
        sg.UnknownSiteError,
        match=r"^'rellu' is not one of the 3 sites of toy\. The nearest names are 'relu'",
    ):
        RESULT["rellu"]
    with pytest.raises(KeyError, match="'layer9' is not one of the 3 sites"):
        RESULT["layer9"]


def test_calls_of_several_kinds_have_names_of_their_own() -> None:
    twins = replace(
        RESULT, sites=(RESULT.sites[0], replace(RESULT.sites[0], kind="elu", score=0.25))
    )
    assert twins["relu (elu)"].score == 0.25
    assert twins["relu (relu)"] is RESULT.sites[0]
    assert len(twins.to_dict()) == 2 * 2 + len(twins.summary())


def test_a_flat_dict_for_loggers() -> None:
    flat = RESULT.to_dict("val/")
    assert list(flat)[:4] == [
        "val/relu",
        "val/forward.silu#1",
        "val/forward.tanh#2",
        "val/relu/population",
    ]
    assert flat["val/relu"] == RESULT.scores[0]
    assert flat["val/relu/population"] == RESULT.sites[0].population
    assert {name: flat[f"val/{name}"] for name in RESULT.summary()} == RESULT.summary()
    assert all(type(value) is float for value in RESULT.to_dict().values())


def test_a_signature_draws_itself() -> None:
    drawn = RESULT.plot()
    assert drawn.axes[0].get_title() == "toy"
    assert "population" in RESULT.plot(by="population").axes[0].get_ylabel()
    assert "population" not in drawn.axes[0].get_ylabel()


def test_scores_and_length() -> None:
    assert RESULT.scores.dtype == np.float64
    assert len(RESULT) == len(RESULT.sites) == len(RESULT.scores) == 3
    assert np.isnan(RESULT.scores).tolist() == [False, True, False]


def test_the_summary_is_that_of_numpy() -> None:
    values = np.array([0.9, 0.2, 0.55, 0.7, 0.31])
    scores = iter([*values[:2], math.nan, *values[2:]])
    sites = tuple(replace(RESULT.sites[0], score=score) for score in scores)
    upper, lower = np.percentile(values, [75, 25])
    expected = {
        **{name: getattr(np, name)(values) for name in ("min", "median", "max", "mean", "std")},
        "spread": values.max() - values.min(),
        "iqr": upper - lower,
    }
    summary = replace(RESULT, sites=sites).summary()
    assert list(summary) == list(expected)
    assert summary == pytest.approx(expected)
    assert all(type(value) is float for value in summary.values())
    assert all(math.isnan(value) for value in replace(RESULT, sites=()).summary().values())


POPULATION = ("population", "stderr", "low", "high", "bias", "population_n")


def test_the_frame() -> None:
    frame = RESULT.to_frame()
    assert len(frame) == 3
    assert frame["site"].tolist() == ["relu", "forward.silu#1", "forward.tanh#2"]
    assert frame["score"].to_numpy() == pytest.approx(RESULT.scores, nan_ok=True)
    assert frame["score"].dtype == frame["r2"].dtype == np.float64
    assert frame["r2"].tolist() == pytest.approx(
        [site.metrics["r2"] for site in RESULT.sites], nan_ok=True
    )
    assert frame["batches"].tolist() == [2, 0, 2]
    assert {"path", "call", "kind", "n", "dim", "reason", "channel_axis"} <= {*frame.columns}
    numbers = {
        **{name: [getattr(site, name) for site in RESULT.sites] for name in POPULATION},
        **{
            f"scatter_{name}": [getattr(site.scatter, name) for site in RESULT.sites]
            for name in ("std", "low", "high")
        },
    }
    for name, values in numbers.items():
        assert frame[name].tolist() == pytest.approx(values, nan_ok=True)
    assert not {"metrics", "scatter"} & {*frame.columns}


def test_the_frame_needs_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        sg.MissingExtraError, match=r"to_frame needs pandas: pip install 'sigmascope\[analysis\]'"
    ):
        RESULT.to_frame()


def test_saved_and_loaded(tmp_path: Path) -> None:
    path = RESULT.save(tmp_path / "new" / "toy.json")
    loaded = sg.load(path)
    assert encode(loaded) == encode(RESULT)  # every bit; NaN is None there
    assert repr(loaded) == repr(RESULT)
    assert type(loaded.sites) is tuple
    assert loaded.sites[0].scores == RESULT.sites[0].scores
    assert math.isnan(loaded.sites[1].score)
    assert loaded.options == RESULT.options
    assert loaded.save(tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_the_old_name_of_what_was_never_called_is_read(tmp_path: Path) -> None:
    path = RESULT.save(tmp_path / "toy.json")

    def rename(document: Any) -> None:
        coverage = document["content"]["coverage"]
        coverage["silent"] = coverage.pop("never_called")

    edit(path, rename)
    assert sg.load(path).coverage == RESULT.coverage
    assert sg.load(path).coverage.never_called == ("unused",)


def test_scores_by_estimator() -> None:
    both, published, population = (measured(one) for one in ("both", "published", "population"))
    for one in (both, published):
        assert np.array_equal(one.scores, one.scores_by("published"), equal_nan=True)
    assert np.array_equal(published.scores, both.scores, equal_nan=True)
    assert np.array_equal(population.scores, both.scores_by("population"), equal_nan=True)
    assert np.array_equal(population.scores, population.scores_by("population"), equal_nan=True)
    assert both.summary("population") == population.summary() != both.summary()
    assert [site.bias for site in both.sites] == pytest.approx(
        both.scores - population.scores, nan_ok=True
    )
    assert population.sites[0].reason == (
        "the published score was not measured (estimator='population')"
    )
    assert published.sites[0].population_reason == (
        "the population score was not measured (estimator='published')"
    )
    for one, by in ((published, "population"), (population, "published")):
        with pytest.raises(
            sg.OptionError,
            match=rf"by='{by}', but toy was measured with estimator='{one.options.estimator}'\. "
            r"Measure it again with estimator='both', or leave by out",
        ):
            one.scores_by(by)  # type: ignore[arg-type]
    with pytest.raises(sg.OptionError, match=r"by='mean' is not a valid choice"):
        both.scores_by("mean")  # type: ignore[arg-type]


STORED = Path(__file__).parents[2] / "papers/src/sigmascope_papers/results/signatures/cifar10"


def test_a_file_of_the_first_version_is_read(tmp_path: Path) -> None:
    """What it calls std, low and high of a site is the scatter between batches."""
    path = next(path for path in sorted(STORED.glob("*-0-*.json")) if ".facts" not in path.name)
    content = json.loads(path.read_text("utf-8"))
    assert content["version"] == 1
    old = sg.load(path)
    assert old.options.estimator == "published"
    assert old.options == replace(
        Options(estimator="published", fuse=False),
        **{name: getattr(old.options, name) for name in ("metrics", "eps")},
    )
    for site, stored in zip(old.sites, content["content"]["sites"], strict=True):
        assert vars(site.scatter) == {name: stored[name] for name in ("std", "low", "high")}
        assert math.isnan(site.population)
        assert math.isnan(site.low)
        assert site.population_reason.startswith("measured before version 0.2")
    with pytest.raises(sg.OptionError, match=r"was measured with estimator='published'"):
        old.scores_by("population")
    again = sg.load(old.save(tmp_path / "again.json"))
    assert encode(again) == encode(old)
    assert json.loads((tmp_path / "again.json").read_text("utf-8"))["version"] == 2


def test_every_option_survives(tmp_path: Path) -> None:
    result = sg.signature(
        network(),
        batches(),
        activations={"relu", "tanh"},
        channel_axis={"no*": -1},
        max_batches=1,
        metrics="all",
        compat=True,
        pool=lambda t: t,
        seed=2**62 + 1,
    )
    assert sg.load(result.save(tmp_path / "a.json")).options == result.options


def test_the_file_is_strict_json(tmp_path: Path) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    document = json.loads(
        RESULT.save(tmp_path / "toy.json").read_text("utf-8"), parse_constant=refuse
    )
    assert (document["format"], document["kind"], document["version"]) == (
        "sigmascope",
        "signature",
        2,
    )
    assert document["content"]["sites"][1]["score"] is None
    assert document["content"]["sites"][0]["score"] == RESULT.scores[0]


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    whole = RESULT.save(tmp_path / "toy.json").read_bytes()
    cut = tmp_path / "cut.json"
    for end in [0, 1, 2, 10, *range(50, len(whole) - 2, 97), len(whole) - 2]:
        cut.write_bytes(whole[:end])
        with pytest.raises(
            sg.FileFormatError,
            match=r"cut\.json is truncated, damaged or not a JSON file of sigmascope",
        ):
            sg.load(cut)
    cut.write_bytes(whole)
    assert len(sg.load(cut)) == 3


Change = Callable[[dict[str, Any]], object]


def into(content: Any, *path: Any, value: Any) -> None:
    for step in path[:-1]:
        content = content[step]
    if value is ...:
        del content[path[-1]]
    else:
        content[path[-1]] = value


HOSTILE: dict[str, tuple[tuple[Any, ...], Any, str]] = {
    "foreign": (("format",), "other", r"was not written by sigmascope\. Pass a signature file"),
    "another kind": (("kind",), "atlas", r"is of kind 'atlas', which cannot be loaded"),
    "newer": (
        ("version",),
        3,
        r"was written by a newer sigmascope: signature version 3, this one reads 2\. Upgrade",
    ),
    "no version": (("version",), "2", r"has signature version '2', this sigmascope reads 2"),
    "too old": (("version",), 0, r"has signature version 0, this sigmascope reads 2"),
    "no content": (("content",), None, r"content: expected the fields of Signature, found None"),
    "a word as score": (
        ("content", "sites", 2, "score"),
        "0.9",
        r"content\.sites\[2\]\.score: expected a number, found '0\.9'",
    ),
    "true as score": (
        ("content", "sites", 0, "score"),
        True,
        r"content\.sites\[0\]\.score: expected a number, found True",
    ),
    "a deep list": (
        ("content", "sites", 0, "shape", 1),
        [6],
        r"content\.sites\[0\]\.shape\[1\]: expected a whole number",
    ),
    "half a sample": (
        ("content", "sites", 0, "n"),
        0.5,
        r"content\.sites\[0\]\.n: expected a whole number, found 0\.5",
    ),
    "a number as metric": (
        ("content", "sites", 1, "metrics"),
        3,
        r"content\.sites\[1\]\.metrics: expected a dict",
    ),
    "a word as metric": (
        ("content", "sites", 1, "metrics", "cka"),
        "a",
        r"sites\[1\]\.metrics\.cka: expected a number",
    ),
    "a dict as sites": (("content", "sites"), {}, r"content\.sites: expected a list, found \{\}"),
    "a missing field": (
        ("content", "sites", 0, "kind"),
        ...,
        r"content\.sites\[0\]: missing 'kind'",
    ),
    "an unknown field": (("content", "options", "rm"), "-rf", r"content\.options: unknown 'rm'"),
    "a site as coverage": (
        ("content", "coverage"),
        [],
        r"content\.coverage: expected the fields of Coverage, found \[\]",
    ),
    "skipped": (
        ("content", "coverage", "skipped", 0, "call"),
        None,
        r"coverage\.skipped\[0\]\.call: expected a whole number",
    ),
    "huge": (
        ("content", "parameters"),
        10**400,
        r"truncated, damaged or not a JSON file of sigmascope",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_refused_by_place(case: str, tmp_path: Path) -> None:
    path, value, match = HOSTILE[case]
    document = json.loads(without_digest(RESULT.save(tmp_path / "toy.json").read_text("utf-8")))
    into(document, *path, value=value)
    hostile = tmp_path / "hostile.json"
    hostile.write_text(json.dumps(document), "utf-8")
    with pytest.raises(sg.FileFormatError, match=rf"hostile\.json.*{match}"):
        sg.load(hostile)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(leaf for key, one in inner for leaf in leaves(one, (*path, key)))]


def test_no_wrong_type_anywhere_raises_anything_else(tmp_path: Path) -> None:
    """Every value of the file is replaced in turn; what still fits its place is read, all else is
    refused by name.
    """
    document = json.loads(without_digest(RESULT.save(tmp_path / "toy.json").read_text("utf-8")))
    refused = 0
    for path in leaves(document)[1:]:
        for value in ({"a": []}, "word"):
            changed = copy.deepcopy(document)
            into(changed, *path, value=value)
            (tmp_path / "changed.json").write_text(json.dumps(changed), "utf-8")
            try:
                sg.load(tmp_path / "changed.json")
            except sg.FileFormatError as error:
                refused += "changed.json" in str(error)
    assert refused > len(leaves(document))


def test_no_file() -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.json"):
        sg.load("nowhere.json")


def test_names_are_in_a_signature() -> None:
    assert "relu" in RESULT
    assert RESULT.sites[0] in RESULT
    assert "layer9" not in RESULT


def test_a_site_with_the_name_of_a_statistic() -> None:
    result = replace(RESULT, sites=(replace(RESULT.sites[0], path="mean", score=0.25),))
    flat = result.to_dict("a/")
    assert flat["a/mean"] == 0.25
    assert flat["a/summary/mean"] == result.summary()["mean"]
    assert flat["a/max"] == result.summary()["max"]


def test_coverage_by_its_earlier_name() -> None:
    assert RESULT.coverage.silent == RESULT.coverage.never_called
