"""Readers of language models on made-up files, and the items on made-up models: no download."""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import sigmascope as sg
from sigmascope.catalog.optional import optional
from sigmascope.errors import FileFormatError, InputError
from sigmascope.maths.estimate import Estimate
from sigmascope_papers.item import FAILS, HOLDS, UNTESTED, WEAKLY
from sigmascope_papers.language import language_depth, language_replace
from sigmascope_papers.language.gguf import Gguf
from sigmascope_papers.language.language_depth import Depths
from sigmascope_papers.language.language_replace import Costs
from sigmascope_papers.language.llama2c import Vocabulary, read_model, split_files
from sigmascope_papers.language.measuring import Replacements, measure, measured
from sigmascope_papers.language.models import (
    LanguageModel,
    byte_pairs,
    fill,
    halves_rotated,
    language_model,
    llama,
)
from sigmascope_papers.language.perplexity import continued, perplexity
from sigmascope_papers.language.ranks import correlation, difference
from sigmascope_papers.language.stories import stories
from sigmascope_papers.language.texts import batches, interleaved, sequences, shuffled
from sigmascope_papers.setting import Setting

# GGUF


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def gguf_file(path: Path, tensors: dict[str, tuple[tuple[int, ...], int, bytes]]) -> Path:
    """Write a file with three entries of metadata and these tensors: shape, type, data."""
    entries = text("name") + struct.pack("<I", 8) + text("tiny")
    entries += text("width") + struct.pack("<II", 4, 64)
    entries += text("list") + struct.pack("<IIQ2i", 9, 5, 2, -1, 7)
    places, data = b"", b""
    for name, (shape, kind, raw) in tensors.items():
        data += bytes(-len(data) % 32)
        places += text(name) + struct.pack("<I", len(shape))
        places += b"".join(struct.pack("<Q", one) for one in reversed(shape))
        places += struct.pack("<IQ", kind, len(data))
        data += raw
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 3) + entries + places
    path.write_bytes(head + bytes(-len(head) % 32) + data)
    return path


def test_a_gguf_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    plain = np.arange(6, dtype="<f4")
    eight = np.arange(-16, 16, dtype=np.int8)
    low, high = np.arange(16, dtype=np.uint8), np.arange(15, -1, -1, dtype=np.uint8)
    opened = Gguf(
        gguf_file(
            tmp_path / "tiny.gguf",
            {
                "plain": ((2, 3), 0, plain.tobytes()),
                "half": ((3,), 1, np.array([1, -2, 0.5], dtype="<f2").tobytes()),
                "eight": ((1, 32), 8, np.float16(0.25).tobytes() + eight.tobytes()),
                "four": (
                    (1, 32),
                    3,
                    np.array([0.5, -2], dtype="<f2").tobytes() + (low | high << 4).tobytes(),
                ),
            },
        )
    )
    assert opened.metadata == {"name": "tiny", "width": 64, "list": [-1, 7]}
    assert opened.names() == ["plain", "half", "eight", "four"]
    assert opened.tensor("plain").tolist() == plain.reshape(2, 3).tolist()
    assert opened.tensor("half").tolist() == [1, -2, 0.5]
    assert opened.tensor("eight").tolist() == [(eight * 0.25).tolist()]
    assert opened.tensor("four").tolist() == [
        (0.5 * np.concatenate([low, high]).astype(float) - 2).tolist()
    ]


