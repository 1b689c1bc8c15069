"""Where cells run: an engine with patched files laid over it, and what its processes are given."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from vpatch.engine.overlay import OverlayError, make_overlay
from vpatch.engine.process import Ended, started
from vpatch.planning.state import Change
from vpatch.util.digest import digest_of, short_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from vpatch.engine.environment import Engine
    from vpatch.engine.process import Running

_GENERATED = "/_version.py"
# Of the caller's own, what would change what is measured.
_CALLERS = ("VLLM_", "PYTHONPATH", "PYTHONSTARTUP")


# Variables of the caller that may still change it, and are therefore recorded.
_RECORDED = ("CUDA_", "NCCL_", "NVIDIA_", "OMP_", "MKL_", "TORCH", "PYTORCH_", "HF_HUB_", "TRITON_")
_RECORDED_NAMES = {"LD_PRELOAD", "LD_LIBRARY_PATH", "HF_HOME"}


def inherited() -> dict[str, str]:
    """Return those variables of the caller that reach an engine and may change what it does."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(_RECORDED) or name in _RECORDED_NAMES
    }


class Sandbox(Protocol):
    """Where an engine's processes run.

    `digests` are of what is patched there, keyed by paths below a folder of packages, as
    `vllm/config/speculative.py`.
    """

    @property
    def python(self) -> Path: ...

    @property
    def digests(self) -> Mapping[str, str]: ...

    def started(
        self,
        command: Sequence[str | Path],
        *,
        workdir: Path,
        log: Path,
        extra_env: Mapping[str, str],
    ) -> AbstractContextManager[Running]:
        """Start a command in a work folder, with further variables; end it with the block."""

    def verify(self) -> None:
        """Compare what is patched with the digests once more.

        Raises:
            OverlayError: a patched file is not what it was.
        """


def run_in(
    sandbox: Sandbox,
    command: Sequence[str | Path],
    *,
    workdir: Path,
    log: Path,
    timeout: float,
    extra_env: Mapping[str, str] | None = None,
) -> Ended:
    """Run a command on a site for at most `timeout` seconds; see `Sandbox.started`."""
    with sandbox.started(command, workdir=workdir, log=log, extra_env=extra_env or {}) as child:
        return Ended(child.wait(timeout), log)


def own_variables(workdir: Path) -> dict[str, str]:
    """Return what each process of an engine is given, wherever it runs.

    Its temporary files lie in the work folder, and go with it.
    """
    return {
        "TMPDIR": str(workdir),
        # The path of a socket may have 107 bytes at most, and a work folder's may be longer.
        "VLLM_RPC_BASE_PATH": ".",
        # Nobody is told what was tried, and bytecode does not gather in the installed package.
        "VLLM_NO_USAGE_STATS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@dataclass(frozen=True)
class OverlaySandbox:
    """A Python of this machine, and the folders that come first on its path: see `Sandbox`.

    `packages` is its own folder of packages, where patched files are installed there.
    """

    python: Path
    path: tuple[Path, ...]
    digests: Mapping[str, str] = field(default_factory=dict)
    packages: Path | None = None

    def environment(self, extra_env: Mapping[str, str], workdir: Path) -> dict[str, str]:
        """Return the environment of a cell: nothing in it decides what was not declared."""
        ours = {k: v for k, v in os.environ.items() if not k.startswith(_CALLERS)}
        if self.path:
            ours["PYTHONPATH"] = os.pathsep.join(map(str, self.path))
        return ours | own_variables(workdir) | dict(extra_env)

    def started(
        self,
        command: Sequence[str | Path],
        *,
        workdir: Path,
        log: Path,
        extra_env: Mapping[str, str],
    ) -> AbstractContextManager[Running]:
        return started(
            command, cwd=workdir, log=log, environment=self.environment(extra_env, workdir)
        )

    def verify(self) -> None:
        roots = self.path if self.packages is None else (*self.path, self.packages)
        for path, digest in self.digests.items():
            places = [root / path for root in roots if (root / path).is_file()]
            actual = digest_of(places[0].read_bytes()) if places else "absent"
            if actual != digest:
                raise OverlayError(
                    f"the patched file is {short_digest(actual)}, but was {short_digest(digest)}",
                    where=path,
                    hint="find out what writes to it, then run the command again",
                    code="harness.files-changed",
                )


def own_changes(files: Mapping[str, bytes], packages: Path) -> dict[str, Change]:
    """Return what of a tree's own Python files differs from those that are installed.

    A release is what is installed, but for the file that a build writes its version to.
    """
    changes = {}
    for path, content in files.items():
        installed = packages / path
        before = installed.read_bytes() if installed.is_file() else None
        if before != content and not path.endswith(_GENERATED):
            changes[path] = Change(before, content)
    return changes


def lay_over(
    engine: Engine, changes: Iterable[Mapping[str, Change]], workdir: Path
) -> OverlaySandbox:
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
                    f"{min(inside)} is not in an installed package",
                    where=str(packages),
                    hint="build an image, which compiles it, or leave out its patch: "
                    "vpatch can lay only Python files over an installed vLLM",
                    code="harness.not-installed",
                )
            path.append(make_overlay(packages / name, inside, workdir / f"{number}-{name}"))
    return OverlaySandbox(engine.python, tuple(path), digests)
