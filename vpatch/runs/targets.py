"""The target of a run: an engine with patched trees laid over it, or a patched image."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.engine.kinds import KINDS
from vpatch.engine.overlay import as_released
from vpatch.errors import MissingOptionError, VpatchError, combine, distinct
from vpatch.harness.machine import missing
from vpatch.harness.models import ModelNotFetchedError, locate, seen_folder
from vpatch.harness.target import EngineTarget, ImageTarget, contents_of
from vpatch.runs.node_image import open_docker
from vpatch.source.spec import PypiSpec
from vpatch.workspace.checkout import refuse_stopping
from vpatch.workspace.context import open_engine
from vpatch.workspace.plans import planned

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from contextlib import ExitStack

    from vpatch.declare.smoke import Model, Needs
    from vpatch.docker.engine import Docker
    from vpatch.harness.machine import Machine
    from vpatch.harness.target import ImageFacts, TreeContent
    from vpatch.image.running import PatchedImage
    from vpatch.planning.state import Plan
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Selection


def refuse_missing(
    context: Context,
    needs: Needs,
    models: Iterable[Model],
    machine: Machine,
    kind: str,
    releases: Iterable[str | None],
) -> None:
    """Say all that is not here, before an engine is made or anything starts.

    Of a checkpoint that is not here, the Hub is asked whether the `releases` of vLLM can run it.
    Those that are not known are None.
    """
    errors = missing(needs, machine, kind)
    known = [release for release in dict.fromkeys(releases) if release is not None]
    # A plan may name a checkpoint several times: each is asked for once.
    for one in {(one.checkpoint, one.revision): one for one in models}.values():
        try:
            locate(one)
        except ModelNotFetchedError as error:
            # Only here it is needed.
            from vpatch.runs.hub_models import looked_up  # noqa: PLC0415

            errors.append(looked_up(context, one, error, known))
        except VpatchError as error:
            errors.append(error)
    if errors:
        raise combine(distinct(errors))


def engine_here(context: Context, engine: str | None, machine: Machine) -> tuple[str, str]:
    """Return an engine of this machine, by default one for what it has; and what it runs on."""
    engine = engine or ("cuda" if machine.gpus else "cpu")
    return engine, engine if engine in KINDS else context.own_engine(engine).kind


def release_asked(selections: Sequence[Selection]) -> str | None:
    """Return the release that a selection of vLLM names; None for any other source."""
    spec = selections[0].spec
    return spec.version if isinstance(spec, PypiSpec) and spec.tree == "vllm" else None


@dataclass(frozen=True)
class PlannedTrees:
    """What is to be laid over an engine: plans, and the files of trees that are no release.

    Of an image, nothing is: `image` says which one it is, `kind` what its vLLM runs on, and
    `installed` has the digests of its patched files.
    """

    plans: list[Plan]
    files: list[Mapping[str, bytes]]
    version: str
    image: ImageFacts | None = None
    installed: Mapping[str, str] = field(default_factory=dict)
    kind: str | None = None

    @property
    def contents(self) -> list[TreeContent]:
        return contents_of(self.plans, self.files)


def planned_trees(
    context: Context, jobs: Sequence[Selection], stack: ExitStack, *, asked_for: bool
) -> PlannedTrees:
    """Plan selections for an engine, of the release that the first one names.

    With `asked_for`, somebody named the patches: one that finds nothing to do stops the run.
    """
    # An engine runs what the patches insert. Callers ask for the recipe whose plan they take: here
    # it has a name only, and a file of the library may have the same.
    for job in jobs:
        context.require_trust(job.patches)
    trees = [stack.enter_context(context.tree(j.spec, j.expected_digest)) for j in jobs]
    plans = [
        planned(context, job.patches, tree, to_write=True)
        for job, tree in zip(jobs, trees, strict=True)
    ]
    strict = any(job.strict for job in jobs)
    refuse_stopping(plans, asked_for=asked_for or jobs[0].recipe is not None, strict=strict)
    version = plans[0].pin.version
    if plans[0].pin.tree != "vllm" or version is None:
        raise MissingOptionError("an engine needs a release of vLLM", hint="give --vllm VERSION")
    files = [{} if tree.pin.kind == "pypi" else tree.package_files for tree in trees]
    return PlannedTrees(plans, files, version)


def engine_target(
    context: Context, jobs: Sequence[Selection], engine: str, stack: ExitStack, *, asked_for: bool
) -> tuple[EngineTarget, list[Plan], str]:
    """Plan selections and open the engine for them; return target, plans, and vLLM's release."""
    trees = planned_trees(context, jobs, stack, asked_for=asked_for)
    return open_target(context, trees, engine, stack), trees.plans, trees.version


def open_target(
    context: Context, trees: PlannedTrees, engine: str, stack: ExitStack
) -> EngineTarget:
    """Open the engine for planned trees."""
    opened = stack.enter_context(open_engine(context, engine, trees.version))
    for path in as_released(opened, trees.plans[0]) if not trees.files[0] else ():
        context.progress.note(
            f"this build of {trees.version} has another {path}: the release's runs"
        )
    return EngineTarget(opened, trees.contents)


def look_at_image(name: str, stack: ExitStack, *, gpus: bool) -> tuple[PatchedImage, Docker]:
    """Ask an image what it is; the connection to its engine is open as long as the stack."""
    docker = open_docker(stack)
    # Only a run in an image needs it.
    from vpatch.image.running import look_at  # noqa: PLC0415

    return look_at(docker, name, gpus=gpus), docker


def image_target(
    image: PatchedImage, docker: Docker, folders: Iterable[Path], *, gpus: bool
) -> ImageTarget:
    """Return the target of an image. Its containers also see `folders`."""
    about = about_image(image)
    return ImageTarget(docker, about, image.kind, image.version, image.digests, list(folders), gpus)


def trees_in_image(image: PatchedImage) -> PlannedTrees:
    """Return what an image already has, for a run elsewhere."""
    about = about_image(image)
    return PlannedTrees([], [], image.version, about, image.digests, image.kind)


def about_image(image: PatchedImage) -> ImageFacts:
    """Return what evidence says of an image."""
    return {"name": image.name, "id": image.image.id, "digests": list(image.image.digests)}


def folders_to_show(
    context: Context,
    plan: str | None,
    models: Collection[Model],
    files: Collection[str] = (),
    *,
    named: bool,
) -> list[Path]:
    """Return the folders of a plan's checkpoints and datasets, which a container is to see.

    A container is on this machine's network, and may send what it sees anywhere. `named` says that
    the user, and not the plan, named the checkpoint.

    Raises:
        UntrustedError: the plan names a folder, and is not trusted.
    """
    checkpoints = [seen_folder(path) for model in models if (path := locate(model)) is not None]
    datasets = [Path(file).resolve().parent for file in files]
    require_trust_in_folders(context, plan, models, files, named=named)
    return [*checkpoints, *datasets]


def require_trust_in_folders(
    context: Context,
    plan: str | None,
    models: Collection[Model],
    files: Collection[str] = (),
    *,
    named: bool,
) -> None:
    """Refuse to show folders that an untrusted plan names; see `folders_to_show`.

    Raises:
        UntrustedError: the plan names a folder, and is not trusted.
    """
    if files or (not named and any(model.checkpoint for model in models)):
        context.require_trust((), plan)
