"""What torch really computed in a forward pass, against what the recorder saw of it.

The recorder sees functions that Python calls. Below it, torch dispatches operators, also those of
compiled code and those inside of larger functions. On the first batch these are counted, so that no
activation is missing without a word.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from sigmascope.capture import activations
from sigmascope.capture.activations import function_name, kind_of_function, may_be_activation
from sigmascope.capture.ending import ending
from sigmascope.capture.mode import entered
from sigmascope.capture.nested import tensors_in
from sigmascope.capture.recorder import Recorder
from sigmascope.capture.walk import modules_of, tensors_of
from sigmascope.capture.words import words

GATES = "fused gates"
# Operators whose names are not those of functions -> what they compute.
OPERATORS = {
    "log_sigmoid_forward": "logsigmoid",
    "rrelu_with_noise": "rrelu",
    "rrelu_with_noise_functional": "rrelu",
    **dict.fromkeys(
        words("_cudnn_rnn _thnn_fused_gru_cell _thnn_fused_lstm_cell miopen_rnn mkldnn_rnn_layer"),
        GATES,
    ),
    **dict.fromkeys(
        words("""
        _native_multi_head_attention _safe_softmax _scaled_dot_product_cudnn_attention
        _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention
        _scaled_dot_product_flash_attention_for_cpu
    """),
        "softmax",
    ),
}
# Of which people write activations in compiled code, where their formulas cannot be followed.
FORMULAS = frozenset(words("clamp clamp_min erf erfc fmax maximum"))
# Code of ours that runs operators: layers of one known function, and observers.
OURS = {"Recorder._forward_of.<locals>.forward", "Recorder._begin", "Capture.observe"}
OURS |= {"Capture._observed.<locals>.finish"}
COMPILED = "torch.jit.script or other code outside Python"
UNCHECKED = "whether all activations were seen was not checked: {}"
ORDINARY = (Tensor, nn.Parameter, nn.Buffer)
# Where torch computes a softmax in one kernel with the products around it.
ATTENTION = ("scaled_dot_product_attention", "nn.MultiheadAttention")
WRITTEN_OUT = "write the attention out (in transformers, attn_implementation='eager')"
RECURRENT = (nn.RNNBase, nn.RNNCellBase)  # of which it is known, and said elsewhere

Hidden = Counter[tuple[str, str]]
"""(where, kind) -> how many of them were computed there without being seen."""

# What was found in each network when it was last measured, or why it was not checked.
_checked: WeakKeyDictionary[nn.Module, Hidden | str] = WeakKeyDictionary()


@contextmanager
def crosscheck(network: nn.Module, recorder: Recorder, inputs: object) -> Iterator[None]:
    """Count what is computed inside the context.

    `notes_of` says what was found. Neither results nor random states change. Nothing is remembered
    for the next measurement: a flag or another batch may lead the network to other code.
    """
    reason = unsupported(network, inputs)
    if reason:
        _checked[network] = reason
        yield
        return
    counting = _Counting(recorder)
    with ending() as steps:
        steps.append(partial(setattr, activations, "own_modes", activations.own_modes))
        activations.own_modes += 1
        with entered(counting):
            yield
    _checked[network] = counting.hidden


def notes_of(network: nn.Module, kinds: Collection[str]) -> list[str]:
    """Return what the check of a network found, of activations of these kinds.

    A softmax that is hidden in an attention is named in any case.
    """
    found = _checked.get(network, Counter())
    if isinstance(found, str):
        return [UNCHECKED.format(found)]
    places: dict[str, dict[str, int]] = {}
    notes = []
    for (where, kind), count in sorted(found.items()):
        if kind == GATES or kind in FORMULAS or kind in kinds:
            places.setdefault(where, {})[kind] = count
        elif where in ATTENTION:
            remedy = f"to measure {'it' if count == 1 else 'them'}, {WRITTEN_OUT}"
            notes.append(f"{where} hides {count} {kind}; {remedy}, and pass activations='all'")
    return [*(_unseen(where, counts) for where, counts in places.items()), *notes]


def _unseen(where: str, counts: dict[str, int]) -> str:
    listed = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    remedy = f"; {WRITTEN_OUT}" if where in ATTENTION else ""
    was = "was" if sum(counts.values()) == 1 else "were"
    return f"{listed} computed inside {where} {was} not seen{remedy}"


def unsupported(network: nn.Module, inputs: object) -> str:
    """Return why operators cannot be counted here; empty where they can."""
    tensors = [*tensors_of(modules_of(network)), *tensors_in(inputs)]
    if any(one.is_nested for one in tensors):
        return "tensors are nested"
    odd = next((one for one in tensors if type(one) not in ORDINARY), None)
    if odd is not None:
        return f"tensors are of the class {type(odd).__name__}"
    if torch._C._len_torch_dispatch_stack():
        return "another dispatch mode is active"
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "a transformation of torch.func is active"
    return ""


class _Counting(TorchDispatchMode):
    """Counts the activations that are computed without being seen."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.hidden: Hidden = Counter()
        self._recorder = recorder
        self._operators: dict[object, bool] = {}  # whether it may be an activation

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in self._operators:
            named = function_name(func) in OPERATORS or function_name(func) in FORMULAS
            self._operators[func] = named or may_be_activation(func)
        if self._operators[func] and not self._recorder.inside_activation:
            where = self._where(sys._getframe(1))
            name = function_name(func)
            kind = OPERATORS.get(name) or kind_of_function(func, args, kwargs)
            if kind is None and where == COMPILED and name in FORMULAS and _is_floating(args):
                kind = name
            if where and kind is not None:
                self.hidden[where, kind] += 1
        # Otherwise the recorder would see what only the dispatcher sees.
        with torch._C.DisableTorchFunction():
            return func(*args, **kwargs)

    def _where(self, frame: FrameType | None) -> str:
        """Return what computes an operator without being seen; empty where it is seen."""
        module = self._recorder.innermost
        if isinstance(module, RECURRENT):
            return ""
        while frame is not None:
            if frame.f_code is Recorder.__torch_function__.__code__:
                function = frame.f_locals["func"]
                return "" if may_be_activation(function) else function_name(function)
            if frame.f_code.co_qualname in OURS:
                return ""
            frame = frame.f_back
        return "nn.MultiheadAttention" if isinstance(module, nn.MultiheadAttention) else COMPILED


def _is_floating(args: tuple[Any, ...]) -> bool:
    return any(isinstance(one, Tensor) and one.is_floating_point() for one in args)
