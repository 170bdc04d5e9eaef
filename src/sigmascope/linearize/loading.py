"""The verb `load`: a linearized network from its files and the original architecture."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from sigmascope.catalog.models import model as catalog_model
from sigmascope.errors import InputTypeError, OptionError
from sigmascope.linearize.saved import SavedNetwork, file_of

# Names whose networks are built by installed packages: no code and no weights come from elsewhere.
KNOWN = ("sigmascope/", "torchvision/", "timm/")


def load(path: str | Path, model: nn.Module | str | None = None) -> nn.Module:
    """Return a linearized network that `save` or `sigmascope linearize` wrote, in evaluation mode.

    The activations are replaced and merged layers put in place as the file describes, then the
    weights are read. No data is needed, and nothing in the files is run.

    Args:
        path: the directory, or its network.json.
        model: the original architecture, with any weights: a network, which is not changed, or its
            name in the catalog. By default the name in the file, if it is that of a network of our
            zoo, of torchvision or of timm.

    Raises:
        FileNotFoundError: a file is missing.
        FileFormatError: corrupt, not a linearized network, or weights that do not fit.
        NetworkError: another architecture.
        OptionError: no model, and the name in the file is not such a name.

    >>> import tempfile
    >>> import torch
    >>> from sigmascope import linearize
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> plan = linearize.plan(network, torch.randn(256, 4), budget=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = linearize.save(linearize.apply(network, plan), folder, plan=plan)
    ...     load(folder, network)[1]
    Affine(8, axis=-1)
    """
    saved = SavedNetwork.load(file_of(path))
    return saved.built(model_of(saved.name if model is None else model, is_given=model is not None))


def model_of(model: nn.Module | str, *, is_given: bool = True) -> nn.Module:
    """Return a network, or that of a name in the catalog with random weights.

    Args:
        model: a network, or a name.
        is_given: whether the user gave it; a name from a file must not run code from elsewhere.
    """
    if isinstance(model, nn.Module):
        return model
    if not isinstance(model, str):
        raise InputTypeError(
            f"model must be a network or its name in the catalog, got a {type(model).__name__}."
        )
    if not is_given and not model.startswith(KNOWN):
        raise OptionError(
            f"the file names {model!r:.80} as the original network, which cannot be built from "
            "the catalog alone. Pass the architecture: load(path, model)."
        )
    # weights of the zoo are part of a name, and none are needed
    plain = model.partition(":")[0] if model.startswith("sigmascope/") else model
    is_written_so = model.startswith(("onnx:", "py:"))
    return catalog_model(plain, weights="default" if is_written_so else None).network
