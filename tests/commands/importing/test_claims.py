"""What an import proposes: predicates for the code and the effect, and a range of versions."""

from __future__ import annotations

import pytest
from packaging.version import Version

from tests.helpers import decide, tree_of
from vpatch.changes.change import FileChange, Message, SourceChange
from vpatch.commands.importing import claims
from vpatch.commands.importing.claims import claimed_before, claimed_range, effect_by_text
from vpatch.commands.importing.draft import draft
from vpatch.deriving.candidate import Candidate
from vpatch.deriving.derive import DerivedEdit
from vpatch.library.loading import load_patch
from vpatch.trust.decision import NOTHING

PATH = "vllm/m.py"
# As a patch names it: no other file is called so.
GLOB = "*/m.py"
BEFORE = "def f(x):\n    y = g(x)\n    return y\n\n\ndef h(x):\n    return x\n"

TREE = tree_of({PATH: BEFORE})


def drafted(after, before=BEFORE, path=PATH, **options):
    files = {path: before, "vllm/other.py": before.replace("f(", "k(")}
    change = FileChange(path, before.encode(), after.encode())
    changes = SourceChange("fix", "fix.diff", Message(), (change,))
    return draft(changes, tree_of(files), **options)


def test_the_effect_is_the_new_code_of_an_edit():
    made = drafted(BEFORE.replace("g(x)", "g(x, a=1)"))
    assert made.effect == {"find": "g(..., a=1)", "within": "f"}


def test_the_effect_of_a_change_is_its_new_side():
    old = "    a = str(x)\n    b = str(a)\n    if a and b and a != b:\n        b = f'{a} {b}'\n"
    new = "    if x:\n        a = len(x)\n        b = f'{a} things'\n        b += str(x)\n"
    rest = "    else:\n        b = 1\n    return b\n"
    made = drafted(f"def f(x):\n{new}{rest}", f"def f(x):\n{old}{rest}")
    assert "change" in made.assembled.edits[0]
    assert made.effect["within"] == "f"
    assert made.effect["find"].startswith("if x:\n    a = len(x)\n")


def test_the_effect_of_a_text_is_the_new_text():
    made = drafted(BEFORE.replace("y = g(x)", "y = g(x)  # once"))
    (edit,) = made.assembled.edits
    assert made.effect == {"text": edit["text"]["replace"], "files": GLOB}


MOVED = {
    "vllm/x/utils.py": BEFORE,
    "vllm/y/utils.py": "k = 1\n",
    "csrc/x.cu": "int first_of_all;\nint a = 10000;\n",
}


@pytest.mark.parametrize(
    ("path", "new", "cured", "held"),
    [
        ("vllm/x/utils.py", "y = g(x, 1)", "upstreamed", "*/utils.py"),
        ("csrc/x.cu", "int a = 20000;", "upstreamed", "*/x.cu"),
    ],
)
def test_a_text_is_found_in_a_file_that_upstream_moved(tmp_path, path, new, cured, held):
    old = {"vllm/x/utils.py": "y = g(x)", "csrc/x.cu": "int a = 10000;"}[path]
    after = MOVED[path].replace(old, new)
    change = FileChange(path, MOVED[path].encode(), after.encode())
    made = draft(SourceChange("fix", "fix.diff", Message(), (change,)), tree_of(MOVED), text=True)
    assert {edit["files"] for edit in made.assembled.edits} == {held}
    made.write(tmp_path / "fix", ">=0.20")
    patch = load_patch(tmp_path / "fix", NOTHING)
    others = {name: text for name, text in MOVED.items() if name != path}
    place = path.replace("/x", "/new/x")
    assert decide(patch, tree_of({**others, place: after})).state == cured
    assert decide(patch, tree_of({**others, place: MOVED[path]})).state == "needed"


def test_a_text_that_files_of_one_name_share_keeps_its_path():
    files = {**MOVED, "vllm/y/utils.py": BEFORE}
    path = "vllm/x/utils.py"
    change = FileChange(path, BEFORE.encode(), BEFORE.replace("g(x)", "g(x, 1)").encode())
    made = draft(SourceChange("fix", "fix.diff", Message(), (change,)), tree_of(files), text=True)
    assert [edit["files"] for edit in made.assembled.edits] == [path]


WITH_COMMENTS = "def f(x):\n    # Four of them.\n    y = g(x, 4)\n    # Done.\n    return y\n"


