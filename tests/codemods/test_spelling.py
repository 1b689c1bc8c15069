"""One thing in several spellings: annotations, imports, keywords in a dict, positional or named."""

from __future__ import annotations

import pytest

from tests.helpers import edited, run

LINEAR = {"find": "Linear(...)", "add-keyword": {"k": "1"}}
KERNEL = {"find": "torch.ops.f(..., q, ...)", "rewrite": "torch.ops.f(..., q.to(torch.half), ...)"}


def places(declared, source):
    return len(run(declared, source).sites)


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("from x import Linear", "Linear"),
        ("from x import Linear as L", "L"),
        ("from . import Linear as L", "L"),
        ("import x", "x.Linear"),
        ("import x.y", "x.y.Linear"),
        ("import x.y as z", "z.Linear"),
        ("from x import y", "y.Linear"),
        ("try:\n    import x as z\nexcept ImportError:\n    z = None", "z.Linear"),
        ("def g():\n    import x as z", "z.Linear"),
        ("from x import Linear\nL = Linear", "L"),
        ("from x import Linear as K\nL = K", "L"),
        ("import x as z\ny = z", "y.Linear"),
        ("class Linear: ...\nL = Linear", "L"),
    ],
)
def test_a_name_is_found_in_each_spelling_of_its_import(imports, name):
    assert edited(LINEAR, f"{imports}\na = {name}(1)\n") == f"{imports}\na = {name}(1, k=1)\n"


@pytest.mark.parametrize(
    "source",
    [
        # Nothing says that these are the Linear which is meant.
        "from x import Other as L\nL(1)\n",
        "from x import L\nL(1)\n",
        "x.Linear(1)\n",
        "self.Linear(1)\n",
        "def f(x):\n    x.Linear(1)\n",
        # A local variable of the same name hides the import.
        "import x\ndef f(x):\n    x.Linear(1)\n",
        "import x\nfor x in y:\n    x.Linear(1)\n",
        "import x\nwith y as x:\n    x.Linear(1)\n",
        "import x\nimport z as x\nx.Linear(1)\n",
        # The name is also given to something else, or is not given to what is meant.
        "from x import Linear\nL = Linear\nL = M\nL(1)\n",
        "from x import Linear\nL = Linear\ndef f(L):\n    L(1)\n",
        "class Linear: ...\nLinear = g(Linear)\nL = Linear\nL(1)\n",
        "from x import Linear\ndef f():\n    L = Linear\n    L(1)\n",
        "Linear = f()\nL = Linear\nL(1)\n",
        "class M: ...\nL = M\nL(1)\n",
        # An attribute of a class is no name of a module.
        "from x import Y\nY.Linear(1)\n",
        # The module has a Linear of its own, and this is another.
        "from torch import nn\nfrom x import Linear\nnn.Linear(1)\n",
        "from torch import nn\nclass Linear: pass\nnn.Linear(1)\n",
    ],
)
def test_another_name_is_not_found(source):
    assert places(LINEAR, source) == 0


def test_an_attribute_of_an_object_is_no_name_of_a_module():
    edit = {"find": "info($x)", "rewrite": "info($x, 1)"}
    for source in ("def log(): ...\nk = log\nk.info(1)\n", "log = f()\nk = log\nk.info(1)\n"):
        assert places(edit, source) == 0


def test_a_name_that_is_given_another_name_keeps_its_own_value():
    edit = {"find": "SIZE = $v", "rewrite": "SIZE = 2 * $v", "expect": {"at-least": 1}}
    assert places(edit, "from x import SIZE\nDEFAULT = SIZE\n") == 0
    assert places(edit, "class SIZE: ...\nDEFAULT = SIZE\n") == 0


def test_new_code_takes_the_first_name_of_a_thing():
    edit = {"find": "return go($x)", "rewrite": "return go(Linear($x))"}
    source = "from x import Linear as K\ndef f():\n    return go(1)\nZ = f()\nL = K\n"
    assert edited(edit, source) == source.replace("go(1)", "go(K(1))")


def test_a_builtin_is_no_name_of_a_module():
    assert (
        places({"find": "sum(...)", "add-keyword": {"start": "1"}}, "import np\nnp.sum(1)\n") == 0
    )


@pytest.mark.parametrize(
    ("imports", "call", "half"),
    [
        ("import torch as t", "t.ops.f", "t.half"),
        ("import torch\nfrom torch import ops", "ops.f", "torch.half"),
        ("import torch\nfrom torch.ops import f as g", "g", "torch.half"),
    ],
)
def test_new_code_takes_the_spelling_of_the_module(imports, call, half):
    before = f"{imports}\n{call}(p, q, r)\n"
    assert edited(KERNEL, before) == f"{imports}\n{call}(p, q.to({half}), r)\n"


