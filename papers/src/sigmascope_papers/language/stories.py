"""Stories that a language model draws itself: text of the kind that it was trained on."""

from __future__ import annotations

import torch

from sigmascope_papers.language.models import LanguageModel


def stories(model: LanguageModel, *, count: int, length: int, seed: int = 0) -> list[list[int]]:
    """Return the tokens of stories, drawn one token at a time from the model's own distribution."""
    generator = torch.Generator().manual_seed(seed)
    start = 0 if model.start is None else model.start
    drawn = torch.full((count, 1), start, dtype=torch.long)
    ids, past = drawn, None
    with torch.no_grad():
        while drawn.shape[1] < length:
            output = model.network(input_ids=ids, past_key_values=past, use_cache=True)
            past = output.past_key_values
            chances = torch.softmax(output.logits[:, -1].double(), dim=1)
            ids = torch.multinomial(chances, 1, generator=generator)
            drawn = torch.cat([drawn, ids], dim=1)
    found: list[list[int]] = drawn.tolist()
    return found
