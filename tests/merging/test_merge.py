"""Two changes of the same code are laid together where that is clear, and nowhere else."""

from __future__ import annotations

import pytest

from vpatch.commands.edit.declaration.variant_text import NewVariant, with_new_variant
from vpatch.merging.fine_merge import merge_region
from vpatch.merging.merged_imports import (
    ImportedName,
    apart,
    imported_names,
    with_imports,
    without_imports,
)
from vpatch.merging.upstream_names import renames, with_names

CLEAR = {
    "a keyword more on both sides": (
        "    f(a, c=2)\n",
        "    f(a)\n",
        "    f(a, b=1)\n",
        "    f(a, c=2, b=1)\n",
    ),
    "a line more in the same call": (
        "f(\n    a,\n    quant=q,\n)\n",
        "f(\n    a,\n)\n",
        "f(\n    a,\n    prefix=p,\n)\n",
        "f(\n    a,\n    quant=q,\n    prefix=p,\n)\n",
    ),
    "a decorator above a changed head": (
        "@traced\ndef f(a):\n",
        "def f(a):\n",
        "def f(a, b=1):\n",
        "@traced\ndef f(a, b=1):\n",
    ),
    "a decorator where a function is added": (
        "@traced\ndef f(): ...\n",
        "def f(): ...\n",
        "def new(): ...\n\n\ndef f(): ...\n",
        "def new(): ...\n\n\n@traced\ndef f(): ...\n",
    ),
    "upstream indents what the patch changes": (
        "if ready:\n    x = f(a)\n    y = 1\nend()\n",
        "x = f(a)\ny = 1\nend()\n",
        "x = f(a, slow)\ny = 1\nend()\n",
        "if ready:\n    x = f(a, slow)\n    y = 1\nend()\n",
    ),
    "both indent": (
        "with no_grad():\n    x = 1\n    y = 2\n",
        "x = 1\ny = 2\n",
        "x = 1\nif ok:\n    y = 2\n",
        "with no_grad():\n    x = 1\n    if ok:\n        y = 2\n",
    ),
    "upstream wrote the lines below anew": (
        "begin()\nfirst = one(2)\nrun(first, last=second)\nother(first)\n",
        "begin()\nfirst = 1\nend()\n",
        "begin()\ncheck()\nfirst = 1\nend()\n",
        "begin()\ncheck()\nfirst = one(2)\nrun(first, last=second)\nother(first)\n",
    ),
    "the line above is gone": ("x\nz\n", "x\ny\nz\n", "x\ny\nnew\nz\n", "x\nnew\nz\n"),
    "what has a position stays before what has a name": (
        "def f(a, *, strict=False):\n    g(a, strict=True)\n",
        "def f(a):\n    g(a)\n",
        "def f(a, more=None):\n    g(a, more)\n",
        "def f(a, more=None, *, strict=False):\n    g(a, more, strict=True)\n",
    ),
    "two arguments of one call": (
        "    return g(z, k)\n",
        "    return g(a, k)\n",
        "    return g(a, k or 1)\n",
        "    return g(z, k or 1)\n",
    ),
}
UNCLEAR = {
    "upstream wrote the lines above anew": (
        "use = not old() and size > 2\nlog(use)\nlog(size)\nrest()\n",
        "use = size in known\nrest()\n",
        "use = size in known\nif size == 3:\n    use = False\nrest()\n",
    ),
    "upstream calls something else": (
        "    x = run(config)\n",
        "    x = launch(config)\n",
        "    x = launch(config, mode=slow)\n",
    ),
    "the same word": ('f(mode="faster")\n', 'f(mode="fast")\n', 'f(mode="slow")\n'),
    "the same keyword": ("f(a, b=2)\n", "f(a)\n", "f(a, b=1)\n"),
    "statements at the same place": ("x\none()\n", "x\n", "x\nother()\n"),
    "inside or outside of the new block": (
        "if ready:\n    x = f(a)\n    y = 1\nend()\n",
        "x = f(a)\ny = 1\nend()\n",
        "x = f(a)\ny = 1\nz = 2\nend()\n",
    ),
    "upstream wrote the changed line anew": (
        "    total = sum(one for one in everything)\n",
        "    x = f(a)\n",
        "    x = f(a, slow)\n",
    ),
}


@pytest.mark.parametrize("case", CLEAR, ids=CLEAR.keys())
def test_what_is_clear_is_laid_together(case):
    ours, base, theirs, merged = CLEAR[case]
    assert merge_region(ours, base, theirs) == merged


@pytest.mark.parametrize("case", UNCLEAR, ids=UNCLEAR.keys())
def test_what_is_not_clear_stays_a_conflict(case):
    assert merge_region(*UNCLEAR[case]) is None


def test_a_line_of_blanks_in_a_new_edit_is_written():
    edits = [{"text": {"find": "a", "replace": "a\n    "}, "files": "x.py"}]
    variant = NewVariant("old", "new", edits, {})
    text = with_new_variant("edits:\n  - {text: {find: b, replace: c}, files: x.py}\n", variant, "")
    assert "  - name: new\n" in text


OLD = "from x import f\n\n\ndef g(size, scale):\n    f(size)\n    return size * scale\n"
NEW = OLD.replace("size", "length")


def test_a_renamed_parameter_is_followed():
    assert renames(OLD, NEW, local=True) == {"size": "length"}
    # The name of an argument is that of another function.
    assert with_names("h(size=size)\n", {"size": "length"}, local=True) == "h(size=length)\n"


def test_one_use_does_not_show_a_new_name():
    assert renames("a()\nrun(x.fast)\n", "a()\nrun(x.slow)\n", local=False) == {}


def test_a_name_that_is_still_there_was_not_renamed():
    assert renames(OLD, NEW + "\n\ndef h(size): ...\n", local=False) == {}


IMPORTS = "from b import Two, one\nfrom c import (\n    first,\n    third,\n)\n\none(Two, first)\n"


@pytest.mark.parametrize(
    ("module", "name", "line"),
    [
        ("b", "Three", "from b import Three, Two, one\n"),
        ("c", "second", "    first,\n    second,\n    third,\n"),
        ("d", "x", ")\nfrom d import x\n"),
    ],
)
def test_an_import_goes_where_it_belongs(module, name, line):
    changed = with_imports(IMPORTS, (ImportedName(module, name),))
    assert changed is not None
    assert line in changed
    assert imported_names(changed) - imported_names(IMPORTS) == {ImportedName(module, name)}


def test_another_import_of_the_same_name_is_not_hidden():
    assert with_imports(IMPORTS, (ImportedName("d", "one"),)) is None


def test_an_import_that_is_used_stays():
    names = ImportedName("c", "first"), ImportedName("c", "third")
    assert imported_names(IMPORTS) - imported_names(without_imports(IMPORTS, names)) == {names[1]}


def test_imports_are_apart_from_the_rest_of_a_change():
    theirs = IMPORTS.replace("Two, one", "Two, one, two").replace("one(Two", "two(Two")
    imports = apart(IMPORTS, theirs)
    assert imports is not None
    assert imports.added == (ImportedName("b", "two"),)
    assert imports.text == IMPORTS.replace("one(Two", "two(Two")
    assert apart(IMPORTS, IMPORTS.replace("one(Two", "two(Two")) is None
