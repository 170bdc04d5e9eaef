"""Checks for those who write activations: is it one, and is it seen as one?"""

from __future__ import annotations

import copy
import inspect
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import randomness_kept
from sigmascope.capture.recording import recording
from sigmascope.errors import InputTypeError
from sigmascope.tables import aligned

Activation: TypeAlias = Callable[..., Any]
COARSE = 0.05  # of bfloat16, relative to the largest output
FINE = 1e-4
COMPILERS = ("c++", "g++", "clang++")
RUNS = 4  # of a pass at most, until its formulas are known


@dataclass(frozen=True)
class Verdict:
    """The answer to one question; `passed` is None where it could not be asked.

    >>> check = check_activation(lambda x: x.cumsum(1), backend="eager")
    >>> [(verdict.question, verdict.passed) for verdict in check.verdicts][:2]
    [('keeps the shape', True), ('pointwise', False)]
    """

    question: str
    passed: bool | None
    detail: str


@dataclass(frozen=True, repr=False)
class ActivationCheck:
    """What `check_activation` found; prints as a table.

    Attributes:
        name: of the activation.
        verdicts: one for each question.

    >>> check = check_activation(torch.tanh, backend="eager")
    >>> check.ok, [verdict.question for verdict in check.verdicts][:2]
    (True, ['keeps the shape', 'pointwise'])
    """

    name: str
    verdicts: tuple[Verdict, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return all(verdict.passed is not False for verdict in self.verdicts)

    def __getitem__(self, question: str) -> Verdict:
        return {verdict.question: verdict for verdict in self.verdicts}[question]

    def __repr__(self) -> str:
        words = {True: "yes", False: "NO", None: "–"}
        rows = [[one.question, words[one.passed], one.detail] for one in self.verdicts]
        result = "nothing is wrong" if self.ok else "something is wrong"
        return "\n".join([f"{self.name}: {result}", "", *aligned(rows, set())])


def check_activation(
    activation: Activation, x: Tensor | None = None, *, backend: str = "inductor"
) -> ActivationCheck:
    """Return whether a function or a module works as an activation that sigmascope can score.

    Asked is whether it keeps the shape, is pointwise and deterministic, is the same in place, under
    autocast and under torch.compile, and is seen exactly once by `sigmascope.recording`. Whatever
    is wrong is said in the result; nothing is raised for it.

    Args:
        activation: what `register_activation` returned, a function of torch, or a module or its
            class. A module is copied and set to evaluation mode.
        x: an input that it accepts; by default normal numbers of shape (16, 8).
        backend: of torch.compile.

    Raises:
        InputTypeError: not a function or module.

    >>> check_activation(torch.relu, backend="eager").ok
    True
    """
    if not callable(activation):
        raise InputTypeError(
            f"activation is a {type(activation).__name__}. Pass a function of a tensor, or a "
            "module."
        )
    name = getattr(activation, "__name__", type(activation).__name__)
    if x is None:
        x = torch.randn(16, 8, generator=torch.Generator().manual_seed(0))
    checks = {**CHECKS, "the same under compile": _compiles(backend)}
    with randomness_kept(), torch.no_grad():
        return ActivationCheck(
            name, tuple(_verdict(one, check, activation, x) for one, check in checks.items())
        )


def _verdict(question: str, check: Check, activation: Activation, x: Tensor) -> Verdict:
    try:
        passed, detail = check(_prepared(activation), x.detach().clone())
    except Exception as error:  # of a bad function, which is what is asked
        text = " ".join(str(error).split())
        passed, detail = False, f"raised {type(error).__name__}: {text[:120]}"
    return Verdict(question, passed, detail)


def _prepared(activation: Activation) -> Activation:
    """Return a function, or a copy of a module, so that nobody's module changes."""
    made: Any = activation() if inspect.isclass(activation) else activation
    return copy.deepcopy(made).eval() if isinstance(made, nn.Module) else made


def _keeps_shape(activation: Activation, x: Tensor) -> Answer:
    y = activation(x)
    if not isinstance(y, Tensor):
        return False, f"returns a {type(y).__name__}, not a tensor"
    if y.shape != x.shape:
        return False, f"{list(x.shape)} becomes {list(y.shape)}, so no score is defined"
    return y.dtype == x.dtype, "" if y.dtype == x.dtype else f"{x.dtype} becomes {y.dtype}"


def _is_pointwise(activation: Activation, x: Tensor) -> Answer:
    changed = torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.5
    changed = changed.to(x.device)
    before, after = activation(x.clone()), activation(torch.where(changed, 3 * x + 1, x))
    worst = _difference(before[~changed], after[~changed])
    return worst <= FINE, "" if worst <= FINE else "an output depends on several inputs"


def _is_deterministic(activation: Activation, x: Tensor) -> Answer:
    state = torch.get_rng_state()
    if not torch.equal(activation(x.clone()), activation(x.clone())):
        return False, "two calls differ"
    same = torch.equal(state, torch.get_rng_state())
    return same, "" if same else "draws random numbers"


def _is_same_in_place(activation: Activation, x: Tensor) -> Answer:
    given = x.clone()
    expected = activation(given).clone()
    if isinstance(activation, nn.Module) and isinstance(getattr(activation, "inplace", None), bool):
        vars(activation)["inplace"] = True
        found = activation(x)
    elif "inplace" in _parameters(activation):
        found = activation(x, inplace=True)
    else:
        kept = torch.equal(given, x)
        return (None, "no option `inplace`") if kept else (False, "overwrites its input")
    worst = max(_difference(expected, found), _difference(expected, x))
    return worst <= FINE, "" if worst <= FINE else f"differs by {worst:.2g}"


def _parameters(function: Activation) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except ValueError:  # a function of torch written in C
        return []


def _is_same_under_autocast(activation: Activation, x: Tensor) -> Answer:
    expected = activation(x.clone())
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        found = activation(x.clone())
    worst = _difference(expected, found)
    return worst <= COARSE, "" if worst <= COARSE else f"differs by {worst:.2g}"


def _compiles(backend: str) -> Check:
    def is_same(activation: Activation, x: Tensor) -> Answer:
        if backend == "inductor" and not any(map(shutil.which, COMPILERS)):
            return None, "no C++ compiler found"
        expected = activation(x.clone())
        try:
            found = torch.compile(activation, backend=backend)(x.clone())
        finally:
            torch.compiler.reset()  # takes its names out of the activation's module again
        worst = _difference(expected, found)
        return worst <= FINE, "" if worst <= FINE else f"differs by {worst:.2g}"

    return is_same


class _Network(nn.Module):
    def __init__(self, activation: Activation) -> None:
        super().__init__()
        self.activation = activation

    def forward(self, x: Tensor) -> object:
        return self.activation(x)


def _is_seen_once(activation: Activation, x: Tensor) -> Answer:
    kinds: list[str] = []
    network = _Network(activation)
    observing = recording(network, lambda call, _: kinds.append(call.kind), activations="all")
    with observing as recorder:
        recorder.stop()
        for _ in range(RUNS):  # a formula is known when a pass has ended
            kinds.clear()
            with recorder.forward_pass():
                network(x.clone())
            if not recorder.changed:
                break
    if len(kinds) == 1:
        return True, f"as {kinds[0]}"
    found = f"seen as {', '.join(kinds)}" if kinds else "not seen"
    return False, f"{found}; register it with sigmascope.register_activation"


def _difference(one: Tensor, other: Tensor) -> float:
    """Return the largest difference, relative to the largest value if that is above 1."""
    if not one.numel():
        return 0.0
    worst = (one.double() - other.double()).abs().max() / one.double().abs().max().clamp_min(1)
    return float(worst.nan_to_num(torch.inf))


Answer: TypeAlias = tuple[bool | None, str]
Check: TypeAlias = Callable[[Activation, Tensor], Answer]
CHECKS: dict[str, Check] = {
    "keeps the shape": _keeps_shape,
    "pointwise": _is_pointwise,
    "deterministic": _is_deterministic,
    "the same in place": _is_same_in_place,
    "the same under autocast": _is_same_under_autocast,
    "seen exactly once": _is_seen_once,
}
"""Question -> function of an activation and an input; returns the answer and what is wrong."""
