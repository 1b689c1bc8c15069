"""What a checkpoint needs of vLLM for its MTP layers: a release, and patches of the library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.checkpoint.modules import FLOATS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.checkpoint.inspection import Inspection

_V4 = "DeepseekV4ForCausalLM"
_SPARSE = (_V4, "DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM")


@dataclass(frozen=True)
class Need:
    """A patch by its id, and what in this checkpoint needs it."""

    patch: str
    reason: str


def needs_of(inspection: Inspection, platform: str | None) -> tuple[Need, ...]:
    """Return the patches that MTP with this checkpoint needs in some release.

    A patch's own `needed-in` says in which.
    """
    if inspection.mtp.scheme is None or inspection.draft is not None:
        return ()
    return tuple(_needs(inspection, (platform or "").partition(":")[0]))


def _needs(inspection: Inspection, platform: str) -> Iterator[Need]:
    architecture = inspection.checkpoint.architecture
    if architecture == _V4:
        yield from _deepseek_v4(inspection)
    if architecture in _SPARSE and platform in {"", "cuda"}:
        measured = "on an H100 mostly slower, and faster with many long requests"
        reason = f"with two draft tokens on Hopper: not needed; {measured}"
        yield Need("deepgemm-next-n-3", reason)
    if platform == "cpu":
        yield Need("cpu-spec-decode-fp64-gumbel", "speculation on a CPU does not start without it")
        yield Need("cpu-spec-decode-expand-copy-back", "sampling on a CPU is wrong without it")
    if platform == "metax" and any(".experts." in name for name in inspection.modules):
        yield Need("optional-disable-inplace", "a mixture of experts on MetaX")
    if not inspection.checkpoint.config:
        yield Need("draft-hf-config-path", "its config must come from --hf-config-path")


def _deepseek_v4(inspection: Inspection) -> Iterator[Need]:
    joining = [m for n, m in inspection.mtp_modules.items() if n.endswith((".e_proj", ".h_proj"))]
    if inspection.quantisation and any(m.format in FLOATS for m in joining):
        reason = "e_proj and h_proj are unquantised, and vLLM asks the config about them by no name"
        yield Need("mtp-proj-prefix", reason)
    outputs = [m for n, m in inspection.modules.items() if n.endswith(".wo_a")]
    floats = [m.name for m in outputs if m.format in FLOATS]
    renamed = [m.name for m in outputs if "weight_scale" in m.tensors]
    if floats:
        yield Need("o-proj-bf16-fallback", f"{floats[0]} is not quantised")
    elif renamed:
        yield Need("o-proj-bf16-fallback", f"the scale of {renamed[0]} is called weight_scale")
