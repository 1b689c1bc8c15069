"""Messages of vLLM that no patch cures, with what they mean and what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from vpatch.logs.scanner import LogProbe

if TYPE_CHECKING:
    from packaging.version import Version

    from vpatch.logs.facts import Facts
    from vpatch.logs.known_issues import Platform

_REPORTED = re.compile(r"\b(?:DEBUG|INFO|WARNING) \d\d-\d\d ")


@dataclass(frozen=True)
class Explanation:
    """`message` is in one line of a log."""

    message: str
    meaning: str
    hint: str
    # Where the meaning holds; of another release or platform, the message has another cause.
    releases: str = ""
    platform: Platform | None = None

    def fits(self, facts: Facts, release: Version | None) -> bool:
        """Whether the log may be of a release and of a platform that the meaning is for."""
        if release is not None and release not in SpecifierSet(self.releases):
            return False
        return self.platform is None or facts.platform in (None, self.platform)


_NO_PLATFORM = "vLLM found no device that this build, or a plugin, can run on"
_USE_A_BUILD_THAT_FITS = (
    "on a machine without a GPU install a build for CPUs (vpatch engine makes one); with a GPU see "
    "that the build is for its maker, and that nvidia-smi or rocm-smi works, in a container too"
)
_SHARED_OBJECT = Explanation(
    "cannot open shared object file",
    "a library is missing: it is not installed, or the loader does not find it",
    "find out which package needs it from the frames above it, and install that library's package",
)
_NO_CODEC = Explanation(
    "Could not load libtorchcodec",
    "torchcodec does not load: FFmpeg or another library is missing, or torchcodec is for another "
    "torch or another device. The lines below it name the libraries",
    "install what is missing, or a torchcodec that fits torch; if no model here needs video or "
    "audio: pip uninstall torchcodec",
)

EXPLANATIONS = (
    Explanation("Device string must not be empty", _NO_PLATFORM, _USE_A_BUILD_THAT_FITS),
    Explanation("Failed to infer device type", _NO_PLATFORM, _USE_A_BUILD_THAT_FITS),
    Explanation(
        "unexpected keyword argument 'SYNTHETIC_MODE'",
        "vLLM 0.20 cannot speculate on a CPU: its CPU kernels for rejection sampling do not know "
        "the argument SYNTHETIC_MODE that the sampler passes",
        "use vLLM 0.21.0 or later, or the patch cpu-spec-decode-synthetic-mode",
        releases="==0.20.*",
        platform="cpu",
    ),
    Explanation(
        "Cannot inspect kernel parameters for function",
        "vLLM 0.30 cannot draft several tokens on a CPU without triton-cpu: it cannot read the "
        "parameters of the function that takes a kernel's place",
        "use vLLM 0.31.0 or later, or the patch cpu-spec-decode-dispatched-kernels",
        releases="==0.30.*",
        platform="cpu",
    ),
    Explanation(
        "object has no attribute 'cpu_gemm_wna16'",
        "vLLM's CPU build has this INT4 kernel for few CPUs: of x86, those with AVX-512",
        "see above whether vllm._C was imported at all; if so, run it on another machine, or "
        "quantise to W8A8 INT8",
    ),
    _SHARED_OBJECT,
    _NO_CODEC,
)
BY_MESSAGE = {one.message: one for one in EXPLANATIONS}

_LIBRARY = re.compile(r"(lib[\w.+-]{1,80}\.so[\w.]{0,20}): cannot open shared object file")
# The libraries of CUDA whose number is that of CUDA itself.
_CUDA_LIBRARY = re.compile(r"lib(?:cudart|nvrtc|cublas|cublasLt|nvJitLink)\.so\.(\d{1,2})")
_DRIVER = re.compile(r"lib(?:cuda|nvidia-ml)\.so")


def explanation_probes() -> list[LogProbe]:
    """Return what to look for in a log; a line that merely reports it does not count."""
    return [
        LogProbe.of_text(f"explained:{one.message}", one.message, quiet=False)
        for one in EXPLANATIONS
    ]


def in_context(one: Explanation, text: str, facts: Facts) -> Explanation:
    """Return what explains a line, seen with the platform and the packages that the log names."""
    if one is not _SHARED_OBJECT:
        return one
    library = _LIBRARY.search(text)
    name = library[1] if library else "a library"
    if _DRIVER.match(name):
        meaning = f"{name} is a part of the GPU driver, and the loader finds none here"
        return Explanation(f"{name}: {one.message}", meaning, _USE_A_BUILD_THAT_FITS)
    cuda = _CUDA_LIBRARY.match(name)
    if cuda is None:
        message = f"{name}: {one.message}" if library else one.message
        return Explanation(message, one.meaning, one.hint)
    wanted, others = cuda[1], sorted(facts.cuda - {cuda[1]})
    if others:
        meaning = (
            f"CUDA versions are mixed: what is loaded here was built for CUDA {wanted}, and the "
            f"log also names packages or libraries of CUDA {' and '.join(others)}"
        )
        hint = "install vLLM, torch and their packages for one CUDA: pip list | grep -E 'cu1[0-9]'"
    elif facts.platform == "cpu":
        meaning = f"a package was built for CUDA {wanted}, and this is a CPU"
        hint = "remove the package that is named above it, or install its CPU build"
    elif facts.platform is None:
        meaning = (
            f"a package was built for CUDA {wanted}, whose runtime is not there: this is no CUDA "
            "environment, or one of another CUDA version. The log does not say which"
        )
        hint = "compare with python -c 'import torch; print(torch.version.cuda)'"
    else:
        meaning = f"a package was built for CUDA {wanted}, and its runtime library is not found"
        hint = "compare with python -c 'import torch; print(torch.version.cuda)'"
    return Explanation(f"{name}: {one.message}", meaning, hint)


def explained(text: str) -> Explanation | None:
    """Return what explains a line of a log; None for what is merely reported, and no error."""
    if _REPORTED.search(text):
        return None
    return next((one for one in EXPLANATIONS if one.message in text), None)
