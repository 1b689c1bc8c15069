"""Where cells run: an engine with patched files laid over it, and what its processes are given."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vpatch.commits import digest_of, short_digest
from vpatch.engine.overlay import OverlayError, make_overlay
from vpatch.outcome import Change

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from vpatch.engine.environment import Engine

_GENERATED = "/_version.py"
# Of the caller's own, what would change what is measured.
_CALLERS = ("VLLM_", "PYTHONPATH", "PYTHONSTARTUP")


# Of the caller's own, what may change it all the same, and is therefore written down.
_RECORDED = ("CUDA_", "NCCL_", "NVIDIA_", "OMP_", "MKL_", "TORCH", "PYTORCH_", "HF_HUB_", "TRITON_")
_RECORDED_NAMES = {"LD_PRELOAD", "LD_LIBRARY_PATH", "HF_HOME"}


def inherited() -> dict[str, str]:
    """Return those variables of the caller that reach an engine and may change what it does."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(_RECORDED) or name in _RECORDED_NAMES
    }


@dataclass(frozen=True)
class Site:
    """A Python, the folders that come first on its path, and the digests of what is patched there.

    `digests` are keyed by paths below a folder of packages, as `vllm/config/speculative.py`.
    """

    python: Path
    path: tuple[Path, ...]
    digests: Mapping[str, str] = field(default_factory=dict)

    def environment(self, further: Mapping[str, str], room: Path) -> dict[str, str]:
        """Return the environment of a cell: nothing in it decides what was not declared.

        What its processes write as temporary goes to the `room`, and with it.
        """
        ours = {k: v for k, v in os.environ.items() if not k.startswith(_CALLERS)}
        ours |= {"PYTHONPATH": os.pathsep.join(map(str, self.path)), "TMPDIR": str(room)}
        # Sockets beside the process: the path of one may have 107 bytes, and a room's may be long.
        ours |= {"VLLM_RPC_BASE_PATH": "."}
        # Nobody is told what was tried, and bytecode does not gather in the installed package.
        ours |= {"VLLM_NO_USAGE_STATS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        return ours | dict(further)

    def verify(self) -> None:
        """Compare what is laid over with the digests once more.

        Raises:
            OverlayError: a patched file is not what it was when it was laid there.
        """
        for path, digest in self.digests.items():
            places = [root / path for root in self.path if (root / path).is_file()]
            found = digest_of(places[0].read_bytes()) if places else "absent"
            if found != digest:
                raise OverlayError(
                    f"the patched file is {short_digest(found)}, and was {short_digest(digest)}",
                    where=path,
                    todo="find out what writes there, and run it again",
                )


def own_changes(files: Mapping[str, bytes], packages: Path) -> dict[str, Change]:
    """Return what of a tree's own Python files differs from those that are installed.

    A release is what is installed, but for the file that a build writes its version to.
    """
    found = {}
    for path, content in files.items():
        installed = packages / path
        before = installed.read_bytes() if installed.is_file() else None
        if before != content and not path.endswith(_GENERATED):
            found[path] = Change(before, content)
    return found


def lay_over(engine: Engine, changes: Iterable[Mapping[str, Change]], room: Path) -> Site:
    """Make a site of an engine, with the changes of some trees over its packages.

    Raises:
        OverlayError: an installed file is not that of the tree, or a change lies in no package.
    """
    path, digests = [], {}
    packages = engine.package.parent
    for number, of_tree in enumerate(changes):
        by_package: dict[str, dict[str, Change]] = {}
        for file, change in of_tree.items():
            by_package.setdefault(file.partition("/")[0], {})[file] = change
            digests[file] = digest_of(change.after)
        if number == 0:
            by_package.setdefault(engine.package.name, {})
        for name, inside in by_package.items():
            if not (packages / name / "__init__.py").is_file():
                raise OverlayError(
                    f"{min(inside)} lies in no package that is installed there",
                    where=str(packages),
                    todo="build an image, in which it is compiled, or leave out its patch: "
                    "only Python files can be laid over an installed vLLM",
                )
            path.append(make_overlay(packages / name, inside, room / f"{number}-{name}"))
    return Site(engine.python, tuple(path), digests)
