"""The shape of the code that a decision was read from, and whether a patch is known on it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal

from vpatch.planning.around.parts import ONLY_THERE
from vpatch.planning.code_shape import ChangedDefinition, CodeShape, Sureness
from vpatch.planning.names import STATEMENT, plain_name
from vpatch.planning.state import State
from vpatch.util.digest import digest_of
from vpatch.util.plural import counted, listed

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from vpatch.library.patch import Patch
    from vpatch.library.shapes import BehaviourInRecipe, KnownShape, Shapes
    from vpatch.planning.state import Decision
    from vpatch.source.tree import Pin

# How many definitions are named in a line.
_SHOWN = 3
# The states that are as sure as the code that they were read from.
SHAPED = frozenset([State.NEEDED, State.APPLIED, State.UPSTREAMED, State.ABSENT])
_CURED = frozenset([State.APPLIED, State.UPSTREAMED])


def shape_of(
    decision: Decision, definitions: Mapping[str, str], pin: Pin, made_of: Pin | None = None
) -> CodeShape:
    """Compare the definitions that a decision was read from with those that are recorded.

    Args:
        decision: what was decided.
        definitions: what it was read from, with digests.
        pin: that of the tree.
        made_of: the pin of a pristine tree, if the tree is that one after some patches that are on
            record for it, and nobody else changed it. Nothing else around the definitions can
            differ from a release on record then.
    """
    shapes, state, variant = decision.patch.shapes, decision.state, decision.variant
    recorded = shapes.shapes.get(pin.tree, ()) if shapes else ()
    stale = shapes is not None and shapes.patch_digest != decision.patch.digest
    own = _as_multiset(definitions)
    candidates: list[tuple[int, KnownShape, Mapping[str, str]]] = []
    known: list[str] = []
    patched: list[str] = []
    for one in recorded:
        # Without a lock, what vpatch patched looks like a cure of upstream.
        is_patched = one.state == State.NEEDED and state in _CURED
        expected: Mapping[str, str] = one.patched if is_patched else one.definitions
        theirs = _as_multiset(expected)
        is_same = own == theirs and (state == one.state or is_patched)
        is_same = is_same and (variant or one.variant) == one.variant
        if is_same and not stale:
            known += one.releases
            patched += one.releases if is_patched else ()
        candidates.append(((own & theirs).total() * 2 - theirs.total(), one, expected))
    release = _release_of(shapes, pin)
    release = release if release in known else None
    base = _release_of(shapes, made_of) if made_of else None
    base = base if base in known else None
    # What is not there may have another name or place, but for a release that is known to the byte.
    is_blind = state is State.ABSENT and not definitions and release is None and base is None
    if (known and not is_blind) or not candidates:
        around = _recorded_around(decision, pin.tree, base) if base else None
        return CodeShape(
            *(definitions, tuple(known), tuple(patched)),
            stale=stale,
            release=release,
            surroundings=around,
            compared_with=base,
        )
    # The latest of those that have the most in common.
    _, nearest, expected = max(enumerate(candidates), key=lambda pair: (pair[1][0], pair[0]))[1]
    differing = tuple(differences(definitions, expected))
    nearest_release = nearest.releases[-1]
    return CodeShape(definitions, nearest=nearest_release, differing=differing, stale=stale)


def is_recorded_for(patch: Patch, pin: Pin) -> bool:
    """Whether a patch, as it is, is on record for exactly the archive that a tree is."""
    shapes = patch.shapes
    is_current = shapes is not None and shapes.patch_digest == patch.digest
    return is_current and _release_of(shapes, pin) is not None


def _release_of(shapes: Shapes | None, pin: Pin) -> str | None:
    """The release on record that a tree is, by the digest of its archive."""
    archives = shapes.archives.get(pin.tree, {}) if shapes else {}
    is_there = pin.kind == "pypi" and pin.version in archives
    return pin.version if is_there and archives[pin.version or ""] == pin.digest else None


def with_surroundings(
    shape: CodeShape,
    surroundings: Mapping[str, str],
    decision: Decision,
    tree: str,
    carried: Iterable[Patch] = (),
) -> CodeShape:
    """Compare what is around the definitions of a shape with what is recorded.

    Args:
        shape: that of the decision.
        surroundings: the definitions around those of the shape, with digests.
        decision: what the shape is of.
        tree: the name of the tree.
        carried: the patches that the tree carries. What these make is left out of the comparison.
    """
    shape = replace(shape, surroundings=surroundings)
    shapes = decision.patch.shapes
    if shapes is None or not shape.known:
        return shape
    by_patches = {name for patch in carried for name in _names_made(patch, tree)}
    own = _without(surroundings, by_patches)
    nearest: tuple[str, tuple[ChangedDefinition, ...]] | None = None
    for release in shape.known:
        theirs = _recorded_around(decision, tree, release)
        if theirs is None:
            continue
        around = tuple(differences_around(own, _without(theirs, by_patches)))
        if nearest is None or len(around) <= len(nearest[1]):
            nearest = release, around
    if nearest is None:
        return shape
    return replace(shape, compared_with=nearest[0], around=nearest[1])


def _recorded_around(decision: Decision, tree: str, release: str) -> dict[str, str] | None:
    """What is recorded around the code of a decision: as the patch makes it, if it is there."""
    shapes = decision.patch.shapes
    if shapes is None:
        return None
    patched = decision.state in _CURED and _state_in(shapes, tree, release) == State.NEEDED
    return shapes.surroundings_in(tree, release, patched=patched)


def _state_in(shapes: Shapes, tree: str, release: str) -> str | None:
    return next((one.state for one in shapes.shapes[tree] if release in one.releases), None)


def _names_made(patch: Patch, tree: str) -> Iterator[str]:
    """The names of the definitions that a patch makes or changes in any release on record."""
    for one in patch.shapes.shapes.get(tree, ()) if patch.shapes else ():
        yield from (
            plain_name(key)
            for key, digest in one.patched.items()
            if digest != one.definitions.get(key)
        )


def _without(surroundings: Mapping[str, str], names: Container[str]) -> dict[str, str]:
    return {key: digest for key, digest in surroundings.items() if plain_name(key) not in names}


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


def in_recipes(
    shape: CodeShape, shapes: Shapes | None, tree: str
) -> list[tuple[str, BehaviourInRecipe]]:
    """Return what is recorded of exactly this code, which recipes make of releases."""
    if shapes is None or tree not in shapes.in_recipes:
        return []
    code = digest_of_definitions(shape.definitions)
    return [
        (release, one)
        for release, results in shapes.in_recipes[tree].items()
        for one in results
        if one.code == code
    ]


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
    differing, around = (
        tuple(ChangedDefinition(**one) for one in row[name]) for name in ("differing", "around")
    )
    releases = {name: tuple(row[name]) for name in ("known", "patched")}
    changed = {**releases, "differing": differing, "around": around}
    return CodeShape(**{**row, **changed})


def describe_shape(shape: CodeShape) -> str:
    """A shape in a line for people."""
    return f"{shape.sureness}: {_description(shape)}"


def _description(shape: CodeShape) -> str:
    releases = _as_in(shape)
    match shape.sureness:
        case Sureness.ON_RECORD:
            return f"this is the archive of {shape.release}; the code is {releases}"
        case Sureness.KNOWN:
            return f"the code is {releases}, and what is around it as in {shape.compared_with}"
        case Sureness.CHANGED_AROUND if shape.compared_with is None:
            return f"the code is {releases}; nothing is recorded of what is around it"
        case Sureness.CHANGED_AROUND:
            names = _names_of(shape.around)
            return f"the code is as in {shape.compared_with}; what is around it differs in {names}"
        case Sureness.NEW:
            return _new(shape)


def _as_in(shape: CodeShape) -> str:
    """The releases that have the code, and those that have it once the patch is applied."""
    plain = ", ".join(one for one in shape.known if one not in shape.patched)
    patched = f"as the patch makes it of {', '.join(shape.patched)}" if shape.patched else ""
    return " and ".join(filter(None, (f"as in {plain}" if plain else "", patched)))


def _new(shape: CodeShape) -> str:
    if shape.nearest is None:
        return "nothing is recorded of this patch for this tree"
    if shape.stale:
        return "the record is of another edition of this patch"
    if not shape.differing and not shape.definitions:
        return "nothing that the patch is about is there; it may have another name or place"
    if not shape.differing:
        return f"the code is as in {shape.nearest}, but the state is not"
    return f"differs from {shape.nearest} in {_names_of(shape.differing)}"


def _names_of(changed: Iterable[ChangedDefinition]) -> str:
    names = dict.fromkeys(plain_name(one.name) or one.name[:-2] for one in changed)
    return listed(list(names), _SHOWN)


def basis_of(shape: CodeShape) -> str:
    """Say what a state rests on, as people who answer for it want it."""
    files = {key.partition("::")[0] for key in shape.definitions}
    read = f"{counted(len(shape.definitions), 'definition')} in {counted(len(files), 'file')}"
    if shape.release is not None and not shape.definitions:
        return f"the archive of vLLM {shape.release} has nothing that the patch reads"
    if shape.release is not None:
        return f"read from {read} of the archive of vLLM {shape.release}"
    around = f"and {len(shape.surroundings or {})} around these"
    like = f", as in vLLM {shape.compared_with}" if shape.compared_with else ""
    return f"read from {read} {around}{like}"


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


def surroundings_in(decision: Decision, tree: str) -> Mapping[str, str] | None:
    """Return the definitions around what a decision was read from; None where they are unknown."""
    shape, shapes = decision.shape, decision.patch.shapes
    if shape is None or shape.surroundings is not None or shapes is None or shape.release is None:
        return None if shape is None else shape.surroundings
    return shapes.surroundings_in(tree, shape.release)


def differences_around(
    own: Mapping[str, str], theirs: Mapping[str, str]
) -> Iterator[ChangedDefinition]:
    """Compare what is around definitions with that of another tree.

    What only has names in common with them counts where it is new. If it is gone, or has another
    class or file, it makes no difference.
    """
    differing = list(differences(own, theirs))
    gone = [one.name for one in differing if one.kind == "removed"]
    gone = [name for name in gone if theirs[name] == ONLY_THERE]
    moved = Counter(name.rpartition(".")[2] for name in map(plain_name, gone))
    for one in differing:
        if one.name in gone and one.kind == "removed":
            continue
        last = plain_name(one.name).rpartition(".")[2]
        if one.kind == "added" and own[one.name] == ONLY_THERE and moved[last]:
            moved[last] -= 1
            continue
        yield one


def differences(own: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[ChangedDefinition]:
    """Compare definitions with those of another tree, in whatever file these are."""
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
