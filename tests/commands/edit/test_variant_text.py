"""The text of a new variant in patch.yaml."""

from __future__ import annotations

from vpatch.commands.edit.declaration.variant_text import NewVariant, with_new_variant


def test_a_line_of_blanks_in_a_new_edit_is_written():
    edits = [{"text": {"find": "a", "replace": "a\n    "}, "files": "x.py"}]
    variant = NewVariant("old", "new", edits, {})
    text = with_new_variant("edits:\n  - {text: {find: b, replace: c}, files: x.py}\n", variant, "")
    assert "  - name: new\n" in text
