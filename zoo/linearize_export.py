"""Tuned networks as small files: `python zoo/linearize_export.py SCRATCH/curve-vgg16-s0-8-12.pt
OUT` writes a file of `zoo/linearize_experiment.py` as safetensors in half precision, which `load`
reads.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from linearize_networks import NARROW, NETWORKS
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from sigmascope.linearize import Affine


def write(source: Path, out: Path) -> Path:
    """Write the weights of a tuned network, with the sites of its maps, and return the path."""
    held = torch.load(source, map_location="cpu", weights_only=True)
    state: dict[str, Tensor] = held["state"]
    kept = {
        name: (value.half() if value.is_floating_point() else value).contiguous()
        for name, value in state.items()
    }
    about = {"network": held["network"], "axes": json.dumps(held["axes"])}
    path = out / f"{source.stem}.safetensors"
    out.mkdir(parents=True, exist_ok=True)
    save_file(kept, path, metadata=about)
    return path


def load(path: Path, *, narrow: bool = False) -> nn.Module:
    """Return a tuned network in evaluation mode, with an `Affine` at every removed activation."""
    with safe_open(path, "pt") as file:
        about = file.metadata()
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    model = (NARROW if narrow else NETWORKS)[about["network"]]()
    for site, axis in json.loads(about["axes"]).items():
        scale, shift = (state[f"{site}.{part}"].float() for part in ("scale", "shift"))
        parent, _, leaf = site.rpartition(".")
        setattr(model.get_submodule(parent), leaf, Affine(scale, shift, axis))
    model.load_state_dict(state)
    return model.eval()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path, nargs="+")
    parser.add_argument("out", type=Path)
    args = parser.parse_args(arguments)
    for source in args.source:
        path = write(source, args.out)
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