def test_what_is_wrong_with_a_gguf_file_is_said(tmp_path: Path) -> None:
    good = gguf_file(tmp_path / "good", {"w": ((4,), 0, bytes(16)), "odd": ((32,), 2, bytes(18))})
    content = good.read_bytes()

    def broken(change: Callable[[bytes], bytes]) -> Path:
        path = tmp_path / "broken"
        path.write_bytes(change(content))
        return path

    with pytest.raises(FileFormatError, match=r"is not a GGUF file: it begins with b'PK"):
        Gguf(broken(lambda raw: b"PK\3\4" + raw[4:]))
    with pytest.raises(FileFormatError, match=r"has GGUF version 9"):
        Gguf(broken(lambda raw: raw[:4] + struct.pack("<I", 9) + raw[8:]))
    with pytest.raises(FileFormatError, match=r"is cut off at byte 60"):
        Gguf(broken(lambda raw: raw[:60]))
    with pytest.raises(FileFormatError, match=r"corrupt: a text or list of length"):
        Gguf(broken(lambda raw: raw[:24] + struct.pack("<Q", 2**40) + raw[32:]))
    with pytest.raises(FileFormatError, match=r"the tensor 'w' is cut off"):
        Gguf(broken(lambda raw: raw[:-52])).tensor("w")
    with pytest.raises(FileFormatError, match=r"'odd' is of GGUF type 2; only .*Q4_1"):
        Gguf(good).tensor("odd")
    with pytest.raises(FileFormatError, match=r"has no tensor 'v'"):
        Gguf(good).tensor("v")


# llama2.c

SIZES = (8, 12, 2, 2, 1, 260, 16)  # width, hidden, layers, heads, groups, vocabulary, longest


