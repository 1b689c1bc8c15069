"""Record examples of patches: the files that a patch changes in a release, before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.proofs.behaviour_records import refuse_unrecordable
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.source.spec import PypiSpec
from vpatch.util.scratch import staging_folder
from vpatch.workspace.examples import concerned_files, run_example, write_example

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.library.patch import Patch
    from vpatch.planning.state import Decision
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class RecordedExample:
    """What became of the example of a patch in a release; without `why_not`, it was written."""

    patch: Patch
    name: str
    why_not: str | None = None


def record_examples(
    context: Context, patches: Sequence[Patch], releases: Sequence[str] | None
) -> Iterator[RecordedExample]:
    """Write an example of each patch for each release, by default one for each of its variants.

    Without `releases`, a variant gets the newest release that needs it. An example that is there
    stays as it is.

    Raises:
        UsageError: a patch came with the installed vpatch.
        VpatchError: a source cannot be read, or an example cannot be written.
    """
    refuse_unrecordable(patches)
    for patch in patches:
        if patch.relations.requires:
            others = ", ".join(patch.relations.requires)
            why = f"the patch requires {others}, and an example has one patch alone"
            yield RecordedExample(patch, State.NEEDED, why)
            continue
        name = next(iter(patch.declaration.needed_in))
        known = context.releases() if name == "vllm" else context.releases_of(name)
        variants: set[str | None] = set()
        for release in releases or reversed(known):
            with context.tree(PypiSpec(name, release)) as tree:
                (decision,) = plan([patch], tree, answers=context.answers, shapes=False).decisions
                if releases is None:
                    if decision.state is not State.NEEDED or decision.variant in variants:
                        continue
                    variants.add(decision.variant)
                yield _write(patch, tree, decision, release)
            if releases is None and len(variants) == len(patch.variants):
                break
        if releases is None and not variants:
            yield RecordedExample(patch, State.NEEDED, "no release needs the patch by itself")


def _write(patch: Patch, tree: Tree, decision: Decision, release: str) -> RecordedExample:
    """Write the example of a patch in a release, if it holds by itself."""
    name = f"{State.NEEDED}-{release}"
    place = patch.folder / "examples" / name
    if place.exists():
        return RecordedExample(patch, name, "it is there already, and stays as it is")
    if decision.state is not State.NEEDED:
        return RecordedExample(patch, name, f"the patch is {decision.state}: {decision.reason}")
    changes = decision.changes.items()
    before = {path: one.before for path, one in changes if one.before is not None}
    before |= concerned_files(patch.declaration.concerns, tree, before)
    with staging_folder(patch.folder.parent, "examples") as staging:
        folder = staging / name
        write_example(folder, before, before | {path: one.after for path, one in changes})
        failures = run_example(patch, folder).failures
        if failures:
            return RecordedExample(patch, name, f"it does not hold alone: {failures[0]}")
        place.parent.mkdir(exist_ok=True)
        folder.rename(place)
    return RecordedExample(patch, name)
