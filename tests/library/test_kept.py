from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import invalidate_caches

import pytest

from tests.helpers import fails, write_patch
from vpatch.library import kept, loading
from vpatch.library.kept import KeptPatch, read_patch
from vpatch.library.loading import load_patch
from vpatch.library.shapes import Shapes, write_shapes
from vpatch.trust.decision import EVERYTHING, NOTHING, UntrustedError

INSERT = {"insert": {"from": "new.py"}, "after": "f($x)"}
PROOF = {
    "test": "behaviour.py",
    "engine": "cpu",
    "vllm": "0.23.0",
    "fails-before": {"test_x": "no"},
    "trees": {"vllm": "tree"},
}
FILES = {"new.py": "z()\n", "behaviour.py": "def test_x(): ...\n", "notes.md": "notes\n"}


@pytest.fixture
def folder(tmp_path):
    keys = {"requires": ["other"], "on-request": "it is slow", "proof": [PROOF]}
    folder = write_patch(tmp_path / "patches", "fix", FILES, edits=[INSERT], **keys)
    (folder / "tree").mkdir()
    write_shapes(folder, Shapes(patch_digest="sha256:1"))
    return folder


@pytest.fixture
def loaded(monkeypatch):
    """The folders that were read in full."""
    calls = []

    def counting(folder, trust):
        calls.append(folder)
        return load_patch(folder, trust)

    monkeypatch.setattr(loading, "load_patch", counting)
    return calls


@pytest.fixture
def read(tmp_path, folder):
    return lambda: read_patch(folder, EVERYTHING, tmp_path / "kept")


def test_what_is_kept_is_what_was_read(folder, read, loaded):
    whole, again = read(), read()
    assert (type(whole), type(again)) == (type(load_patch(folder, EVERYTHING)), KeptPatch)
    for name in ("id", "folder", "digest", "relations", "recorded", "title", "why"):
        assert getattr(again, name) == getattr(whole, name)
    assert again.relations.requires == ("other",)
    assert again.relations.on_request == "it is slow"
    assert len(loaded) == 1
    assert (again.declaration, again.shapes) == (whole.declaration, whole.shapes)
    assert [edit.name for edit in again.variants[0].edits] == ["insert after f($x)"]
    assert len(loaded) == 2


def link(path):
    moved = path.rename(path.with_suffix(".moved"))
    path.symlink_to(moved)


CHANGES = {
    "the declaration": lambda folder: append(folder / "patch.yaml", "# more\n"),
    "code that an edit inserts": lambda folder: append(folder / "new.py", "y()\n"),
    "a behaviour test": lambda folder: append(folder / "behaviour.py", "# more\n"),
    "what is recorded": lambda folder: write_shapes(folder, Shapes(patch_digest="sha256:2")),
    "nothing is recorded": lambda folder: (folder / "shapes.json").unlink(),
    "a file is gone": lambda folder: (folder / "new.py").unlink(),
    "a folder is gone": lambda folder: (folder / "tree").rmdir(),
    "a file is a link": lambda folder: link(folder / "new.py"),
    "a folder is a link": lambda folder: link(folder / "tree"),
}


def append(path, text):
    path.write_text(path.read_text() + text)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_what_changed_is_read_again(folder, read, loaded, change):
    read()
    change(folder)
    assert tried(read) == tried(lambda: load_patch(folder, EVERYTHING))
    assert len(loaded) == 2


def tried(action):
    try:
        patch = action()
    except kept.UsageError as error:
        return str(error)
    assert not isinstance(patch, KeptPatch)
    return patch.digest, patch.recorded, patch.declaration


def test_shapes_that_are_new_are_read(folder, read, loaded):
    (folder / "shapes.json").unlink()
    assert read().recorded is None
    write_shapes(folder, Shapes(patch_digest="sha256:1"))
    assert read().recorded is not None
    assert len(loaded) == 2


def test_what_no_edit_uses_may_change(folder, read, loaded):
    read()
    append(folder / "notes.md", "more\n")
    assert isinstance(read(), KeptPatch)
    assert len(loaded) == 1


def test_other_code_reads_again(read, loaded, monkeypatch):
    read()
    monkeypatch.setattr(kept, "code_digest", lambda: "other code")
    read()
    assert len(loaded) == 2


def test_another_place_is_read(folder, read, loaded, tmp_path):
    read()
    other = shutil.copytree(folder.parent, tmp_path / "more") / "fix"
    assert read_patch(other, EVERYTHING, tmp_path / "kept").folder == other
    assert len(loaded) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda text: text[:-5],
        lambda text: text.replace(b"slow", b"fast"),
        lambda text: text.replace(b"sha256:", b"sha256;"),
        lambda _: b"[" * 100_000,
    ],
)
def test_what_is_damaged_is_read_again(read, loaded, tmp_path, damage):
    whole = read()
    (file,) = (tmp_path / "kept").iterdir()
    text = file.read_bytes()
    assert damage(text) != text
    file.write_bytes(damage(text))
    assert read().relations == whole.relations
    assert len(loaded) == 2
    assert file.read_bytes() == text


