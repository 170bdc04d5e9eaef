"""Identities are compared by name, and a lock is held by one process until it ends or dies."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from sigmascope.errors import ResumeError
from sigmascope.store import KeptRun, check_identity, claim, claim_beside, differences


@pytest.mark.parametrize(
    ("there", "here", "told"),
    [
        ({}, {}, []),
        ({"a": 1, "b": {"c": [1, 2]}}, {"b": {"c": [1, 2]}, "a": 1}, []),
        ({"a": None}, {}, ["a is None there and absent here"]),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2}}}, ["a.b.c is 1 there and 2 here"]),
        ({"a": {"b": 1}}, {"a": 1}, ["a is {'b': 1} there and 1 here"]),
        ({"n": ["x", "y"]}, {"n": ["z", "y"]}, ["n: x only there", "n: z only here"]),
        ({"n": ["x", "y"]}, {"n": ["y", "x"]}, ["n: in another order"]),
        ({"n": [1, 2]}, {"n": [2, 1]}, ["n is [1, 2] there and [2, 1] here"]),
        (
            {"z": 0, "a": 0},
            {"z": 1, "a": 1},
            ["a is 0 there and 1 here", "z is 0 there and 1 here"],
        ),
        ({"pool": "released"}, {"pool": "published"}, []),
        ({"options": {"degenerate": "released"}}, {"options": {"degenerate": "published"}}, []),
        ({"settings": {"normaliser": "live"}}, {"settings": {"normalizer": "live"}}, []),
        (
            {"stitches": {"1": {"regulariser": "norm"}}},
            {"stitches": {"1": {"regularizer": "norm"}}},
            [],
        ),
        ({"at": "3"}, {"site": "3"}, []),
        ({"options": None, "stitches": 2}, {"options": None, "stitches": 2}, []),
    ],
)
def test_differences_are_named(
    there: dict[str, object], here: dict[str, object], told: list[str]
) -> None:
    assert differences(there, here) == told


@pytest.mark.parametrize(
    ("there", "here", "told"),
    [
        (
            {"name": "released"},
            {"name": "published"},
            ["name is 'released' there and 'published' here"],
        ),
        (
            {"names": ["released"]},
            {"names": ["published"]},
            ["names: released only there", "names: published only here"],
        ),
        ({"at": 1, "site": 2}, {"at": 3, "site": 2}, ["at is 1 there and 3 here"]),
        (
            {"options": {"channel_axis": {"at": 1, "site": 2}}},
            {"options": {"channel_axis": {"at": 3, "site": 2}}},
            ["options.channel_axis.at is 1 there and 3 here"],
        ),
        (
            {"files": {"at": "published"}},
            {"files": {"site": "released"}},
            [
                "files.at is 'published' there and absent here",
                "files.site is absent there and 'released' here",
            ],
        ),
        (
            {"data": {"pool": "released"}},
            {"data": {"pool": "published"}},
            ["data.pool is 'released' there and 'published' here"],
        ),
    ],
)
def test_user_data_is_not_translated(
    there: dict[str, object], here: dict[str, object], told: list[str]
) -> None:
    assert differences(there, here) == told


@dataclass(frozen=True)
class Asked:
    seed: int
    names: tuple[str, ...] = ()


def test_another_identity_is_refused() -> None:
    check_identity("a.json", Asked(0), {"seed": 0, "names": []})
    with pytest.raises(
        ResumeError,
        match=r"^a\.json belongs to another run: names: x only here; seed is 0 there and 1 here\. "
        r"Use the same settings, choose another path, or remove it first\.$",
    ):
        check_identity("a.json", Asked(0), Asked(1, ("x",)))


def test_a_claim_is_for_one(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.lock"
    with claim(path) as first, claim(path) as second:
        assert (first, second) == (True, False)
        assert path.exists()
    assert not path.exists()
    with claim(path) as again, claim(tmp_path / "b.lock") as other:
        assert (again, other) == (True, True)
    with KeptRun(tmp_path / "a", tmp_path / "b", path).claim() as free, claim(path) as taken:
        assert (free, taken) == (True, False)


def test_a_file_is_claimed_by_a_lock_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with claim_beside(path):
        assert [file.name for file in tmp_path.iterdir()] == [".a.lock"]
        with (
            pytest.raises(ResumeError, match=r"a is open in another run\. Wait for it to end"),
            claim_beside(path),
        ):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_claim_does_not_follow_links(tmp_path: Path) -> None:
    os.symlink(tmp_path / "elsewhere", tmp_path / "a.lock")
    with pytest.raises(OSError, match=r"a symbolic link.*a\.lock"), claim(tmp_path / "a.lock"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_long_wait_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sigmascope.store.kept.PATIENCE", 0.01)
    path, held, told = tmp_path / "a.lock", threading.Event(), threading.Event()

    def hold() -> None:
        with claim(path):
            held.set()
            told.wait(600)

    def tell(message: str, *_: object, **__: object) -> None:
        assert message.startswith(f"waiting for another process, which has locked {path}")
        told.set()

    monkeypatch.setattr("sigmascope.store.kept.warnings.warn", tell)
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(600)
    with claim(path, wait=True) as free:
        assert free
    thread.join()
    assert told.is_set()


@pytest.mark.filterwarnings("ignore:waiting for another process")  # on a busy machine
def test_waiting_claims_exclude_each_other(tmp_path: Path) -> None:
    """Also where each holder removes the file that the others have opened."""
    path, inside, seen = tmp_path / "a.lock", [], []

    def enter(number: int) -> None:
        for _ in range(5):
            with claim(path, wait=True) as free:
                inside.append(number)
                seen.append((free, len(inside)))
                inside.remove(number)

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [(True, 1)] * 20


def test_without_locks_a_single_run_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> bool:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("filelock.lock_descriptor", refuse)  # as some network file systems do
    with claim(tmp_path / "a.lock") as free, claim(tmp_path / "b.lock", wait=True) as other:
        assert (free, other) == (True, True)


HOLDER = """
import sys
from pathlib import Path
from sigmascope.store import claim
with claim(Path(sys.argv[1])) as free:
    print(free, flush=True)
    sys.stdin.read()
"""


def test_a_claim_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        with claim(path) as free:
            assert not free
        holder.kill()
        holder.wait()
        with claim(path) as free:
            assert free
