"""How linear the blocks of a transformer are, on data: the verb."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Unpack

from torch import nn

from sigmascope.capture.block_finding import find_blocks
from sigmascope.capture.guard import unwrapped
from sigmascope.capture.turns import one_at_a_time
from sigmascope.checks import check_kind, options_from
from sigmascope.errors import InputError, NoActivationError
from sigmascope.maths.linear_map import LinearMap
from sigmascope.measure.batches import Forward, batches_of, run_forward
from sigmascope.measure.block_passes import BlockPasses
from sigmascope.measure.block_result import Blocks
from sigmascope.measure.block_rows import BlockRows
from sigmascope.measure.options import Options, SignatureOptions
from sigmascope.measure.result import Signature
from sigmascope.measure.signature import signature as measure_signature
from sigmascope.measure.site import Site
from sigmascope.measure.subject import check_device, subject_of

LEAST = 4
"""Sequences without which there is nothing to hold out."""
DEFAULTS: SignatureOptions = {"samples": "tokens", "estimator": "population"}


def blocks(
    model: nn.Module,
    batches: Any,
    *,
    blocks: str | Sequence[str] | None = None,
    feed_forward: str | None = None,
    name: str | None = None,
    forward: Forward | None = None,
    signature: Signature | None = None,
    progress: bool = True,
    **changes: Unpack[SignatureOptions],
) -> Blocks:
    r"""Return how linear each block of a transformer is, next to the score of its activation.

    A block turns the residual stream x into y = x + f(x). For each block:

    - ``activation``: the population affinity score of the activation in its feed-forward part.
    - ``feed_forward``, ``increment``, ``stream``: the share R² of the variance of the feed-forward
      part's output, of y - x, and of y that a linear map with intercept explains. It is fitted by
      least squares to the tokens of half of the sequences, and R² is that of the other half. The
      stream y contains x itself, which raises its R² (close to 1 in deep networks); that of the
      increment is about what the block adds.
    - ``procrustes``: $1 - \min_A \lVert \tilde X A - \tilde Y \rVert_F^2$, the linearity between
      layers of Razzhigaev et al. 2024, arXiv:2405.12250. The rows of X and Y are tokens; both are
      centered and divided by their Frobenius norms. A is any matrix, not only a rotation.
      ``procrustes_increment`` has Y - X in place of Y. It is the R² of the same map on the tokens
      it was fitted to, so that it rises as tokens become few.
    - ``influence``: 1 - the mean cosine of x and y, the block influence of Men et al. 2024,
      arXiv:2403.03853.

    Sequences with even numbers, in the order of the data, are fitted to; the others are held out.
    A ridge of 1e-6 of the variance of each input is added only where inputs are linearly dependent,
    and the result says where. Tokens that the batch's `attention_mask` hides do not count.

    The 95 % intervals leave out one of up to 16 groups of sequences at a time, since tokens of one
    sequence depend on each other. They keep the fitted map: they are about which sequences were
    judged, not about which were fitted to. That of Procrustes is right to first order, because the
    map minimizes the residual.

    The network runs three times over the data: for the scores, to fit, and to judge. Only sums are
    kept, of size channels². The network is not changed.

    Args:
        model: any `nn.Module` with repeated blocks.
        batches: as `sigmascope.signature` takes them. They are read three times; an iterator, which
            can be read once, is kept in memory. A loader that shuffles has to draw its order from
            torch's own random state.
        blocks: patterns of the paths of blocks, where `*` stands for one name: "model.layers.*". By
            default the members of a list that have attention inside.
        feed_forward: the feed-forward part below each block, such as "mlp" or "fc1:fc2". By default
            it is recognized by its name.
        name: of the network; by default its class.
        forward: a function of the network and a batch that runs the network.
        signature: of the same network, measured earlier, to take the scores of activations from.
        progress: whether to show a progress bar, on a terminal.
        **changes: options of the signature, see `SignatureOptions`; by default samples="tokens" and
            estimator="population". gates="unit" scores the gated unit of SwiGLU.

    Raises:
        NoBlockError: no block was found; name them.
        InputError, InputTypeError, OptionError: bad input, naming the remedy.
        NetworkError: a network whose modules cannot be watched.

    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> network = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    >>> found = blocks(network, torch.randn(64, 10, 8))
    >>> [block.name for block in found], found["layers.0"].held_out
    (['layers.0', 'layers.1'], 320)
    """
    options = options_from(Options, {**DEFAULTS, **changes})
    network = unwrapped(model)
    parts = find_blocks(network, blocks, feed_forward)
    passes = BlockPasses(network, parts, forward or run_forward, options, shown=progress)
    return blocks_and_maps(passes, batches, name=name, signature=signature)[0]


def blocks_and_maps(
    passes: BlockPasses,
    batches: Any,
    *,
    name: str | None = None,
    signature: Signature | None = None,
) -> tuple[Blocks, dict[str, LinearMap]]:
    """Return what `blocks` returns, and the fitted map of each block by its name, in float64.

    Args:
        passes: of a network, not yet run.
        batches: see `blocks`.
        name: of the network.
        signature: measured earlier.
    """
    network, options = passes.network, passes.options
    check_device(network)
    items = batches_of(batches)
    items = list(items) if iter(items) is items else items
    with one_at_a_time(f"measures the blocks of {type(network).__name__}"):
        maps = passes.fit(items)
        if passes.sequences < LEAST:
            raise InputError(
                f"the batches hold {passes.sequences} sequences, and half of them are held out: at "
                f"least {LEAST} are needed. Tokens of one sequence are not independent; cut a long "
                "text into several."
            )
        judged = passes.judge(items, maps)
        scores, missing = _scores(passes, items, signature)
    rows = BlockRows(passes, judged, scores, missing)
    subject = subject_of(network, options, name)
    found = Blocks(
        subject.name,
        tuple(rows),
        passes.sequences,
        (*passes.notes, *rows.notes),
        subject.device,
        subject.versions,
    )
    return found, {one.name: maps[key] for one in found if (key := one.key) in maps}


def _scores(
    passes: BlockPasses, items: Iterable[object], given: Signature | None
) -> tuple[tuple[Site, ...], str]:
    """Return the activation sites of a network, or why there are none."""
    if given is not None:
        check_kind("signature", given, Signature, "sigmascope.signature")
        return given.sites, ""
    try:
        found = measure_signature(
            passes.network, items, forward=passes.forward, progress=False, options=passes.options
        )
    except NoActivationError as error:
        return (), str(error).partition(".")[0]
    return found.sites, ""
