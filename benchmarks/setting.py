"""Where a benchmark ran: date, machine and versions; and a line of progress on a terminal."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import sys
from pathlib import Path

import torch

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "POT", "torchvision")


def describe(device: str) -> str:
    """Say in one line when, where and with what the numbers below were measured."""
    versions = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    where = (
        torch.cuda.get_device_name()
        if device == "cuda"
        else f"{_processor()}, {os.cpu_count()} cores"
    )
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}; {where}; {', '.join(versions)}."


def progress(text: str) -> None:
    """Show what is being done, where somebody watches."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )
