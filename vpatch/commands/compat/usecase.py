"""Judge what a target takes from vLLM, release by release."""

from __future__ import annotations

import hashlib
import json
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.compat.difference import DefinitionDifference, difference_of
from vpatch.commands.compat.judgement.comparison import compared
from vpatch.commands.compat.judgement.copies import copies_of
from vpatch.commands.compat.judgement.facts import fact_of
from vpatch.commands.compat.judgement.operators import add_operators, operator_facts
from vpatch.commands.compat.judgement.release import JudgedRelease, own_part
from vpatch.commands.compat.judgement.verdict import judge
from vpatch.commands.compat.result import (
    CompatItem,
    CompatRelease,
    CompatResult,
    result_of,
    row_of,
)
from vpatch.commands.compat.support import DeclaredReleases, declared_by
from vpatch.commands.compat.surface.collect import surface_of
from vpatch.errors import MissingOptionError
from vpatch.source.index import LATEST
from vpatch.source.spec import PypiSpec, parse_vllm
from vpatch.util.digest import digest_of_files
from vpatch.util.own_code import code_digest
from vpatch.util.record_store import RecordStore
from vpatch.util.versions import read_version
from vpatch.workspace.upstream_history import CommitsFrom, opened_history

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packaging.version import Version

    from vpatch.commands.compat.code.part import CodePart
    from vpatch.commands.compat.judgement.fact import Fact
    from vpatch.commands.compat.surface.items import Item, Surface
    from vpatch.commands.compat.target import CompatTarget
    from vpatch.source.entry import CachedTree
    from vpatch.source.tree import Pin
    from vpatch.workspace.context import Context
    from vpatch.workspace.upstream_history import UpstreamHistory

    _Earlier = tuple[JudgedRelease, list[Fact]]


@dataclass(frozen=True)
class CompatRequest:
    """What to judge: a target, and releases as `--vllm` takes them.

    Without `versions`, it is what the target declares and the latest release; `every` is all
    releases. `supports` takes the place of what the target declares. `base` is the release that the
    others are compared with.
    """

    target: str
    versions: tuple[str, ...] = ()
    every: bool = False
    supports: str | None = None
    base: str | None = None


@dataclass(frozen=True)
class _Asked:
    """A release to judge; `label` is its version, or what the user wrote."""

    label: str
    text: str
    pin: Pin | None


def compat(context: Context, target: CompatTarget, request: CompatRequest) -> CompatResult:
    """Judge what a target takes from vLLM in some releases. Nothing of it is run.

    Raises:
        VpatchError: a release cannot be read.
    """
    known = context.releases()
    base = None if request.base is None else _asked_for(context, request.base).label
    declared = declared_by(target, request.supports, base, known)
    asked = _asked(context, request, declared, known)
    store = RecordStore(context.cache.answers("compat"))
    key = _key(target, declared, asked)
    if key is not None:
        result = store.get(key, result_of)
        if result is not None:
            return result
    result = _judged(context, target, declared, asked)
    if key is not None:
        store.put(key, row_of(result))
    return result


def compare(
    context: Context,
    target: CompatTarget,
    supports: str | None,
    releases: tuple[str, str],
    commits: CommitsFrom | None = None,
) -> tuple[CompatResult, tuple[DefinitionDifference, ...]]:
    """Judge two releases, and show how the definitions differ of what is new in the second one.

    `commits` says who knows the commits between the two.

    Raises:
        VpatchError: a release cannot be read.
    """
    old, new = (_asked_for(context, one) for one in releases)
    declared = declared_by(target, supports, old.label, context.releases())
    with ExitStack() as stack:
        trees = [stack.enter_context(context.tree(parse_vllm(one.text))) for one in (old, new)]
        pins = trees[0].pin, trees[1].pin
        history = opened_history(context, commits or CommitsFrom(), *pins, stack)
        return compare_trees(context, target, declared, trees, (old.label, new.label), history)


def compare_trees(
    context: Context,
    target: CompatTarget,
    declared: DeclaredReleases,
    trees: Sequence[CachedTree],
    labels: tuple[str, str],
    history: UpstreamHistory | None = None,
) -> tuple[CompatResult, tuple[DefinitionDifference, ...]]:
    """Judge two trees, the base first, and show how definitions differ; see `compare`."""
    surface = surface_of(target, context.progress)
    own = own_part(target, surface)
    releases = [JudgedRelease(tree, own, surface, context.answers) for tree in trees]
    _add_copies(releases[0], target, own, surface)
    base_facts = _facts(releases[0], surface, None)
    facts = [base_facts, _facts(releases[1], surface, (releases[0], base_facts))]
    add_operators(surface, facts, [operator_facts(one, target, surface) for one in releases])
    digests = [release.digest for release in releases]
    result = _result(target, surface, declared, labels, digests, facts)
    context.answers.save()
    return result, tuple(difference_of(releases[0], releases[1], surface, result, history))