def model_bytes(sizes: tuple[int, ...] = SIZES, extra: int = 0) -> bytes:
    width, hidden, layers, heads, groups, vocabulary, longest = sizes
    narrow = width // heads * groups
    count = vocabulary * width + width + longest * (width // heads)
    count += layers * (2 * width + 2 * width * width + 2 * narrow * width + 3 * width * hidden)
    values = 0.2 * np.random.default_rng(0).standard_normal(count + extra)
    return struct.pack("<7i", *sizes) + values.astype("<f4").tobytes()


def test_a_model_of_llama2c_fills_the_network() -> None:
    content = model_bytes()
    shape, tensors = read_model(content)
    values = np.frombuffer(content[28:], "<f4")
    assert (shape.width, shape.layers, shape.groups, shape.tied) == (8, 2, 1, True)
    assert tensors["model.embed_tokens.weight"].flatten().tolist() == values[: 260 * 8].tolist()
    # the second norm of two begins after the embedding and the first
    second = tensors["model.layers.1.input_layernorm.weight"]
    assert second.tolist() == values[260 * 8 + 8 : 260 * 8 + 16].tolist()
    assert tensors["model.layers.0.self_attn.k_proj.weight"].shape == (4, 8)
    fill(tiny(0).network, tensors)


def test_what_is_wrong_with_a_model_of_llama2c_is_said() -> None:
    with pytest.raises(FileFormatError, match=r"has \d+ weights; the file has \d+"):
        read_model(model_bytes(extra=1))
    with pytest.raises(FileFormatError, match=r"begins with the sizes \(8, 12, 2, 3"):
        read_model(model_bytes((8, 12, 2, 3, 1, 260, 16)))
    with pytest.raises(FileFormatError, match=r"at least 28 bytes"):
        read_model(b"x")
    with pytest.raises(FileFormatError, match=r"has 3 bytes, and its model should have 99"):
        split_files(b"abc", 99)
    with pytest.raises(FileFormatError, match=r"weights do not fit the network: lm_head"):
        fill(tiny(0).network, {"model.embed_tokens.weight": torch.zeros(3, 8)})


def vocabulary_bytes(pieces: dict[bytes, float]) -> bytes:
    content = struct.pack("<i", max(map(len, pieces)))
    for piece, score in pieces.items():
        content += struct.pack("<fi", score, len(piece)) + piece
    return content


PIECES = {
    **dict.fromkeys((b"<unk>", b"<s>", b"</s>"), 0.0),
    **{b"<0x%02X>" % byte: 0.0 for byte in range(256)},
    **{letter.encode(): -100.0 for letter in " abct"},
    **{b"ab": -1.0, b"bc": -2.0, b" a": -3.0, b" ab": -4.0, b"abc": -5.0},
}


def test_pieces_are_merged_greedily_as_if_the_text_were_one_word() -> None:
    vocabulary = Vocabulary(vocabulary_bytes(PIECES), len(PIECES))
    names = list(PIECES)
    written = "abc ab  bca téa"
    found = vocabulary.encode(written)
    assert vocabulary.decode(found) == written
    numbers = [names.index(one.encode()) if one != "é" else None for one in f" {written}"]
    slow: list[int] = []
    for one in numbers:
        slow += [198, 172] if one is None else [one]
    while True:  # the whole text at once
        pairs = [
            (PIECES[names[slow[at]] + names[slow[at + 1]]], -at)
            for at in range(len(slow) - 1)
            if names[slow[at]] + names[slow[at + 1]] in PIECES
        ]
        if not pairs:
            break
        at = -max(pairs)[1]
        slow[at : at + 2] = [names.index(names[slow[at]] + names[slow[at + 1]])]
    assert found == [1, *slow]
    with pytest.raises(FileFormatError, match=r"vocabulary of llama2\.c is cut off"):
        Vocabulary(vocabulary_bytes(PIECES)[:-1], len(PIECES))


def test_rotating_halves_is_rotating_neighbors_of_turned_weights() -> None:
    generator = torch.Generator().manual_seed(0)
    weight, x = (torch.randn(*size, generator=generator) for size in ((8, 5), (5,)))
    angle = torch.tensor([0.3, 1.1])

    def neighbors(head: torch.Tensor) -> torch.Tensor:
        pairs = head.view(2, 2)
        one, other = pairs[:, 0], pairs[:, 1]
        return torch.stack(
            [one * angle.cos() - other * angle.sin(), one * angle.sin() + other * angle.cos()], 1
        ).flatten()

    def halves(head: torch.Tensor) -> torch.Tensor:
        one, other = head[:2], head[2:]
        return torch.cat(
            [one * angle.cos() - other * angle.sin(), one * angle.sin() + other * angle.cos()]
        )

    turned = halves_rotated(weight, 2)
    for head in range(2):
        place = slice(4 * head, 4 * head + 4)
        expected = neighbors((weight @ x)[place])
        found = halves((turned @ x)[place])
        assert torch.allclose(found.view(2, 2).T.flatten(), expected, atol=1e-6)


def test_byte_pairs_keep_digits_apart() -> None:
    tokens = ["a", "b", "Ġ", "1", "2", "ab", "Ġab", "12"]
    tokenizer = byte_pairs(tokens, ["a b", "Ġ ab", "1 2"])
    ids = tokenizer.encode("ab ab12").ids
    assert [tokens[one] for one in ids] == ["ab", "Ġab", "1", "2"]
    assert tokenizer.decode(ids) == "ab ab12"


# Text


def test_no_page_is_in_two_places() -> None:
    pages = [[[page, part] for part in range(1 + page % 3)] for page in range(40)]
    order = interleaved(pages, groups=4)
    assert len(order) % 8 == 0
    places: dict[int, set[int]] = {}
    for number, (page, _) in enumerate(order):
        places.setdefault(page, set()).add(number % 8)
    assert all(len(found) == 1 for found in places.values())


def test_sequences_are_cut_padded_and_shuffled() -> None:
    model = tiny(0)
    cut = sequences(model, ["abcdefg", "h", "ij"], 4)
    assert cut == [[1, 97, 98, 99], [1, 100, 101, 102], [1, 105, 106]]
    (batch,) = batches(cut)
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 0]]
    mixed = shuffled([[1, *range(10, 40)]], keep=1)
    assert mixed[0][0] == 1
    assert sorted(mixed[0]) == [1, *range(10, 40)]
    assert mixed[0] != [1, *range(10, 40)]


# Models


def tiny(seed: int, *, layers: int = 2) -> LanguageModel:
    optional("transformers")
    torch.manual_seed(seed)
    network = llama(
        vocab_size=260,
        hidden_size=8,
        intermediate_size=12,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
    )
    return LanguageModel(
        "tiny",
        network,
        lambda words: list(words.encode()),
        lambda numbers: bytes(numbers).decode(),
        1,
        "model.layers.*",
        predicts=True,
    )


