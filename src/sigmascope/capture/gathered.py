"""Following a network whose weights are gathered for the time in which they are used.

Formulas are looked for when a pass has ended, and then the memory of such weights is free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from sigmascope.capture.axis_moves import Applied
from sigmascope.capture.nested import is_parameter
from sigmascope.capture.node import exchanged, flat
from sigmascope.capture.unforeseen import CarefulFollowing


class GatheredFollowing(CarefulFollowing):
    """Keeps copies of the weights in formulas."""

    def _add(
        self,
        call: Applied,
        outputs: Sequence[Tensor],
        *,
        kind: str,
        function: Callable[..., Tensor] | None = None,
    ) -> None:
        given = [value for value in flat((call.args, call.kwargs)) if isinstance(value, Tensor)]
        written = {*map(id, outputs)}
        copies: dict[int, Any] = {
            id(value): value.detach().clone()
            for value in given
            if id(value) not in written and (is_parameter(value) or self._is_constant(value))
        }
        if copies:
            self._add_constants(copies.values())
            args, kwargs = exchanged((call.args, call.kwargs), copies)
            call = call._replace(args=args, kwargs=kwargs)
        super()._add(call, outputs, kind=kind, function=function)