def test_what_changes_while_it_is_read_is_not_kept(folder, read, tmp_path, monkeypatch):
    def changing(place, trust):
        patch = load_patch(place, trust)
        append(folder / "new.py", "y()\n")
        return patch

    with monkeypatch.context() as patched:
        patched.setattr(loading, "load_patch", changing)
        before = read()
    assert not (tmp_path / "kept").exists()
    assert read().digest != before.digest


def test_what_changes_before_the_rest_is_read_is_refused(folder, read):
    read()
    patch = read()
    append(folder / "new.py", "y()\n")
    with fails("trust.changed-while-read", "it changed while it was read"):
        _ = patch.variants


def test_a_folder_with_a_link_is_not_kept(folder, read, loaded, tmp_path):
    link(folder / "new.py")
    for _ in range(2):
        read()
    assert len(loaded) == 2
    assert not (tmp_path / "kept").exists()


def test_a_folder_that_cannot_be_written(read, loaded, tmp_path):
    (tmp_path / "kept").write_text("a file is in the way")
    for _ in range(2):
        assert read().id == "fix"
    assert len(loaded) == 2


def test_what_is_kept_needs_neither_libcst_nor_a_parser(folder, read, tmp_path):
    read()
    code = """
import sys
from pathlib import Path
from vpatch.library.kept import KeptPatch, read_patch
from vpatch.trust.decision import EVERYTHING, NOTHING, UntrustedError
assert isinstance(read_patch(Path(sys.argv[1]), EVERYTHING, Path(sys.argv[2])), KeptPatch)
print({"libcst", "pydantic", "ruamel.yaml"} & sys.modules.keys())
"""
    command = [sys.executable, "-c", code, folder, tmp_path / "kept"]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    assert run.stdout == "set()\n"


CODEMOD = """
import libcst as cst
from vpatch.codemods import SiteTransformer

class Codemod(SiteTransformer):
    kinds = (cst.Call,)
"""


@pytest.fixture
def with_codemod(tmp_path):
    def written(source=CODEMOD):
        edits = [{"codemod": "codemod.py", "contains": [text]} for text in ("f", "g")]
        return write_patch(tmp_path / "patches", "own", {"codemod.py": source}, edits=edits)

    return written


def test_what_decides_of_its_own_code_is_kept(with_codemod, loaded, tmp_path):
    folder = with_codemod()
    whole, again = (read_patch(folder, EVERYTHING, tmp_path / "kept") for _ in range(2))
    assert again.own_code == whole.own_code
    assert whole.own_code[0].digest is not None
    assert len(loaded) == 1


@pytest.mark.parametrize(
    "source",
    [CODEMOD + "open('x')\n", CODEMOD + "import elsewhere\n", "import elsewhere\n"],
    ids=["it reads a file", "it imports what is not there", "it imports a module"],
)
def test_what_may_change_elsewhere_is_not_kept(with_codemod, tmp_path, monkeypatch, source):
    (tmp_path / "modules").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "modules")
    module = tmp_path / "modules" / "elsewhere.py"
    folder = with_codemod(source)

    def asked():
        return read_patch(folder, EVERYTHING, tmp_path / "kept").own_code

    if source.startswith("import"):
        module.write_text("x = 1\n")
    first = asked()
    assert asked() == first
    module.write_text("x = 2\n")
    invalidate_caches()
    assert asked() == load_patch(folder, EVERYTHING).own_code
    assert (asked() == first) == ("open" in source)


def test_a_module_that_hides_one_of_python_is_noticed(with_codemod, tmp_path, monkeypatch):
    folder = with_codemod("import keyword\n" + CODEMOD)
    kept_at = tmp_path / "kept"
    assert read_patch(folder, EVERYTHING, kept_at).own_code[0].digest is not None
    assert isinstance(read_patch(folder, EVERYTHING, kept_at), KeptPatch)
    (tmp_path / "keyword.py").write_text("kwlist = []\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "keyword")
    assert not isinstance(read_patch(folder, EVERYTHING, kept_at), KeptPatch)


def test_code_that_may_not_run_is_asked_for_again(with_codemod, tmp_path):
    folder = with_codemod()
    trusted = read_patch(folder, EVERYTHING, tmp_path / "kept").own_code
    nobody = read_patch(folder, NOTHING, tmp_path / "kept")
    for code, before in zip(nobody.own_code, trusted, strict=True):
        assert isinstance(code.refusal, UntrustedError)
        assert code.digest == before.digest
    # The edits themselves have been refused, and stay so.
    assert [one.__dict__["refusal"] for one in nobody.codemods] == [
        code.refusal for code in nobody.own_code
    ]
