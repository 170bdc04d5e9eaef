"""Two networks and data: one stitch, several on the same batches, or several to choose α from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch
from torch import nn

from sigmascope.capture.guard import copied, randomness_kept
from sigmascope.checks import check_choice, options_from
from sigmascope.choices import Family, Preset, Style
from sigmascope.errors import OptionError
from sigmascope.maths.randomness import as_number
from sigmascope.maths.samples import Array
from sigmascope.measure.progress import progress_bar
from sigmascope.stitching.assembly import site_given
from sigmascope.stitching.checkpoint import load_checkpoint, save_checkpoint
from sigmascope.stitching.front_cache import FrontCache, check_cacheable
from sigmascope.stitching.loop import TrainingLoop
from sigmascope.stitching.result import CrossValidation, StitchResult
from sigmascope.stitching.settings import Settings, StitchOptions
from sigmascope.stitching.setup import StitchSetup, Task, check_shared, settings_of
from sigmascope.store import claim_beside
from sigmascope.symmetry.monomial import Monomial
from sigmascope.training.data import as_data
from sigmascope.training.evaluation import accuracy

ALPHAS: tuple[float, ...] = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""The weights α that `cross_validate` tries by default.

>>> from sigmascope import stitching
>>> stitching.ALPHAS
(0.001, 0.01, 0.1, 1.0, 10.0)
"""


class StitcherOptions(TypedDict, total=False):
    """Further keywords of `Stitcher`, which explains them."""

    style: Style
    cache_front: bool | str | Path
    names: tuple[str, str] | None
    progress: bool
    at: str
    data: Any


@dataclass(frozen=True)
class _Options:
    """The keywords of a `Stitcher`, checked."""

    style: str = "auto"
    cache_front: bool | str | Path = False
    names: tuple[str, str] | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        check_choice("style", self.style, Style)


