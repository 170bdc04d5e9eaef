"""sigmascope: an instrument for looking at σ, the activation function, inside real networks.

How non-linear is an activation? Take its inputs and outputs, samples by channels. The *affinity
score* compares the output distribution with the input distribution transported by the best positive
affine map, by exact optimal transport: 1 means affine, lower means more non-linear
(Bouniot et al., CVPR 2025, arXiv:2310.11439).

>>> import numpy as np
>>> import sigmascope as sg
>>> x = np.random.default_rng(0).standard_normal((512, 64))
>>> round(sg.affinity(x, np.maximum(x, 0)).score, 3)
0.623

Names are imported when they are first used, so that importing the package does not import torch.
"""

from __future__ import annotations

import lazy_loader

__version__ = "0.2.0"

__getattr__, _, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]  # the stub's only name that is not imported


def __dir__() -> list[str]:
    return sorted(__all__)
