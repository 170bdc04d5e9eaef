"""`similarity`: what is printed, written and returned, on samples as each network takes them."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sigmascope.catalog.datasets import data
from sigmascope.catalog.models import model
from sigmascope.cli.similarity import PairedData, _run
from sigmascope.errors import InputError
from sigmascope.store import encode
from sigmascope.symmetry.layer_similarity import LayerSimilarity
from sigmascope.symmetry.layers import compare
from tests.cli.running import document, run
from tests.runs.tiny import names_in

DATA = ("--data", "random:8", "--limit", "64", "--batch-size", "16")


@pytest.mark.parametrize(
    ("measure", "options"),
    [
        ("procrustes", {"normalizer": "live", "dtype": "float64"}),
        ("cka", {"kernel": "median", "normalize": "none", "centered": False, "dtype": "float64"}),
    ],
)
def test_options_of_a_measure_are_passed_on(
    tmp_path: Path, measure: str, options: dict[str, Any]
) -> None:
    [name] = names_in(tmp_path, "conv")
    flags = [f"--{key}={value}" for key, value in options.items() if key != "centered"]
    flags += ["--uncentered"] if "centered" in options else []
    _, content = document(
        run("similarity", name, name, *DATA, "--measure", measure, *flags, "--json")
    )
    assert content["similarity"]["settings"] == {key: str(value) for key, value in options.items()}


def test_an_option_of_the_other_measure_is_refused(tmp_path: Path) -> None:
    [name] = names_in(tmp_path, "conv")
    result = run("similarity", name, name, *DATA, "--kernel", "median")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "kernel belongs to measure='cka', not to 'procrustes'" in result.stderr


def test_data_is_that_of_the_package_by_default() -> None:
    name = "sigmascope/resnet20"
    result = run("similarity", name, name, "--limit", "8", "--pairs", "diagonal")
    assert result.exit_code == 0
    assert result.stderr == f"Comparing {name} and {name} on 8 samples of embedded\n"


@pytest.mark.parametrize("measure", ["procrustes", "cka"])
def test_prints_and_writes_what_the_library_returns(tmp_path: Path, measure: str) -> None:
    one, other = names_in(tmp_path, "conv", "conv")[0], names_in(tmp_path, "wide")[0]
    out = tmp_path / "new" / "out"
    result = run(
        "similarity", one, other, *DATA, "--measure", measure, "--group", "orthogonal", "-o", out
    )
    batches = data("random:8", limit=64, batch_size=16)
    networks = [model(name).network for name in (one, other)]
    expected = compare(*networks, batches, measure=measure, group="orthogonal", names=(one, other))
    saved = LayerSimilarity.load(out / "similarity.json")
    assert saved == expected or measure == "procrustes"  # NaN is unlike itself
    np.testing.assert_array_equal(saved.similarity, expected.similarity)
    files = ", ".join(str(out / f"similarity.{ending}") for ending in ("json", "svg", "png", "csv"))
    assert result.stdout == f"{expected!r}\n\nWritten: {files}\n"
    assert result.stderr == f"Comparing {one} and {other} on 64 samples of random:8\n"
    assert sorted(path.suffix for path in out.iterdir()) == [".csv", ".json", ".png", ".svg"]
    rows = list(csv.DictReader((out / "similarity.csv").read_text().splitlines()))
    assert len(rows) == saved.similarity.size
    assert float(rows[0]["similarity"]) == saved.similarity[0, 0]
    assert result.exit_code == (3 if saved.missing else 0)


def test_a_network_is_like_itself_and_the_document_says_so(tmp_path: Path) -> None:
    [name] = names_in(tmp_path, "conv")
    kind, content = document(
        run("similarity", name, name, *DATA, "--pairs", "diagonal", "--seed", "3", "--json")
    )
    assert kind == "similarity"
    assert content["request"]["networks"] == [name, name]
    assert (
        content["request"]["data"],
        content["request"]["limit"],
        content["request"]["seed"],
    ) == ("random:8", 64, 3)
    assert content["written"] == []
    assert content["similarity"]["similarities"] == [[1.0, None], [None, 1.0]]
    network = model(name, seed=3).network
    found = compare(
        network,
        network,
        data("random:8", limit=64, batch_size=16, seed=3),
        pairs="diagonal",
        names=(name, name),
    )
    assert content["similarity"] == encode(found)


def test_pairs_without_a_similarity_end_with_three(tmp_path: Path) -> None:
    one, other = names_in(tmp_path, "conv", "wide")
    result = run("similarity", one, other, *DATA)
    assert result.exit_code == 3
    assert "positions 4 × 4 and 6 × 6: one must be a whole multiple of the other" in result.stdout


def test_each_network_gets_the_samples_as_it_takes_them() -> None:
    class Batches:
        def __init__(self, scale: float) -> None:
            self.scale, self.size = scale, 4

        def __len__(self) -> int:
            return 1

        def __iter__(self) -> Any:
            yield torch.full((4, 2), self.scale), torch.zeros(4)

    pairs = PairedData(Batches(1.0), Batches(2.0))  # type: ignore[arg-type]
    [item] = pairs
    seen = {side: _run(torch.nn.Identity(), item, side) for side in ("a", "b")}
    assert {side: float(values[0, 0]) for side, values in seen.items()} == {"a": 1.0, "b": 2.0}
    assert len(pairs) == 1


def test_sentences_need_one_tokenizer() -> None:
    words = {"input_ids": torch.ones(2, 3, dtype=torch.long)}
    assert list(PairedData([words], [dict(words)])) == [words]  # type: ignore[arg-type]
    with pytest.raises(InputError, match="different tokens"):
        list(PairedData([words], [{"input_ids": torch.zeros(2, 3, dtype=torch.long)}]))  # type: ignore[arg-type]


def test_a_file_of_somebody_else_is_not_replaced(tmp_path: Path) -> None:
    [name] = names_in(tmp_path, "conv")
    (tmp_path / "similarity.json").write_text("{}")
    result = run("similarity", name, name, *DATA, "-o", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "similarity.json exists and is not a similarity file" in result.stderr
    assert (tmp_path / "similarity.json").read_text() == "{}"
    (tmp_path / "similarity.json").unlink()
    for _ in range(2):  # its own is replaced
        assert (
            run("similarity", name, name, *DATA, "--pairs", "diagonal", "-o", tmp_path).exit_code
            == 0
        )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["a/b"], 2, "Missing argument 'B'"),
        (
            ["a/b", "a/c", "--data", "embedded", "--measure", "mse"],
            2,
            "'mse' is not one of 'procrustes', 'cka'",
        ),
        (
            ["sigmascope/resnt20", "sigmascope/resnet20", "--data", "embedded"],
            1,
            "Did you mean 'sigmascope/resnet20'",
        ),
    ],
)
def test_what_is_wrong_is_told(arguments: list[str], code: int, message: str) -> None:
    result = run("similarity", *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    [name] = names_in(tmp_path, "conv")
    result = run("similarity", name, name, *DATA, "--device", "abacus")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: device='abacus' cannot be used here")


def test_numbers_are_similarities(tmp_path: Path) -> None:
    [name] = names_in(tmp_path, "conv")
    result = run("similarity", name, name, *DATA, "--measure", "cka")
    assert result.stdout.startswith("CKA similarity, group relu: ")
    assert math.isfinite(float(result.stdout.split()[-1]))
