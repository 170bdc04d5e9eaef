"""How much memory is free, so that what does not fit is refused and not killed."""

from __future__ import annotations

from pathlib import Path

import torch

# Bytes that are there without asking.
LITTLE = 2**28
MEMINFO = Path("/proc/meminfo")
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current"))


def free_memory(device: torch.device) -> int | None:
    """Return the free memory of a device in bytes, or None where nobody tells."""
    if device.type == "cuda":
        free: int = torch.cuda.mem_get_info(device)[0]
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return free + cached
    amounts = [amount for amount in (_available(), _below_limit()) if amount is not None]
    return min(amounts, default=None)


def lacks_memory(device: torch.device, wanted: int) -> bool:
    """Return whether a device is known to have fewer bytes free."""
    free = free_memory(device)
    return free is not None and free < wanted


def _available() -> int | None:
    """Return what the operating system says is available; Linux only."""
    try:
        lines = MEMINFO.read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return 1024 * int(found[0]) if found else None


def _below_limit() -> int | None:
    """Return what is left below the limit of a container."""
    try:
        limit, used = (path.read_text().strip() for path in LIMITS)
    except OSError:
        return None
    return int(limit) - int(used) if limit.isdecimal() else None
