"""Names from files print as text, and names that no file can have are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sigmascope as sg
from sigmascope.catalog import data, model
from sigmascope.dissection.masks import Concept
from sigmascope.errors import printable
from sigmascope.symmetry.layer_similarity import Missing
from tests.compare.made import made
from tests.faults.samples import dissection, penalty, similarity, stitch
from tests.faults.scale import FULL, write_down

HOSTILE = "a\x1b[31m\x07\x9b\u202eb\u2066\x00\r\u200b\x7f"
CONTROLS = set(HOSTILE) - set("a[31mb")


def results() -> dict[str, Any]:
    """Return every stored result with hostile text wherever text can be."""
    signature = made(HOSTILE, [0.5, 0.25], {HOSTILE: [0.5, 0.5]}, paths=[HOSTILE, "b"])
    coverage = replace(signature.coverage, never_called=(HOSTILE,), notes=(HOSTILE,))
    concepts = (Concept(HOSTILE, HOSTILE), Concept("dog", HOSTILE))
    missing = (Missing(HOSTILE, "c", HOSTILE),)
    return {
        "signature": replace(signature, coverage=coverage),
        "stitch": stitch(networks=(HOSTILE, HOSTILE), site=HOSTILE, notes=(HOSTILE,)),
        "dissection": dissection(name=HOSTILE, concepts=concepts, notes=(HOSTILE,), quantile=0.99),
        "penalty": penalty(layer=HOSTILE),
        "similarity": similarity(
            networks=(HOSTILE, HOSTILE),
            group=HOSTILE,
            rows=(HOSTILE, "b"),
            columns=(HOSTILE,),
            missing=missing,
        ),
    }


@pytest.mark.parametrize("name", results())
def test_results_print_no_control_characters(name: str, tmp_path: Path) -> None:
    found = sg.load(results()[name].save(tmp_path / "a.json"))
    for text in (repr(found), str(found), found._repr_html_()):
        assert not CONTROLS & set(text)
        assert "a" in text


def test_errors_print_no_control_characters(tmp_path: Path) -> None:
    result = made("one", [0.5])
    with pytest.raises(sg.UnknownSiteError, match=r"is not one of the 1 sites of a\\x1b") as caught:
        replace(result, name=HOSTILE)["nowhere"]
    assert not CONTROLS & set(str(caught.value))
    assert str(sg.InputError("first\nsecond")) == "first\nsecond"
    assert printable("σ ≤ 1 – „ß“ 🌍") == "σ ≤ 1 – „ß“ 🌍"


ODD = {
    "zero": "\0",
    "zero inside": "a\0b",
    "half a letter": "\ud800",
    "half a letter inside": "a/\udfff\ud800.json",
    "long": "x" * 300,
    "long part": "a/" + "ä" * 200 + "/b",
    "long path": "a/" * 3000,
    "line feed": "a\nb",
    "escape": "\x1b[2J",
    "direction": "\u202egnp.exe",
    "empty": "",
    "tilde": "~",
    "percent": "%00",
    "wildcard": "*",
    "colon": "::",
    "space": " ",
    "dash": "-rf",
}
OPENERS: dict[str, Callable[[str], object]] = {
    "load": sg.load,
    "hf/": lambda name: model(f"hf/{name}"),
    "onnx:": lambda name: model(f"onnx:{name}"),
    "py:": lambda name: model(f"py:{name}:net"),
    "sigmascope/": lambda name: model(f"sigmascope/{name}"),
    "sigmascope/resnet20:": lambda name: model(f"sigmascope/resnet20:{name}"),
    "weights": lambda name: model("sigmascope/resnet20", weights=name),
    "timm/": lambda name: model(f"timm/{name}", weights=None),
    "imagefolder:": lambda name: data(f"imagefolder:{name}"),
    "text:": lambda name: data(f"text:{name}"),
    "root": lambda name: data("mnist", root=name),
    "data": data,
    "rescore": sg.rescore,
}


SLOW = () if FULL else ("hf/", "timm/")  # whose packages take seconds to import


def test_odd_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of ours, or that there is no such file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    escaped, openers = [], {name: one for name, one in OPENERS.items() if name not in SLOW}
    for opener, open_it in openers.items():
        for what, name in ODD.items():
            try:
                open_it(name)
            except (sg.SigmascopeError, FileNotFoundError, IsADirectoryError) as error:
                if CONTROLS & set(str(error)):
                    escaped.append(f"{opener} {what}: prints {error!r:.80}")
            except Exception as error:
                escaped.append(f"{opener} {what}: {error!r:.160}")
    write_down("odd names", tried=len(openers) * len(ODD), failed=len(escaped))
    assert not escaped


@pytest.mark.parametrize("what", ["zero", "half a letter", "long", "long path"])
def test_odd_names_to_write(what: str, tmp_path: Path) -> None:
    with pytest.raises(sg.InputError, match=r"zero byte|half a letter|too long"):
        made("one", [0.5]).save(str(tmp_path / ODD[what]))
    assert not list(tmp_path.iterdir())
