"""The shape of the code that a decision was read from, and whether a patch is known on it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from vpatch.planning.code_shape import ChangedDefinition, CodeShape
from vpatch.planning.names import STATEMENT, plain_name
from vpatch.planning.state import State
from vpatch.util.digest import digest_of
from vpatch.util.plural import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vpatch.library.shapes import KnownShape, Shapes

# How many definitions are named in a line.
_SHOWN = 3
# The states that are as sure as the code that they were read from.
SHAPED = frozenset([State.NEEDED, State.APPLIED, State.UPSTREAMED, State.ABSENT])


def shape_of(
    state: State,
    variant: str | None,
    definitions: Mapping[str, str],
    recorded: Sequence[KnownShape],
    *,
    stale: bool,
) -> CodeShape:
    """Compare the definitions that a decision was read from with those that are recorded."""
    own = _as_multiset(definitions)
    candidates: list[tuple[int, KnownShape, Mapping[str, str]]] = []
    known: list[str] = []
    for one in recorded:
        expected: Mapping[str, str] = one.definitions
        wanted = one.state
        if state is State.APPLIED and wanted == State.NEEDED:
            expected, wanted = one.patched, State.APPLIED
        theirs = _as_multiset(expected)
        is_same = own == theirs and state == wanted and (variant or one.variant) == one.variant
        if is_same and not stale:
            known += one.releases
        candidates.append(((own & theirs).total() * 2 - theirs.total(), one, expected))
    if known or not candidates:
        return CodeShape(definitions, tuple(known), stale=stale)
    # The latest of those that have the most in common.
    _, nearest, expected = max(enumerate(candidates), key=lambda pair: (pair[1][0], pair[0]))[1]
    differing = tuple(_differences(definitions, expected))
    return CodeShape(definitions, (), nearest.releases[-1], differing, stale=stale)


def cured_alike(
    definitions: Mapping[str, str],
    recorded: Iterable[KnownShape],
    by: Literal[State.NEEDED, State.UPSTREAMED],
) -> tuple[str, ...]:
    """Return the releases that have these definitions: by upstream, or once the patch is applied.

    `by` is the recorded state of the patch in these releases.
    """
    own = _as_multiset(definitions)
    return tuple(
        release
        for one in recorded
        if one.state == by
        and own == _as_multiset(one.patched if by == State.NEEDED else one.definitions)
        for release in one.releases
    )


def digest_of_definitions(definitions: Mapping[str, str]) -> str:
    """Return a digest that two trees share where `cured_alike` would take them for the same."""
    lines = sorted(f"{digest}  {name}\n" for name, digest in _as_multiset(definitions).elements())
    return digest_of("".join(lines).encode())


def row_of_shape(shape: CodeShape | None) -> dict[str, Any] | None:
    """Return a shape as JSON can have it; see `shape_of_row`."""
    return None if shape is None else asdict(shape)


def shape_of_row(row: Mapping[str, Any] | None) -> CodeShape | None:
    """Return the shape that `row_of_shape` was given."""
    if row is None:
        return None
    differing = tuple(ChangedDefinition(**one) for one in row["differing"])
    return CodeShape(**{**row, "known": tuple(row["known"]), "differing": differing})


def describe_shape(shape: CodeShape) -> str:
    """A shape in a line for people."""
    if shape.known:
        return f"known shape: the code is as in {', '.join(shape.known)}"
    if shape.nearest is None:
        return "new shape: nothing is recorded of this patch for this tree"
    if shape.stale:
        return "new shape: the record is of another edition of this patch"
    if not shape.differing:
        return f"new shape: the code is as in {shape.nearest}, but the state is not"
    names = list(dict.fromkeys(plain_name(one.name) or one.name[:-2] for one in shape.differing))
    return f"new shape: differs from {shape.nearest} in {listed(names, _SHOWN)}"


def watched(shapes: Shapes | None, tree: str) -> set[str]:
    """The definitions that a patch is recorded to read in any release of a tree."""
    recorded = shapes.shapes.get(tree, ()) if shapes else ()
    return {name for shape in recorded for name in nameable(shape.definitions)}


def nameable(definitions: Mapping[str, str]) -> Iterator[str]:
    """The definitions that another tree can be asked for by name."""
    return (name for name in definitions if not plain_name(name).endswith(STATEMENT))


def is_part(definitions: Mapping[str, str], others: Mapping[str, str]) -> bool:
    """Whether all definitions are among some others, in whichever file."""
    return _as_multiset(definitions) <= _as_multiset(others)


def _as_multiset(definitions: Mapping[str, str]) -> Counter[tuple[str, str]]:
    """Names without their files, so that a file that was only moved makes no difference."""
    return Counter((plain_name(key), digest) for key, digest in definitions.items())


def _differences(own: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[ChangedDefinition]:
    only_own = _as_multiset(own) - _as_multiset(theirs)
    only_theirs = _as_multiset(theirs) - _as_multiset(own)
    names = {name for name, _ in only_theirs}
    changed: set[str] = set()
    for key, digest in sorted(own.items()):
        name = plain_name(key)
        if only_own[name, digest]:
            only_own[name, digest] -= 1
            changed.add(name)
            yield ChangedDefinition(key, "changed" if name in names else "added")
    for key, digest in sorted(theirs.items()):
        name = plain_name(key)
        if only_theirs[name, digest] and name not in changed:
            only_theirs[name, digest] -= 1
            yield ChangedDefinition(key, "removed")
