"""Networks of Python files, `py:FILE:FUNCTION`; the modules a file loads are removed afterwards."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from sigmascope.catalog.entry import Model
from sigmascope.catalog.transforms import Transform
from sigmascope.checks import suggestion
from sigmascope.errors import InputError, InputTypeError

_numbers = itertools.count()


def of_python(rest: str, name: str, pretrained: bool) -> Model:
    """Return the network that a function of a Python file returns; the file's code is run.

    The file may import modules beside it. It may also define `inputs`, an example of the network's
    inputs (otherwise an image of 32 × 32), `transform`, from images of 0 to 255 to such inputs, and
    `accuracy` in percent.
    """
    file, mark, factory = rest.rpartition(":")
    path = Path(file).resolve()
    if not mark or not factory:
        raise InputError(f"{name!r} is not a Python file and a function: write py:FILE:FUNCTION.")
    if not path.is_file():
        raise InputError(f"{file}: no such file. Write py:FILE:FUNCTION, with the path of a file.")
    # A unique name: no loaded module is replaced, and dataclasses look their module up by it.
    spec = importlib.util.spec_from_file_location(f"_sigmascope_{next(_numbers)}_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: not a Python file. Its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    with _importable(module, path.parent), _located(path), _staying():
        spec.loader.exec_module(module)
        network = _factory(module, factory, path)()
    if not isinstance(network, nn.Module):
        raise InputTypeError(
            f"{path}: {factory} must return an nn.Module, got {type(network).__name__}."
        )
    inputs = getattr(module, "inputs", torch.zeros(1, 3, 32, 32))
    transform = _transform(getattr(module, "transform", None), inputs)
    accuracy = getattr(module, "accuracy", None)
    return Model(name, network, "as the function returns it", inputs, transform, accuracy)


def _transform(change: Callable[[Any], Any] | None, inputs: Any) -> Transform | None:
    if change is None or isinstance(change, Transform):
        return change
    images = isinstance(inputs, torch.Tensor) and inputs.ndim == 4
    return Transform("images", change, tuple(inputs.shape[1:]) if images else None)


def _factory(module: ModuleType, factory: str, path: Path) -> Callable[[], Any]:
    """Return the function of this name, once it is clear that it needs no arguments."""
    build: Callable[[], Any] | None = getattr(module, factory, None)
    if not callable(build):
        near = suggestion(factory, [one for one, value in vars(module).items() if callable(value)])
        raise InputTypeError(
            f"{path}: {factory} is not a function that returns an nn.Module.{near}"
        )
    try:
        wanted = inspect.signature(build).parameters.values()
    except ValueError:  # compiled code has no signature
        return build
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [one.name for one in wanted if one.default is one.empty and one.kind not in kinds]
    if needed:
        raise InputError(
            f"{path}: {factory} needs {', '.join(needed)}. Give them defaults, or write a function "
            "without arguments."
        )
    return build


@contextmanager
def _importable(module: ModuleType, folder: Path) -> Iterator[None]:
    """Make a module and its neighbors importable, and remove them from sys.modules afterwards.

    Files in two directories may have neighbors of one name. A directory that was on sys.path before
    keeps its modules.
    """
    path, loaded = list(sys.path), set(sys.modules)
    is_new = folder not in [Path(one or ".").resolve() for one in path]
    sys.path.insert(0, str(folder))
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        del sys.modules[module.__name__]
        sys.path[:] = path
        fresh = set(sys.modules) - loaded
        beside = {one for one in fresh if "." not in one and _is_in(sys.modules[one], folder)}
        for one in fresh if is_new else ():
            if one.partition(".")[0] in beside:
                del sys.modules[one]


@contextmanager
def _staying() -> Iterator[None]:
    """Return to the working directory, which a file may change: other paths are relative to it."""
    here = None
    with suppress(OSError):  # it may be gone
        here = os.getcwd()
    try:
        yield
    finally:
        if here is not None:
            os.chdir(here)


def _is_in(module: ModuleType, folder: Path) -> bool:
    places = [getattr(module, "__file__", None), *(getattr(module, "__path__", None) or ())]
    return any(Path(place).parent == folder for place in places if place)


@contextmanager
def _located(path: Path) -> Iterator[None]:
    """Raise errors that prevent a file from running with its line and a remedy."""
    try:
        yield
    except SyntaxError as error:
        place = f"{error.filename or path}, line {error.lineno}"
        raise InputError(f"{place}: not valid Python ({error.msg}). Correct it.") from error
    except ModuleNotFoundError as error:
        raise InputError(
            f"{_place(path, error)}: needs {error.name}, which is not installed and not beside it. "
            "Install it in this environment."
        ) from error
    except SystemExit as error:
        raise InputError(
            f"{_place(path, error)}: exits the program ({error.code}). Move what a script does "
            "under `if __name__ == '__main__':`."
        ) from error


def _place(path: Path, error: BaseException) -> str:
    """Return the file and its last line on the way to an error."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f"{path}, line {lines[-1]}" if lines else str(path)
