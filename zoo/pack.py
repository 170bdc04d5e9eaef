"""Pack trained weights: `python zoo/pack.py RUNS --data DIR` halves them, measures them on the
whole test set, and lists them.

The weights go to `zoo/weights` in float16 where that costs at most 0.1 % of accuracy, otherwise in
float32, and `zoo/index.json` gets recipe, seed, accuracy and sha256. `python zoo/pack.py --check
--data DIR` measures what is stored again. `python zoo/pack.py --embed --data DIR` copies a pair of
networks and the first 512 test images into the package. `python zoo/pack.py --table` prints what is
stored.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from train import accuracy, load_data

from sigmascope.catalog.cifar import NETWORKS

ZOO = Path(__file__).parent
INDEX, WEIGHTS = ZOO / "index.json", ZOO / "weights"
ALLOWED = 0.001
EMBEDDED_IMAGES = 512


def measured(network: str, state: dict[str, Tensor], data: dict[str, Tensor]) -> float:
    """Return the accuracy of weights on the whole test set, in float32 arithmetic."""
    model = NETWORKS[network]()
    model.load_state_dict(state)
    return accuracy(model.to(data["test_labels"].device), data["test_images"], data["test_labels"])


def halved(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: value.half() if value.is_floating_point() else value for name, value in state.items()
    }


def pack(recipe: Path, data: dict[str, Tensor]) -> dict[str, dict[str, object]]:
    """Pack the final and initial weights of one run and return their index entries."""
    entry = json.loads(recipe.read_text())
    entries = {}
    for suffix in ("", "-init", *(f"-e{epoch}" for epoch in (1, 3, 10, 30))):
        source = recipe.with_name(f"{recipe.stem}{suffix}.safetensors")
        if not source.exists():
            continue
        state = load_file(source)
        full, small = (
            measured(entry["network"], weights, data) for weights in (state, halved(state))
        )
        kept, type_ = (halved(state), "float16") if small >= full - ALLOWED else (state, "float32")
        target = WEIGHTS / source.name
        save_file(kept, target)
        entries[target.stem] = {
            **{key: value for key, value in entry.items() if key not in ("accuracy", "seconds")},
            "checkpoint": suffix.removeprefix("-") or "end",
            "accuracy": round(100 * (small if type_ == "float16" else full), 2),
            "type": type_,
            "bytes": target.stat().st_size,
            "sha256": hashlib.sha256(target.read_bytes()).hexdigest(),
        }
        print(f"{target.stem}: {entries[target.stem]['accuracy']} % ({type_})", flush=True)
    return entries


def check(data: dict[str, Tensor]) -> None:
    """Measure what is stored again; complain about what differs from the index."""
    for name, entry in json.loads(INDEX.read_text()).items():
        path = WEIGHTS / f"{name}.safetensors"
        if hashlib.sha256(path.read_bytes()).hexdigest() != entry["sha256"]:
            raise SystemExit(f"{path}: not the file that the index lists")
        found = round(100 * measured(entry["network"], load_file(path), data), 2)
        print(f"{name}: {found} %, listed {entry['accuracy']} %", flush=True)
        if abs(found - entry["accuracy"]) > 0.05:
            raise SystemExit(f"{name}: the accuracy is not the listed one")


def embed(folder: Path) -> None:
    """Copy what the package carries: the first residual network, its plain twin, and images."""
    missing = [
        name for name in ("test_images.npy", "test_labels.npy") if not (folder / name).is_file()
    ]
    if missing:
        raise SystemExit(
            f"{folder}: {', '.join(missing)} not there; write them with python zoo/data.py "
            f"PACKAGE {folder}"
        )
    target = ZOO.parent / "src" / "sigmascope" / "catalog" / "embedded_files"
    target.mkdir(exist_ok=True)
    index, listed = json.loads(INDEX.read_text()), {}
    for network in ("resnet20", "plain20"):
        shutil.copyfile(WEIGHTS / f"{network}-s0.safetensors", target / f"{network}.safetensors")
        listed[network] = index[f"{network}-s0"]
    (target / "index.json").write_text(json.dumps(listed, indent=1) + "\n")
    images, labels = (
        torch.from_numpy(np.load(folder / f"test_{name}.npy")[:EMBEDDED_IMAGES])
        for name in ("images", "labels")
    )
    save_file(
        {"images": images.contiguous(), "labels": labels.to(torch.uint8)},
        target / "images.safetensors",
    )


def table() -> str:
    """Return the networks of the index as a table, with the accuracy of each seed."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for entry in json.loads(INDEX.read_text()).values():
        if entry["checkpoint"] == "end":
            runs.setdefault(entry["network"], []).append(entry)
    lines = ["| network | parameters | epochs | accuracy by seed, % |", "|---|---:|---:|---|"]
    for name in sorted(runs, key=list(NETWORKS).index):
        count = sum(parameter.numel() for parameter in NETWORKS[name]().parameters())
        reached = ", ".join(
            f"{entry['accuracy']:.2f}"
            for entry in sorted(runs[name], key=lambda entry: entry["seed"])
        )
        lines.append(f"| {name} | {count:,} | {runs[name][0]['epochs']} | {reached} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*", type=Path, help="folders that zoo/train.py wrote")
    parser.add_argument("--data", type=Path, help="the folder with the arrays of CIFAR-10")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--embed", action="store_true")
    args = parser.parse_args(arguments)
    if args.table:
        print(table())
        return
    if args.data is None:
        parser.error("--data is needed: the folder that zoo/data.py wrote")
    if not args.data.is_dir():
        raise SystemExit(f"{args.data}: no folder; name the one that zoo/data.py wrote")
    recipes = {folder: sorted(folder.glob("*-s*.json")) for folder in args.runs}
    if not (args.embed or args.check or recipes):
        parser.error(
            "name the folders that zoo/train.py wrote, or ask for --check, --embed or --table"
        )
    for folder, found in recipes.items():
        if not found:
            raise SystemExit(f"{folder}: no finished run; name a folder that zoo/train.py wrote")
    if args.embed:
        embed(args.data)
        return
    torch.backends.cudnn.allow_tf32 = False  # an accuracy is that of float32
    data = load_data(args.data, "cuda" if torch.cuda.is_available() else "cpu")
    if args.check:
        check(data)
        return
    WEIGHTS.mkdir(exist_ok=True)
    index = json.loads(INDEX.read_text()) if INDEX.exists() else {}
    for found in recipes.values():
        for recipe in found:
            index |= pack(recipe, data)
            INDEX.write_text(json.dumps(dict(sorted(index.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
