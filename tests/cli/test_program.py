"""Help, exit codes, errors on one line, and readers that go away."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import sigmascope as sg
from sigmascope.cli import main
from tests.cli.running import run, started
from tests.compare.made import made

COMMANDS = (
    "measure",
    "watch",
    "compare",
    "report",
    "show",
    "track",
    "similarity",
    "align",
    "stitch",
    "linearize",
    "reproduce",
    "list",
    "completion",
    "demo",
)


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help(flag: str) -> None:
    result = run(flag)
    assert result.exit_code == 0
    assert result.output.startswith("Usage: sigmascope [OPTIONS] COMMAND [ARGS]...")
    assert (
        "Measure how non-linear activations are, and which symmetries they preserve."
        in result.output
    )
    listed = re.findall(
        r"^  (\w+)  +\S.*[.]$", result.output.partition("Commands:")[2], re.MULTILINE
    )
    assert listed == list(COMMANDS)
    assert "Examples:\n    sigmascope demo\n" in result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_and_offers_json(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: sigmascope {command} ")
    offered = re.search(r"--json +Print JSON instead of text\.", result.output)
    assert bool(offered) == (command != "completion")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_examples_of_itself(command: str) -> None:
    found = run(command, "--help").output
    examples = re.findall(r"sigmascope (\w+) .*", found[found.index("Example") :])
    assert examples
    assert set(examples) == {command}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_options_is_in_whole_phrases(command: str) -> None:
    """No fragments such as "Of what is drawn." that are clear to their author only."""
    for option in main.commands[command].params:
        told = getattr(option, "help", None)
        if told is not None:
            assert re.match("[A-Z0-9]", told), option.name
            assert not re.match(r"(Of|In|For|With|From|To|By)\b", told), option.name
            assert re.search(r"[.\]]$", told), option.name


def test_version() -> None:
    result = run("--version")
    assert (result.exit_code, result.output) == (0, f"sigmascope {sg.__version__}\n")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["measure", "--help"], ["compare", "--help"], ["track", "--help"]]
)
def test_help_is_light(arguments: list[str]) -> None:
    heavy = (
        "print({'torch', 'numpy', 'scipy', 'matplotlib', 'rich'} & set(sys.modules), "
        "len(sys.modules))"
    )
    code = (
        "import sys\nfrom sigmascope.cli import main\ntry:\n    "
        f"main({arguments})\nfinally:\n    {heavy}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.stdout.startswith("Usage:")
    loaded, count = done.stdout.splitlines()[-1].split()
    assert loaded == "set()"
    assert int(count) < 400


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sigmascope", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"sigmascope {sg.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--samples", "1"], "No such option.*--samples"),
        (["list", "networks"], "'networks' is not one of 'models', 'data', 'activations'"),
        (["dmeo"], "No such command 'dmeo'"),
        (["--color"], "No such option.*--color"),
        (["show"], "Missing argument"),
        (["compare"], "Missing argument"),
        (["report"], "Missing argument"),
        (["compare", "x", "--linkage", "median"], "'median' is not one of 'average'"),
        (["compare", "x", "--groups", "0"], "0 is not in the range"),
        (["measure", "sigmascope/resnet20"], "Missing option '--data'"),
        (["measure", "--data", "embedded"], "Missing argument"),
        (
            ["measure", "a/b", "--data", "embedded", "--covariance", "best"],
            "'best' is not one of 'ledoit-wolf'",
        ),
        (["measure", "a/b", "--data", "embedded", "--batch-size", "0"], "0 is not in the range"),
        (
            ["measure", "a/b", "--data", "embedded", "--shard", "3/2", "-o", "r"],
            "'3/2' is not a shard. Write I/N",
        ),
        (["measure", "a/b", "--data", "embedded", "--shard", "1", "-o", "r"], "'1' is not a shard"),
        (
            ["measure", "a/b", "--data", "embedded", "--shard", "1/2"],
            "--shard needs a shared directory",
        ),
        (["measure", "a/b", "a/b", "--data", "embedded"], "a/b is listed twice"),
        (
            ["measure", "a/b", "a/c", "--data", "embedded", "-o", "x.json"],
            "there are 2 networks. Pass a directory",
        ),
        (
            ["measure", "a/b", "a/c", "--data", "embedded", "--weights", "w.pt"],
            "--weights FILE fits one network",
        ),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert re.search(message, result.stderr)
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "nowhere.json"], "nowhere.json: No such file or directory"),
        (
            ["measure", "sigmascope/resnet20", "--data", "embeded"],
            "data 'embeded' is not in the catalog. Did you mean 'embedded'?",
        ),
        (
            ["measure", "sigmascope/resnet20", "--data", "cifar10", "--data-root", "none"],
            "pass --data-root FOLDER, or set",
        ),
        (
            ["measure", "sigmascope/resnet20", "--data", "embedded", "--device", "abacus"],
            "device='abacus' cannot be used here",
        ),
        (
            ["measure", "sigmascope/resnet20", "--data", "embedded", "--weights", "w.pt"],
            "weights='w.pt' does not exist",
        ),
    ],
)
def test_an_error_is_one_line(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert message in line


def test_with_debug_an_error_says_where_it_comes_from() -> None:
    result = run("--debug", "show", "nowhere.json")
    assert result.exit_code == 1
    assert result.stderr.startswith("Traceback")
    assert result.stderr.endswith("Error: nowhere.json: No such file or directory\n")


def test_an_error_that_nobody_thought_of_is_one_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def surprise() -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setitem(main.commands, "surprise", click.Command("surprise", callback=surprise))
    result = run("surprise")
    assert (result.exit_code, result.stdout) == (1, "")
    expected = (
        "Error: ZeroDivisionError: division by zero. To see where it comes from: sigmascope "
        "--debug …\n"
    )
    assert result.stderr == expected


def test_a_command_may_return_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(main.commands, "half", click.Command("half", callback=lambda: 3))
    assert run("half").exit_code == 3


@pytest.mark.parametrize(
    "arguments", [["--help"], ["show", "made.json"], ["show", "made.json", "--json"]]
)
def test_a_reader_may_go_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made("many", [0.5] * 2000).save("made.json")
    with started(*arguments) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        code = process.wait(600)
        assert process.stderr.read() == ""
        assert code == 141


def test_a_reader_may_have_enough(tmp_path: Path) -> None:
    """As in a shell: compare … | head -1. What is printed is more than a pipe holds."""
    for number in range(200):
        made(f"network-{number}" + "n" * 50, [0.5, number / 100]).save(tmp_path / f"{number}.json")
    with started("compare", tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("network")
        process.stdout.close()
        assert process.wait(600) == 141
        assert process.stderr.read() == ""


def test_another_encoding_loses_no_line(tmp_path: Path) -> None:
    path = made("σ-network", [0.5, 0.6]).save(tmp_path / "made.json")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "sigmascope", "show", path],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Signature of ?-network: 2 activation calls")
