"""What a recorder does about gates: which it has found, and which sites and units they make."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from sigmascope.capture.axis_moves import Applied
from sigmascope.capture.entered import Entered
from sigmascope.capture.following import Following
from sigmascope.capture.formulas import Formula
from sigmascope.capture.gates import UNIT, Gates, ModuleSpan, Tag, gates_of
from sigmascope.capture.plan import Plan, input_of_formula

ALONE, AS_UNIT = "alone", "unit"


class Gating:
    """The gates of a network that is watched; nothing of it outlives the recorder.

    With `gates="unit"` a product is one site together with its gate. Its input is the tensor that
    the gate multiplies, its output the product. These have the same shape, which an affine map
    needs, and the output is an affine function of the input exactly where the gate is constant: so
    the score tells how non-linearly the gate acts on the stream. The input of the gate, joined to
    it, would have twice as many channels as the output.

    Attributes:
        paths: of the modules of the network.
        tags: (path, number of the call) -> what the site is in the network.
    """

    def __init__(self, following: Following, gates: str, *, fuse: bool) -> None:
        self._following = following
        self._as_units = gates == AS_UNIT
        self._fuse = fuse
        self.paths: dict[nn.Module, str] = {}
        self.tags: dict[tuple[str, int], Tag] = {}
        self._found: Gates | None = None
        self._tagged = False
        self._units: tuple[Plan, Gates | None, Plan] | None = None
        self.begin_pass()

    def begin_pass(self) -> None:
        """Forget which activations the pass before called."""
        self._begun: dict[tuple[int, bool], tuple[str, int]] = {}
        self._modules: dict[int, ModuleSpan] = {}

    def plan(self) -> Plan:
        """Return the formulas and gated units that the next pass is expected to compute."""
        written = self._following.plan if self._fuse else Plan()
        if not self._as_units or self._found is None:
            return written
        known = self._units
        if known is None or known[:2] != (written, self._found):
            known = written, self._found, Plan(self._found.units(written.formulas))
            self._units = known
        return known[2]

    def begun(self, path: str, number: int, *, formula: bool) -> None:
        """Note a call that begins with the next step."""
        self._begun[self._following.step, formula] = path, number

    def left(self, here: Entered) -> None:
        """Note that a module has ended which counts as one activation."""
        end = self._following.step - 1
        if end >= here.first:
            self._modules[end] = ModuleSpan(here.first, here.kind)

    def end_pass(self) -> bool:
        """Look for formulas and gates in a pass; return whether it is to be run again for them."""
        following, new = self._following, self._following.is_new or self._found is None
        changed = following.end_pass() and self._fuse
        if new and following.steps:
            before, self._found = self._found, self._search()
            units = (() if one is None else one.gates for one in (before, self._found))
            changed |= self._as_units and len({*units}) > 1
        if not changed and (new or not self._tagged):
            self.tags = self._all_tags()
        self._tagged = not changed
        return changed

    def _search(self) -> Gates:
        following = self._following
        formulas = following.plan.formulas if self._fuse else ()
        try:
            return gates_of(following.steps, following.facts, self._modules, formulas, self.paths)
        except Exception:  # then none is known; the network was not disturbed
            return Gates()

    def _all_tags(self) -> dict[tuple[str, int], Tag]:
        if self._found is None:
            return {}
        tags = self._found.tags()
        if self._as_units:
            tags |= {(one.step, True): Tag(UNIT, one.multiplies) for one in self._found.gates}
        return {call: tags[begun] for begun, call in self._begun.items() if begun in tags}

    def input_of(self, formula: Formula, args: Any, kwargs: Any) -> Tensor | None:
        """Return the tensor that enters a formula or a gated unit, among those of its first step.

        Of a function that splits its input itself, it is the half that is multiplied.
        """
        x, axis = input_of_formula(formula, args, kwargs), formula.half
        if x is None or axis is None:
            return x
        try:
            length = x.shape[axis] // 2
            half = x.narrow(axis, 0, length)
            self._following.derive(Applied("narrow", (x, axis, 0, length), {}), [half])
        except Exception:  # the function itself raises the error
            return None
        return half
