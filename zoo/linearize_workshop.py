"""One network of the experiment, made ready once for all of its trainings.

Every activation can fade into an affine map, and flags say which do. So the training from scratch,
the control and every number removed run the same operators on the same tensors: torch.compile,
cuDNN's search and the capture of a step are paid once for each network instead of once for each
training. Compiled, an activation with its map reads and writes as much as an activation alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from linearize_networks import Recipe
from linearize_training import Fading, Maps, Training, linearized, replaced
from linearize_views import Images
from torch import Tensor, nn


class Workshop:
    """Trains one network again and again.

    Args:
        model: of any weights; is copied.
        maps: affine maps of all activations, of which only widths and axes count.
        recipe: the first one; all others have its optimizer.
        images: to train on.
        backend: of torch.compile; empty for none.
    """

    def __init__(
        self, model: nn.Module, maps: Maps, recipe: Recipe, images: Images, *, backend: str
    ) -> None:
        device = images.labels.device
        share = torch.zeros((), device=device)
        self.model = replaced(
            model, maps, lambda *parts: Fading(*parts, share, removed=torch.zeros_like(share))
        )
        self.flags = {name: self.model.get_submodule(name) for name in maps}
        self.training = Training(
            self.model, recipe, images, seed=0, share=share, compile_with=backend
        )

    def begin(
        self,
        state: Mapping[str, Tensor],
        recipe: Recipe,
        *,
        seed: int,
        sites: Iterable[str] = (),
        maps: Maps | None = None,
        teacher: Tensor | None = None,
    ) -> Training:
        """Start a training from the weights of an original, without the activations at sites."""
        missing, strange = self.model.load_state_dict(state, strict=False)
        own = {f"{name}.{part}" for name in self.flags for part in ("scale", "shift")}
        if strange or set(missing) != own:
            raise ValueError(f"weights of another network: {strange or sorted(set(missing) - own)}")
        chosen = set(sites)
        with torch.no_grad():
            for name, fading in self.flags.items():
                assert isinstance(fading, Fading)
                assert fading.removed is not None
                fading.removed.fill_(name in chosen)
                scale, shift = (maps or {})[name][:2] if name in chosen else (1.0, 0.0)
                _fill(fading.scale, scale)
                _fill(fading.shift, shift)
        self.training.begin(recipe, seed=seed, teacher=teacher)
        return self.training

    def finished(self, original: nn.Module, sites: Iterable[str], maps: Maps) -> nn.Module:
        """Return what the network has become: a copy of the original with maps at the sites."""
        made, _ = linearized(original, list(sites), maps)
        held: dict[str, Any] = self.model.state_dict()
        made.load_state_dict({name: held[name] for name in made.state_dict()})
        return made


def _fill(parameter: Tensor, value: Tensor | float) -> None:
    """Overwrite in place: a captured step knows the tensor."""
    if isinstance(value, Tensor):
        parameter.copy_(value)
    else:
        parameter.fill_(value)
