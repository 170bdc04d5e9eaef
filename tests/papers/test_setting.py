"""Where signatures come from: the zoo, a measurement, or what a measurement left."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import sigmascope as sg
from sigmascope.measure.result import Site
from sigmascope.store import claim_beside
from sigmascope_papers.cast import FAMILIES, PAPER, ZOO, Cast
from sigmascope_papers.setting import RESULTS, Setting, facts_of, signatures_of
from tests.resealing import without_digest

FOLDER = RESULTS
WEIGHTS = Path(__file__).resolve().parents[2] / "zoo"


@pytest.fixture
def embedded(tmp_path: Path) -> Path:
    """A directory of data sets with the embedded images, under the name of CIFAR-10."""
    images, labels = zip(*sg.catalog.data("embedded", batch_size=512), strict=True)
    (tmp_path / "cifar10").mkdir()
    np.save(tmp_path / "cifar10" / "test_images.npy", np.concatenate(images).astype(np.uint8))
    np.save(tmp_path / "cifar10" / "test_labels.npy", np.concatenate(labels).astype(np.uint8))
    return tmp_path


def test_what_is_stored_is_read_with_facts() -> None:
    runs = Setting(results=FOLDER).runs(["resnet20:1", "vit:0"])
    assert list(signatures_of(runs)) == ["resnet20:1", "vit:0"]
    assert facts_of(runs)["sigmascope/resnet20:1"].accuracy == pytest.approx(91.9)


def test_what_is_not_stored_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        sg.InputError, match=r"cifar10 has no signature of sigmascope/vit:0\. .*--from-scratch"
    ):
        Setting(results=tmp_path).runs(["vit:0"])


def test_a_measurement_that_fails_says_why(embedded: Path) -> None:
    setting = Setting(from_scratch=True, data_root=str(embedded), progress=False)
    with pytest.raises(
        sg.InputError, match=r"sigmascope/resnt20 could not be measured: .*resnet20"
    ):
        setting.runs(["resnt20"], images=64)


def test_measured_signatures_are_kept_and_read_again(embedded: Path, tmp_path: Path) -> None:
    setting = Setting(
        from_scratch=True, data_root=str(embedded), keep=tmp_path / "kept", progress=False
    )
    (first,) = setting.runs(["resnet20:0"], images=64, batch=32, metrics=())
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["signatures"]  # as in the zoo
    (found,) = (tmp_path / "kept" / "signatures").iterdir()
    assert found.name == "cifar10-images-64-batch-32-metrics"
    files = {path: path.stat().st_mtime_ns for path in found.iterdir()}
    (again,) = setting.runs(["resnet20:0"], images=64, batch=32, metrics=())
    assert np.array_equal(first.signature.scores, again.signature.scores)
    assert first.facts == again.facts
    assert files == {path: path.stat().st_mtime_ns for path in found.iterdir()}


def test_other_batches_are_another_measurement(embedded: Path, tmp_path: Path) -> None:
    setting = Setting(
        from_scratch=True, data_root=str(embedded), keep=tmp_path / "kept", progress=False
    )
    one, other = (
        setting.runs(["resnet20:0"], images=64, batch=batch, metrics=())[0] for batch in (32, 64)
    )
    assert len(one.signature.sites[0].scores) == 2
    assert len(other.signature.sites[0].scores) == 1


def test_a_procedure_of_an_item_runs_once(tmp_path: Path) -> None:
    (run,) = Setting(results=FOLDER).runs(["resnet20:0"])
    name = run.signature.name
    calls = []

    def measure() -> sg.Signature:
        calls.append(1)
        return run.signature

    setting = Setting(from_scratch=True, keep=tmp_path)
    found = [setting.signature(name, "published capture", measure) for _ in range(2)]
    assert len(calls) == 1
    assert np.array_equal(found[0].scores, found[1].scores)
    with pytest.raises(sg.InputError, match=f"published-capture has no signature of {name}"):
        Setting(results=tmp_path / "no").signature(name, "published capture", measure)
    (file,) = (tmp_path / "signatures").rglob("*.json")
    file.write_text(without_digest(file.read_text()).replace(name, "sigmascope/vit:0"))
    with pytest.raises(
        sg.ResumeError, match="belongs to another run: name is 'sigmascope/vit:0' there"
    ):
        setting.signature(name, "published capture", measure)
    with claim_beside(file), pytest.raises(sg.ResumeError, match="is open in another run"):
        setting.signature(name, "published capture", measure)
    assert (len(calls), list(file.parent.iterdir())) == (1, [file])


def test_reading_a_stored_signature_takes_no_lock(tmp_path: Path) -> None:
    (run,) = Setting(results=FOLDER).runs(["resnet20:0"])
    name = run.signature.name

    def unreachable() -> sg.Signature:
        raise AssertionError("measured")

    kept = Setting(from_scratch=True, keep=tmp_path)
    kept.signature(name, "published capture", lambda: run.signature)
    (file,) = (tmp_path / "signatures").rglob("*.json")
    with claim_beside(file):
        found = Setting(results=tmp_path).signature(name, "published capture", unreachable)
    assert found.name == name


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"weights": "defautl", "data": "random"}, "weights"),
        ({"weights": "default"}, "--data imagefolder:DIR"),
        ({"data": "random"}, "--weights default"),
        ({"limit": 64}, "--weights default"),
    ],
)
def test_bad_settings_are_refused(options: dict[str, str], told: str) -> None:
    with pytest.raises(sg.OptionError, match=told):
        Setting(**options)


def test_items_of_the_zoo_refuse_other_networks() -> None:
    with pytest.raises(sg.InputError, match="networks of the zoo only"):
        Setting(weights="none", data="random").runs(["resnet20:0"])


@pytest.mark.parametrize(("cast", "count"), [(PAPER, 36), (ZOO, 23)])
def test_a_cast_has_each_group_once_in_the_lead(cast: Cast, count: int) -> None:
    assert len(set(cast.names())) == len(cast.members) == count
    assert set(cast.leads) <= set(cast.names())
    groups = [cast.groups()[name] for name in cast.leads]
    assert sorted(groups) == sorted(set(FAMILIES) - {"MNASNets"})
    assert [member.year for member in cast.members] == sorted(
        member.year for member in cast.members
    )
    assert cast.names("ViTs") == [name for name, group in cast.groups().items() if group == "ViTs"]
    assert cast.lead("ViTs") in cast.names("ViTs")


def test_all_networks_are_known_to_the_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGMASCOPE_ZOO", str(WEIGHTS))
    known = {name for names in sg.catalog.model_names().values() for name in names}
    assert {*PAPER.names(), *ZOO.names()} <= known


def test_a_part_of_a_cast_has_leads_of_its_own() -> None:
    part = PAPER.only(["torchvision/resnet18", "torchvision/resnet34", "torchvision/alexnet"])
    assert part.names() == ["torchvision/alexnet", "torchvision/resnet18", "torchvision/resnet34"]
    assert part.leads == ("torchvision/alexnet", "torchvision/resnet34")
    assert part.lead("ViTs") is None
    assert PAPER.only(PAPER.names()) == PAPER
    with pytest.raises(sg.OptionError, match="network='torchvision/resnt18'"):
        PAPER.only(["torchvision/resnt18"])


def test_a_setting_knows_its_networks() -> None:
    with pytest.raises(sg.OptionError, match="network='nope' is not a valid choice"):
        Setting(networks=("nope",))


def test_a_setting_takes_part_of_its_cast() -> None:
    assert Setting(networks=("sigmascope/vit:0",)).cast.names() == ["sigmascope/vit:0"]


def test_a_setting_tells_what_is_unusual() -> None:
    assert Setting().told == Setting(from_scratch=True).told == ""
    told = Setting(weights="none", data="random", limit=8, networks=("torchvision/alexnet",)).told
    assert (
        told == "the paper's networks with random weights on random, not ours; 8 images; only "
        "torchvision/alexnet of the cast"
    )


def test_a_tiny_run_is_from_scratch_keeps_nothing_and_says_so(tmp_path: Path) -> None:
    setting = Setting(smoke=True, keep=tmp_path, results=FOLDER)
    assert (setting.from_scratch, setting.keep) == (True, None)
    assert (
        setting.told
        == "a tiny size, which shows that everything runs and says nothing about the paper"
    )
    assert not Setting().smoke
    (run,) = Setting(results=FOLDER).runs(["resnet20:0"])
    calls = []

    def measure() -> sg.Signature:
        calls.append(1)
        return run.signature

    for _ in range(2):
        setting.signature(run.signature.name, "published capture", measure)
    assert (len(calls), list(tmp_path.iterdir())) == (2, [])


# Processors add the numbers of a convolution in different orders: as far as a value may move.
ROUNDING = 3e-6


def allowed(site: Site, metric: str) -> float:
    """How far a metric that counts values may move, by the values within rounding of a threshold.

    Sparsity counts values of at most 0.001 in size. So many of them lie in a window of 0.002 that
    2 ROUNDING / 0.002 of that share are within rounding of each of its two ends. Entropy counts
    values in d equal bins of a row. Of d values 2 d ROUNDING are within rounding of an edge, and
    one that crosses it changes the entropy of the row by at most 2 ln(d) / d.
    """
    if metric.startswith("sparsity"):
        return 2 * 2 * ROUNDING / 0.002 * site.metrics["sparsity_before"]
    if metric.startswith("entropy"):
        return 4 * ROUNDING * site.dim * math.log(site.dim)
    return 1e-4 * abs(site.metrics[metric])


def test_from_scratch_gives_what_is_stored() -> None:
    manner = {"names": ["resnet20:0", "plain20:0"], "data": "embedded", "images": 512}
    stored, again = (
        Setting(results=FOLDER, from_scratch=anew, progress=False).runs(**manner)
        for anew in (False, True)
    )
    for one, other in zip(stored, again, strict=True):
        assert one.facts == other.facts
        scores = one.signature.scores, other.signature.scores
        np.testing.assert_allclose(*scores, rtol=0, atol=1e-5)
        for site, anew in zip(one.signature.sites, other.signature.sites, strict=True):
            assert site.metrics.keys() == anew.metrics.keys()
            for metric, value in site.metrics.items():
                assert anew.metrics[metric] == pytest.approx(value, abs=allowed(site, metric))
