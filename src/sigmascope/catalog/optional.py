"""Optional packages: how they are imported, and errors that say how to install them."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import torch

from sigmascope.errors import MissingExtraError

EXTRAS = {
    "datasets": "hf",
    "lightning": "lightning",
    "onnx": "onnx",
    "onnx2torch": "onnx",
    "PIL": "vision",
    "timm": "vision",
    "torchmetrics": "torchmetrics",
    "torchvision": "vision",
    "transformers": "hf",
}
"""Package -> the extra that installs it."""
# These import torchvision themselves, where it is installed.
USERS_OF_TORCHVISION = (
    "lightning",
    "onnx2torch",
    "pytorch_lightning",
    "timm",
    "torchmetrics",
    "transformers",
)
# Declared operators live as long as the object that declared them.
_declared: list[torch.library.Library] = []


def optional(name: str) -> Any:
    """Return an optional package or one of its modules, imported.

    A torchvision wheel for CUDA beside a torch for CPU fails to import, because two detection
    operators are not declared. The networks of the catalog do not use them, so they are declared
    here and the import is repeated.
    """
    package = name.partition(".")[0]
    if package in USERS_OF_TORCHVISION and _is_installed("torchvision"):
        optional("torchvision")
    if name != package:
        optional(package)  # so that the error names the package, not its module
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise _missing(package, error) from error
    except RuntimeError as error:
        if "torchvision::nms" not in str(error) or _declared:
            raise _mismatch(package, error) from error
    library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:
        raise _mismatch(package, error) from error


def one_line(error: BaseException, longest: int = 200) -> str:
    r"""Return the message of a package's error on one line, cut to a length.

    >>> one_line(ValueError("first\n  second"))
    'first second'
    """
    return " ".join(str(error).split())[:longest]


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # it is loaded, by something that leaves no spec
        return True


def _missing(package: str, error: ImportError) -> MissingExtraError:
    command = f'pip install "sigmascope[{EXTRAS[package]}]"'
    if isinstance(error, ModuleNotFoundError) and error.name == package:
        return MissingExtraError(f"{package} is not installed: {command}.")
    return MissingExtraError(
        f"{package} is installed and cannot be imported ({error}): {command} --force-reinstall."
    )


def _mismatch(package: str, error: Exception) -> MissingExtraError:
    packages = " ".join(dict.fromkeys(("torch", "torchvision", package)))
    return MissingExtraError(
        f"{package} does not fit torch {torch.__version__} ({error}): "
        f"pip install --force-reinstall {packages}."
    )
