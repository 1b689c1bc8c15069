"""What was compared with what in an environment, in a sentence.

It says no more than the bytes do: the archive of a release vouches for its own files alone, and
anybody can write RECORD.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.commands.install.verification import VerifiedVllm
from vpatch.commands.install.wheels.names import is_patched
from vpatch.util.plural import counted
from vpatch.workspace.build_comparison import describe_explained

if TYPE_CHECKING:
    from vpatch.commands.install.overlay import VerifiedOverlay

_INTERRUPTED = "an install was interrupted: run vpatch install or vpatch uninstall again"


def summary_of(vllm: VerifiedVllm | VerifiedOverlay) -> str:
    """Return what a vLLM is, and what was compared for that."""
    if not isinstance(vllm, VerifiedVllm):
        return _of_overlay(vllm)
    release = f"the release {vllm.found.release}"
    differing = counted(len(vllm.differences), "file")
    explained = describe_explained(len(vllm.explained))
    if vllm.state == "interrupted":
        return _INTERRUPTED
    if vllm.state == "changed":
        base = "RECORD" if vllm.is_unknown else release
        base = base if vllm.lock is None else "the lock"
        return f"changed by hand: {differing} not as in {base}{explained}"
    compared = _comparison(vllm, "as its lock says" if vllm.state == "unproven" else "")
    parts = []
    name = vllm.found.distribution
    if vllm.other_files:
        others = counted(len(vllm.other_files), "file")
        named = f"{name} {vllm.found.version}"
        parts.append(f"differs from {release} in {others}{explained}, and calls itself {named}")
    elif vllm.is_unknown:
        parts.append(f"an unknown build: no release of vLLM has the version {vllm.found.version}")
    elif vllm.lock is not None:
        parts.append(release)
    if vllm.lock is not None:
        patches = counted(len(vllm.lock.patches), "patch")
        is_wheel = is_patched(vllm.found.version)
        parts.append(
            f"from a wheel by vpatch with {patches}"
            if is_wheel
            else f"with {patches} by vpatch install"
        )
    if vllm.state == "unproven":
        parts.append("as its lock says; not proven")
    head = ", ".join(parts)
    return f"{head}: {compared}" if head else str(compared)


def _of_overlay(vllm: VerifiedOverlay) -> str:
    head = f"an overlay of vpatch run with {counted(len(vllm.patches), 'patch')}"
    head += " as its overlay.json says; not proven" if vllm.doubts else ""
    if vllm.differences:
        return f"{head}; changed by hand: {counted(len(vllm.differences), 'file')}"
    return f"{head}: {_comparison(vllm, 'as its overlay.json says' if vllm.doubts else '')}"


def _comparison(vllm: VerifiedVllm | VerifiedOverlay, doubt: str) -> str:
    """Return the numbers of files, by what vouches for them; `doubt` says what does for a patch."""
    installed = vllm.found if isinstance(vllm, VerifiedVllm) else vllm.base.found
    patched, as_released = len(vllm.patched), len(vllm.as_released)
    others, only_record = len(vllm.other_files), len(vllm.only_record)
    it = "it" if patched == 1 else "them"
    parts = {
        f"{_are(patched, 'file')} {doubt or f'as the patches make {it}'}": patched,
        f"{_are(as_released, 'source file')} as in the release {installed.release}": as_released,
        f"{_are(others, 'source file')} not, and {_verb(others)} {_as_record_has(others)}": others,
        f"{_are(only_record, 'further file')} {_as_record_has(only_record)}": only_record,
    }
    text = "; ".join(part for part, number in parts.items() if number)
    return f"{text}, which anybody can write" if others or only_record else text


def _are(number: int, noun: str) -> str:
    return f"{counted(number, noun)} {_verb(number)}"


def _verb(number: int) -> str:
    return "is" if number == 1 else "are"


def _as_record_has(number: int) -> str:
    return f"as RECORD names {'it' if number == 1 else 'them'}"
