"""`vpatch import --fuzz`: a diff that only GNU patch takes."""

from __future__ import annotations

import pytest

from tests.projects import LLAMA, VERSION, snapshot

# The release has another first line.
NEAR = f"""\
--- a/{LLAMA}
+++ b/{LLAMA}
@@ -21,4 +21,4 @@
 class Alpaca:
     def __init__(self, prefix):
-        self.proj = Linear(4, 4)  # narrow
+        self.proj = Linear(4, 8)  # narrow
         self.head = Linear(4, 8)
"""
EXACT = NEAR.replace("Alpaca", "Llama").replace("21", "1")
FAR = NEAR.replace("Linear(4, 4)  # narrow", "Linear(5, 5)")


@pytest.fixture
def imported(empty):
    def run(text, *args, code=0):
        (empty.folder / "fix.diff").write_text(text)
        args = ("fix.diff", "--vllm", VERSION, "--releases", "none", *args)
        return empty.run("import", *args, code=code)

    return run


def test_each_moved_hunk_is_shown(empty, imported):
    run = imported(NEAR, "--fuzz", code=1)
    assert (
        f"  look at  {LLAMA}, the hunk at line 21: patch put it at line 1 "
        "(-20 lines away); it ignored up to 1 line above and below\n"
    ) in run.out
    run = empty.run("apply", "--vllm", VERSION, "--patch", "fix")
    made = empty.folder / ".vpatch" / f"vllm-{VERSION}" / LLAMA
    assert b"self.proj = Linear(4, 8)  # narrow" in made.read_bytes()


def test_the_error_names_the_way_where_there_is_one(empty, imported):
    before = snapshot(empty.patches)
    run = imported(NEAR, code=2)
    assert run.codes == ("importing.does-not-apply",)
    assert "; or give --fuzz, as patch takes it where lines around it differ" in run.err
    for args in ((), ("--fuzz",)):
        run = imported(FAR, *args, code=2)
        assert run.codes == ("importing.does-not-apply",)
        assert "give --fuzz" not in run.err
    assert snapshot(empty.patches) == before


def test_what_the_release_has_already_is_no_fuzz(imported):
    """The reverse of the diff applies, so that it is not laid in a second time."""
    swapped = EXACT.replace("-        self", "?").replace("+        self", "-        self")
    run = imported(swapped.replace("?", "+        self"), "--fuzz")
    assert f"{VERSION} has this change already" in run.out


def test_a_note_says_that_git_takes_the_diff(imported):
    assert "note  git takes it as it is, without --fuzz" in imported(EXACT, "--fuzz").out


def test_what_must_be_there_has_no_fuzz(imported):
    run = imported(EXACT, "--fuzz", "--upstreamed", code=2)
    assert run.codes == ("cli.unused-option",)