class Stitcher:
    """Two networks, the site where they are stitched, and the data.

    Both networks are copied and never changed. Everything runs on their device; on a GPU training
    steps are captured.

    Args:
        front: a network that returns logits (n, classes) and that torch.fx can trace.
        back: a network of the same architecture, on the same device.
        batches: a pair (train, test), each a loader, a list of batches (inputs, labels) or one such
            pair; or a `StitchData`, which can augment. Everything is read into memory once.
        site: an activation call as `sigmascope.signature` names it, or the path of a module, whose
            output is stitched; if a path is both, it is the activation call. An unknown name lists
            the choices.
        preset: "paper" as in the paper, "as-run" as its scripts ran, "fast"; or `Settings`.
        seed: of the initial stitch, the order of the data, the augmentation and the held-out
            samples; a whole number or a torch.Generator.
        **options: `style` ("auto"): "conv" for channels on axis 1, "linear" for the last axis;
            "auto" infers it from the layers before the site. `cache_front` (False): keep the
            outputs of the front for the training data in memory (True) or in a directory; only
            without augmentation and with front_mode="eval". `names`: of the two networks, by
            default their classes. `progress` (True): whether to show a progress bar on a terminal.
            `at` and `data` are earlier names of `site` and `batches`.

    Raises:
        OptionError: no site or batches, or an unknown option.
        InputError, InputTypeError: invalid data.

    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> samples = torch.randn(64, 2), torch.arange(64) % 2
    >>> stitcher = Stitcher(net, net, (samples, samples), site="1", preset="fast")
    >>> [stitcher.fit(family, epochs=1).family for family in ("full", "relu-group")]
    ['full', 'relu-group']
    """

    def __init__(
        self,
        front: nn.Module,
        back: nn.Module,
        batches: Any = None,
        *,
        site: str | None = None,
        preset: Preset | Settings = "paper",
        seed: int | torch.Generator = 0,
        **options: Unpack[StitcherOptions],
    ) -> None:
        given: dict[str, Any] = dict(options)
        self.front, self.back, self.preset, self.seed = front, back, preset, as_number(seed)
        self.site = site_given(site, given.pop("at", None))
        data = given.pop("data", None)
        if (batches is None) == (data is None):
            raise OptionError("pass the data as batches=(train, test), once.")
        with torch.inference_mode(False):  # even if the caller uses it: training needs the data
            self.data = as_data(data if batches is None else batches)
        self._options = options_from(_Options, given)

    def fit(
        self,
        family: Family = "relu-group",
        *,
        element: Monomial | Array | None = None,
        checkpoint: str | Path | None = None,
        **settings: Unpack[StitchOptions],
    ) -> StitchResult:
        """Return one stitch, trained and tested; see `stitch`."""
        [result] = self.fit_many([Task(family, settings, element)], checkpoint=checkpoint)
        return result

    @torch.inference_mode(False)
    @torch.enable_grad()  # a stitch is trained, even if the caller has switched gradients off
    def fit_many(
        self, tasks: Sequence[Task | Family], *, checkpoint: str | Path | None = None
    ) -> list[StitchResult]:
        """Return several stitches, trained together: the front runs once for all of them.

        Each is what it would be alone, but random layers such as dropout draw other numbers.

        Args:
            tasks: the stitches, or names of families; they must agree in batch, epochs and all
                other settings of the data and the front.
            checkpoint: see `stitch`.

        Raises:
            OptionError: no tasks, or tasks that do not agree; otherwise as `stitch`.
        """
        wanted = [Task(task) if isinstance(task, str) else task for task in tasks]
        settings = [settings_of(task, self.preset) for task in wanted]
        check_shared(settings)
        names = self._options.names or (type(self.front).__name__, type(self.back).__name__)
        with randomness_kept():
            torch.manual_seed(self.seed)
            setup = StitchSetup(
                (self.front, self.back),
                self.data,
                settings[0],
                site=self.site,
                seed=self.seed,
                style=self._options.style,
                names=self._options.names,
            )
            trainers = [setup.trainer(*pair) for pair in zip(wanted, settings, strict=True)]
            cache = self._cache(setup)
            loop = TrainingLoop(setup.front, trainers, setup.feeds, settings[0], self.seed, cache)
            try:
                identity = setup.identity(wanted, settings, cached=cache is not None)
                path = None if checkpoint is None else Path(checkpoint)
                with claim_beside(path) if path else nullcontext():
                    self._train(loop, path, identity, " → ".join(names))
                # independent of training, as after resuming a finished checkpoint
                torch.manual_seed(self.seed)
                networks = [copied(one) for one in (self.front, self.back)]
                own = [accuracy(network, setup.feeds.test) for network in networks]
                adapted = setup.adapted(own)
                return [setup.result(loop, trainer, names, own, adapted) for trainer in trainers]
            finally:
                if cache is not None:
                    cache.close()

    def cross_validate(
        self,
        alphas: Iterable[float] = ALPHAS,
        *,
        checkpoint: str | Path | None = None,
        **settings: Unpack[StitchOptions],
    ) -> CrossValidation:
        """Return relu-group stitches for several α, with the best on held-out training data.

        The default protocol is that of Godfrey et al., NeurIPS 2022, arXiv:2205.14258: one split
        into 80 % and 20 %, five epochs, no head start, and before the test a pass over both parts
        that adapts batch norms.

        Args:
            alphas: the values to choose from.
            checkpoint: see `stitch`.
            **settings: see `Settings`; select_on must stay "validation".

        Raises:
            OptionError: no alphas, alpha=..., or select_on="test".
        """
        protocol = {"epochs": 5, "head_start": 0, "validation": 0.2, "final_pass": True}
        common = {**protocol, "select_on": "validation", **settings}
        values = tuple(float(alpha) for alpha in alphas)
        if common["select_on"] != "validation" or "alpha" in common or not values:
            raise OptionError(
                "cross_validate chooses from alphas=(...) on held-out data. Pass at least one, and "
                "leave alpha and select_on out."
            )
        tasks = [Task("relu-group", {**common, "alpha": alpha}) for alpha in values]
        return CrossValidation(values, tuple(self.fit_many(tasks, checkpoint=checkpoint)))

    def _cache(self, setup: StitchSetup) -> FrontCache | None:
        where, samples = self._options.cache_front, setup.feeds.everything
        if where is False:
            return None
        mode = setup.settings.front_mode
        check_cacheable(setup.front, samples, augment=self.data.augment, mode=mode)
        return FrontCache(setup.front, samples, None if where is True else Path(where))

    def _train(
        self, loop: TrainingLoop, path: Path | None, identity: dict[str, object], title: str
    ) -> None:
        """Run the epochs that are left, and write a checkpoint after each."""
        shown = self._options.progress
        is_new = path is None or not path.exists()
        if path is not None and not is_new:
            load_checkpoint(path, loop, identity)
        if (cache := loop.cache) and (is_new or loop.epochs_left):
            with progress_bar(f"{title}: front", cache.steps, shown=shown) as cache.advance:
                cache.fill()
        if is_new:
            loop.evaluate_starts()
        with progress_bar(title, loop.epochs_left * loop.steps, shown=shown) as advance:
            while loop.epochs_left:
                loop.epoch(advance)
                if path is not None:
                    save_checkpoint(path, loop, identity)
