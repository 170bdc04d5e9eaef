"""`list`: the names that are known."""

from __future__ import annotations

import re

import pytest

from sigmascope.capture.activations import known_activations
from sigmascope.catalog import data_names
from tests.cli.running import document, run


@pytest.mark.parametrize(
    ("what", "some"),
    [
        ("models", ["sigmascope/resnet20", "torchvision/resnet50", "hf/bert"]),
        ("data", ["cifar10", "embedded", "imagefolder:DIR"]),
        ("activations", ["softmax: gumbel_softmax, log_softmax, softmax, softmin", "gated: glu"]),
    ],
)
def test_the_names(what: str, some: list[str]) -> None:
    result = run("list", what)
    assert result.exit_code == 0
    assert set(some) <= set(result.stdout.splitlines())


@pytest.mark.parametrize(
    ("pattern", "expression"),
    [
        ("sigmascope/resnet20", ".*sigmascope/resnet20.*"),
        ("sigmascope/resnet??", "sigmascope/resnet.."),
        ("*/ResNet50", ".*/resnet50"),
        ("torchvision/[v]*", "torchvision/v.*"),
    ],
)
def test_a_pattern(pattern: str, expression: str) -> None:
    every = run("list", "models").stdout.splitlines()
    found = run("list", "models", pattern).stdout.splitlines()
    assert found == [name for name in every if re.fullmatch(expression, name)]
    assert 0 < len(found) < len(every)


def test_a_pattern_in_families() -> None:
    assert run("list", "activations", "softmi").stdout == "softmax: softmin\n"
    assert run("list", "data", "mnist").stdout == "mnist\nfashion-mnist\n"


def test_nothing_matches() -> None:
    result = run("list", "data", "zzz")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "No name of data matches zzz.\n"


def test_the_document() -> None:
    assert document(run("list", "data", "--json")) == (
        "names",
        {"of": "data", "groups": {"data": data_names()}},
    )
    kind, content = document(run("list", "activations", "--json"))
    assert (kind, content["groups"]) == ("names", known_activations())
    assert document(run("list", "data", "zzz", "--json"))[1]["groups"] == {}
