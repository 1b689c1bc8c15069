"""The vLLM of an environment as it was before `vpatch install`, as a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.commands.install.journal import ASIDE
from vpatch.commands.install.layout import LOCK, NOTICE
from vpatch.commands.install.replacement import KEPT, earlier_install
from vpatch.engine.distributions import RECORD
from vpatch.source.environment import InstalledDistribution
from vpatch.source.resolve import open_distribution
from vpatch.source.spec import EnvironmentSpec
from vpatch.workspace.site import site_of

if TYPE_CHECKING:
    from vpatch.commands.install.environment import InstalledVllm
    from vpatch.commands.install.replacement import Earlier
    from vpatch.source.entry import CachedTree
    from vpatch.source.spec import TreeSpec
    from vpatch.workspace.context import Context


def is_of(spec: TreeSpec, vllm: InstalledVllm) -> bool:
    """Whether a source is the environment that a vLLM is installed in.

    Raises:
        UsageError: it names an environment without vLLM.
    """
    return isinstance(spec, EnvironmentSpec) and site_of(spec).resolve() == vllm.site.resolve()


def original_tree(
    context: Context, spec: EnvironmentSpec, vllm: InstalledVllm, expected: str | None = None
) -> CachedTree:
    """Open the files of a vLLM as they were before `vpatch install`. Close it after use.

    Raises:
        PinMismatchError: they do not have the expected digest.
        LockError: the lock of the install is damaged.
        VpatchError: a file cannot be read.
    """
    earlier = earlier_install(vllm)
    installed = InstalledDistribution(
        vllm.site,
        vllm.package.name,
        vllm.info.name,
        vllm.version,
        {} if earlier is None else _originals(earlier),
    )
    return open_distribution(spec, installed, context.cache, context.progress, expected)


def _originals(earlier: Earlier) -> dict[str, str | None]:
    """Where the files from before an install lie; None for what the install put there."""
    info = earlier.vllm.info.name
    own = (path for name in (KEPT, ASIDE) for path in (earlier.vllm.info / name).rglob("*"))
    originals: dict[str, str | None] = dict.fromkeys(
        path.relative_to(earlier.vllm.site).as_posix() for path in own
    )
    originals |= {f"{info}/{LOCK}": None, f"{info}/{NOTICE}": None}
    originals |= {
        file.path: None if file.before is None else f"{info}/{KEPT}/{file.path}"
        for file in earlier.files
    }
    return originals | {f"{info}/{RECORD}": f"{info}/{KEPT}/{RECORD}"}
