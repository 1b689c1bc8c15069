"""What `vpatch run` decides: whether an installed vLLM is the release, and what to replace."""

from __future__ import annotations

from dataclasses import asdict, replace
from importlib.metadata import PathDistribution
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vpatch.commands.run.record import RunRecord, is_series
from vpatch.engine.file_state import state_of_environment, state_of_folder
from vpatch.engine.installed import base_of
from vpatch.engine.kept_overlay import PACKAGE, compose
from vpatch.engine.overlay import OverlayError
from vpatch.errors import UsageError, VpatchError, combine
from vpatch.image.mode import is_shipped
from vpatch.image.payload.metadata import metadata
from vpatch.planning.state import Change, Plan, overall_changes
from vpatch.source.environment import InstalledDistribution
from vpatch.source.resolve import open_distribution
from vpatch.source.spec import EnvironmentSpec, PypiSpec
from vpatch.util.digest import digest_of
from vpatch.util.plural import listed
from vpatch.workspace.checkout import note_unsure, refuse_stopping, states_of
from vpatch.workspace.plans import planned

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from vpatch.engine.installed import InstalledPackage
    from vpatch.engine.kept_overlay import Composition
    from vpatch.source.entry import CachedTree
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Selection

# Of a vLLM's sources, what a build compiles.
_COMPILED = {".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hip", ".hpp", ".pyx", ".rs", ".so"}


def decided(
    context: Context, job: Selection, python: Path, environment: Mapping[str, str]
) -> tuple[RunRecord, Composition]:
    """Ask a Python for its vLLM, plan the patches, and compare the files that they touch.

    Raises:
        UsageError: it has another release, no whole vLLM, or a patch must be compiled.
        VpatchError: a patch stops the run, or installed files are not those of the release.
    """
    base = base_of(python, environment)
    # Before anything is read: what changes from now on makes the record untrue.
    states = state_of_environment(python, base.asked.path), state_of_folder(base.package)
    job = _of_installed(job, base)
    with _tree(context, job, base) as tree:
        plan = planned(context, job.patches, tree, to_write=True)
    refuse_stopping([plan], asked_for=job.asked_for, strict=job.strict)
    note_unsure(context, [plan])
    release = plan.pin.version or ""
    if release not in (base.release, base.version):
        raise _wrong_version(base, release)
    if not plan.taken:
        raise VpatchError(
            f"there is no patch to apply: {states_of([plan])}",
            where=plan.pin.label,
            hint="run the command without vpatch, or name a patch that is needed there",
            code="checkout.nothing-to-apply",
        )
    changes = _laid_over(plan)
    _compare(base, changes)
    patched = {_inside(path): change.after for path, change in changes.items()}
    about = {
        "vllm": release,
        "source": asdict(plan.pin),
        "recipe": job.recipe,
        "patches": [
            {"id": d.patch.id, "digest": d.patch.digest, "variant": d.variant} for d in plan.taken
        ],
        "files": [
            {
                "path": path,
                "before": None if change.before is None else digest_of(change.before),
                "after": digest_of(change.after),
            }
            for path, change in sorted(changes.items())
        ],
        "package": str(base.package),
    }
    made_of = compose(base.package, about, patched, _beside(base))
    record = RunRecord(
        release,
        plan.pin.digest,
        job.recipe,
        base.version,
        base.package,
        tuple((d.patch.id, str(d.state)) for d in plan.decisions),
        {name: digest_of(content) for name, content in sorted(patched.items())},
        made_of.name,
        base.asked.path,
        *states,
    )
    return record, made_of


def _tree(
    context: Context, job: Selection, base: InstalledPackage
) -> AbstractContextManager[CachedTree]:
    """Open a release, or the very package that is the base."""
    if not isinstance(job.spec, EnvironmentSpec):
        return context.tree(job.spec, job.expected_digest)
    one = InstalledDistribution(base.site, PACKAGE, base.info.name, base.version)
    return open_distribution(job.spec, one, context.cache, context.progress, job.expected_digest)


def _beside(base: InstalledPackage) -> dict[str, bytes]:
    """Return metadata under the name vllm, where the installed vLLM has another name.

    vLLM asks for the distribution vllm: without it, `vllm serve` ends with PackageNotFoundError.
    It lists no files, so that pip does not remove what is in the overlay.
    """
    if base.distributions[0].normal_name == PACKAGE:
        return {}
    version, text = metadata(PathDistribution(base.info))
    return {f"{PACKAGE}-{version}.dist-info/METADATA": text.encode()}


def _of_installed(job: Selection, base: InstalledPackage) -> Selection:
    """Take the installed release of the series that was asked for: no index need be asked."""
    spec = job.spec
    if isinstance(spec, PypiSpec) and is_series(spec.version):
        if base.release.startswith(f"{spec.version}."):
            return replace(job, spec=replace(spec, version=base.release))
        raise _wrong_version(base, spec.version)
    return job


def _wrong_version(base: InstalledPackage, wanted: str) -> UsageError:
    return UsageError(
        f"it has vLLM {base.version}, not {wanted}",
        where=str(base.package),
        hint=f"give --vllm {base.release}, or run a command of another environment",
        code="engine.wrong-version",
    )


def _laid_over(plan: Plan) -> dict[str, Change]:
    """Return the changes that take effect without a build, which must be all that matter.

    Raises:
        UsageError: a patch changes what must be compiled.
    """
    errors: list[VpatchError] = []
    for decision in plan.taken:
        built = sorted(p for p in decision.changes if is_shipped(p) and not _is_inside(p))
        if built:
            errors.append(
                UsageError(
                    f"{decision.patch.id} changes files that need a build: {listed(built)}",
                    where=plan.pin.label,
                    hint="leave this patch out, or build an image: vpatch build-image --mode "
                    "source",
                    code="engine.must-be-built",
                )
            )
    if errors:
        raise combine(errors)
    return {path: change for path, change in overall_changes(plan).items() if _is_inside(path)}


def _compare(base: InstalledPackage, changes: Mapping[str, Change]) -> None:
    """Refuse files of an installed vLLM that are not those of the release."""
    differing = []
    for path, change in sorted(changes.items()):
        file = base.package / _inside(path)
        if (file.read_bytes() if file.is_file() else None) != change.before:
            differing.append(path)
    if differing:
        raise OverlayError(
            f"these files are not those of vLLM {base.release}: {listed(differing)}",
            where=str(base.package),
            hint="somebody edited them, or this is a fork: install vLLM again, or leave out the "
            "patches that change these files",
        )


def _is_inside(path: str) -> bool:
    """Whether a file of the tree is one of the installed package, as it is."""
    pure = PurePosixPath(path)
    return pure.parts[0] == PACKAGE and pure.suffix not in _COMPILED


def _inside(path: str) -> str:
    return path.removeprefix(f"{PACKAGE}/")
