"""The use case `run`: the vLLM of an environment, patched for one command and not changed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.run.record import RunRecord, is_own, recall, remember
from vpatch.engine import kept_overlay as overlays
from vpatch.engine.command import FoundCommand, default_python, find_command, find_python
from vpatch.engine.installed import refuse_shadow
from vpatch.engine.overlay_cache import refuse_colon
from vpatch.errors import UsageError, VpatchError, combine
from vpatch.source.spec import ENVIRONMENT, PypiSpec
from vpatch.trust.decision import UntrustedError
from vpatch.util.own_environment import inherited
from vpatch.workspace import selection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class PatchedRun:
    """A command, and what it runs with.

    Attributes:
        command: None if there is only an environment.
        python: the Python whose vLLM is the base.
        record: what was found out about it.
        overlay: the folder of the overlay.
        is_made: whether the overlay is there.
        variables: what the command is given beside the user's environment.
        environment: all that the command is given.
        kept_overlay: the overlay while it is held; None where it was only looked for.
    """

    command: FoundCommand | None
    python: Path
    record: RunRecord
    overlay: Path
    is_made: bool
    variables: Mapping[str, str]
    environment: Mapping[str, str]
    kept_overlay: overlays.KeptOverlay | None

    @property
    def files(self) -> list[str]:
        """What the overlay replaces or adds, by the paths in the tree."""
        return [f"{overlays.PACKAGE}/{path}" for path in self.record.patched]


def patched_run(
    context: Context,
    request: selection.Request,
    words: Sequence[str],
    python: str | None,
    *,
    make: bool,
) -> PatchedRun:
    """Find the vLLM behind a command, check it, and with `make` lay the patched files over it.

    Args:
        context: what all use cases share.
        request: which patches for which release; without one, for the vLLM that is there.
        words: the command; empty for an environment alone.
        python: the Python whose vLLM is the base; by default the one behind the command.
        make: whether to make the overlay, and hold it.

    Raises:
        UsageError: there is no such command, or no vLLM that can be a base.
        VpatchError: a patch stops the run, or installed files are not those of the release.
    """
    refuse_colon(context.cache.folder)
    environment = _without_overlays(inherited())
    command = find_command(words, environment) if words else None
    base = _python(command, python, environment)
    job = _select(context, request.or_what_is_there(f"{ENVIRONMENT}{base}"), base)
    record = recall(context, job, base, environment)
    _require_trust(context, job, is_known=record is not None)
    kept_overlay = _open(context, record) if record is not None and make else None
    if record is None or (make and kept_overlay is None):
        # What was found before needs neither the tree nor libcst.
        from vpatch.commands.run.decision import decided  # noqa: PLC0415

        record, made_of = decided(context, job, base, environment)
        remember(context, job, base, environment, record)
        if make:
            kept_overlay = overlays.make_kept(context.cache.folder, made_of, context.progress)
    if command is not None and command.python == base:
        refuse_shadow(command.first, record.package)
    folder = overlays.overlay_folder(context.cache.folder, record.overlay)
    folders = str(overlays.packages_of(folder)), environment.get("PYTHONPATH")
    variables = {"PYTHONPATH": os.pathsep.join(filter(None, folders))}
    if _writes_bytecode(record, environment):
        variables["PYTHONPYCACHEPREFIX"] = str(context.cache.answers("bytecode"))
    is_made = kept_overlay is not None or overlays.patched_as_made(folder, record.patched)
    return PatchedRun(
        command, base, record, folder, is_made, variables, environment | variables, kept_overlay
    )


def _python(
    command: FoundCommand | None, typed: str | None, environment: Mapping[str, str]
) -> Path:
    if typed is not None:
        return find_python(typed, environment)
    if command is not None and command.is_python and command.python is not None:
        return command.python
    default = default_python(environment)
    if default is None:
        raise UsageError(
            "the command is not one of a Python, and the PATH has no python3",
            where=None if command is None else str(command.program),
            hint="say whose vLLM it uses: --python PYTHON",
            code="engine.no-python",
        )
    return default


def _select(context: Context, request: selection.Request, base: Path) -> selection.Selection:
    jobs = selection.resolve(request, context.library)
    selection.note_library(context, jobs)
    names = ", ".join(job.spec.tree for job in jobs)
    if names != "vllm":
        raise UsageError(
            f"vpatch run patches vLLM alone, and this is {names}",
            hint="name a recipe with vLLM alone, or build an image: vpatch build-image",
            code="engine.several-trees",
        )
    (job,) = jobs
    if not isinstance(job.spec, PypiSpec) and not is_own(job, base):
        raise UsageError(
            "only a release can be compared with an installed vLLM, and this is another source",
            where=request.vllm or request.recipe,
            hint="give --vllm VERSION, or leave it out to take the files that are there",
            code="engine.no-release",
        )
    return job


def _require_trust(context: Context, job: selection.Selection, *, is_known: bool) -> None:
    """Refuse patches that are not trusted: the command runs what they insert.

    What was decided before followed from patches that were read as they were trusted. Now it is
    enough that they still are: to read them again takes libcst.
    """
    if not is_known:
        context.require_trust(job.patches)
        return
    errors: list[VpatchError] = []
    for patch in job.patches:
        try:
            context.trust.require(patch.folder)
        except UntrustedError as error:
            errors.append(error)
    if errors:
        raise combine(errors)


def _open(context: Context, record: RunRecord) -> overlays.KeptOverlay | None:
    """Open the overlay of a record, unless it is not there, or its patched files are others."""
    overlay = overlays.open_overlay(context.cache.folder, record.overlay, context.progress)
    if overlay is not None and not overlays.patched_as_made(overlay.folder, record.patched):
        overlay.lock.release()
        return None
    return overlay


def _writes_bytecode(record: RunRecord, environment: Mapping[str, str]) -> bool:
    """Whether a Python would write bytecode beside the installed packages that have none.

    Nobody has it elsewhere for nothing: all that is imported is compiled once more then.
    """
    variables = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
    return not any(map(environment.get, variables)) and os.access(record.package.parent, os.W_OK)


def _without_overlays(environment: dict[str, str]) -> dict[str, str]:
    """Leave out overlays that an outer `vpatch run` has put there, or --print-env."""
    entries = environment.get("PYTHONPATH", "").split(os.pathsep)
    others = os.pathsep.join(entry for entry in entries if not overlays.is_overlay(entry))
    if others:
        return environment | {"PYTHONPATH": others}
    return {name: value for name, value in environment.items() if name != "PYTHONPATH"}
