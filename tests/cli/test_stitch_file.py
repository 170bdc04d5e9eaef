"""`sigmascope stitch -o`: the same command shows a finished stitch again; no other replaces it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

import sigmascope as sg
from sigmascope.cli.stitch_file import files_for
from sigmascope.errors import ResumeError
from sigmascope.store import claim, read_features, write_features
from tests.cli.running import document, run
from tests.cli.stitchable import NETWORKS, SHORT, SOURCE

COMMAND = ("stitch", *NETWORKS, *SHORT, "--family", "full", "--epochs", "1", "-o", "kept.json")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.name.startswith(("kept", ".kept"))
    }


@pytest.fixture
def finished(files: Path) -> dict[str, bytes]:
    """Return the files of a stitch that is finished."""
    assert run(*COMMAND).exit_code == 0
    written = contents(files)
    assert sorted(written) == ["kept.json", "kept.safetensors"]
    return written


@pytest.mark.parametrize(
    "more", [(), ("--device", "auto"), ("--augment", "flip-shift"), ("--set", "optimizer=sgd")]
)
def test_the_same_run_is_shown_again(
    files: Path, finished: dict[str, bytes], more: tuple[str, ...]
) -> None:
    shutil.rmtree(files / "data")  # nothing is trained or tested
    again = run(*COMMAND, *more)
    assert (again.exit_code, again.stderr) == (0, "kept.json: already there\n")
    assert again.stdout == f"{sg.StitchResult.load(files / 'kept.json')!r}\n"
    kind, content = document(run(*COMMAND, *more, "--json"))
    assert (kind, content["written"]) == ("stitch-summary", [])
    assert contents(files) == finished


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--seed", "1"), "seed is 0 there and 1 here"),
        (("--family", "least-squares"), "family is 'full' there and 'least-squares' here"),
        (("--epochs", "2"), "settings.epochs is 1 there and 2 here"),
        (("--preset", "paper"), "settings.momentum is 0.9 there and 0.0 here"),
        (("--set", "decay=0.5"), "settings.decay is 0.0 there and 0.5 here"),
        (("--limit", "40"), "limit is None there and 40 here"),
        (("--test-limit", "20"), "test_limit is None there and 20 here"),
        (("--data", "cifar100"), "data is 'cifar10' there and 'cifar100' here"),
        (("--data-root", "data"), "data_root is None there and 'data' here"),
        (("--augment", "none"), "augment is 'flip-shift' there and 'none' here"),
        (("--at", "2"), "site is '3' there and '2' here"),
        (("--site", "2"), "site is '3' there and '2' here"),
        (("--style", "conv"), "style is 'auto' there and 'conv' here"),
    ],
)
def test_another_run_is_refused(
    files: Path, finished: dict[str, bytes], more: tuple[str, ...], told: str
) -> None:
    result = run(*COMMAND, *more)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: kept.json belongs to another run: ")
    assert told in result.stderr
    assert result.stderr.endswith(
        ". Use the same settings, choose another path, or remove it first.\n"
    )
    assert contents(files) == finished
    assert run(*COMMAND, *more, "--json", "-o", "other.json").exit_code == (
        told.startswith("data is")
    )


@pytest.mark.parametrize("networks", [("py:nets.py:two", "py:nets.py:two"), NETWORKS[::-1]])
def test_other_networks_are_refused(
    files: Path, finished: dict[str, bytes], networks: tuple[str, str]
) -> None:
    result = run("stitch", *networks, *COMMAND[3:])
    assert result.exit_code == 1
    assert "front is 'py:nets.py:one' there and 'py:nets.py:two' here" in result.stderr
    assert "weights.front is" in result.stderr
    assert contents(files) == finished


def test_networks_that_have_changed_are_refused(files: Path, finished: dict[str, bytes]) -> None:
    (files / "nets.py").write_text(SOURCE.replace("build(2)", "build(3)"))
    result = run(*COMMAND)
    assert result.exit_code == 1
    assert "files.nets.py is" in result.stderr
    assert "weights.back is" in result.stderr
    assert "weights.front is" not in result.stderr
    assert contents(files) == finished


def test_a_file_that_was_removed_is_written_again(files: Path, finished: dict[str, bytes]) -> None:
    """As after a stop between the two files."""
    (files / "kept.json").unlink()
    result = run(*COMMAND)
    assert (result.exit_code, "already there" in result.stderr) == (0, False)
    assert contents(files) == finished


def test_tensors_alone_are_not_replaced_by_another_run(
    files: Path, finished: dict[str, bytes]
) -> None:
    (files / "kept.json").unlink()
    result = run(*COMMAND, "--seed", "1")
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "Error: kept.safetensors belongs to another run: seed is 0 there and 1 here. Use"
    )
    assert contents(files) == {"kept.safetensors": finished["kept.safetensors"]}
    (files / "kept.safetensors").unlink()
    assert run(*COMMAND, "--seed", "1").exit_code == 0
    assert sg.StitchResult.load(files / "kept.json").seed == 1


def test_tensors_of_unknown_origin_are_not_replaced(
    files: Path, finished: dict[str, bytes]
) -> None:
    sg.StitchResult.load(files / "kept.json").save(files / "kept.json")
    (files / "kept.json").unlink()
    before = contents(files)
    result = run(*COMMAND)
    assert result.exit_code == 1
    assert "kept.safetensors does not say which run its stitch belongs to" in result.stderr
    assert contents(files) == before


def test_another_kind_of_device_is_another_run(
    files: Path, finished: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random numbers differ between them; which of several GPUs it is does not matter."""
    monkeypatch.setattr(
        "sigmascope.runs.network.checked_device", lambda name: torch.device("cuda", 1)
    )
    result = run(*COMMAND)
    assert result.exit_code == 1
    assert (
        "kept.json belongs to another run: device is 'cpu' there and 'cuda' here." in result.stderr
    )
    assert contents(files) == finished


