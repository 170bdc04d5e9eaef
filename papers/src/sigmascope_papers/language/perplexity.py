"""The loss of a language model on text, and its own continuations."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from sigmascope_papers.language.models import LanguageModel
from sigmascope_papers.language.texts import Batch


def losses(model: LanguageModel, batches: Iterable[Batch]) -> tuple[Tensor, Tensor]:
    """Return the sum of the losses (s,) of each sequence in nats, and its predictions (s,)."""
    sums, counts = [], []
    with torch.no_grad():
        for batch in batches:
            sums.append(losses_of(model.network(**batch, use_cache=False).logits, batch))
            counts.append(batch["attention_mask"][:, 1:].sum(dim=1).double())
    return torch.cat(sums), torch.cat(counts)


def losses_of(logits: Tensor, batch: Batch) -> Tensor:
    """Return the sum of the losses of each sequence (n,) in nats, from the logits (n, t, v)."""
    wanted = batch["input_ids"][:, 1:]
    each = F.cross_entropy(logits[:, :-1].flatten(0, 1), wanted.flatten(), reduction="none")
    return (each.view_as(wanted).double() * batch["attention_mask"][:, 1:]).sum(dim=1)


def perplexity(model: LanguageModel, batches: Iterable[Batch]) -> float:
    """Return the exponential of the mean loss per predicted token."""
    sums, counts = losses(model, batches)
    return math.exp(float(sums.sum() / counts.sum()))


def continued(
    model: LanguageModel,
    prompt: str,
    count: int,
    *,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
) -> list[int]:
    """Return the tokens of a prompt and of its continuation: the likeliest, or drawn."""
    numbers = [*([] if model.start is None else [model.start]), *model.encode(prompt)]
    past = None
    ids = torch.tensor([numbers])
    with torch.no_grad():
        for _ in range(count):
            output = model.network(input_ids=ids, past_key_values=past, use_cache=True)
            past, logits = output.past_key_values, output.logits[0, -1].double()
            if temperature:
                chances = torch.softmax(logits / temperature, dim=0)
                chosen = int(torch.multinomial(chances, 1, generator=generator))
            else:
                chosen = int(logits.argmax())
            numbers.append(chosen)
            ids = torch.tensor([[chosen]])
    return numbers
