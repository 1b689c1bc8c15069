from __future__ import annotations

import pytest

from tests.helpers import fails, patch_of, write_patch
from vpatch.errors import ExitCode, ManyErrors, UsageError
from vpatch.library.loading import load_patch
from vpatch.trust.decision import EVERYTHING

REWRITE = {"find": "f($x)", "rewrite": "g($x)"}
INSERT = {"insert": {"from": "new.py"}, "after": "f($x)"}
PROOF = {"test": "x.py", "engine": "cpu", "vllm": "0.23.0", "fails-before": {"test_x": "no"}}


def refused(folder):
    with pytest.raises(UsageError) as caught:
        load_patch(folder, EVERYTHING)
    return str(caught.value).removeprefix(f"{folder}/patch.yaml:")


def line_of(folder, text):
    lines = (folder / "patch.yaml").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if f'"{text}": ' in line)


def test_load_patch(tmp_path):
    patch = patch_of(tmp_path, edits=[REWRITE, INSERT], files={"new.py": "z()\n"})
    assert patch.id == "fix"
    (variant,) = patch.variants
    assert [edit.name for edit in variant.edits] == ["rewrite f($x)", "insert after f($x)"]
    assert patch.digest.startswith("sha256:")


def test_id_is_the_folder(tmp_path):
    folder = write_patch(tmp_path, edits=[REWRITE]).rename(tmp_path / "other")
    with fails("library.wrong-id", "2: the id 'fix' is not the folder's name 'other'"):
        load_patch(folder, EVERYTHING)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"insert": {"from": "../x.py"}, "after": "f()"}, "leaves the patch's folder"),
        ({"diff": "../x.diff"}, "leaves the patch's folder"),
        ({"codemod": "../c.py", "contains": "f"}, "leaves the patch's folder"),
        ({**REWRITE, "files": "../a/*"}, "leaves the tree"),
        ({"add-file": "/etc/x", "from": "patch.yaml"}, "leaves the tree"),
        ({"add-file": "a\nM 120000 b", "from": "patch.yaml"}, "control characters"),
        ({"add-file": "a\u009bb", "from": "patch.yaml"}, "control characters"),
        ({"add-file": "vllm/git~1", "from": "patch.yaml"}, "git refuses"),
        ({"add-file": "a/" * 2000 + "b", "from": "patch.yaml"}, "too deep"),
        ({**REWRITE, "files": "vllm/*\n.py"}, "control characters"),
        ({"insert": {"from": "no.py"}, "after": "f()"}, "patch.yaml\n  next: correct the name"),
        ({"find": "f(", "rewrite": "g()"}, "not Python"),
    ],
)
def test_edit_error_has_its_line(tmp_path, edit, message):
    folder = write_patch(tmp_path, edits=[REWRITE, edit])
    assert message in refused(folder)
    # That of the edit, which is the second one.
    assert refused(folder).startswith(f"{line_of(folder, 'edits') + 5}: ")


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"concerns": {"find": "f("}}, "concerns"),
        ({"concerns": {"any": [{"text": "f"}, {"text": "g", "files": "../x"}]}}, "concerns"),
        ({"effect": {"none": [{"find": "$x"}]}}, "effect"),
        ({"proof": [PROOF | {"test": "test_no.py"}]}, "test"),
        ({"proof": [PROOF | {"test": "../fix/patch.yaml"}]}, None),
        ({"proof": [PROOF | {"test": "../out.py", "trees": {"p": "."}}]}, "test"),
        ({"proof": [PROOF | {"test": "patch.yaml", "trees": {"p": "."}}]}, None),
        ({"proof": [PROOF | {"test": "patch.yaml", "trees": {"p": "none"}}]}, "p"),
        ({"proof": [PROOF | {"test": "patch.yaml", "trees": {"p": "../.."}}]}, "p"),
        ({"proof": [PROOF | {"test": "../out.py"}]}, "test"),
    ],
)
def test_other_errors_have_their_line(tmp_path, keys, key):
    (tmp_path / "out.py").write_text("")
    folder = write_patch(tmp_path, edits=[REWRITE], **keys)
    if key is None:
        load_patch(folder, EVERYTHING)
    else:
        assert refused(folder).startswith(f"{line_of(folder, key)}: ")


def test_every_error_is_reported(tmp_path):
    folder = write_patch(
        tmp_path,
        concerns={"find": "f("},
        edits=[{**REWRITE, "files": "../x"}, REWRITE, {"diff": "no.diff"}],
    )
    with pytest.raises(ManyErrors) as caught:
        load_patch(folder, EVERYTHING)
    assert len(caught.value.errors) == 3
    assert caught.value.exit_code is ExitCode.USAGE
    assert caught.value.code == "vpatch.several-errors"


def test_digest_covers_what_the_edits_use(tmp_path):
    keys = {"edits": [REWRITE, INSERT]}
    digest = patch_of(tmp_path, files={"new.py": "z()\n"}, **keys).digest
    proven = {
        "proof": [PROOF | {"test": "test_x.py"}],
        "upstream": [{"ref": "o/r#1", "is": "issue"}],
    }
    proven["proposal"] = {
        "summary": "s",
        "claims": ["c"],
        "reproduction": "r",
        "tests": [{"test": "test_x.py", "at": "tests/test_x.py"}],
        "needs": {"engine": "cpu"},
        "keywords": ["k"],
        "assisted-by": [],
    }
    tests = {"new.py": "z()\n", "test_x.py": ""}
    assert patch_of(tmp_path / "c", files=tests, **keys, **proven).digest == digest
    assert patch_of(tmp_path / "b", files={"new.py": "z()\n"}, **keys).digest == digest
    assert patch_of(tmp_path, files={"notes.md": "x", "test_x.py": ""}, **keys).digest == digest
    assert patch_of(tmp_path, files={"new.py": "y()\n"}, **keys).digest != digest
    (tmp_path / "fix" / "new.py").write_text("z()\n")
    assert patch_of(tmp_path, title="Another", **keys).digest != digest
