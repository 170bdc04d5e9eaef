"""A term of the loss that pushes chosen activations towards affine, away, or to a target score."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import called_within, unwrapped
from sigmascope.errors import InputError, NetworkError, NoActivationError, OptionError, ResumeError
from sigmascope.store.kept import differences
from sigmascope.training.running_scores import EPS, attached
from sigmascope.training.site_rows import Collected, Pair, SiteRows, together
from sigmascope.training.site_scores import SiteScores


class AffinityPenalty:
    r"""A term for the loss that pushes the scores of chosen activations.

    It is `weight` times the mean over the sites of $1 - \rho$, or of $(\rho - \text{target})^2$,
    with the affinity score ρ of paired samples (Bouniot et al., CVPR 2025, arXiv:2310.11439), which
    is that of `sigmascope.affinity(x, y, covariance="biased", coupling="paired")` up to `eps`.
    Channels are found and positions averaged as in `sigmascope.signature`; padding is not masked.

    A score needs 2.5 samples per channel of a block. Where a batch has fewer than 4, it is that of
    running sums, and the site joins after some steps; see `sigmascope.training.running_scores`.
    Sums are of one process: each rank of a distributed training has its own. Keep `state_dict()` in
    checkpoints, so that a training that goes on has them at once.

    The first forward pass is watched as by `sigmascope.recording`, with compiled parts run eagerly;
    later ones have a hook on each site. Nothing remains on the network after the context. Sites
    inside compiled parts cannot be seen: use `sigmascope.nn.Scored` there. Activations written as
    formulas are not put together.

    Args:
        model: the network, or a DistributedDataParallel around it. One in shards of
            `torch.distributed.fsdp.fully_shard` runs as it does without the penalty.
        sites: patterns of paths or names of activation calls, such as "layer1.*" or
            "layer1.0.relu#1", or kinds, such as "relu".
        weight: of the term; below 0 it pushes away from affine. With 0 the scores are computed for
            `scores`, and training is bit for bit what it is without.
        target: the score to reach, instead of 1.
        every: compute the term in each k-th context only, k times as large; it is 0 in the others.
        samples: "batch", or "positions" for up to 16 positions of each sample on a grid.
        block: layers with more channels are scored in blocks of at most so many, and their score is
            the mean over these; None for all channels at once. Blocks cost less (with None a step
            of ResNet-18 takes 2.4 times as long on an H200, by default 1.3 times), and need fewer
            samples. The score of an affine activation is 1 either way.
        eps: added to the diagonals of both covariances, in units of their mean variance. It is
            larger than that of `sigmascope.affinity`, 1e-6: with less, directions in which features
            hardly vary rule the gradient while features move.

    Raises:
        OptionError: an option has an invalid value, or no activation call matches `sites`.
        NetworkError: a network whose calls cannot be watched.

    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> penalty = AffinityPenalty(model, sites="relu", weight=0.1)
    >>> with penalty:
    ...     out = model(torch.randn(64, 4))
    >>> loss = out.square().mean() + penalty.value
    >>> loss.backward()
    >>> list(penalty.scores)
    ['1']
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        sites: str | Collection[str] = "*",
        weight: float = 0.1,
        target: float | None = None,
        every: int = 1,
        samples: Literal["batch", "positions"] = "batch",
        block: int | None = 64,
        eps: float = EPS,
    ) -> None:
        inner = called_within(model)
        self._network: nn.Module = unwrapped(inner, sharded=True)
        if self._network is not inner or inner._compiled_call_impl is not None:
            raise NetworkError(
                "the whole network is compiled, and hooks do not run there. Compile its parts and "
                "leave the chosen activations out, or put sg.nn.Scored around them."
            )
        if samples not in ("batch", "positions"):
            raise OptionError(f"samples must be 'batch' or 'positions', got {samples!r:.80}.")
        self._patterns = _patterns(sites)
        self.weight = _number("weight", weight)
        self.target = None if target is None else _number("target", target)
        self.every, self.eps = _count("every", every), _number("eps", eps)
        if not 0 < self.eps <= 1:
            raise OptionError(f"eps must be above 0 and at most 1, got {eps!r:.80}.")
        self.samples, self.block = samples, None if block is None else _count("block", block)
        self._rows = SiteRows(self._network, self._patterns, samples)
        self._running: dict[tuple[object, ...], SiteScores] = {}
        self._contexts = 0
        self._stack: ExitStack | None = None
        self._found: Collected | None = None
        self._scored: list[tuple[list[str], Tensor]] = []
        self._skipped: dict[str, str] = {}
        self._value: Tensor | None = None

    def __repr__(self) -> str:
        chosen = ", ".join(self._patterns)
        goal = "" if self.target is None else f", target={self.target:g}"
        return f"AffinityPenalty(sites={chosen!r}, weight={self.weight:g}{goal})"

    def __enter__(self) -> AffinityPenalty:
        if self._stack is not None:
            raise InputError("the context of this penalty is entered already. Leave it first.")
        before, self._value, self._found = self._value, None, None
        self._scored, self._skipped = [], {}
        is_due = self._contexts % self.every == 0
        with ExitStack() as stack:
            if is_due:
                expects = torch.is_grad_enabled() and self.weight != 0
                self._found = stack.enter_context(self._rows.collecting(expects_gradient=expects))
            elif before is not None:
                self._value = torch.zeros_like(before)
            self._stack = stack.pop_all()
        self._contexts += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        stack, self._stack = self._stack, None
        found, self._found = self._found, None
        if stack is not None:
            stack.__exit__(kind, *rest)
        if kind is None and found is not None and found.has_run:
            self._skipped = found.skipped
            self._value = self._computed(found)

    @property
    def value(self) -> Tensor:
        """The term of the last context, a scalar to add to the loss.

        It has the dtype of the activations, and under autocast float32, as losses have; 0 where no
        site has a score, see `skipped`.
        """
        if self._stack is not None:
            raise InputError("the penalty is known when its context has ended. Read it after that.")
        if self._value is None:
            raise NoActivationError(
                "the network has not run inside the context of the penalty. Write `with penalty: "
                "out = model(x)`, then add penalty.value to the loss."
            )
        return self._value

    @property
    def scores(self) -> dict[str, float]:
        """The scores of the last context by site; reading them waits for the device."""
        return {name: score for name, score in self._read() if not math.isnan(score)}

    @property
    def skipped(self) -> dict[str, str]:
        """The chosen sites that had no score in the last context, each with the reason."""
        flat = "its inputs or its outputs do not vary, or are not finite"
        return {**{name: flat for name, one in self._read() if math.isnan(one)}, **self._skipped}

    def state_dict(self) -> dict[str, Any]:
        """Return the running sums and the count of contexts, to be kept in a checkpoint.

        It holds tensors and plain values, so that `torch.load` reads it with weights_only=True.
        Each rank of a distributed training has sums of its own.
        """
        running = [
            {"key": key, "sums": [group.running.state_dict() for group in one.groups]}
            for key, one in self._running.items()
        ]
        return {
            "options": self._identity(),
            "contexts": self._contexts,
            "offsets": self._rows.offsets,
            "value": None if self._value is None else torch.zeros_like(self._value),
            "running": running,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with the running sums of a checkpoint, on the device that it was loaded to.

        Raises:
            InputError: the context of the penalty is entered.
            ResumeError: the state is that of a penalty with other sites, samples, block or eps.
        """
        if self._stack is not None:
            raise InputError("the context of this penalty is entered. Leave it first.")
        told = "; ".join(differences(state["options"], self._identity()))
        if told:
            raise ResumeError(
                f"the state is that of another penalty: {told}. Use the same options."
            )
        self._contexts, self._value = int(state["contexts"]), state["value"]
        self._rows.offsets = _as_tuples(state["offsets"])
        self._running, self._scored, self._skipped = {}, [], {}
        for one in state["running"]:
            _, names, channels, alike = _as_tuples(one["key"])
            device = one["sums"][0]["shift"].device
            scores = SiteScores(channels, alike, block=self.block, eps=self.eps, device=device)
            for group, sums in zip(scores.groups, one["sums"], strict=True):
                group.running.load_state_dict(sums, device)
            self._running[str(device), names, channels, alike] = scores

    def _identity(self) -> dict[str, object]:
        sites = [*self._patterns]
        return {"sites": sites, "samples": self.samples, "block": self.block, "eps": self.eps}

    def _read(self) -> Iterator[tuple[str, float]]:
        for names, scores in self._scored:
            yield from zip(names, scores.tolist(), strict=True)

    def _computed(self, found: Collected) -> Tensor:
        """Return the term of what was collected."""
        total: Tensor | None = None
        for device, names in _by_device(found).items():
            pairs = [together(found.pairs[name]) for name in names]
            running = self._running_of(device, names, pairs)
            tensors = [one for pair in pairs for one in (pair.x, pair.y)]
            positions = [pair.positions for pair in pairs]
            with torch.autocast(device.type, enabled=False), torch.inference_mode(mode=False):
                scored = running.take(list(map(_values, tensors)), positions, self.target)
            waiting = {names[site]: why for site, why in running.waiting().items()}
            value = scored.value
            if len(waiting) < len(names):
                value = attached(value, scored.gradient, tensors)
            self._skipped |= waiting
            self._scored.append((names, scored.scores))
            # the last device is where the loss most likely is
            value = value * (len(names) / len(found.pairs))
            total = value if total is None else value + total.to(device)
        if total is None:
            return torch.zeros((), dtype=found.dtype, device=found.device)
        return (total * (self.weight * self.every)).to(found.dtype)

    def _running_of(self, device: torch.device, names: list[str], pairs: list[Pair]) -> SiteScores:
        """Return the running scores of these sites, whatever the number of samples."""
        lengths = [len(pair.x) for pair in pairs]
        counts = list(dict.fromkeys(lengths))
        alike = tuple(map(counts.index, lengths))
        channels = tuple(pair.x.shape[1] for pair in pairs)
        key = str(device), tuple(names), channels, alike
        if key not in self._running:
            self._running[key] = SiteScores(
                channels, alike, block=self.block, eps=self.eps, device=device
            )
        return self._running[key]


def _by_device(found: Collected) -> dict[torch.device, list[str]]:
    devices: dict[torch.device, list[str]] = {}
    for name, pairs in found.pairs.items():
        devices.setdefault(pairs[0].x.device, []).append(name)
    return devices


def _values(rows: Tensor) -> Tensor:
    """Return rows without a gradient, which sums can go on from."""
    return rows.clone() if rows.is_inference() else rows.detach()


def _as_tuples(value: Any) -> Any:
    """Return nested tuples, which some formats of checkpoints turn into lists."""
    return tuple(map(_as_tuples, value)) if isinstance(value, (list, tuple)) else value


def _patterns(sites: str | Collection[str]) -> tuple[str, ...]:
    given = (sites,) if isinstance(sites, str) else sites
    if not isinstance(given, Collection) or not all(isinstance(one, str) for one in given):
        raise OptionError(f"sites must be a pattern or several, such as 'layer1.*', got {sites!r}.")
    if not given:
        raise OptionError("sites is empty. Pass patterns such as 'layer1.*', or '*' for all.")
    return tuple(given)


def _number(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise OptionError(f"{name} must be a finite number, got {value!r:.80}.")
    return float(value)


def _count(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise OptionError(f"{name} must be a whole number >= 1, got {value!r:.80}.")
    return value
