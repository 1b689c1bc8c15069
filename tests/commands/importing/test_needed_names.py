"""A series in which a patch imports what another one defines."""

from __future__ import annotations

import pytest
from ruamel.yaml import YAML

from tests.projects import ENGINE, LLAMA, VERSION

HELPER = f"""\
--- a/{ENGINE}
+++ b/{ENGINE}
@@ -1,2 +1,6 @@
+def helper(prefix):
+    return prefix
+
+
 def start(config):
     return launch(config, mode="fast")
"""
MODULE = """\
--- /dev/null
+++ b/vllm/helpers.py
@@ -0,0 +1,2 @@
+def helper(prefix):
+    return prefix
"""
USER = f"""\
--- a/{LLAMA}
+++ b/{LLAMA}
@@ -1,4 +1,7 @@
+from MODULE import helper
+
+
 class Llama:
     def __init__(self, prefix):
-        self.proj = Linear(4, 4)  # narrow
+        self.proj = helper(Linear(4, 4))  # narrow
         self.head = Linear(4, 8)
"""


@pytest.mark.parametrize(
    ("definition", "module", "requires"),
    [
        (HELPER, "vllm.engine", ["a"]),
        (MODULE, "vllm.helpers", ["a"]),
        (HELPER, "elsewhere", None),
    ],
)
def test_a_patch_requires_the_one_that_defines_what_it_imports(empty, definition, module, requires):
    folder = empty.folder / "diffs"
    folder.mkdir()
    (folder / "a.diff").write_text(definition)
    (folder / "b.diff").write_text(USER.replace("MODULE", module))
    empty.run("import", "diffs", "--vllm", VERSION, "--releases", "none")
    declared = YAML(typ="safe").load((empty.patches / "b" / "patch.yaml").read_text())
    assert declared.get("requires") == requires
    run = empty.run("apply", "--vllm", VERSION, "--patch", "b")
    assert f"{1 + len(requires or [])} patch" in run.out


def test_an_import_that_only_another_patch_can_bring_is_a_note(empty):
    """As in one file of a larger change."""
    (empty.folder / "b.diff").write_text(USER.replace("MODULE", "vllm.other"))
    run = empty.run("import", "b.diff", "--vllm", VERSION, "--releases", "none")
    lacks = "imports helper from vllm.other, which the tree lacks"
    assert f"{lacks}: the patch is a conflict there until it has that" in run.out
    assert lacks in empty.run("apply", "--vllm", VERSION, "--patch", "b", code=1).out
