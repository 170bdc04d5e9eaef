"""A callback for the Trainer of transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from torch import nn

from sigmascope.catalog.optional import optional
from sigmascope.choices import OnError
from sigmascope.integrations.deriving import lazy_class
from sigmascope.integrations.watching import Watch, WatchOptions
from sigmascope.monitoring.monitor import inner
from sigmascope.monitoring.track import Track

NAME = "SignatureCallback"


class _SignatureCallback:
    """Measures the signature of a network every so often while a Trainer trains it.

    `trainer.add_callback(SignatureCallback(trainer, probe))`. The training is the same to the bit
    as one without it. Each measurement goes through `trainer.log`, and so to all its reporters and
    into `trainer.state.log_history`. The history is kept in `trainer_state.json` of each
    checkpoint, and `trainer.train(resume_from_checkpoint=…)` goes on with it. Step 0 is the network
    before its training.

    What accelerate, `torch.compile` or PEFT have wrapped is measured inside. Of several processes
    the first one measures; of shards of `fully_shard`, all of them together. A measurement that
    fails ends the measuring, with a warning, and not the training.

    Args:
        trainer: the one that it is added to.
        probe: a list of batches, or one, as for `sigmascope.Monitor`: what the network takes, such
            as dicts with "input_ids" and "attention_mask".
        every: the number of steps between measurements; "auto": as often as `budget` allows; or
            "evaluation": after each evaluation, also one before the training, and, where the
            trainer evaluates nothing, after each epoch.
        name: stands before the names of the numbers; different for two callbacks of one trainer.
        errors: what to do where a measurement fails: "warn", or "raise".
        **options: see `WatchOptions`, and the options of `sigmascope.signature`.

    Attributes:
        track: the history.
    """

    def __init__(
        self,
        trainer: Any,
        probe: object,
        *,
        every: int | str = "auto",
        name: str = "sigmascope",
        errors: OnError = "warn",
        **options: Unpack[WatchOptions],
    ) -> None:
        self._trainer = trainer
        self._watch = Watch(probe, every=every, name=name, errors=errors, options=options)
        self._began = False

    @property
    def track(self) -> Track | None:
        """The history; None before the training, and in processes that do not measure."""
        return self._watch.track

    @property
    def _key(self) -> str:
        return f"{NAME}(name={self._watch.prefix[:-1]!r})"

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin, with the history of the checkpoint if there is one; measure the network."""
        kept = (state.stateful_callbacks or {}).get(self._key)
        if state.global_step and kept:
            self._watch.load_state_dict(kept["attributes"])
        self._begin(state, is_training=True)
        if state.global_step == 0:
            self._log(self._watch.step(0))
        self._keep(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Measure if it is time."""
        values = self._watch.step(state.global_step)
        if values is not None:
            self._log(values)
            self._keep(state)

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Measure where evaluations are the time to."""
        if self._watch.at_evaluation:
            if not self._began:
                self._begin(state, is_training=False)
            self._log(self._watch.measure(state.global_step))
            self._keep(state)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Measure where evaluations would be the time to, and there are none."""
        if self._watch.at_evaluation and args.eval_strategy == "no":
            self._log(self._watch.measure(state.global_step))
            self._keep(state)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the history."""
        self._watch.end()
        self._keep(state)
        self._began = False

    def _begin(self, state: Any, *, is_training: bool) -> None:
        self._began = True
        with self._watch.guarded(f"step {state.global_step}"):
            network = without_adapters(inner(self._trainer.model_wrapped))
            is_first = state.is_world_process_zero
            self._watch.begin(network, is_first=is_first, is_training=is_training)

    def _log(self, values: dict[str, float] | None) -> None:
        if values is None or not self._trainer.is_world_process_zero():
            return
        # `log` takes the wish to log, which others may have uttered for this step, for fulfilled
        wished = self._trainer.control.should_log
        self._trainer.log(values)
        self._trainer.control.should_log = wished

    def _keep(self, state: Any) -> None:
        """Put the history where the trainer writes it to checkpoints, in the shape it expects."""
        history = self._watch.state_dict()
        if history:
            state.stateful_callbacks[self._key] = {"args": {}, "attributes": history}


def without_adapters(model: nn.Module) -> nn.Module:
    """Return the network inside a model of PEFT, which has the adapters in it, or the model itself.

    Prompts are not in the network but put before its inputs by the model, which is kept then.
    """
    base = getattr(model, "get_base_model", None)
    adapter = getattr(model, "active_peft_config", None)
    if not callable(base) or getattr(adapter, "is_prompt_learning", False):
        return model
    within: nn.Module = base()
    return within


def callback_classes() -> tuple[type, ...]:
    """Return the class that callbacks of a Trainer derive from.

    Raises:
        MissingExtraError: transformers is not installed.
    """
    return (optional("transformers").TrainerCallback,)


if TYPE_CHECKING:
    SignatureCallback = _SignatureCallback
else:
    __getattr__ = lazy_class(globals(), _SignatureCallback, NAME, callback_classes)
