"""New code uses what its file imports already, and an older release does not import."""

from __future__ import annotations

import pytest
from ruamel.yaml import YAML

from tests.projects import LLAMA, VERSION, archive

ERRORS = "vllm/errors.py"
HEAD = b"from vllm.errors import TooLong\n\n\n"
BODY = b"""\
class Llama:
    def __init__(self, prefix):
        self.prefix = prefix
"""
USER = b"\n\ndef use():\n    raise TooLong\n"
FIX = f"""\
--- a/{LLAMA}
+++ b/{LLAMA}
@@ -6,1 +6,3 @@
         self.prefix = prefix
+        if len(prefix) > 9:
+            raise TooLong(prefix)
"""


NEW = f"""\
--- a/{LLAMA}
+++ b/{LLAMA}
@@ -6,1 +6,5 @@
         self.prefix = prefix
+
+
+class Checked(TooLong):
+    pass
"""


@pytest.fixture
def imported(empty):
    """Import FIX at 0.52.0, whose file imports the error. 0.50.0 does not, and may not have it."""

    def run(errors, head=b"", after=HEAD, fix=FIX):
        old = {LLAMA: head + BODY, ERRORS: errors}
        new = {LLAMA: after + BODY + USER, ERRORS: b"class TooLong(Exception): ...\n"}
        empty.index.add(VERSION, archive(VERSION, old))
        empty.index.add("0.52.0", archive("0.52.0", new))
        (empty.folder / "fix.diff").write_text(fix)
        return empty.run("import", "fix.diff", "--vllm", "0.52", "--releases", "0.50")

    return run


def test_a_release_gets_the_import_that_it_lacks(empty, imported):
    run = imported(b"class TooLong(Exception): ...\n")
    why = "the patch also imports vllm.errors.TooLong, for 1 release without that import"
    assert f"note  {LLAMA}: {why}" in run.out
    assert "gives the same bytes as the source" in run.out
    empty.run("apply", "--vllm", "0.50", "--patch", "fix")
    made = (empty.folder / ".vpatch" / f"vllm-{VERSION}" / LLAMA).read_bytes()
    assert made.startswith(b"from vllm.errors import TooLong\n")
    assert b"raise TooLong(prefix)" in made


def test_a_new_definition_gets_the_import_too(empty, imported):
    """It is beside that one, wherever upstream moves the file."""
    imported(b"class TooLong(Exception): ...\n", fix=NEW)
    edits = YAML(typ="safe").load(empty.patches / "fix/patch.yaml")["edits"]
    (edit,) = (each for each in edits if "add-import" in each)
    assert (edit["beside"], edit.get("files")) == ("class Checked: ...", None)


def test_a_release_without_the_name_gets_no_import(empty, imported):
    """It would fail on import; without it, the patch is in conflict there."""
    run = imported(b"")
    assert "also imports" not in run.out
    assert "add-import" not in (empty.patches / "fix/patch.yaml").read_text()
    assert "0.50.0             conflict" in run.out


def test_a_release_that_has_the_import_needs_none(empty, imported):
    imported(b"class TooLong(Exception): ...\n", HEAD)
    assert "add-import" not in (empty.patches / "fix/patch.yaml").read_text()


@pytest.mark.parametrize(("other", "is_there"), [(b"import json\n", False), (HEAD, True)])
def test_a_library_has_what_the_release_imports_of_it(empty, imported, other, is_there):
    head = HEAD.replace(b"vllm.errors", b"pydantic")
    imported(other.replace(b"vllm.errors", b"pydantic"), after=head)
    text = (empty.patches / "fix/patch.yaml").read_text()
    assert ("add-import: from pydantic import TooLong" in text) is is_there
