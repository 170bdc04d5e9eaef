"""Packages that are not always installed, and the message that says how to get them."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import torch

from sigmascope.errors import MissingExtraError

__all__ = ["optional"]

EXTRAS = {
    "datasets": "hf",
    "onnx": "onnx",
    "onnx2torch": "onnx",
    "PIL": "vision",
    "timm": "vision",
    "torchvision": "vision",
    "transformers": "hf",
}
# Declared operators live as long as the object that declared them.
_declared: list[torch.library.Library] = []


def optional(name: str) -> Any:
    """Import a package or one of its modules.

    A torchvision that was built for another torch fails to declare two detection operators. Its networks do not use them, so
    the schemas are declared here and the import goes on.

    Raises:
        MissingExtraError: not installed; the message names the extra.
    """
    package = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ImportError as error:
        extra = EXTRAS.get(package, "analysis")
        raise MissingExtraError(f'{package} is not installed or broken: pip install "sigmascope[{extra}]".') from error
    except RuntimeError as error:
        if "torchvision::nms" not in str(error) or _declared:
            raise
    library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)
    warnings.warn(
        "torchvision was built for another torch; its networks work, its detection operators do not",
        RuntimeWarning,
        stacklevel=2,
    )
    return importlib.import_module(name)
