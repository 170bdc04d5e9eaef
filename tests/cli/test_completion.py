"""Completion of names, and the scripts for three shells in these shells."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from sigmascope.cli import main
from sigmascope.cli.names import NAMES, Name, kept_names
from tests.cli.running import run

FOUND = {
    "models": ["sigmascope/myrtle", "sigmascope/myrtle:0", "sigmascope/myrtle:1", "timm/vit"],
    "data": ["cifar10", "imagefolder:DIR", "embedded"],
    "items": ["all", "fig7", "fig6"],
}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that knows a few names, so that no library is imported."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for of, names in FOUND.items():
        kept_names(of, lambda names=names: names)
    return tmp_path / "sigmascope"


def completed(*words: str) -> list[str]:
    """What click offers in place of the last word."""
    found = BashComplete(main, {}, "sigmascope", "_SIGMASCOPE_COMPLETE")
    return [item.value for item in found.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("measure", "sigmascope/my"), FOUND["models"][:3]),
        (("measure", "timm/vit", "t"), ["timm/vit"]),
        (("align", "sigmascope/myrtle:"), ["sigmascope/myrtle:0", "sigmascope/myrtle:1"]),
        (("stitch", "timm/vit", "sigmascope/myrtle:1"), ["sigmascope/myrtle:1"]),
        (("linearize", "timm/vit", "--data", "im"), ["imagefolder:"]),
        (("similarity", "--data", ""), ["cifar10", "imagefolder:", "embedded"]),
        (("reproduce", "fig"), ["fig7", "fig6"]),
        (("mea",), ["measure"]),
        (("measure", "--cov"), ["--covariance"]),
        (("list", ""), ["models", "data", "activations"]),
    ],
    ids=" ".join,
)
def test_names_are_completed(words: tuple[str, ...], expected: list[str], cache: Path) -> None:
    assert completed(*words) == expected


def test_names_are_kept_for_a_day(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cache / "names-data.json"
    assert kept_names("data", lambda: ["other"]) == FOUND["data"]
    os.utime(path, (0, 0))
    assert kept_names("data", lambda: ["other"]) == ["other"]
    assert kept_names("data", lambda: ["third"]) == ["other"]
    path.write_text(json.dumps({"stamp": [], "names": ["old"]}))  # of another version
    assert kept_names("data", lambda: ["third"]) == ["third"]
    path.write_text("{")
    assert kept_names("data", lambda: ["fourth"]) == ["fourth"]
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc")  # cannot be written
    assert kept_names("data", lambda: ["fifth"]) == ["fifth"]


def test_the_real_names() -> None:
    assert "embedded" in NAMES["data"]()
    assert "sigmascope/resnet20" in NAMES["models"]()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["measure", "x"], "Missing option '--data'. Pass --data embedded for the images in"),
        (["measure", "--data", "embedded"], "Missing argument 'NETWORK...'. Run `sigmascope list"),
        (["align", "x"], "Missing argument 'B'. Run `sigmascope list models` for names"),
    ],
)
def test_a_missing_name_comes_with_its_remedy(arguments: list[str], told: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert told in result.stderr


def test_a_type_without_a_remedy() -> None:
    assert Name("items", list).get_missing_message(click.Argument(["x"])) is None


# What a shell does with the tab key, without a terminal. ANSWER prints what it would offer.
BASH = """
eval "$(sigmascope completion bash)"
COMP_LINE="$1" COMP_POINT=${#1} COMP_WORDBREAKS=$' \\t\\n"=:'
compopt() { echo "option ${*: -1}" >&2; }
_sigmascope_completion sigmascope
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = 'sigmascope completion fish | source; complete --do-complete "$argv[1]"'
ZSH = """
autoload -U compinit && compinit -u -D
eval "$(sigmascope completion zsh)"
compadd() { print -l -- ${completions}; }
words=(${(z)1}) CURRENT=${#words}
_sigmascope_completion
"""


def in_shell(shell: str, code: str, line: str, tmp_path: Path) -> tuple[list[str], str]:
    """Return the lines that a shell prints for a script, and what it complains about."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell} here")
    tools = tmp_path / "bin"
    tools.mkdir()
    command = tools / "sigmascope"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m sigmascope "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    options = {"bash": ["--norc"], "fish": ["--no-config"], "zsh": ["-f"]}[shell]
    name = [] if shell == "fish" else [shell]
    done = subprocess.run(
        [program, *options, "-c", code, *name, line],
        capture_output=True, text=True, env=environment, timeout=300,
    )  # fmt: skip
    return done.stdout.split("\n")[:-1], done.stderr


@pytest.mark.parametrize(
    ("line", "expected", "said"),
    [
        ("sigmascope measure sigmascope/my", FOUND["models"][:3], ""),
        ("sigmascope align sigmascope/myrtle:", ["0", "1"], ""),
        ("sigmascope align sigmascope/myrtle:0 sigmascope/myrtle:1", ["1"], ""),
        ("sigmascope measure x --data im", ["imagefolder:"], "option nospace\n"),
        ("sigmascope report ", [""], "option default\n"),
        ("sigmascope demo -o ", [""], "option default\n"),
        ("sigmascope qqq", [""], ""),
    ],
)
def test_bash(line: str, expected: list[str], said: str, cache: Path, tmp_path: Path) -> None:
    assert in_shell("bash", BASH, line, tmp_path) == (expected, said)


def test_fish(cache: Path, tmp_path: Path) -> None:
    found, _ = in_shell("fish", FISH, "sigmascope measure sigmascope/my", tmp_path)
    assert found == FOUND["models"][:3]


def test_zsh(cache: Path, tmp_path: Path) -> None:
    found, _ = in_shell("zsh", ZSH, "sigmascope align sigmascope/myrtle:", tmp_path)
    assert found == ["sigmascope/myrtle:0", "sigmascope/myrtle:1"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_printed(shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_SIGMASCOPE_COMPLETE" in result.stdout
    assert run("completion", "tcsh").exit_code == 2
