"""The setting in which the examples of the gallery run: quiet, and on one thread each."""

from __future__ import annotations

import warnings
from typing import Any


def reset(gallery_conf: dict[str, Any], file: str) -> None:
    """Two examples run at a time, on two cores; warnings of frameworks are not for readers."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.filterwarnings("ignore", category=UserWarning, module="lightning|pytorch_lightning")