def test_a_stitch_of_unknown_origin_is_not_replaced(
    files: Path, finished: dict[str, bytes]
) -> None:
    sg.StitchResult.load(files / "kept.json").save(files / "kept.json")
    before = contents(files)
    result = run(*COMMAND)
    assert result.exit_code == 1
    assert (
        "does not say which run its stitch belongs to. Choose another name, or remove it first."
        in result.stderr
    )
    assert contents(files) == before


def test_tensors_that_are_missing_are_named(files: Path, finished: dict[str, bytes]) -> None:
    (files / "kept.safetensors").unlink()
    result = run(*COMMAND)
    assert result.exit_code == 1
    assert (
        "kept.safetensors, which belongs to kept.json, is missing. Restore it, or remove "
        "kept.json first." in result.stderr
    )


def test_what_a_stop_has_left_is_removed(files: Path, finished: dict[str, bytes]) -> None:
    # killed after the files were written, before this one was removed
    (files / ".kept.checkpoint").write_bytes(b"")
    assert run(*COMMAND).exit_code == 0
    assert contents(files) == finished


def test_the_error_has_a_name(files: Path, finished: dict[str, bytes]) -> None:
    with pytest.raises(
        ResumeError, match=r"kept\.json belongs to another run: .*site is '3' there and absent here"
    ):
        files_for("kept.json").load({})


def test_two_names_of_one_file_are_not_two_files(files: Path, finished: dict[str, bytes]) -> None:
    """Each had a lock of its own: of two runs at once, one was lost."""
    (files / "other.json").symlink_to("kept.json")
    result = run(*COMMAND[:-1], "other.json")
    assert result.exit_code == 1
    assert "other.json is a symbolic link" in result.stderr
    (files / "other.json").unlink()
    (files / "other.safetensors").symlink_to("kept.safetensors")
    result = run(*COMMAND[:-1], "other.json")
    assert result.exit_code == 1
    assert "other.safetensors is a symbolic link" in result.stderr
    (files / "other.safetensors").unlink()
    assert contents(files) == finished


def test_a_stitch_in_other_hands_is_left_alone(files: Path, finished: dict[str, bytes]) -> None:
    with claim(files / ".kept.lock"):
        result = run(*COMMAND)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: another process is writing kept.json. Wait for it to end.\n"
    assert contents(files) == finished


def test_a_stitch_of_an_earlier_version_is_shown_again(
    files: Path, finished: dict[str, bytes]
) -> None:
    """Its identity has the site under its old name."""
    kept = files_for("kept.json")
    tensors, about = read_features(kept.tensors)
    identity = about["request"]
    assert isinstance(identity, dict)
    identity["at"] = identity.pop("site")
    write_features(kept.tensors, tensors, about)
    again = run(*COMMAND)
    assert (again.exit_code, again.stderr) == (0, "kept.json: already there\n")
