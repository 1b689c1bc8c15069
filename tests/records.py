"""Records of made trees, as `vpatch test --record` makes them of releases."""

from __future__ import annotations

from dataclasses import replace

from tests.helpers import decide, patched, tree_of
from vpatch.library.shapes import KnownShape, Shapes, Surrounding
from vpatch.planning.footprint import combined, definitions_read
from vpatch.planning.plan import plan
from vpatch.planning.shape import nameable
from vpatch.planning.view import View
from vpatch.util.digest import digest_of


def archive_of(release):
    """The digest of the archive of a made release."""
    return digest_of(f"the archive of {release}".encode())


def recorded(patch, *trees):
    """The patch with what it means for some trees on record, as `vpatch test --record` does it."""
    shapes, pairs = [], {}
    bare = replace(patch, shapes=None)
    for number, files in enumerate(trees):
        tree = tree_of(files)
        decision = decide(bare, tree)
        made = patched(tree, plan([bare], tree), carried=[patch.id])
        pairs[f"0.{number}.0"] = (tree, made if decision.changes else None)
        read = decide(bare, made).shape.definitions if decision.changes else {}
        names = nameable(decision.shape.definitions)
        shapes.append(
            KnownShape(
                releases=(f"0.{number}.0",),
                state=decision.state,
                variant=decision.variant,
                definitions=dict(decision.shape.definitions),
                patched=combined(definitions_read([], {}, names, View(made)), read),
            )
        )
    known = Shapes(patch_digest=patch.digest, shapes={"vllm": tuple(shapes)})
    return with_surroundings(replace(patch, shapes=known), pairs)


def with_surroundings(patch, trees):
    """A recorded patch, with what is around its code in some releases.

    Args:
        patch: its shapes have the releases.
        trees: by release, its tree, and the tree that the patch makes of it or None.
    """
    releases = {}
    for release, both in trees.items():
        for field, tree in zip(("releases", "patched"), both, strict=True):
            for item in surroundings_in(patch, tree).items() if tree else ():
                releases.setdefault(item, {}).setdefault(field, []).append(release)
    around = {}
    for (key, digest), fields in releases.items():
        texts = {field: " ".join(names) for field, names in fields.items()}
        around.setdefault(key, {})[digest] = Surrounding(**texts)
    more = {
        "archives": {"vllm": {release: archive_of(release) for release in trees}},
        "surroundings": {"vllm": around},
    }
    return replace(patch, shapes=patch.shapes.model_copy(update=more))


def surroundings_in(patch, tree):
    made = plan([patch], tree, alone=[patch.id], surroundings=True)
    return made.decisions[0].shape.surroundings