@pytest.mark.parametrize(
    ("old", "new", "notes"),
    [
        # The source changes the comment with the code, which the patch does not.
        (
            "# Four of them.\n    y = g(x, 4)",
            "# Five of them.\n    y = g(x, 5)",
            ["# Four of them."],
        ),
        ("# Four of them.\n    y = g(x, 4)", "y = g(x, 5)", ["# Four of them."]),
        # It stays in the source as well.
        ("g(x, 4)", "g(x, 5)", []),
        # Another comment changes, and a new one stands for no old one.
        ("g(x, 4)\n    # Done.", "g(x, 5)\n    # Over.", []),
        ("y = g(x, 4)", "y = g(x, 5)  # now five", []),
    ],
)
def test_a_comment_that_stays_beside_changed_code_is_noted(old, new, notes):
    made = drafted(WITH_COMMENTS.replace(old, new), WITH_COMMENTS)
    assert [note.partition("stays: ")[2].partition(";")[0] for note in made.change.notes] == notes
    assert drafted(WITH_COMMENTS.replace(old, new), WITH_COMMENTS, exact=True).change.notes == ()


def test_a_docstring_is_no_part_of_the_effect():
    long = "Do it.\n" + 20 * "    More.\n"
    before = BEFORE.replace("    y = g(x)\n", f'    """{long}    """\n    y = g(x)\n')
    after = before.replace("Do it.", "Do it once.").replace("g(x)", "g(x, a=1)")
    made = drafted(after, before)
    assert [edit.why for edit in made.derived] == [None]
    assert [edit.why for edit in made.left_out] == ["a docstring changes"]
    assert made.effect == {"find": "g(..., a=1)", "within": "f"}
    exact = drafted(after, before, exact=True)
    assert [edit.why for edit in exact.derived] == ["a docstring changes", None]
    assert exact.effect == made.effect


def test_code_that_is_gone_is_no_effect_by_itself():
    """A release without the function lacks that code as well."""
    before = BEFORE.replace("    y = g(x)\n", "    log()\n    y = g(x)\n    g(1)\n")
    made = drafted(before.replace("    log()\n", "").replace("    g(1)\n", ""), before)
    assert [min(edit) for edit in made.assembled.edits] == ["delete", "delete"]
    assert made.effect is None


def test_imports_are_no_part_of_the_effect():
    """A later release may import more, or do without."""
    before = "import os\n\nX = os.sep\n\n\n" + BEFORE
    after = before.replace("import os\n", "import math\nimport os\n")
    guard = "    if math.isnan(y):\n        return 0\n"
    made = drafted(after.replace("    return y\n", f"{guard}    return y\n"), before)
    assert made.assembled.edits[0]["add-import"] == "import math"
    assert made.effect == {"find": "if math.isnan(y):\n    ...", "within": "f"}


def test_an_effect_that_the_release_has_already_is_not_proposed():
    before = BEFORE.replace("    y = g(x)\n", "    log()\n    y = g(x)\n")
    made = drafted(before.replace("    return y\n", "    log()\n    return y\n"), before)
    assert made.assembled.edits[0]["insert"] == "log()"
    assert made.effect is None


def test_equal_edits_are_one_that_counts_and_has_no_effect():
    """A predicate finds a place: a tree that is half done would have the effect."""
    after = BEFORE.replace("g(x)", "g(x, a=1)")
    after = after.replace("    return x\n", "    return x\n\n\ndef i(x):\n    return g(x)\n")
    before = after.replace("g(x, a=1)", "g(x)")
    after = after.replace("return g(x)", "return g(x, a=1)")
    made = drafted(after, before)
    assert [edit.get("expect") for edit in made.assembled.edits] == [2]
    assert made.effect is None
    apart = drafted(after, before, merge=False)
    assert [edit["within"] for edit in apart.assembled.edits] == ["f", "i"]


@pytest.mark.parametrize(
    ("needed", "claim"),
    [
        ({}, ">=0.23.0"),
        ({"0.22.0": True, "0.23.0": True, "0.24.0": True}, ">=0.22.0"),
        ({"0.21.0": True, "0.22.0": False, "0.23.0": True, "0.24.0": False}, ">=0.23.0,<0.24.0"),
    ],
)
def test_the_claim_is_the_run_of_releases_around_the_origin(needed, claim):
    known = {Version(version): state for version, state in needed.items()}
    assert claimed_range(known, Version("0.23.0")) == claim


@pytest.mark.parametrize(
    ("needed", "claim"),
    [
        ({}, "<0.24"),
        ({"0.22": True, "0.23": True}, ">=0.22,<0.24"),
        ({"0.22": False, "0.23": True}, ">=0.23,<0.24"),
        # The release that was named is not the first that has it.
        ({"0.21": True, "0.22": False, "0.23": False}, ">=0.21,<0.22"),
        ({"0.23": False}, "<0.23"),
        ({"0.23": True, "0.25": True}, ">=0.23,<0.24"),
    ],
)
def test_the_versions_before_the_one_that_has_the_change_need_it(needed, claim):
    known = {Version(version): state for version, state in needed.items()}
    assert claimed_before(known, Version("0.24")) == claim


