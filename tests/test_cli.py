"""What the command line prints."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

import sigmascope as sg
from sigmascope.cli import main
from sigmascope.demo import ACTIVATIONS, LAWS, activation_table


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="sigmascope", env={"COLUMNS": "120"})


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help(flag: str) -> None:
    result = run(flag)
    assert result.exit_code == 0
    assert result.output.startswith("Usage: sigmascope [OPTIONS] COMMAND [ARGS]...")
    assert "Look at σ, the activation function, inside real networks." in result.output
    assert re.search(r"demo +Score the common activation functions", result.output)


def test_version() -> None:
    result = run("--version")
    assert (result.exit_code, result.output) == (0, f"sigmascope {sg.__version__}\n")


def test_help_of_demo_names_the_defaults() -> None:
    output = run("demo", "--help").output
    for option, default in {"--samples": 1024, "--channels": 16, "--seed": 0}.items():
        assert re.search(rf"{option} INTEGER.*?default:\s+{default}\b", output, re.DOTALL)


def test_demo_prints_every_score() -> None:
    result = run("demo", "--samples", "64", "--channels", "2", "--seed", "3")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "Affinity score: 1 is affine, lower is more non-linear."
    assert lines[1] == "64 samples of 2 independent channels, Ledoit–Wolf covariances, exact transport."
    for row in activation_table(samples=64, channels=2, seed=3):
        (line,) = [line for line in lines if line.startswith(f"{row.activation} ")]
        assert [float(number) for number in re.findall(r"\d\.\d{3}", line)] == [round(float(s), 3) for s in row.scores]
    proofs = re.search(r"^Optimum proved by (.*)\.$", result.output, re.MULTILINE)
    assert sum(map(int, re.findall(r"\((\d+)\)", proofs[1]))) == len(ACTIVATIONS) * len(LAWS)
    assert re.search(r"^identity .* 1\.000 +█{20}$", result.output, re.MULTILINE)


def test_demo_follows_its_seed() -> None:
    small = ("demo", "--samples", "16", "--channels", "1", "--seed")
    assert run(*small, "1").output == run(*small, "1").output != run(*small, "2").output


def test_demo_scores_are_in_order() -> None:
    rows = {row.activation: [float(score) for score in row.scores] for row in activation_table(samples=256, channels=3)}
    assert list(rows) == list(ACTIVATIONS)
    assert rows["identity"] == pytest.approx([1] * len(LAWS), abs=1e-9)
    assert all(leaky > relu for leaky, relu in zip(rows["leaky relu"], rows["relu"], strict=True))
    assert all(0 < score < 1 for name, scores in rows.items() if name != "identity" for score in scores[:2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--samples", "1"], "1 is not in the range x>=2"),
        (["demo", "--channels", "0"], "0 is not in the range x>=1"),
        (["demo", "--samples", "many"], "'many' is not a valid integer"),
        (["dmeo"], "No such command 'dmeo'"),
        (["--colour"], "No such option.*--colour"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert re.search(message, result.output)


def test_help_does_not_import_torch() -> None:
    code = (
        "import sys\nfrom sigmascope.cli import main\ntry:\n    main(['--help'])\nfinally:\n    print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("Usage:")
    assert done.stdout.endswith("False\n")


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "sigmascope", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"sigmascope {sg.__version__}\n"