@pytest.mark.parametrize("base", [1e4, 1e5])
def test_rotations_have_the_base_that_was_asked_for(base: float) -> None:
    sizes = {"vocab_size": 9, "hidden_size": 16, "intermediate_size": 8, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    network: Any = llama(**sizes, **heads, rope_theta=base)
    expected = base ** (-torch.arange(0, 8, 2) / 8)
    torch.testing.assert_close(network.model.rotary_emb.inv_freq, expected)


def test_a_replaced_block_costs_what_it_costs_in_the_whole_network() -> None:
    model = tiny(0, layers=3)
    numbers = stories(model, count=32, length=12)
    blocks, costs = measure("tiny", model, numbers)
    assert costs is not None
    assert [one.name for one in blocks] == [f"model.layers.{place}" for place in range(3)]
    held_out = [*numbers[1::2]]
    assert costs.mean_loss == pytest.approx(np.log(perplexity(model, batches(held_out))), rel=1e-5)

    class Mapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.map = torch.nn.Linear(8, 8, dtype=torch.float64)

        def forward(self, hidden: torch.Tensor, **_: Any) -> torch.Tensor:
            found: torch.Tensor = self.map(hidden.double()).to(hidden.dtype)
            return found

    states: list[tuple[torch.Tensor, torch.Tensor]] = []
    network: Any = model.network
    handle = network.model.layers[1].register_forward_hook(
        lambda module, args, output: states.append((args[0].double(), output.double()))
    )
    with torch.no_grad():
        for batch in batches(numbers[0::2]):
            network(**batch)
    handle.remove()
    x, y = (torch.cat([pair[side] for pair in states]).flatten(0, 1) for side in (0, 1))
    solution = torch.linalg.lstsq(torch.cat([x, torch.ones_like(x[:, :1])], 1), y).solution
    changed = copy.deepcopy(network)
    mapped = Mapped()
    with torch.no_grad():
        mapped.map.weight.copy_(solution[:-1].T)
        mapped.map.bias.copy_(solution[-1])
    changed.model.layers[1] = mapped
    slow = np.log(perplexity(replace(model, network=changed), batches(held_out)))
    assert float(costs.rises()[1]) == pytest.approx(slow - costs.mean_loss, abs=1e-5)
    assert network.model.layers[1].__class__.__name__ == "LlamaDecoderLayer"
    assert len(network.model.layers) == 3


def test_continuations_are_greedy_and_drawn_ones_repeat() -> None:
    model = tiny(1)
    numbers = continued(model, "ab", 5)
    assert numbers[:3] == [1, 97, 98]
    with torch.no_grad():
        logits = model.network(input_ids=torch.tensor([numbers[:-1]])).logits[0]
    assert numbers[3:] == logits.argmax(dim=1)[2:].tolist()
    assert stories(model, count=3, length=6) == stories(model, count=3, length=6)
    assert stories(model, count=3, length=6) != stories(model, count=3, length=6, seed=1)


def test_an_unknown_model_and_a_missing_store_are_named(tmp_path: Path) -> None:
    with pytest.raises(sg.OptionError, match=r"name='gpt5' is not a valid choice"):
        language_model("gpt5")
    with pytest.raises(InputError, match=r"MiniLM-L6-on-documentation\.json is missing"):
        measured(Setting(results=tmp_path), "MiniLM-L6 on documentation")


# Items


def test_correlations_are_those_of_scipy_and_intervals_know_their_place() -> None:
    generator = np.random.default_rng(0)
    one = generator.standard_normal(30)
    other, noise = one + generator.standard_normal(30), generator.standard_normal(30)
    found = correlation(one, other)
    assert found.value == pytest.approx(float(spearmanr(one, other).statistic))
    assert 0 < found.low < found.value < found.high <= 1
    assert correlation(one, noise).low < 0 < correlation(one, noise).high
    assert difference(one, noise, one).low > 0
    assert difference(noise, one, one).high < 0
    assert difference(noise, noise, one).value == 0


def made_blocks(name: str, count: int, **values: Any) -> sg.Blocks:
    usual = {
        "activation": 0.5,
        "feed_forward": 0.9,
        "increment": 0.6,
        "stream": 0.97,
        "procrustes": 0.99,
        "procrustes_increment": 0.7,
        "influence": 0.1,
    }
    rows = []
    for place in range(count):
        measures = {
            key: Estimate(float(np.broadcast_to(values.get(key, value), count)[place]))
            for key, value in usual.items()
        }
        rows.append(sg.Block(f"l.{place}", 0, "Made", 8, "", 100, 100, 0.0, 0.0, **measures))
    return sg.Blocks(name, tuple(rows), 8, (), "cpu", {})


def depths(**values: Any) -> Depths:
    names = ("MiniLM-L6", "SmolLM2-135M", "TinyStories-15M", "TinyStories-15M on stories")
    return Depths({name: made_blocks(name, 12, **values) for name in names})


def test_depth_is_judged_by_rules_that_can_fail() -> None:
    rising = np.linspace(0.3, 0.7, 12)
    good = depths(activation=rising, increment=rising)
    judge = language_depth.ITEM.judge
    assert [check.verdict for check in judge(good)] == [HOLDS] * 5
    bad = depths(
        activation=rising,
        increment=rising[::-1] + 0.25,
        procrustes=0.8,
        stream=0.5,
        procrustes_increment=0.85,
        feed_forward=0.2,
    )
    assert [check.verdict for check in judge(bad)] == [FAILS] * 5
    (figure,) = language_depth.ITEM.draw(good).values()
    assert len(figure.axes) == 4
    assert len(figure.table) == 48


def costs(blocks: sg.Blocks, rises: Any, *, mixed: float = 1e4) -> Costs:
    replaced = tuple((4.0 * (3 + rise), 4.0 * (3 + rise)) for rise in np.asarray(rises).tolist())
    names = tuple(block.name for block in blocks)
    one = Replacements(blocks.name, names, (4.0, 4.0), (12.0, 12.0), replaced, mixed)
    return Costs({blocks.name: (blocks, one)})


def test_replacement_is_judged_by_rules_that_can_fail() -> None:
    generator = np.random.default_rng(0)
    rises = generator.permutation(np.linspace(0.05, 2, 20))
    blocks = made_blocks(
        "SmolLM2-135M",
        20,
        stream=1 - rises / 10,
        procrustes=1 - rises / 20,
        influence=generator.standard_normal(20),
        activation=generator.standard_normal(20),
    )
    judge = language_replace.ITEM.judge
    good = {check.claim: check.verdict for check in judge(costs(blocks, rises))}
    assert good["ours: the models predict text"] == HOLDS
    assert good["ours: stream predicts the rise"] == HOLDS
    assert good["ours: a linear-map measure predicts better than both rivals"] == HOLDS
    assert HOLDS in [verdict for claim, verdict in good.items() if "hardly changes" in claim]
    bad = {check.claim: check.verdict for check in judge(costs(blocks, 2.1 - rises, mixed=21.0))}
    assert bad["ours: the models predict text"] == FAILS
    assert bad["ours: stream predicts the rise"] == FAILS
    assert bad["ours: a linear-map measure predicts better than both rivals"] in (FAILS, WEAKLY)
    without = judge(Costs({"TinyStories": costs(blocks, rises).found["SmolLM2-135M"]}))
    assert [check.verdict for check in without].count(UNTESTED) == len(without) - 1
    (figure,) = language_replace.ITEM.draw(costs(blocks, rises)).values()
    drawn = [row for row in figure.table if row["panel"] == "correlation"]
    assert drawn[0]["rho"] == pytest.approx(1)
