"""What several commands are tried on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.stitchable import SOURCE


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with networks in nets.py, and with data that look like CIFAR-10."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets.py").write_text(SOURCE)
    (tmp_path / "data" / "cifar10").mkdir(parents=True)
    generator = np.random.default_rng(0)
    for split, count in (("train", 80), ("test", 30)):
        np.save(
            tmp_path / f"data/cifar10/{split}_images.npy",
            generator.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8),
        )
        np.save(tmp_path / f"data/cifar10/{split}_labels.npy", generator.integers(0, 10, count))
    return tmp_path
