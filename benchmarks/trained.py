"""What training does: the signatures of networks that others have trained, next to the same
networks untrained.

Run as `python benchmarks/trained.py` (some minutes, and at first downloads, as for `make
test-real`).
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from setting import describe, progress

import sigmascope as sg

# for the networks, which the tests use too
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.real.data import photographs
from tests.real.trained import NETWORKS, Trained, normalized, trained, untrained

SEEDS = (0, 1, 2)

# Pages of black text on white are all alike, so PP-LCNet sees photographs as well.
PAGES = next(network for network in NETWORKS if network.name == "PP-LCNet")
PHOTOGRAPHS = replace(
    PAGES,
    name=f"{PAGES.name} on photographs",
    samples="photographs",
    batch=lambda count: normalized(photographs(count)),
)


@dataclass(frozen=True)
class Record:
    """Signatures of a trained network and of the same network with random weights."""

    network: Trained
    after: sg.Signature
    before: tuple[sg.Signature, ...]

    @property
    def gain(self) -> float:
        """The mean score after training less that before, averaged over the seeds."""
        return float(
            np.nanmean(self.after.scores) - np.mean([np.nanmean(one.scores) for one in self.before])
        )

    @property
    def beyond_seeds(self) -> bool:
        """Whether the mean score after training lies outside those of all seeds."""
        means = [np.nanmean(one.scores) for one in self.before]
        return not min(means) <= np.nanmean(self.after.scores) <= max(means)

    @property
    def lower(self) -> int:
        """How many sites have a lower score after training than before, averaged over the seeds."""
        return int((self.after.scores < np.mean([one.scores for one in self.before], axis=0)).sum())


def record(network: Trained) -> Record:
    batch = network.batch(network.many)
    found = []
    for seed in (None, *SEEDS):
        progress(f"{network.name}, {'trained' if seed is None else f'seed {seed}'}")
        model = trained(network) if seed is None else untrained(network, seed)
        found.append(
            sg.signature(model, batch, name=network.name, progress=False, **network.options)
        )
    return Record(network, found[0], tuple(found[1:]))


def row(one: Record) -> str:
    after = one.after.summary()
    before = [signature.summary() for signature in one.before]
    sites = one.after.sites
    unscored = sum(
        len(signature.sites) - signature.coverage.scored for signature in (one.after, *one.before)
    )
    cells = [
        one.network.name + (f" ({unscored} without a score)" if unscored else ""),
        f"{max(site.n for site in sites)} {one.network.samples}",
        ", ".join(f"{count} {kind}" for kind, count in one.network.calls.items()),
        *(f"{after[key]:.3f}" for key in ("min", "median", "max", "mean")),
        *(f"{np.mean([each[key] for each in before]):.3f}" for key in ("min", "median", "max")),
        f"{np.mean([each['mean'] for each in before]):.3f} "
        f"({min(each['mean'] for each in before):.3f} to "
        f"{max(each['mean'] for each in before):.3f})",
        f"{one.gain:+.3f}",
        f"{one.lower} of {len(sites)}",
    ]
    return f"| {' | '.join(cells)} |"


def named(records: list[Record]) -> str:
    return ", ".join(
        f"{one.network.name} ({one.gain:+.3f})" for one in sorted(records, key=lambda one: one.gain)
    )


def finding(records: list[Record]) -> list[str]:
    """Say in words what the table shows."""
    clear = [one for one in records if one.beyond_seeds]
    down, up = [one for one in clear if one.gain < 0], [one for one in clear if one.gain > 0]
    sites, lower = sum(len(one.after.sites) for one in records), sum(one.lower for one in records)
    lines = [
        f"In {len(down)} of {len(records)} rows the mean score is lower after training than "
        "with any of the "
        f"{len(SEEDS)} seeds, that is, more non-linear: {named(down) or 'none'}. In "
        f"{len(up)} it is higher: "
        f"{named(up) or 'none'}."
    ]
    spreads = [
        float(np.nanstd(one.after.scores))
        - np.mean([np.nanstd(each.scores) for each in one.before])
        for one in records
    ]
    lines.append(
        f"Of all {sites} activation calls {lower} have a lower score after training; the "
        "scores of a network lie further apart "
        f"(standard deviation over its calls) in {sum(spread > 0 for spread in spreads)} of "
        f"{len(records)} rows."
    )
    return lines


def main() -> str:
    warnings.filterwarnings("ignore", "Using a non-tuple sequence", UserWarning)  # onnx2torch
    records = [record(network) for network in (*NETWORKS, PHOTOGRAPHS)]
    return "\n".join(
        [
            "# What training does to the signatures of networks",
            "",
            describe("cpu"),
            "",
            "Trained networks out of ordinary packages (`tests/real`), and the same "
            "architectures untrained: the mean over "
            f"seeds {', '.join(map(str, SEEDS))}, in brackets the range. Both see the same "
            "data, one batch; Ledoit–Wolf. "
            "Untrained, the weights are those that the library draws, and batch norms have "
            "the statistics of the data.",
            "",
            "| network | samples | calls | trained: min | median | max | mean | untrained: "
            "min | median | max | mean | "
            "change of mean | calls with a lower score |",
            "|---|---|---|" + "---:|" * 10,
            *(row(one) for one in records),
            "",
            *finding(records),
        ]
    )


if __name__ == "__main__":
    print(main())