def test_inserted_code_takes_the_spelling_of_the_module():
    insert = {"insert": "x = torch.zeros(logger=torch, torch=1).torch", "after": "start()"}
    assert edited(insert, "import torch as t\nstart()\n") == (
        "import torch as t\nstart()\nx = t.zeros(logger=t, torch=1).torch\n"
    )


def test_an_inserted_name_is_spelt_as_the_anchor_spells_it():
    insert = {"insert": "log(f)", "after": "f()"}
    assert edited(insert, "import x\nx.f()\n") == "import x\nx.f()\nlog(x.f)\n"


def test_imports_spell_no_attributes_keywords_or_imports():
    imports = "from x import Linear as L\n"
    find = {"find": "a.Linear(Linear=1)", "rewrite": "a.Linear(Linear=2)"}
    assert places(find, imports + "a.L(Linear=1)\n") == 0
    assert places(find, imports + "a.Linear(L=1)\n") == 0
    assert places({"insert": "y = 1", "after": "import Linear"}, imports + "import L\n") == 0


def test_an_annotation_matters_only_if_the_pattern_has_one():
    find = {"find": "a = f(...)", "add-keyword": {"k": "1"}}
    assert edited(find, "a: int = f()\n") == "a: int = f(k=1)\n"
    rewrite = {"find": "a = f(...)", "rewrite": "a = g(...)", "within": "h"}
    assert edited(rewrite, "def h():\n    f\n    a: int = f(1)  # why\n") == (
        "def h():\n    f\n    a: int = g(1)  # why\n"
    )
    assert places({"find": "a: str = f()", "rewrite": "a: str = f(1)"}, "a: int = f()\n") == 0
    assert places({"find": "a = f()", "rewrite": "a = f(1)"}, "a: int\n") == 0


@pytest.mark.parametrize("new", ["return f()", "a = b = f()", "if x:\n    a = b = f()"])
def test_a_rewrite_does_not_drop_an_annotation(new):
    result = run({"find": "a = f()", "rewrite": new}, "def g():\n    a: int = f()\n")
    assert "annotation" in result.mismatch


def test_an_annotation_gets_into_a_block_with_its_statement():
    edit = {"find": "a = f()", "rewrite": "if x:\n    a = f()"}
    assert edited(edit, "a: int = f()\n") == "if x:\n    a: int = f()\n"


@pytest.mark.parametrize("more", ['**{"a": 1}', "**dict(a=1)", '**{"a": 1, "b": 2}', "a=1, **{}"])
def test_keywords_of_a_literal_dict_are_keywords(more):
    assert edited({"find": "f(a=1, ...)", "add-keyword": {"k": "1"}}, f"f({more})\n") == (
        f"f({more}, k=1)\n"
    )


@pytest.mark.parametrize("more", ["**{a: 1}", "**dict(x)", '**{"a": 1, **x}', '**{"a b": 1}'])
def test_other_dicts_may_hold_anything(more):
    result = run({"find": "f(...)", "add-keyword": {"k": "1"}}, f"f({more})\n")
    assert "** arguments that may hold k" in result.mismatch


def test_a_keyword_in_a_literal_dict_is_there():
    find = {"find": "f(...)", "add-keyword": {"k": "1"}}
    assert not run(find, 'f(**{"k": 1})\n').todo
    assert "already has k=2" in run(find, 'f(**{"k": 2})\n').mismatch


SIGNATURE = "def f(a, b=None): pass\n"


@pytest.mark.parametrize(
    ("pattern", "call", "count"),
    [
        ("g(f(x))", "g(f(a=x))", 1),
        ("g(f(a=x))", "g(f(x))", 1),
        ("g(f(a=x, b=y))", "g(f(x, b=y))", 1),
        ("g(f(x, y))", "g(f(b=y, a=x))", 1),
        ("g(f(x))", "g(f(b=x))", 0),
        ("g(f(a=x))", "g(f(y, x))", 0),
        ("g(f(x))", "g(f(*x))", 0),
    ],
)
def test_positional_and_keyword_arguments_of_a_function_of_the_module(pattern, call, count):
    find = {"find": pattern, "rewrite": "done()"}
    assert places(find, f"{SIGNATURE}{call}\n") == count
    assert places(find, f"def f(*args): pass\n{call}\n") == (call == pattern)
