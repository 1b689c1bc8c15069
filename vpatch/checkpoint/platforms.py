"""What a platform can do with FP8, as vLLM 0.23.0 and its plugins have it. Data."""

from __future__ import annotations

from vpatch.errors import UsageError

NAMES = ("cuda", "cuda:MAJOR.MINOR", "rocm", "cpu", "ascend", "metax")
# Fp8Config.get_min_capability is 75 in vLLM.
_LEAST = (7, 5)


def without_fp8(platform: str, *, blocks: bool) -> str | None:
    """Return why a platform has no FP8, or None where it has; `blocks`: scales are for blocks.

    Raises:
        UsageError: there is no such platform.
    """
    name, colon, capability = platform.partition(":")
    match name, colon:
        case (("cuda" | "rocm" | "ascend"), ""):
            return None
        case "cuda", _:
            numbers = capability.split(".")
            if not all(number.isdecimal() for number in numbers):
                raise _unknown(platform)
            least = ".".join(map(str, _LEAST))
            # Below 8.9 weights alone are FP8, which is enough to run.
            lacks = tuple(map(int, numbers)) < _LEAST
            return f"vLLM needs compute capability {least} for it" if lacks else None
        case "cpu", "":
            # CPUFp8BlockScaledMMKernel
            return None if blocks else "vLLM's CPU build has FP8 in blocks alone, on CPUs with AMX"
        case "metax", "":
            return "MetaX C500 has no FP8"
        case _:
            raise _unknown(platform)


def _unknown(platform: str) -> UsageError:
    return UsageError(
        f"there is no platform {platform}",
        hint=f"give --accelerator one of {', '.join(NAMES)}",
        code="checkpoint.unknown-platform",
    )
