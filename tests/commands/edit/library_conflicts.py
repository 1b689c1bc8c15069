"""Conflicts of the library's patches, each without the variant that settles it."""

from __future__ import annotations

from typing import NamedTuple

from ruamel.yaml import YAML


class Conflict(NamedTuple):
    """A patch without `variant`: it fits `old`, and not `new`.

    `by_hand` is how many files that `vpatch edit` lays in differ from what the variant gives.
    """

    patch: str
    variant: str
    old: str
    new: str
    by_hand: int


CONFLICTS = (
    Conflict(
        "cpu-gdn-ragged-drafts",
        "a C++ convolution beside the one in PyTorch (0.27 to 0.32)",
        "0.26.0",
        "0.27.1",
        1,
    ),
    Conflict(
        "security/cve-2026-115918",
        "the renderer is an OnlineRenderer",
        "0.24.0",
        "0.25.0",
        0,
    ),
    Conflict("deepgemm-next-n-3", "0.29 to 0.33", "0.28.0", "0.29.0", 1),
    Conflict(
        "gdn-gates-of-spec-tokens",
        "a class for each family of models (0.22 to 0.27)",
        "0.21.0",
        "0.22.0",
        0,
    ),
    Conflict(
        "mamba-align-chunks-with-drafts",
        "the end of a chunk is a local variable (0.26)",
        "0.25.1",
        "0.26.0",
        1,
    ),
)


def take_away(folder, variant):
    """Take a variant out of the patch in a folder."""
    yaml = YAML()
    yaml.width = 4096
    path = folder / "patch.yaml"
    document = yaml.load(path.read_text())
    variants = document["variants"]
    (index,) = (number for number, one in enumerate(variants) if one["name"] == variant)
    del variants[index]
    yaml.dump(document, path)
