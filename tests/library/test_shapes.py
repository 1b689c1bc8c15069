"""shapes.json: what is recorded of a patch, written and read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.helpers import fails
from vpatch.library.shapes import (
    SHAPES,
    BehaviourOnRelease,
    KnownShape,
    Shapes,
    read_shapes,
    write_shapes,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    shape = KnownShape(
        releases=("0.22.0", "0.23.0"),
        state="needed",
        variant=None,
        definitions={"vllm/a.py::f": "0123"},
    )
    behaviour = BehaviourOnRelease(
        test="test_behaviour.py",
        engine="cpu",
        outcome="not asked",
        reason="there is no engine",
        state="needed",
        patch_digest="sha256:1",
        test_digest="sha256:2",
    )
    shapes = Shapes(
        patch_digest="sha256:1",
        shapes={"vllm": (shape,)},
        behaviour={"vllm": {"0.23.0": (behaviour,)}},
    )
    write_shapes(tmp_path, shapes)
    assert read_shapes(tmp_path) == shapes


def test_nothing_is_recorded_without_the_file(tmp_path: Path) -> None:
    assert read_shapes(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{}", '{"patch_digest": "x", "shapes": {"vllm": 3}}'])
def test_a_damaged_record_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / SHAPES).write_text(text, encoding="utf-8")
    with fails("library.damaged-shapes", "is not a record of shapes"):
        read_shapes(tmp_path)


def test_a_folder_in_its_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / SHAPES).mkdir()
    with fails("library.damaged-shapes", "cannot be read"):
        read_shapes(tmp_path)
