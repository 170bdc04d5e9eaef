"""`track`, and tracks in `show` and `report`: files that come, change, break and end."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import sigmascope as sg
from sigmascope.reporting.following import Follower, lines_of
from tests.cli.running import Forked, Forker, document, run
from tests.compare.made import made
from tests.reporting.made_tracks import entry, made_track, troubled

QUICK = ("--every", "0.1")
RELOADS = '"state":"under way"'


@pytest.fixture(scope="module")
def forker() -> Iterator[Forker]:
    found = Forker()
    yield found
    found.close()


def wait_for(process: Forked, text: str) -> None:
    """Wait until a process has said something."""
    said, end = process.folder / "stderr", time.monotonic() + 120
    while not said.exists() or text not in said.read_text():
        assert time.monotonic() < end, said.read_text()
        time.sleep(0.02)


def test_once(tmp_path: Path) -> None:
    file, page = troubled().save(tmp_path / "run.json"), tmp_path / "page.html"
    result = run("track", file, "--once", "-o", page)
    assert result.exit_code == 0
    assert result.stdout == f"{troubled()!r}\n\nWritten: {page} (1 training)\n"
    assert result.stderr.splitlines() == [
        "4 measurements, steps 0 to 30",
        "step 30: mean 0.748, lowest 0.500 (layer2.relu)",
        "step 20: layer0.relu died: 100% of its channels do not vary",
        "step 30: layer1.relu became affine: score 0.995",
    ]
    assert '"state":"no longer followed"' in page.read_text()
    kind, content = document(run("track", file, "--once", "-o", page, "--json"))
    assert kind == "written"
    [track] = content["tracks"]
    assert (track["name"], track["step"], track["ended"]) == ("troubled", 30, "")


def test_a_training_that_has_ended_is_not_waited_for(tmp_path: Path) -> None:
    file = made_track(ended="finished").save(tmp_path / "run.json")
    result = run("track", file, "-o", tmp_path / "page.html")
    assert result.exit_code == 0
    assert result.stderr.endswith("finished\n")
    assert '"state":"finished"' in (tmp_path / "page.html").read_text()


def test_it_waits_follows_survives_damage_and_ends(tmp_path: Path, forker: Forker) -> None:
    file, page = tmp_path / "run.json", tmp_path / "page.html"
    process = forker.start(tmp_path / "streams", "track", file, *QUICK, "-o", page)
    wait_for(process, f"Waiting for a track in {file}. Ctrl-C ends it.")
    assert not page.exists()
    track = troubled()
    track.save(file)
    wait_for(process, "step 30: mean")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    wait_for(process, f"cannot be read now, and is tried again: {file} is truncated, damaged")
    assert RELOADS in page.read_text()
    track = track.with_entry(entry(40, [0.5, 0.6, 0.7]))
    track.save(file)
    wait_for(process, "step 40: mean 0.600, lowest 0.500 (layer0.relu)")
    track = track.with_entry(entry(30, [0.5, 0.6, 0.8]))  # from an earlier checkpoint
    track.save(file)
    wait_for(process, "measured again from step 40 on, after a restart")
    made_track("net", ended="finished").save(file)
    code, output, errors = process.end()
    assert code == 0
    assert errors.endswith("\nfinished\n")
    assert "Traceback" not in errors
    assert output.startswith("Track of net: 12 measurements, steps 0 to 110, 5 sites, finished\n")
    assert RELOADS not in page.read_text()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_a_signal_leaves_a_page_that_does_not_reload(
    tmp_path: Path, forker: Forker, number: signal.Signals, code: int
) -> None:
    file, page = troubled().save(tmp_path / "run.json"), tmp_path / "page.html"
    process = forker.start(tmp_path / "streams", "track", file, "--every", "60", "-o", page)
    wait_for(process, "step 30: mean")
    while not page.exists():
        time.sleep(0.02)
    process.send(number)
    ended, output, errors = process.end()
    assert ended == code
    assert output.startswith("Track of troubled: 4 measurements")
    assert "Traceback" not in errors
    assert '"state":"no longer followed"' in page.read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"run.json", "page.html", "streams"}


def test_who_waits_for_nothing_can_leave(tmp_path: Path, forker: Forker) -> None:
    command = ("track", tmp_path / "run.json", *QUICK, "-o", tmp_path / "page.html")
    process = forker.start(tmp_path / "streams", *command)
    wait_for(process, "Waiting for")
    process.send(signal.SIGINT)
    code, output, errors = process.end()
    assert (code, output) == (0, "")
    assert errors.endswith(f"There was no track in {tmp_path}/run.json; nothing was written.\n")


def test_a_monitor_is_followed_to_its_end(tmp_path: Path) -> None:
    import torch
    from torch import nn

    file = tmp_path / "run.json"
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    follower = Follower(file)
    assert follower.look() == []
    with sg.Monitor(model, torch.randn(64, 4), every=1, file=file) as monitor:
        monitor.step(0)
        [first] = follower.look()
        assert [one.step for one in first.entries] == [0]
        assert follower.look() == []
        monitor.step(1)
        [second] = follower.look()
        assert [one.step for one in second.entries] == [1]
        assert not follower.ended
    [last] = follower.look()
    assert [*lines_of(last)] == ["finished"]
    assert follower.ended
    again = sg.Monitor(model, torch.randn(64, 4), every=1, file=file)
    follower.look()
    assert not follower.ended  # it goes on
    again.close()
    follower.look()
    assert follower.ended
    assert sg.load(file).ended == "finished"


def test_a_training_that_fails_has_not_finished(tmp_path: Path) -> None:
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    monitor = sg.Monitor(model, torch.randn(64, 4), every=1, file=tmp_path / "run.json")
    monitor.step(0)

    def train() -> None:
        with monitor:
            raise FloatingPointError("the loss is NaN")

    with pytest.raises(FloatingPointError, match="the loss is NaN"):
        train()
    assert sg.load(tmp_path / "run.json").ended == "stopped by FloatingPointError"
    monitor.close()
    assert sg.load(tmp_path / "run.json").ended == "stopped by FloatingPointError"


def test_a_monitor_that_measured_nothing_writes_nothing(tmp_path: Path) -> None:
    import torch
    from torch import nn

    file = tmp_path / "run.json"  # of the first rank, where another one closes
    before = troubled().save(file).read_bytes()
    options = sg.load(file).options
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    sg.Monitor(model, torch.randn(64, 4), file=file, estimator=options.estimator).close()
    assert file.read_bytes() == before


def test_a_directory_of_trainings(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    made_track("net", ended="finished").save(runs / "one.json")
    made_track("net", seed=1, ended="stopped by ValueError").save(runs / "two.json")
    made("alpha", [0.5, 0.6]).save(runs / "signature.json")
    result = run("track", runs, "-o", tmp_path / "page.html")
    assert result.exit_code == 0
    assert result.stderr.splitlines()[::3] == [
        "one: 12 measurements, steps 0 to 110",
        "two: 12 measurements, steps 0 to 110",
    ]
    assert result.stderr.endswith("two: stopped by ValueError\n")
    assert '"name":"net, two"' in (tmp_path / "page.html").read_text()
    (runs / "two.json").write_bytes((runs / "two.json").read_bytes()[:400])
    result = run("track", runs, "--once", "-o", tmp_path / "page.html")
    assert result.exit_code == 3
    assert "two: cannot be read now" in result.stderr


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("nowhere.json", 1, "there is no track in nowhere.json. Pass the file of a monitor"),
        ("signature.json", 1, "signature.json is of kind 'signature'. Pass a file of kind 'track'"),
        ("empty.json", 1, "there is no track in empty.json"),
        ("empty", 1, "there is no track in empty"),
    ],
)
def test_what_is_not_a_track(
    name: str, code: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made("alpha", [0.5]).save("signature.json")
    Path("empty.json").touch()
    Path("empty").mkdir()
    result = run("track", name, "--once", "-o", "page.html")
    assert result.exit_code == code
    assert text in result.stderr
    assert not Path("page.html").exists()


def test_a_file_of_another_kind_is_not_waited_for(tmp_path: Path) -> None:
    file = made("alpha", [0.5]).save(tmp_path / "signature.json")
    assert run("track", file, "-o", tmp_path / "page.html").exit_code == 1


def test_no_other_file_is_replaced(tmp_path: Path) -> None:
    file = troubled().save(tmp_path / "run.json")
    assert run("track", file, "--once", "-o", file).exit_code == 2
    (tmp_path / "mine.html").write_text("mine")
    result = run("track", file, "--once", "-o", tmp_path / "mine.html")
    assert (result.exit_code, (tmp_path / "mine.html").read_text()) == (1, "mine")
    assert "exists and is not a report" in result.stderr


@pytest.mark.parametrize("every", ["0", "-1", "often"])
def test_bad_intervals(every: str, tmp_path: Path) -> None:
    result = run("track", tmp_path / "run.json", "--every", every)
    assert result.exit_code == 2
    assert "Invalid value for '--every'" in result.stderr


def test_the_page_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: bool(opened.append(address)))
    file, page = troubled().save(tmp_path / "run.json"), tmp_path / "page.html"
    result = run("track", file, "--once", "--open", "-o", page)
    assert opened == [page.as_uri()]
    assert f"no browser could be opened; open {page} yourself" in result.stderr


def test_help_has_an_example() -> None:
    assert re.search(r"Example: +sigmascope track run\.json", run("track", "--help").output)


# Tracks in the other commands.


def test_show_prints_tracks(tmp_path: Path) -> None:
    file = troubled().save(tmp_path / "run.json")
    assert run("show", file).stdout == f"{troubled()!r}\n"
    shown = tmp_path / "shown.json"
    shown.write_text(run("show", file, "--json").stdout)
    assert repr(sg.load(shown)) == repr(troubled())
    signature = made("alpha", [0.5, 0.6])
    signature.save(tmp_path / "alpha.json")
    assert run("show", tmp_path / "alpha.json", file).stdout == (
        f"{signature!r}\n\n{troubled()!r}\n"
    )
    result = run("show", tmp_path / "alpha.json", file, "--json")
    assert result.exit_code == 2
    assert "--json prints one track, or signatures" in result.stderr


def test_report_shows_tracks(tmp_path: Path) -> None:
    file, page = troubled().save(tmp_path / "run.json"), tmp_path / "page.html"
    result = run("report", file, "-o", page)
    size = f"{page.stat().st_size / 1000:.0f} kB"
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"Written: {page} (1 training, {size})\n"
    made("alpha", [0.5, 0.6]).save(tmp_path / "alpha.json")
    result = run("report", tmp_path, "-o", page)
    assert "(1 network, 1 training, " in result.stdout
    _, content = document(run("report", tmp_path, "-o", page, "--json"))
    assert content["tracks"] == [str(file)]


def test_compare_tells_that_it_ignores_tracks(tmp_path: Path) -> None:
    troubled().save(tmp_path / "run.json")
    for name in ("alpha", "beta"):
        made(name, [0.5, 0.6]).save(tmp_path / f"{name}.json")
    result = run("compare", tmp_path)
    assert result.exit_code == 0
    assert f"ignored {tmp_path}/run.json: of kind track" in result.stderr
