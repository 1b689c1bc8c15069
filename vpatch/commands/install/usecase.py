"""The use cases `install` and `uninstall`: the patches of a request in an environment."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.install import replacement
from vpatch.commands.install.environment import installed_vllm
from vpatch.commands.install.layout import laid_over
from vpatch.commands.install.original import is_of, original_tree
from vpatch.commands.install.replacement import changing
from vpatch.engine.hidden import refuse_hidden
from vpatch.source.spec import ENVIRONMENT, EnvironmentSpec
from vpatch.workspace.locked_plan import locked_plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from vpatch.checkout.lockfile import LockFile
    from vpatch.commands.install.environment import InstalledVllm
    from vpatch.commands.install.replacement import Outcome
    from vpatch.source.entry import CachedTree
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Request, Selection


@dataclass(frozen=True)
class InstallResult:
    """The vLLM of an environment, and the lock that it has now, or had before an uninstall."""

    found: InstalledVllm
    lock: LockFile
    files: tuple[str, ...]
    outcome: Outcome | None = None


def install(context: Context, request: Request, python: str) -> InstallResult:
    """Lay the patches of a request over the vLLM of a Python.

    A request that names no vLLM is for the files that are there, as they were before an install.

    Raises:
        UsageError: the Python has no vLLM, or another release of it.
        VpatchError: a patch cannot be applied, the files are not those of the release, or Python
            imports other code.
    """
    with ExitStack() as stack:
        looked_at = installed_vllm(python)
        if not request.names_vllm:
            looked_at = _recovered(looked_at)
            replacement.refuse_taken_apart(looked_at)
        request = request.or_what_is_there(f"{ENVIRONMENT}{python}")
        opener = _opener(context, looked_at)
        laid = laid_over(locked_plan(context, request, stack, opener))
        stack.enter_context(changing(looked_at))
        # What a killed command left is finished now.
        installed = installed_vllm(python)
        refuse_hidden(installed.asked, installed.package)
        outcome = replacement.install(installed, laid)
    return InstallResult(installed, laid.lock, tuple(sorted(laid.changes)), outcome)


def _recovered(vllm: InstalledVllm) -> InstalledVllm:
    """Finish what a killed command left, and look again."""
    with changing(vllm):
        return installed_vllm(vllm.python)


def _opener(
    context: Context, vllm: InstalledVllm
) -> Callable[[Selection], AbstractContextManager[CachedTree]]:
    """Return what opens a source; of the environment itself, the files from before an install."""

    def open_selected(job: Selection) -> AbstractContextManager[CachedTree]:
        if isinstance(job.spec, EnvironmentSpec) and is_of(job.spec, vllm):
            return original_tree(context, job.spec, vllm, job.expected_digest)
        return context.tree(job.spec, job.expected_digest)

    return open_selected


def uninstall(python: str) -> InstallResult:
    """Put back what `install` replaced in the vLLM of a Python.

    Raises:
        UsageError: the Python has no vLLM, or nothing is installed there.
        VpatchError: a file was changed since.
    """
    looked_at = installed_vllm(python)
    with changing(looked_at):
        installed = installed_vllm(python)
        earlier = replacement.uninstall(installed)
    return InstallResult(installed, earlier.lock, tuple(earlier.paths))
