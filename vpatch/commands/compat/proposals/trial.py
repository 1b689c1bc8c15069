"""A proposed patch is written only if it holds in the base and in the release that lacks a name."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ruamel.yaml import YAML

from vpatch.commands.compat.judgement.facts import fact_of
from vpatch.commands.compat.judgement.release import JudgedRelease, own_part
from vpatch.commands.compat.judgement.verdict import BREAKS, judge
from vpatch.commands.compat.surface.collect import surface_of
from vpatch.errors import VpatchError
from vpatch.library.loading import load_patch
from vpatch.library.patch import DECLARATION
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.source.memory import ChangedTree, MemoryTree
from vpatch.source.spec import parse_vllm
from vpatch.source.tree import Pin
from vpatch.util.digest import digest_of_files
from vpatch.util.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.commands.compat.judgement.fact import Fact
    from vpatch.commands.compat.proposals.draft import CompatDraft
    from vpatch.commands.compat.target import CompatTarget
    from vpatch.library.patch import Patch
    from vpatch.workspace.context import Context


def written(
    context: Context, target: CompatTarget, draft: CompatDraft, base: str, place: Path
) -> str | None:
    """Write a patch if it holds on both releases, or return why it does not."""
    with scratch_folder() as scratch:
        folder = Path(scratch) / draft.id
        folder.mkdir()
        with (folder / DECLARATION).open("w", encoding="utf-8") as file:
            yaml = YAML()
            yaml.width = 120
            yaml.dump(dict(draft.declaration), file)
        try:
            patch = load_patch(folder, context.trust)
            changed = _changed(target, patch)
        except VpatchError as error:
            return f"no patch for it: {error.what}"
        if isinstance(changed, str):
            return changed
        worse = list(_worse(context, target, changed, (base, draft.release)))
        if worse:
            return f"no patch for it, as with one this would break: {', '.join(worse)}"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder, place)
    return None


def _changed(target: CompatTarget, patch: Patch) -> CompatTarget | str:
    pin = Pin(target.name, "folder", target.version, digest_of_files(target.files), target.name)
    tree = MemoryTree(pin, target.files)
    decision = plan([patch], tree, findings_for="none").decisions[0]
    if decision.state is not State.NEEDED:
        return f"no patch for it: an edit that was tried is {decision.state}"
    files = {path: change.after for path, change in decision.changes.items() if change.after}
    again = ChangedTree(tree, files, frozenset())
    second = plan([patch], again, findings_for="none").decisions[0]
    if second.state not in {State.APPLIED, State.UPSTREAMED}:
        return f"no patch for it: a second run of an edit that was tried is {second.state}"
    return replace(target, files={**target.files, **files})


def _worse(
    context: Context, before: CompatTarget, after: CompatTarget, releases: tuple[str, str]
) -> Iterator[str]:
    """Yield what breaks in the changed target, and did not in the target as it was."""
    # Nothing changes for the other files.
    paths = {path for path, text in after.files.items() if before.files[path] != text}
    was, now = (_breaks(context, one, paths, releases) for one in (before, after))
    yield from sorted(now - was)
    if not now - was and len(now) == len(was):
        yield "what breaks without it"


def _breaks(
    context: Context, target: CompatTarget, paths: set[str], releases: tuple[str, str]
) -> set[str]:
    modules = {module: path for module, path in target.modules.items() if path in paths}
    surface = surface_of(replace(target, modules=modules), context.progress)
    own = own_part(target, surface)
    facts: list[list[Fact]] = []
    with ExitStack() as stack:
        for release in releases:
            tree = stack.enter_context(context.tree(parse_vllm(release)))
            judged = JudgedRelease(tree, own, surface, context.answers)
            facts.append([fact_of(judged, item) for item in surface.items.values()])
    breaking = set()
    for number, (key, item) in enumerate(surface.items.items()):
        several = dict(zip(releases, (one[number] for one in facts), strict=True))
        result = judge(item, surface.places[key], several, releases[0])
        for release, verdict in result.verdicts.items() if result else ():
            if verdict.state in BREAKS:
                breaking.add(f"{item.kind} {item.name} in {release}")
    return breaking
