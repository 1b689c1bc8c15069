"""Messages of vLLM that no patch cures, with what they mean and what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass

_REPORTED = re.compile(r"\b(?:DEBUG|INFO|WARNING) \d\d-\d\d ")


@dataclass(frozen=True)
class Explanation:
    """`message` is in one line of a log."""

    message: str
    meaning: str
    hint: str


_NO_PLATFORM = "vLLM found no device that it can run on: no GPU driver, and it is not a CPU build"
_USE_A_BUILD_THAT_FITS = (
    "on a machine without a GPU install a build for CPUs (vpatch engine makes one); with a GPU see "
    "that nvidia-smi works, in a container too"
)
_LEFT_OUT = "a library is missing, mostly because a package was built for CUDA and this is a CPU"

EXPLANATIONS = (
    Explanation("Device string must not be empty", _NO_PLATFORM, _USE_A_BUILD_THAT_FITS),
    Explanation("Failed to infer device type", _NO_PLATFORM, _USE_A_BUILD_THAT_FITS),
    Explanation(
        "unexpected keyword argument 'SYNTHETIC_MODE'",
        "vLLM 0.20 cannot speculate on a CPU: its CPU kernels for rejection sampling do not know "
        "the argument SYNTHETIC_MODE that the sampler passes",
        "use vLLM 0.21.0 or later",
    ),
    Explanation(
        "Cannot inspect kernel parameters for function",
        "vLLM 0.30 cannot draft several tokens on a CPU without triton-cpu: it cannot read the "
        "parameters of the function that takes a kernel's place",
        "use vLLM 0.31.0 or later",
    ),
    Explanation(
        "object has no attribute 'cpu_gemm_wna16'",
        "vLLM's CPU build multiplies INT4 weights only on CPUs with AVX-512, and this CPU has none",
        "run it on another machine, or quantise to W8A8 INT8",
    ),
    Explanation(
        "cannot open shared object file",
        _LEFT_OUT,
        "remove the package that is named above it, or install its CPU build",
    ),
    Explanation("Could not load libtorchcodec", _LEFT_OUT, "pip uninstall torchcodec"),
)


def explained(text: str) -> Explanation | None:
    """Return what explains a line of a log; None for what is merely reported, and no error."""
    if _REPORTED.search(text):
        return None
    return next((one for one in EXPLANATIONS if one.message in text), None)
