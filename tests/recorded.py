"""What is on record of patches, as decisions."""

from __future__ import annotations

from vpatch.planning.code_shape import CodeShape
from vpatch.planning.state import Decision, State


def recorded(patch):
    """The decision on a patch in each release that `vpatch test --record` has read."""
    shapes = patch.shapes.shapes.get("vllm", ()) if patch.shapes else ()
    return {
        release: Decision(
            patch,
            State(shape.state),
            "as recorded",
            variant=shape.variant,
            shape=CodeShape(shape.definitions),
        )
        for shape in shapes
        for release in shape.releases
    }
