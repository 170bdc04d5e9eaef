"""Use an installed sigmascope as a newcomer would, from an empty directory; see check.py.

python -W error installed.py EXTRA        # - for none, A+B for several
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib import metadata
from pathlib import Path

# extra -> the packages that it brings, and what then works.
BROUGHT = {
    "vision": ("torchvision", "timm"), "hf": ("transformers", "datasets"), "ot": ("ot",),
    "analysis": ("pandas", "sklearn"), "onnx": ("onnx", "onnx2torch"), "ray": ("ray",),
    "lightning": ("lightning",), "torchmetrics": ("torchmetrics",), "slurm": ("submitit",),
}  # fmt: skip


def command(*arguments: str, code: int = 0) -> str:
    """Return what the command prints, and stop unless it ends with this code."""
    program = Path(sys.executable).with_name("sigmascope")
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    if done.returncode != code:
        raise SystemExit(
            f"sigmascope {' '.join(arguments)}: {done.returncode} {done.stderr[-500:]}"
        )
    return done.stdout + done.stderr


def main() -> None:
    """Run the public names, the command line, and what the extra is for."""
    import sigmascope as sg

    here = Path(sg.__file__).resolve()
    if Path(sys.prefix) not in here.parents:
        raise SystemExit(f"sigmascope is not the installed one: {here}")
    for name in sg.__all__:
        getattr(sg, name)
    version = metadata.version("sigmascope")
    if not sg.__version__ == version == metadata.version("sigmascope-papers"):
        raise SystemExit(f"versions differ: {sg.__version__}, {version}")
    if command("--version").strip() != f"sigmascope {version}":
        raise SystemExit("--version differs")
    extras = [extra for extra in sys.argv[1].split("+") if extra in BROUGHT]
    for extra in extras:
        for package in BROUGHT[extra]:
            if importlib.util.find_spec(package) is None:
                raise SystemExit(f"the extra {extra} lacks {package}")
    used = "; ".join(map(use, extras)) if extras else whole()
    print(f"version {version}, {len(sg.__all__)} names, {used}")


def whole() -> str:
    """Do what needs no extra, and return what was done."""
    command("demo", "-o", "demo")
    command("compare", "demo/resnet20.json", "demo/plain20.json")
    command("report", "demo/resnet20.json", "demo/plain20.json", "-o", "report.html")
    command("reproduce", "--list")
    command("reproduce", "fig7", "sym-table3", "-o", "reproduced")
    return "demo, compare, report, reproduce fig7 and sym-table3"


def use(extra: str) -> str:
    """Do what an extra is for, and return what was done."""
    if extra == "vision":
        names = ("torchvision/squeezenet1_1", "timm/resnet10t")
        command("measure", *names, "--weights", "none", "--data", "random:64", "--limit", "64")
        return "networks of torchvision and timm measured"
    if extra in ("ray", "slurm"):
        chosen = ("--data", "embedded", "--limit", "64", "--on", extra, "-o", f"on-{extra}")
        command("measure", "sigmascope/resnet20", *chosen)
        return f"a network measured on {extra}"  # without `sbatch` by a process of submitit
    if extra == "torchmetrics":
        import torch

        from sigmascope.integrations.torchmetrics import AffinityScore

        metric = AffinityScore()
        metric.update(torch.randn(256, 4), torch.randn(256, 4))
        return "a metric computed" if metric.compute().isfinite() else "NaN"
    if extra == "ot":
        import numpy as np

        import sigmascope as sg

        generator = np.random.default_rng(0)
        sg.affinity(generator.standard_normal((60, 3)), generator.standard_normal((40, 3)))
        return "samples of unequal size"
    if extra == "analysis":
        import torch

        import sigmascope as sg

        network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
        found = sg.signature(network, torch.randn(64, 4), progress=False)
        return f"a frame of shape {found.to_frame().shape}"
    return f"{', '.join(BROUGHT[extra])} found"


if __name__ == "__main__":
    main()
