"""What a build of vLLM is: a release, one with changed files, or a build that no release names."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.errors import UsageError
from vpatch.planning.state import State, overall_changes
from vpatch.source.memory import ChangedTree
from vpatch.source.spec import PypiSpec
from vpatch.source.wheel.record import RECORD, WheelRecordError, parse_record
from vpatch.util.plural import counted
from vpatch.workspace.plans import planned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vpatch.library.patch import Patch
    from vpatch.source.entry import CachedTree
    from vpatch.workspace.context import Context

# In these states, the code has what the patch would make.
_IN_IT = {State.UPSTREAMED, State.APPLIED}
# What a build writes anew.
_GENERATED = "vllm/_version.py"


@dataclass(frozen=True)
class PatchesInFiles:
    """The patches that changed files have, and the files that are exactly what these make.

    `explained` has the ids of the patches by the path of such a file.
    """

    patches: tuple[Patch, ...] = ()
    explained: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class BuildComparison:
    """A build beside the release that its version names.

    Attributes:
        version: that of the build; None where it tells none.
        release: None where no release has this version.
        as_released: how many sources are as in the archive of the release.
        changed: the sources that are not.
        as_recorded: those of them that are as RECORD of the build names them.
        added: those that the archive lacks.
        missing: those that only the archive has.
        inside: the patches of the library that the changed sources have.
    """

    version: str | None
    release: str | None
    as_released: int = 0
    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    inside: PatchesInFiles = PatchesInFiles()
    as_recorded: tuple[str, ...] = ()

    @property
    def is_as_built(self) -> bool:
        """Whether nobody changed a source of the release, or lost one, after it was built."""
        is_known = self.release is not None and not self.missing
        return is_known and set(self.changed) == set(self.as_recorded)

    @property
    def is_release(self) -> bool:
        return self.release is not None and not self.changed and not self.missing

    @property
    def patches(self) -> list[str]:
        return [patch.id for patch in self.inside.patches]

    @property
    def explained(self) -> list[str]:
        return sorted(self.inside.explained)

    @property
    def summary(self) -> str:
        """What it is, in a sentence without a full stop."""
        if self.version is None:
            return "an unknown build: it tells no version"
        if self.release is None:
            return f"an unknown build: no release of vLLM has the version {self.version}"
        if self.is_release:
            what = f"the release {self.release}"
        else:
            what = (
                f"differs from the release {self.release} in {counted(len(self.changed), 'file')}"
            )
            what += describe_explained(len(self.explained))
            lacks = f", and lacks {counted(len(self.missing), 'file')} of it"
            what += lacks if self.missing else ""
        same = counted(self.as_released, "source file")
        return f"{what}; {same} as in its archive"


def describe_explained(count: int) -> str:
    """Say how many changed files are as patches at hand make them; empty for none."""
    it = "it" if count == 1 else "them"
    return f" ({count} as patches at hand make {it})" if count else ""


@contextmanager
def release_tree(context: Context, release: str) -> Iterator[CachedTree | None]:
    """Open the archive of a release; None where the index has no such release."""
    with ExitStack() as stack:
        try:
            tree = stack.enter_context(context.tree(PypiSpec("vllm", release)))
        except UsageError as error:
            if error.code != "source.no-such-release":
                raise
            yield None
        else:
            yield tree


def compare_with_release(context: Context, build: CachedTree) -> BuildComparison:
    """Compare the sources of a build with those of the release that its version names.

    Raises:
        UnavailableError: the release cannot be had.
    """
    version = build.pin.version
    if version is None:
        return BuildComparison(None, None)
    with release_tree(context, Version(version).public) as released:
        if released is None:
            return BuildComparison(version, None)
        own, theirs = (
            {path: tree.records[path].sha256 for path in tree.package if path != _GENERATED}
            for tree in (build, released)
        )
        changed = [path for path, sha256 in own.items() if theirs.get(path, sha256) != sha256]
        contents = {path: build.read(path) for path in changed}
        return BuildComparison(
            version,
            released.pin.version,
            len(own.keys() & theirs.keys()) - len(changed),
            tuple(sorted(changed)),
            tuple(sorted(own.keys() - theirs.keys())),
            tuple(sorted(theirs.keys() - own.keys())),
            patches_in(context, released, contents),
            tuple(sorted(_as_recorded(build, changed))),
        )


def _as_recorded(build: CachedTree, paths: Iterable[str]) -> Iterator[str]:
    """The files of a build that are as its RECORD names them."""
    record = next((path for path in build.records if path.endswith(f".dist-info/{RECORD}")), None)
    if record is None:
        return
    try:
        rows = parse_record(build.read(record), record)
    except WheelRecordError:
        return
    for path in paths:
        row = rows.get(path)
        if row is not None and row.sha256 == f"sha256:{build.records[path].sha256}":
            yield path


def patches_in(
    context: Context, released: CachedTree, changed: Mapping[str, bytes]
) -> PatchesInFiles:
    """Find the patches that a release needs, and that changed files of it have."""
    changed = {path: text for path, text in changed.items() if path in released.package_files}
    if not changed:
        return PatchesInFiles()
    patches = [p for p in context.library.load_all() if "vllm" in p.relations.needed_in]
    everything = [patch.id for patch in patches]
    pristine = planned(
        context, patches, released, to_write=True, findings_for="none", alone=everything
    )
    touching = [
        d.patch
        for d in pristine.decisions
        if d.state is State.NEEDED and not changed.keys().isdisjoint(d.changes)
    ]
    if not touching:
        return PatchesInFiles()
    there = ChangedTree(released, changed, frozenset())
    ids = [patch.id for patch in touching]
    plan = planned(context, touching, there, to_write=False, findings_for="none", alone=ids)
    inside = tuple(d.patch for d in plan.decisions if d.state in _IN_IT)
    if not inside:
        return PatchesInFiles()
    plan = planned(context, inside, released, to_write=True, findings_for="none")
    return PatchesInFiles(
        inside,
        {
            path: tuple(d.patch.id for d in plan.taken if path in d.changes)
            for path, change in sorted(overall_changes(plan).items())
            if changed.get(path) == change.after
        },
    )
