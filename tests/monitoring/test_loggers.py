"""Numbers and figures arrive in loggers of each kind, as they would be called by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import sigmascope as sg
from sigmascope.monitoring.csv_log import CsvLog
from sigmascope.monitoring.loggers import figure_sender

PROBE = torch.randn(128, 8, generator=torch.Generator().manual_seed(7))


def monitored(log: Any, steps: range = range(3)) -> sg.Track:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.Tanh())
    with sg.Monitor(model, PROBE, every=1, log=log) as monitor:
        for step in steps:
            monitor.step(step)
            with torch.no_grad():
                model[0].weight.mul_(1.1)
    return monitor.track


@pytest.mark.slow
def test_tensorboard_has_numbers_and_the_figure(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        track = monitored(writer, range(0, 18, 2))
    events = EventAccumulator(str(tmp_path), size_guidance={"images": 0, "scalars": 0})
    events.Reload()
    assert {"sigmascope/1", "sigmascope/3", "sigmascope/mean"} <= {*events.Tags()["scalars"]}
    scalars = events.Scalars("sigmascope/1")
    assert [one.step for one in scalars] == track.steps == [*range(0, 18, 2)]
    assert [one.value for one in scalars] == pytest.approx(track.scores[:, 0].tolist(), rel=1e-6)
    images = events.Images("sigmascope/track")
    assert [one.step for one in images] == [14, 16]  # the eighth measurement, and the end
    assert min(images[0].width, images[0].height) > 200


def test_a_csv_file_is_continued(tmp_path: Path) -> None:
    file = tmp_path / "run.csv"
    track = monitored(file)
    lines = file.read_text().splitlines()
    assert lines[0].split(",")[:3] == ["step", "sigmascope/1", "sigmascope/3"]
    assert [line.split(",")[0] for line in lines[1:]] == ["0", "1", "2"]
    assert float(lines[2].split(",")[1]) == track.scores[1, 0]
    monitored(str(file), range(2, 5))  # from a checkpoint of step 1
    again = file.read_text().splitlines()
    assert again[:3] == lines[:3]
    assert [line.split(",")[0] for line in again[1:]] == ["0", "1", "2", "3", "4"]
    log = CsvLog(file)
    log.log_metrics({"new, with a comma": 1.0}, step=5)
    last = file.read_text().splitlines()
    assert last[0].endswith(',"new, with a comma"')
    assert last[-1] == "5" + "," * (last[1].count(",")) + "1.0"
    assert last[1].endswith(",")


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    with pytest.raises(sg.InputError, match=r"log='run\.txt' does not end in \.csv"):
        monitored("run.txt")
    file = tmp_path / "run.csv"
    file.write_text("name,size\na,1\n")
    with pytest.raises(sg.FileFormatError, match="is not a CSV file with a column 'step'"):
        monitored(file)
    assert file.read_text() == "name,size\na,1\n"


class Image:
    """Stands for the class of W&B and of Trackio: they take arrays of colors."""

    def __init__(self, value: np.ndarray[Any, Any], caption: str | None = None) -> None:
        self.value = value


class Run:
    """Has the methods of a run of W&B, which leaves out steps before the last one."""

    def __init__(self) -> None:
        self.step, self.seen = 0, list[tuple[dict[str, Any], int]]()

    def log(
        self, data: dict[str, Any], step: int | None = None, commit: bool | None = None
    ) -> None:
        assert step is not None
        assert step >= self.step
        self.step = step
        self.seen.append((data, step))


def test_a_run_of_wandb_gets_an_image_of_its_own_package(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("fakewandb")
    package.Image = Image  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fakewandb", package)
    run = type("Run", (Run,), {"__module__": "fakewandb.sdk.run"})()
    monitored([run, lambda values, step: run.log({"loss": 1.0}, step=step + 10)], range(1))
    *_, (figure, step) = run.seen
    assert step == 10  # where the run is, behind the last measurement
    colors = figure["sigmascope/track"].value
    assert colors.shape[2] == 3
    assert colors.dtype == np.uint8
    assert colors.std() > 10
    assert [one for one, _ in run.seen if "sigmascope/mean" in one]


def test_a_module_that_logs_is_its_own_package() -> None:
    module, run = ModuleType("faketrackio"), Run()
    module.log, module.Image = run.log, Image  # type: ignore[attr-defined]
    monitored(module, range(1))
    assert [*run.seen[-1][0]] == ["sigmascope/track"]


def test_mlflow_gets_a_figure() -> None:
    seen: list[Any] = []
    module = ModuleType("fakemlflow")

    def log_metrics(metrics: dict[str, float], step: int | None = None) -> None:
        seen.append(step)

    def log_figure(figure: Any, artifact_file: str, *, save_kwargs: Any = None) -> None:
        seen.append((type(figure).__name__, artifact_file))

    module.log_metrics, module.log_figure = log_metrics, log_figure  # type: ignore[attr-defined]
    monitored(module)
    assert seen == [0, 1, 2, ("Figure", "sigmascope/track.png")]


class Client:
    """Has the method of a client of MLflow."""

    def __init__(self) -> None:
        self.seen = list[tuple[str, str]]()

    def log_figure(self, run_id: str, figure: Any, artifact_file: str) -> None:
        self.seen.append((run_id, artifact_file))


class LightningLogger:
    """Has what Lightning's loggers have; their `experiment` is the object inside."""

    run_id = "7"

    def __init__(self, experiment: Any) -> None:
        self.experiment = experiment

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        pass


class WandbLogger(LightningLogger):
    """Takes images itself."""

    def log_image(self, key: str, images: list[Any], step: int | None = None, **_: Any) -> None:
        self.seen = key, images[0].shape[2], step


def test_loggers_of_lightning_pass_figures_on() -> None:
    client, wandb = Client(), WandbLogger(None)
    monitored([LightningLogger(client), wandb, LightningLogger(object())])
    assert client.seen == [("7", "sigmascope/track.png")]
    assert wandb.seen == ("sigmascope/track", 3, 2)


class Comet:
    """Has methods of the same names that mean something else."""

    def log_metrics(self, dic: dict[str, float], step: int | None = None) -> None:
        pass

    def log_figure(self, figure_name: str | None = None, figure: Any = None) -> None:
        raise AssertionError

    def log_image(self, image_data: Any, name: str | None = None) -> None:
        raise AssertionError


def test_methods_that_mean_something_else_are_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sg.Track, "plot", lambda _: pytest.fail("nobody takes a figure"))
    monitored([Comet(), lambda values, step: None])
    assert figure_sender(Comet()) is None
