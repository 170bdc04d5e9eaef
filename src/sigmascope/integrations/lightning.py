"""A callback for Lightning, as `lightning.pytorch` and as `pytorch_lightning`."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from torch import nn

from sigmascope.catalog.optional import optional
from sigmascope.choices import OnError
from sigmascope.errors import NetworkError
from sigmascope.integrations.deriving import lazy_class
from sigmascope.integrations.watching import Watch, WatchOptions
from sigmascope.monitoring.monitor import inner
from sigmascope.monitoring.track import Track

NAME = "SignatureCallback"
# The same package under two names, with different classes. Most installations have both.
NAMESPACES = ("lightning.pytorch", "pytorch_lightning")


class _SignatureCallback:
    """Measures the signature of a network every so often while Lightning trains it.

    Give it to the `Trainer` of `lightning.pytorch` or of `pytorch_lightning`. The training is the
    same to the bit as one without it. Each measurement goes to all loggers of the trainer; where
    these take images, the figure of the track too. At the end of each validation, and of training
    epochs without one, the numbers of the last measurement are logged by `log_dict`, so that
    `ModelCheckpoint(monitor="sigmascope/mean")` and `EarlyStopping` find them. The history is kept
    in checkpoints. The sanity check is skipped. Steps are counted by `trainer.global_step`; step 0
    is the network before its training.

    With data-parallel strategies the first process measures, with shards of `fully_shard` all of
    them together. A measurement that fails ends the measuring, with a warning, and not the
    training.

    Args:
        probe: a list of batches, or one, as for `sigmascope.Monitor`; not the batches of a
            training step, but what the network takes.
        every: the number of steps between measurements; "auto": as often as `budget` allows; or
            "evaluation": at the end of each validation, and of training epochs without one.
        network: the path of the module to measure, such as "net"; by default the LightningModule,
            which then needs a `forward`.
        name: stands before the names of the numbers; different for two callbacks of one trainer.
        errors: what to do where a measurement fails: "warn", or "raise".
        **options: see `WatchOptions`, and the options of `sigmascope.signature`.

    Attributes:
        track: the history.
    """

    def __init__(
        self,
        probe: object,
        *,
        every: int | str = "auto",
        network: str | None = None,
        name: str = "sigmascope",
        errors: OnError = "warn",
        **options: Unpack[WatchOptions],
    ) -> None:
        self._watch = Watch(probe, every=every, name=name, errors=errors, options=options)
        self._network = network
        self._step = -1  # the last one, since several batches may make one step
        self._shared = -1  # the step whose numbers were logged by log_dict

    @property
    def state_key(self) -> str:
        """Under which the history is kept in a checkpoint."""
        return f"{NAME}(name={self._watch.prefix[:-1]!r})"

    @property
    def track(self) -> Track | None:
        """The history; None before the training, and in processes that do not measure."""
        return self._watch.track

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin; measure the network before its training."""
        self._step = self._shared = -1
        with self._watch.guarded(f"step {trainer.global_step}"):
            network = _part(trainer.strategy.model or pl_module, self._network)
            self._watch.begin(network, is_first=trainer.is_global_zero, loggers=trainer.loggers)
        if trainer.global_step == 0:
            self._watch.step(0)
        self._step = trainer.global_step

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        """Measure if the optimizer has made a step, and it is time."""
        if trainer.global_step != self._step:
            self._step = trainer.global_step
            self._watch.step(self._step)

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log the numbers with those of the validation."""
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self._share(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log the numbers, unless a validation has done so."""
        if self._shared != trainer.global_step:
            self._share(trainer, pl_module)

    def _share(self, trainer: Any, pl_module: Any) -> None:
        """Log the last numbers in all processes, which may all monitor them."""
        self._shared = trainer.global_step
        if self._watch.at_evaluation:
            self._watch.measure(trainer.global_step)
        values = trainer.strategy.broadcast(self._watch.latest)
        if values:
            pl_module.log_dict(
                values,
                on_step=False,
                on_epoch=True,
                logger=self._watch.at_evaluation,  # they have those of steps
                sync_dist=trainer.world_size > 1,
                batch_size=1,
            )

    def on_train_end(self, *_: Any) -> None:
        """End the history."""
        self._watch.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Note in the history by what the training was stopped."""
        self._watch.stop(exception)

    def state_dict(self) -> dict[str, Any]:
        """Return the history, for a checkpoint."""
        return self._watch.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on with the history of a checkpoint."""
        self._watch.load_state_dict(state_dict)


def _part(model: nn.Module, path: str | None) -> nn.Module:
    """Return the module to measure inside what a strategy trains."""
    within = inner(model)
    if path is not None:
        try:
            return within.get_submodule(path)
        except AttributeError as error:
            raise NetworkError(
                f"network={path!r} is not a module of {type(within).__name__}. "
                f"Its modules are {_children(within)}."
            ) from error
    if type(within).forward.__module__.startswith(("lightning.", "pytorch_lightning.")):
        raise NetworkError(
            f"{type(within).__name__} has no forward. Define one, or pass network=…, the path of "
            f"the module to measure: {_children(within)}."
        )
    return within


def _children(module: nn.Module) -> str:
    return ", ".join(name for name, _ in module.named_children()) or "none"


def callback_classes() -> tuple[type, ...]:
    """Return the class `Callback` of each namespace that is installed.

    Raises:
        MissingExtraError: none is.
    """
    names = [name for name in NAMESPACES if _is_installed(name.partition(".")[0])]
    return tuple(optional(name).Callback for name in names or NAMESPACES[:1])


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # it is loaded, by something that leaves no spec
        return False


if TYPE_CHECKING:
    SignatureCallback = _SignatureCallback
else:
    __getattr__ = lazy_class(globals(), _SignatureCallback, NAME, callback_classes)
