"""The depth of a network: the most activation calls on a path from its input to its output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from sigmascope.capture.activations import chosen_kinds, kind_of_function
from sigmascope.capture.nested import tensors_in


def activation_depth(run: Callable[[], object]) -> int:
    """Return the number of activation calls on the longest path through what `run` computes.

    >>> import torch
    >>> x = torch.zeros(2, 3)
    >>> activation_depth(lambda: torch.relu(torch.relu(x) + torch.tanh(x)))
    2
    """
    counter = _Counter()
    with counter:
        run()
    return counter.deepest


class _Counter(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.deepest = 0
        self._depths: Any = WeakIdKeyDictionary()
        self._kinds = chosen_kinds("pointwise")

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        inputs = tensors_in((args, list(kwargs.values())))
        depth = max((self._depths.get(tensor, 0) for tensor in inputs), default=0)
        depth += kind_of_function(func, args, kwargs) in self._kinds
        result = func(*args, **kwargs)
        for output in tensors_in(result):
            self._depths[output] = max(depth, self._depths.get(output, 0))
        self.deepest = max(self.deepest, depth if isinstance(result, Tensor) else 0)
        return result
