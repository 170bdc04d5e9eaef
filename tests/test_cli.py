"""What the command line prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import sigmascope as sg
from sigmascope.cli import main
from sigmascope.demo import demo_signatures, finding


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="sigmascope", env={"COLUMNS": "120"})


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help(flag: str) -> None:
    result = run(flag)
    assert result.exit_code == 0
    assert result.output.startswith("Usage: sigmascope [OPTIONS] COMMAND [ARGS]...")
    assert "Look at σ, the activation function, inside real networks." in result.output
    assert re.search(r"demo +Measure a residual network and its plain twin on real images", result.output)


def test_version() -> None:
    result = run("--version")
    assert (result.exit_code, result.output) == (0, f"sigmascope {sg.__version__}\n")


def test_demo_tells_the_finding(tmp_path: Path) -> None:
    result = run("demo", "-o", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert result.output.count("19 activation calls seen, 19 scored.") == 2
    for one in demo_signatures(progress=False):
        for site in one.sites:
            assert re.search(rf"^{re.escape(site.name)} +relu +{site.dim} +{site.score:.4f} ", result.output, re.MULTILINE)
    residual, plain = (finding(one) for one in demo_signatures(progress=False))
    assert f"inside a block {residual.inside:.3f}, at its end {residual.after:.3f}" in result.output
    assert f"inside a block {plain.inside:.3f}, at its end {plain.after:.3f}" in result.output
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"demo.png", "demo.svg", "plain20.json", "resnet20.json"}


def test_demo_says_at_once_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run("demo", "-o", str(tmp_path / "file" / "out"))
    assert result.exit_code == 1
    assert re.search(r"Error: cannot write to .*: Not a directory\. Choose another folder with --out\.", result.output)


@pytest.mark.parametrize(
    ("what", "some"),
    [
        ("models", ["sigmascope/resnet20", "torchvision/resnet50", "hf/bert"]),
        ("data", ["cifar10", "embedded", "imagefolder"]),
        ("activations", ["softmax: gumbel_softmax, log_softmax, softmax, softmin", "gated: glu"]),
    ],
)
@pytest.mark.filterwarnings("ignore:torchvision was built for another torch:RuntimeWarning")
def test_list(what: str, some: list[str]) -> None:
    result = run("list", what)
    assert result.exit_code == 0
    assert set(some) <= set(result.output.splitlines())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--samples", "1"], "No such option.*--samples"),
        (["list", "networks"], "'networks' is not one of 'models', 'data', 'activations'"),
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