def test_new_lines_are_an_effect_with_as_many_neighbours_as_tell():
    before = "a = 1\nlog()\nb = 1\nc = 1\n"
    after = "log()\nb = 2\nlog()\nc = 1\n"
    change = FileChange(PATH, before.encode(), after.encode())
    assert effect_by_text([change], TREE) == {
        "all": [
            {"text": "log()\nb = 2\n", "files": GLOB},
            {"text": "b = 2\nlog()\n", "files": GLOB},
        ]
    }


def test_lines_that_go_away_leave_their_neighbours_together():
    change = FileChange(PATH, b"a = 1\nb = 1\nc = 1\n", b"a = 1\nc = 1\n")
    assert effect_by_text([change], TREE) == {"text": "a = 1\nc = 1\n", "files": GLOB}


def test_what_is_left_out_and_imports_are_no_part_of_a_text():
    before = "import a\n\n# one\nx = 1\ny = 1\n"
    after = "import a\nimport b\n\n# two\nx = 1\ny = 2\n"
    change = FileChange(PATH, before.encode(), after.encode())
    left_out = DerivedEdit(PATH, Candidate("text", ()), (3, 3))
    only = {"text": "y = 2\n", "files": GLOB}
    assert effect_by_text([change], TREE, [left_out]) == only
    assert len(effect_by_text([change], TREE)["all"]) == 2
    imports = FileChange(PATH, b"import a\n", b"import a\nimport b\n")
    assert effect_by_text([imports], TREE) == {"text": "import b\n", "files": GLOB}


def test_without_any_new_text_there_is_no_effect():
    change = FileChange(PATH, b"a = 1\na = 1\n", b"a = 1\n")
    assert effect_by_text([change], TREE) is None


COMMENTED = BEFORE.replace("    y = g(x)\n", "    # Why.\n    y = g(x)\n")


def test_a_comment_beside_another_change_is_left_out():
    made = drafted(COMMENTED.replace("def h(x)", "def h(x, a=1)"))
    assert [min(edit) for edit in made.assembled.edits] == ["add-keyword"]
    (left,) = made.left_out
    assert (left.path, left.lines[0], left.why) == (PATH, 2, "only comments or blank lines change")
    # It is one hunk of git's, and not all of it is by meaning.
    assert (made.counts.python, made.counts.by_meaning) == (1, 0)
    assert dict(made.counts.kinds) == {"add-keyword": 1}


@pytest.mark.parametrize("options", [{"exact": True}, {"text": True}])
def test_a_comment_is_text_where_that_was_asked_for(options):
    made = drafted(COMMENTED.replace("def h(x)", "def h(x, a=1)"), **options)
    assert made.left_out == ()
    assert "text" in made.assembled.edits[0]


def test_a_comment_alone_is_text():
    made = drafted(COMMENTED)
    assert made.left_out == ()
    assert [min(edit) for edit in made.assembled.edits] == ["files"]


ENDS = "# It ends before 0.25"


@pytest.mark.parametrize(
    ("claim", "upstreamed_in", "why"),
    [
        (">=0.22,<0.25", None, [f"{ENDS}: the patch was neither needed nor in conflict there."]),
        (">=0.22,<0.25", "0.25", [f"{ENDS}, which has the change already."]),
        (">=0.22", None, []),
    ],
)
def test_a_claim_that_ends_says_why(tmp_path, claim, upstreamed_in, why):
    drafted(BEFORE.replace("g(x)", "g(x, a=1)")).write(tmp_path, claim, (), upstreamed_in)
    lines = (tmp_path / "patch.yaml").read_text().splitlines()
    assert lines[lines.index("needed-in:") - len(why) : lines.index("needed-in:")] == why
    assert lines[lines.index("needed-in:") - len(why) - 1].startswith("# Proposed by vpatch import")


@pytest.mark.parametrize(("number", "is_proposed"), [(3, True), (4, False)])
def test_no_effect_of_very_many_parts_is_proposed(monkeypatch, number, is_proposed):
    """Each part is looked for in the whole file, so that a change of 1,000 lines took minutes."""
    monkeypatch.setattr(claims, "_MOST_PARTS", 3)
    made = drafted(BEFORE + "".join(f"y{n} = {n}\n" for n in range(number)))
    assert (made.effect is not None) is is_proposed
