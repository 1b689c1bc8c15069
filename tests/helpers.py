"""Trees in memory, edits from what people write, and patches in a folder."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from vpatch.codemods.bind import bind
from vpatch.declare.edits import Edit
from vpatch.errors import VpatchError
from vpatch.library.loading import load_patch
from vpatch.planning.editing import run_edit
from vpatch.planning.plan import plan
from vpatch.planning.view import View
from vpatch.source.memory import MemoryTree
from vpatch.source.tree import Pin
from vpatch.trust.decision import EVERYTHING

MODULE = "vllm/m.py"
_EDIT = TypeAdapter(Edit)
_NOWHERE = Path("/nonexistent")


@contextmanager
def fails(code, match=None):
    """Like pytest.raises, for an error of vpatch with this code."""
    with pytest.raises(VpatchError, match=match) as caught:
        yield caught
    assert caught.value.code == code, caught.value


def skip_without_bubblewrap():
    """Skip a test where bubblewrap is not there, or the system does not let it make namespaces."""
    command = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
    if not shutil.which("bwrap") or subprocess.run(command, check=False).returncode:
        pytest.skip("needs bubblewrap")


def tree_of(files, *, version="0.23.0", carried=(), name="vllm", digest="sha256:" + "0" * 64):
    pin = Pin(name, "pypi", version, digest, f"{name}-{version}.tar.gz")
    return MemoryTree(pin, {p: as_bytes(t) for p, t in files.items()}, frozenset(carried))


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode()


def edits_of(declared, folder=_NOWHERE):
    return bind(_EDIT.validate_json(json.dumps(declared)), folder, EVERYTHING)


def run(declared, source, folder=_NOWHERE, *, carried=False, located=False):
    """One edit on one file, or on a tree's files."""
    files = source if isinstance(source, dict) else {MODULE: source}
    (edit,) = edits_of(declared, folder)
    return run_edit(edit, View(tree_of(files)), carried=carried, located=located)


def edited(declared, source, folder=_NOWHERE):
    """What one edit makes of a file, after a check that a second run changes nothing."""
    result = run(declared, source, folder)
    assert result.mismatch is None, result.mismatch
    after = result.view.read(MODULE)
    again = run(declared, after, folder, carried=True)
    assert (again.mismatch, again.todo) == (None, False)
    assert again.view.read(MODULE) == after
    return after.decode() if isinstance(source, str) else after


def write_patch(root, name="fix", files=None, **keys):
    """A patch folder; `keys` are those of patch.yaml with underscores."""
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    declared = {
        "id": name,
        "title": "[Bugfix] Fix it",
        "why": "it fails",
        "symptoms": ["it fails"],
        "needed-in": {"vllm": ">=0.20"},
        "concerns": {"text": "f"},
        "remove-when": "never",
        **{key.replace("_", "-"): value for key, value in keys.items()},
    }
    (folder / "patch.yaml").write_text(json.dumps(declared, indent=1), encoding="utf-8")
    for path, text in (files or {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(as_bytes(text))
    return folder


def patch_of(root, name="fix", files=None, **keys):
    return load_patch(write_patch(root, name, files, **keys), EVERYTHING)


def decide(patch, tree):
    return plan([patch], tree, findings_for="all").decisions[0]


def patched(tree, made, *, carried=()):
    """The tree as a plan's changes leave it."""
    changes = {p: c.after for d in made.decisions for p, c in d.changes.items()}
    return MemoryTree(tree.pin, {**tree.files, **changes}, frozenset(carried))
