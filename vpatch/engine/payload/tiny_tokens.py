"""What the tiny checkpoint says next, and what its MTP head drafts: plain arithmetic on tokens.

Nothing is imported, so that an engine's Python and vpatch's own count with the same code.
"""

from __future__ import annotations

__all__ = [
    "ACCEPTANCES",
    "BYTES",
    "LOOP",
    "VOCABULARY",
    "drafted",
    "runner_up",
    "successor",
    "word",
]

VOCABULARY = 512
"""How many tokens there are."""
# Tokens below follow one another in one long cycle, so that no output up to here repeats itself.
_CYCLE = 250
_STEP = 7
_RUNNER_UP_STEP = 11
LOOP = range(250, 254)
"""Tokens that follow one another without end: what a degenerate loop looks like."""
BYTES = 256
"""From here on, a token is a byte of the prompt's text. The model never says one."""
# Of each 8 tokens that follow one another in number, those before this are drafted rightly.
_RIGHT_OF_EIGHT = 6

ACCEPTANCES = ("all", "none", "first", "most")
"""What `acceptance` can be: see `drafted`."""


def successor(token: int) -> int:
    """Return the most probable next token."""
    if token in LOOP:
        return LOOP[(token + 1) % len(LOOP)]
    return (token + _STEP) % _CYCLE


def runner_up(token: int) -> int:
    """Return the second most probable next token, where the checkpoint has one."""
    return (token + _RUNNER_UP_STEP) % _CYCLE


def drafted(acceptance: str, token: int, position: int) -> int:
    """Return what the MTP head drafts after `token`, as the draft's `position` (from 0).

    `all` and `none` say what is accepted. `first`: drafts at position 0 alone are right. `most`:
    whether a draft is right depends on the token that it follows; 6 of 8 are.
    """
    right = {
        "all": True,
        "none": False,
        "first": position == 0,
        "most": token % 8 < _RIGHT_OF_EIGHT,
    }
    return successor(token) if right[acceptance] else runner_up(token)


def word(token: int) -> str:
    """Return a token below `BYTES` as the checkpoint's tokenizer writes it, such as `<003>`."""
    return f"<{token:03}>"
