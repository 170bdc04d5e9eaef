"""Packages that are not always installed, and the message that says how to get them."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from typing import Any

import torch

from sigmascope.errors import MissingExtraError

__all__ = ["EXTRAS", "optional"]

EXTRAS = {
    "datasets": "hf",
    "onnx": "onnx",
    "onnx2torch": "onnx",
    "PIL": "vision",
    "timm": "vision",
    "torchvision": "vision",
    "transformers": "hf",
}
"""Package -> the extra that installs it."""
# These import torchvision by themselves, where it is installed.
USERS_OF_TORCHVISION = ("onnx2torch", "timm", "transformers")
# Declared operators live as long as the object that declared them.
_declared: list[torch.library.Library] = []


def optional(name: str) -> Any:
    """Import a package or one of its modules.

    A torchvision that was built for another torch fails to declare two detection operators. Its
    networks do not use them, so the schemas are declared here and the import goes on.

    Raises:
        MissingExtraError: not installed, or broken; the message names the extra and what to do.
    """
    package = name.partition(".")[0]
    if package in USERS_OF_TORCHVISION and _is_installed("torchvision"):
        optional("torchvision")
    if name != package:
        optional(package)  # so that what is missing is the package, not its module
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise _missing(package, error) from error
    except RuntimeError as error:
        if "torchvision::nms" not in str(error) or _declared:
            raise _mismatch(package, error) from error
    _declare_operators()
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:
        raise _mismatch(package, error) from error


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # it is loaded, by something that leaves no spec
        return True


def _declare_operators() -> None:
    library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)
    warnings.warn(
        "torchvision was built for another torch; its networks work, its detection operators "
        "do not",
        RuntimeWarning,
        stacklevel=3,
    )


def _missing(package: str, error: ImportError) -> MissingExtraError:
    command = f'pip install "sigmascope[{EXTRAS[package]}]"'
    if isinstance(error, ModuleNotFoundError) and error.name == package:
        return MissingExtraError(f"{package} is not installed: {command}.")
    return MissingExtraError(
        f"{package} is installed and cannot be imported ({error}): {command} --force-reinstall."
    )


def _mismatch(package: str, error: Exception) -> MissingExtraError:
    return MissingExtraError(
        f"{package} does not fit torch {torch.__version__} ({error}): pip install "
        "--force-reinstall torch "
        f"{'torchvision' if package == 'torchvision' else f'torchvision {package}'}."
    )
