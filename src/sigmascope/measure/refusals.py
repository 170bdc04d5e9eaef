"""Why a network is not measured, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from sigmascope.capture.activations import chosen_kinds
from sigmascope.checks import suggestion
from sigmascope.errors import NoActivationError
from sigmascope.measure.batches import Batch, tensors_in
from sigmascope.measure.options import Options
from sigmascope.measure.subject import notes_of


def none_chosen(options: Options, names: Iterable[str]) -> str:
    """Say that the patterns of `sites` fit nothing."""
    known = [*names]
    near = suggestion(options.sites[0], known, most=3) or f" The first is {known[0]!r}."
    count = f"{len(known)} activation call{'s' * (len(known) != 1)}"
    return f"sites={options.sites!r} matches none of the {count}.{near}"


def no_samples(batch: Batch, batch_axis: int) -> str:
    """Say that an input has no axis of samples."""
    shape = next((list(one.shape) for one in tensors_in(batch.content)), [])
    return (
        f"the input of shape {shape} has no axis of samples: the network takes the entries of its "
        f"axis {batch_axis} as features. Pass a batch of several samples; batch[None] is a batch "
        "of one, and batch_axis names another axis."
    )


def no_call(network: nn.Module, options: Options, notes: list[str]) -> NoActivationError:
    """Return the error that says that a network made no activation call."""
    kinds = ", ".join(sorted(chosen_kinds(options.activations)))
    hidden = [*notes_of(network), *notes]
    because = f" Note that {'; '.join(hidden)}." if hidden else ""
    error = NoActivationError(
        f"{type(network).__name__} made no activation call that could be seen.{because} Looked for "
        f"functions and modules of the kinds {kinds}. Register an activation of another name with "
        "sigmascope.register_activation; softmax is found with activations='all'."
    )
    error.notes = tuple(hidden)
    return error
