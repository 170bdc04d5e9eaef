"""The batches of a plan: inputs, labels, and the loss of a network on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.capture.guard import preserve_state
from sigmascope.errors import InputError, InputTypeError
from sigmascope.measure.batches import (
    LABELS,
    Batch,
    Forward,
    batches_of,
    is_list_of_images,
    run_forward,
    to_model,
)
from sigmascope.measure.copies import copy_of, is_empty

Loss: TypeAlias = Callable[[Any, Any], Tensor]
"""The mean loss over a batch, of the outputs of a network and the labels."""


class Data:
    """Batches that are read as often as needed, with the functions that run and judge a network.

    A network gets copies of them: one that overwrites its input would find other data when it reads
    a batch for the second time, and change the user's.

    Args:
        batches: as `sigmascope.signature` takes them. An iterator, which can be read only once, is
            kept in memory.
        forward: runs a network on a batch; by default as `sigmascope.signature` does.
        loss: of outputs and labels; by default the cross-entropy of logits.
    """

    def __init__(
        self, batches: object, forward: Forward | None = None, loss: Loss | None = None
    ) -> None:
        found = batches_of(batches)
        self.items: Iterable[object] = list(found) if isinstance(found, Iterator) else found
        self.samples = 0  # of the last pass over all batches
        self.advance: Callable[[], None] = lambda: None  # is called after each batch
        self.forward = forward or run_forward
        self.loss = loss or cross_entropy

    def batches(self, network: nn.Module) -> Iterator[Batch]:
        """Yield the batches on the device and in the dtype of a network, without empty ones.

        Raises:
            InputError: there are none.
        """
        samples = number = empty = 0
        for number, item in enumerate(self.items, start=1):  # noqa: B007
            batch = to_model(copy_of(item), network, batch_axis=0)
            if is_empty(batch):
                empty += 1
                continue
            samples += batch.size
            yield batch
            self.advance()
        self.samples = samples
        if number == empty:
            raise InputError(
                f"batches holds no {'sample' if empty else 'batch'}. Pass at least one."
            )

    def copies(self) -> Iterator[object]:
        """Yield copies of the batches as they were given."""
        for item in self.items:
            yield copy_of(item)
            self.advance()

    def first(self, network: nn.Module) -> Batch:
        """Return the first batch."""
        return next(self.batches(network))

    def mean_loss(self, network: nn.Module) -> float:
        """Return the mean loss over all samples, in evaluation mode.

        Raises:
            InputError: a batch without labels.
        """
        total, count = 0.0, 0
        with preserve_state(network, mode="eval"):
            for batch in self.batches(network):
                size = max(1, batch.size)
                total += size * float(self.loss_of(network, batch))
                count += size
        return total / count

    def loss_of(self, network: nn.Module, batch: Batch) -> Tensor:
        """Return the loss of a network on a batch."""
        return self.loss_of_outputs(self.forward(network, batch.content), batch)

    def loss_of_outputs(self, outputs: Any, batch: Batch) -> Tensor:
        """Return the loss of the outputs of a network for a batch."""
        labels = labels_of(batch.content)
        if labels is None:
            raise InputError(
                "the batches have no labels, which are needed here. Pass batches "
                "(inputs, labels), or mappings with an entry 'labels'."
            )
        loss = self.loss(outputs, labels)
        if not isinstance(loss, Tensor):
            raise InputTypeError(
                f"loss must return one number as a tensor, got a {type(loss).__name__}."
            )
        if loss.numel() != 1:
            raise InputTypeError(
                "loss must return one number, the mean over the batch, got a tensor of shape "
                f"{list(loss.shape)}."
            )
        return loss


def labels_of(content: Any) -> Any:
    """Return the labels in a batch, or None."""
    if isinstance(content, Mapping):
        return next((content[name] for name in LABELS if name in content), None)
    if isinstance(content, tuple | list) and not is_list_of_images(content) and len(content) > 1:
        return content[1]
    return None


def logits_of(output: Any) -> Any:
    """Return the logits in the output of a network: itself, its entry `logits`, or its first."""
    found = output.get("logits") if isinstance(output, Mapping) else output
    found = getattr(found, "logits", found)
    return found[0] if isinstance(found, tuple | list) and found else found


def cross_entropy(output: Any, labels: Any) -> Tensor:
    """Return the cross-entropy of logits, a tensor or the entry `logits` of an output.

    The classes are on axis 1 or, where labels have all other axes, on the last one.

    >>> import torch
    >>> float(cross_entropy(torch.tensor([[0.0, 0.0]]), torch.tensor([1])))
    0.6931471824645996
    """
    logits = logits_of(output)
    if not isinstance(logits, Tensor) or not isinstance(labels, Tensor):
        raise InputTypeError(
            f"outputs of type {type(output).__name__} with labels of type {type(labels).__name__} "
            "have no cross-entropy. Pass loss=lambda outputs, labels: ..."
        )
    if labels.shape == logits.shape[:-1]:
        logits, labels = logits.flatten(0, -2), labels.flatten()
    try:
        return F.cross_entropy(logits, labels if labels.is_floating_point() else labels.long())
    except (RuntimeError, IndexError, ValueError) as error:
        raise InputError(
            f"logits {list(logits.shape)} with labels {list(labels.shape)} have no cross-entropy: "
            f"{str(error).rstrip('.')}. Pass loss=lambda outputs, labels: ..."
        ) from error
