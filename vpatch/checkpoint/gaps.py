"""Releases whose loader does not read the MTP layers of a checkpoint, though they have the model.

Data, read in the loaders of vLLM 0.20.0 to 0.33.0; tests/checkpoint/test_data_of_vllm.py compares
it with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.checkpoint.modules import FLOATS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.checkpoint.inspection import Inspection

RELEASES = (
    *("0.20.0", "0.20.1", "0.20.2", "0.21.0", "0.22.0", "0.22.1", "0.23.0", "0.24.0", "0.25.0"),
    *("0.25.1", "0.26.0", "0.27.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0"),
    "0.33.0",
)
"""The releases that this data is read from."""
_STEP = ("Step3p5ForCausalLM", "Step3p7ForConditionalGeneration")
_NESTED = "model.language_model."


@dataclass(frozen=True)
class Gap:
    """Releases from `since` to `last`, and why they do not load the MTP layers."""

    since: str
    last: str
    reason: str

    def has(self, release: str) -> bool:
        return Version(self.since) <= Version(release) <= Version(self.last)


def gaps_of(inspection: Inspection) -> tuple[Gap, ...]:
    """Return the releases that do not load the MTP layers of this checkpoint."""
    return tuple(_gaps(inspection)) if inspection.mtp.scheme is not None else ()


def _gaps(inspection: Inspection) -> Iterator[Gap]:
    architecture, names = inspection.checkpoint.architecture, inspection.mtp.names
    nested = any(name.startswith(_NESTED) for name in names)
    # get_spec_layer_idx_from_weight_name of models/utils.py
    if architecture == "GlmOcrForConditionalGeneration" and nested:
        yield Gap("0.26.0", "0.29.0", f"they read no MTP tensor that begins with {_NESTED}")
    method = inspection.quantisation.method if inspection.quantisation else ""
    # SharedHead of models/step3p5_mtp.py, and ModelOpt's configs cover heads from 0.23.0 on.
    shared = (m for name, m in inspection.mtp_modules.items() if ".shared_head." in name)
    unquantised = any(module.format in FLOATS for module in shared)
    if architecture in _STEP and method.startswith("modelopt") and unquantised:
        yield Gap(
            "0.23.0",
            "0.26.0",
            "they ask the config about shared_head.head by no name, and build it quantised",
        )


def runs_in(since: str, gaps: tuple[Gap, ...]) -> str:
    """Return the releases that load the MTP layers, such as `0.20.0 or later`."""
    runs = [
        release
        for release in RELEASES
        if Version(release) >= Version(since) and not any(gap.has(release) for gap in gaps)
    ]
    ranges: list[list[str]] = []
    for release in runs:
        before = RELEASES[RELEASES.index(release) - 1] if ranges else None
        if ranges and ranges[-1][-1] == before:
            ranges[-1].append(release)
        else:
            ranges.append([release])
    words = [one[0] if len(one) == 1 else f"{one[0]} to {one[-1]}" for one in ranges]
    if ranges and ranges[-1][-1] == RELEASES[-1]:
        words[-1] = f"{ranges[-1][0]} or later"
    return " and ".join(words) or "none"


def specifier(since: str, gaps: tuple[Gap, ...]) -> str:
    """Return the releases that load the MTP layers, as a version specifier."""
    without = (f"!={release}" for release in RELEASES if any(gap.has(release) for gap in gaps))
    return ",".join([f">={since}", *without])