def _judged(
    context: Context, target: CompatTarget, declared: DeclaredReleases, asked: Sequence[_Asked]
) -> CompatResult:
    surface = surface_of(target, context.progress)
    own = own_part(target, surface)
    facts: dict[str, list[Fact]] = {}
    operators: dict[str, dict[Item, Fact]] = {}
    digests: dict[str, str] = {}
    task = context.progress.start("Judging releases", total=len(asked), unit="release")
    earlier: _Earlier | None = None
    with ExitStack() as stack:
        # What the target copied is known once the release that it is for was read.
        for one in sorted(asked, key=lambda one: one.label != declared.base):
            task.describe(one.label)
            with ExitStack() as of_release:
                is_base = one.label == declared.base
                tree = (stack if is_base else of_release).enter_context(
                    context.tree(parse_vllm(one.text))
                )
                release = JudgedRelease(tree, own, surface, context.answers)
                if is_base:
                    _add_copies(release, target, own, surface)
                facts[one.label] = _facts(release, surface, earlier)
                operators[one.label] = operator_facts(release, target, surface)
                if is_base:
                    earlier = release, facts[one.label]
                digests[one.label] = release.digest
            context.answers.save()
            task.advance(1)
    task.done()
    labels = [one.label for one in asked]
    of_labels = [facts[label] for label in labels]
    add_operators(surface, of_labels, [operators[label] for label in labels])
    return _result(
        target, surface, declared, labels, [digests[label] for label in labels], of_labels
    )


def _add_copies(base: JudgedRelease, target: CompatTarget, own: CodePart, surface: Surface) -> None:
    for item in list(copies_of(base, target, own, surface)):
        surface.add(item)


def _facts(release: JudgedRelease, surface: Surface, earlier: _Earlier | None) -> list[Fact]:
    items = surface.items.values()
    facts = [fact_of(release, item) for item in items]
    return facts if earlier is None else compared(items, facts, release, earlier)


def _result(
    target: CompatTarget,
    surface: Surface,
    declared: DeclaredReleases,
    labels: Sequence[str],
    digests: Sequence[str],
    facts: Sequence[Sequence[Fact]],
) -> CompatResult:
    items: list[CompatItem] = []
    unjudged = 0
    base = declared.base if declared.base in labels else None
    for number, (key, item) in enumerate(surface.items.items()):
        of_item = {label: several[number] for label, several in zip(labels, facts, strict=True)}
        judged = judge(item, surface.places[key], of_item, base)
        if judged is None:
            unjudged += any(fact.presence == "unknown" for fact in of_item.values())
            continue
        at_import = item.when == "import" and item.kind not in {"override", "abstract"}
        items.append(
            CompatItem(
                item.kind, item.name, judged.spots, item.conditions, at_import, judged.verdicts
            )
        )
    items.sort(key=lambda one: (one.spots[0], one.kind, one.name))
    releases = tuple(
        CompatRelease(label, digest, label in declared.releases)
        for label, digest in zip(labels, digests, strict=True)
    )
    return CompatResult(
        *(target.name, target.version, surface.files, surface.unread, target.links),
        *(base, declared.reason, releases, tuple(items), unjudged),
    )


def _asked(
    context: Context, request: CompatRequest, declared: DeclaredReleases, known: Sequence[str]
) -> list[_Asked]:
    """Return the releases to judge, the oldest first, with the one to compare with."""
    texts = list(request.versions)
    if request.every:
        texts = list(known)
    elif not texts:
        texts = [one for one in known if one in declared.releases]
        if not texts and declared.base is None:
            raise MissingOptionError(
                f"{request.target} does not say which vLLM it is for",
                hint="give --vllm 0.23,0.24, --all, or --supports '>=0.22'",
            )
        texts.append(LATEST)
    if declared.base is not None:
        texts.append(declared.base)
    asked = {one.label: one for one in (_asked_for(context, text) for text in texts)}
    return sorted(asked.values(), key=_order)


def _order(one: _Asked) -> tuple[int, Version | None, str]:
    version = read_version(one.label)
    # What is not a release comes last, in the order of its name.
    return (1, None, one.label) if version is None else (0, version, "")


def _asked_for(context: Context, text: str) -> _Asked:
    spec = parse_vllm(text)
    if not isinstance(spec, PypiSpec):
        return _Asked(text, text, None)
    pin = context.listed_pin(spec)
    if pin is not None and pin.version:
        return _Asked(pin.version, pin.version, pin)
    with context.tree(spec) as tree:
        return _Asked(tree.pin.version or text, text, tree.pin)


def _key(target: CompatTarget, declared: DeclaredReleases, asked: Sequence[_Asked]) -> str | None:
    """Name all that a result follows from; None where only opening a tree tells what it is."""
    if any(one.pin is None for one in asked):
        return None
    known = {
        "code": code_digest(),
        "target": [target.name, target.version, str(target.requires), list(target.links)],
        "files": digest_of_files(target.files),
        "built": target.built.row,
        "entry points": target.entry_points,
        "declared": [sorted(declared.releases), declared.base, declared.reason],
        "releases": [[one.label, one.pin.tree, one.pin.digest] for one in asked if one.pin],
    }
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:32]
