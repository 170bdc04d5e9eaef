"""Gates that are listed, and left out of statistics and comparisons."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.measure.options import Options
from sigmascope.store import decode, encode
from tests.resealing import edit

X = torch.randn(96, 8, generator=torch.Generator().manual_seed(0))


class Gated(nn.Module):
    """Three activations of which the second is a gate."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.gate, self.up, self.last = (nn.Linear(8, 8) for _ in range(4))
        self.relu, self.silu, self.tanh = nn.ReLU(), nn.SiLU(), nn.Tanh()

    def forward(self, x: Tensor) -> Any:
        x = self.relu(self.first(x))
        return self.tanh(self.last(self.silu(self.gate(x)) * self.up(x)))


def measured(**options: Any) -> sg.Signature:
    return sg.signature(Gated(), X, progress=False, **options)


def test_statistics_leave_gates_out() -> None:
    alone, out = measured(), measured(gates="out", metrics="all")
    assert [site.role for site in out] == ["", "gate", ""]
    np.testing.assert_array_equal(out.scores, alone.scores)
    assert [site.kind for site in out.counted] == ["relu", "tanh"]
    assert alone.counted == alone.sites
    kept = out.scores[[0, 2]]
    assert out.summary()["mean"] == pytest.approx(kept.mean())
    assert out.summary()["mean"] != alone.summary()["mean"]
    assert out.to_dict()["mean"] == out.summary()["mean"]
    table = sg.statistics([out], by="published").table
    assert table["mean"] == (pytest.approx(kept.mean()),)
    assert sg.correlations([out]).sites.max() == 2


def test_comparisons_leave_gates_out() -> None:
    out = measured(gates="out")
    without = sg.signature(Gated(), X, progress=False, activations=["relu", "tanh"])
    assert sg.distances([out, without]).matrix[0, 1] == 0
    assert sg.distances([measured(), without]).matrix[0, 1] > 0
    found = sg.difference(out, without)
    assert [one.difference for one in found.summary] == [0] * len(found.summary)
    assert found.only_a == ("silu",)
    assert any("gates" in note for note in found.notes)


def test_a_network_of_nothing_but_gates_has_no_statistics() -> None:
    out = measured(gates="out", activations="silu")
    assert np.isnan(out.summary()["mean"])
    assert "nan" not in str(out)
    with pytest.raises(sg.InputError, match="has no score at all"):
        sg.statistics([out])


def test_the_option_is_checked_and_stored() -> None:
    with pytest.raises(sg.OptionError, match=r"gates='no' is not a valid choice\. .*'alone'"):
        measured(gates="no")
    stored = json.loads(json.dumps(encode(Options(gates="unit"))))
    assert decode(Options, stored).gates == "unit"
    del stored["gates"]  # as before there was the option
    assert decode(Options, stored).gates == "alone"


def test_roles_of_an_earlier_version_are_empty(tmp_path: Any) -> None:
    path = measured().save(tmp_path / "one.json")

    def earlier(document: Any) -> None:
        for site in document["content"]["sites"]:
            del site["role"], site["multiplies"]
        del document["content"]["options"]["gates"]

    edit(path, earlier)
    assert {site.role for site in sg.load(path)} == {""}
