"""What a synthetic checkpoint must say, and what vLLM must count: by arithmetic, not by vLLM."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import zip_longest

from vpatch.engine.payload.tiny_tokens import BYTES, drafted, successor

_WORD = re.compile(r"<([0-9]{3})>\Z")


@dataclass(frozen=True)
class Counters:
    """vLLM's counters of speculative decoding, as `vllm:spec_decode_num_*` has them.

    `per_position` says how often the draft at each of the k positions was accepted. They count
    steps, and a step that makes more tokens than are asked for counts in full.
    """

    drafts: int = 0
    draft_tokens: int = 0
    accepted: int = 0
    per_position: tuple[int, ...] = field(default=())

    def __add__(self, other: Counters) -> Counters:
        return self._with(other, 1)

    def __sub__(self, other: Counters) -> Counters:
        return self._with(other, -1)

    def _with(self, other: Counters, sign: int) -> Counters:
        positions = zip_longest(self.per_position, other.per_position, fillvalue=0)
        return Counters(
            self.drafts + sign * other.drafts,
            self.draft_tokens + sign * other.draft_tokens,
            self.accepted + sign * other.accepted,
            tuple(a + sign * b for a, b in positions),
        )

    @property
    def rate(self) -> float | None:
        """The share of draft tokens that were accepted."""
        return self.accepted / self.draft_tokens if self.draft_tokens else None

    @property
    def length(self) -> float | None:
        """How many tokens a step made, the one that is always made included."""
        return 1 + self.accepted / self.drafts if self.drafts else None


def tokens_after(last: int, count: int) -> list[int]:
    """Return what a synthetic model says after a prompt that ends with `last`."""
    tokens: list[int] = []
    while len(tokens) < count:
        last = successor(last)
        tokens.append(last)
    return tokens


def counters_of(acceptance: str, last: int, count: int, k: int) -> Counters:
    """Return what one request of `count` tokens counts, at temperature 0.

    The prompt's own step makes the first token and drafts nothing; every later one drafts k.
    """
    drafts, per_position = 0, [0] * k
    token, length = successor(last), 1
    while k and length < count:
        drafts += 1
        accepted, after = 0, token
        while accepted < k and drafted(acceptance, after, accepted) == successor(after):
            after = successor(after)
            per_position[accepted] += 1
            accepted += 1
        token, length = successor(after), length + accepted + 1
    return Counters(drafts, drafts * k, sum(per_position), tuple(per_position))


def last_token(prompt: str | tuple[int, ...]) -> int:
    """Return the token that a prompt ends with; a text is of words like <003>, or of bytes."""
    if not isinstance(prompt, str):
        return prompt[-1]
    ending = _WORD.search(prompt)
    if ending is not None and int(ending[1]) < BYTES:
        return int(ending[1])
    return BYTES + prompt.encode()[-1]
