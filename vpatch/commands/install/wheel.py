"""The use case `wheel`: the patches of a request in a published wheel."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from vpatch.commands.audit.author import Author
from vpatch.commands.install.layout import SBOM, laid_over
from vpatch.commands.install.sbom import sbom_of
from vpatch.commands.install.wheels.build import OfficialWheel, make_wheel
from vpatch.commands.install.wheels.names import patched_version, release_of
from vpatch.errors import ConflictingOptionsError
from vpatch.source.spec import WHEEL
from vpatch.source.wheel.archive import WheelArchive
from vpatch.source.wheel.names import parse_wheel_name
from vpatch.source.wheel.release import official_wheel
from vpatch.workspace.locked_plan import locked_plan

if TYPE_CHECKING:
    from vpatch.commands.install.wheels.build import MadeWheel
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Request

DISTRIBUTION = "vllm"
_VERIFIED = "every digest in the RECORD of this wheel is right"


@dataclass(frozen=True)
class WheelOptions:
    """The original wheel, and where the patched one goes.

    `wheel` is a file. Without it, the index has the wheel of `distribution`, by default vllm.
    `author` answers for the SBOM: `NAME` or `NAME <ADDRESS>`.
    """

    output: Path = Path("dist")
    wheel: Path | None = None
    distribution: str | None = None
    author: str | None = None


def wheel(context: Context, request: Request, options: WheelOptions) -> MadeWheel:
    """Write a wheel with the patches of a request, and its statement.

    A request that names no vLLM is for the files in the wheel.

    Raises:
        UsageError: options contradict each other, or the wheel is of another release.
        VpatchError: a patch cannot be applied, or the wheel is not a published one.
    """
    if options.wheel is not None and options.distribution is not None:
        raise ConflictingOptionsError(
            "a file is a wheel of one distribution already",
            hint="give --wheel or --distribution, not both",
        )
    author = None if options.author is None else Author.parse(options.author)
    if options.wheel is not None:
        request = request.or_what_is_there(f"{WHEEL}{options.wheel}")
    with ExitStack() as stack:
        locked = locked_plan(context, request, stack)
        bare = laid_over(locked)
        path = options.wheel or official_wheel(
            options.distribution or DISTRIBUTION,
            release_of(locked.lock),
            cache=context.cache,
            settings=context.pip_settings,
            offline=context.offline,
            progress=context.progress,
            option="--wheel FILE",
        )
        archive = stack.enter_context(WheelArchive(path))
        official = OfficialWheel(archive, bare)
        # The digest of the whole file vouches for one of the index, and for one that was verified.
        contents = [bytes.fromhex(archive.sha256)]
        verified = None
        if options.wheel is not None and not context.answers.recall(_VERIFIED, contents):
            pool = stack.enter_context(ThreadPoolExecutor(1))
            verified = pool.submit(official.verify)
        name = parse_wheel_name(path.name)
        version = patched_version(name.version, bare.lock)
        sbom = sbom_of(context, locked, canonicalize_name(name.distribution), version, author)
        laid = laid_over(locked, {SBOM: sbom.encode()})
        task = context.progress.start(f"Patching {path.name}")
        patched = make_wheel(official, laid, options.output, verified)
        task.done()
        if verified is not None:
            context.answers.ask(_VERIFIED, contents, lambda: True)
            context.answers.save()
    return patched
