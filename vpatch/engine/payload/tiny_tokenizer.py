"""A tokenizer of words that are one token each, and of bytes for all other text: plain JSON.

It runs inside an engine's Python, where vpatch is not: nothing but json is imported.
"""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["write_tokenizer"]

_BYTES = 256
_CHAT = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def write_tokenizer(
    folder: Path, words: list[str], *, bos: int, eos: int, tokenizer_class: str, length: int
) -> None:
    """Write tokenizer.json, a BPE without merges, and tokenizer_config.json.

    Args:
        folder: where both files are written. It must be there.
        words: the first tokens, in order. After them come the 256 bytes.
        bos: the place in `words` of the token that begins a text.
        eos: the place of the one that ends it, and that pads.
        tokenizer_class: the class of transformers that reads the files.
        length: of the longest text, in tokens.
    """
    kind = {"special": False, "single_word": False, "lstrip": False, "rstrip": False}
    added = [kind | {"normalized": False, "id": i, "content": word} for i, word in enumerate(words)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False}
    byte_level |= {"trim_offsets": True, "use_regex": True}
    vocabulary = {word: i for i, word in enumerate(words)}
    vocabulary |= {letter: len(words) + i for i, letter in enumerate(_letters())}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
    settings = {
        "tokenizer_class": tokenizer_class,
        "model_max_length": length,
        "bos_token": words[bos],
        "eos_token": words[eos],
        "pad_token": words[eos],
        "chat_template": _CHAT,
    }
    for name, content in (("tokenizer", tokenizer), ("tokenizer_config", settings)):
        (folder / f"{name}.json").write_text(json.dumps(content, indent=1), encoding="utf-8")


def _letters() -> list[str]:
    """Return the letter that byte-level BPE has for each byte: itself, where it can be printed."""
    own = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(_BYTES) if byte not in own]
    return [chr(byte if byte in own else _BYTES + others.index(byte)) for byte in range(_BYTES)]
