"""Which operators a module names when it is imported, and what a build lacks of them."""

from __future__ import annotations

import ast

import pytest

from vpatch.operators.import_time import operators_named
from vpatch.operators.lack import lack_of
from vpatch.operators.registrations import BuiltOperators

BUILT = BuiltOperators(
    {"_C": ("csrc/ops.cpp", 1)}, sure={"_C.base", "_C.out.out"}, maybe={"_C.perhaps"}
)


def lacks(code):
    named = operators_named(ast.parse(f"import torch\n{code}\n"))
    return {
        one.name: lack_of(BUILT, one).lack for one in named if lack_of(BUILT, one).lack != "not run"
    }


GONE = {"_C.gone": "gone"}
NAMING = {
    "OP = torch.ops._C.gone": GONE,
    "OP = torch.ops._C.gone.default": GONE,
    "TABLE = {1: [torch.ops._C.gone.default]}": GONE,
    "class A:\n    OP = torch.ops._C.gone": GONE,
    "class A:\n    def f(self, op=torch.ops._C.gone): pass": GONE,
    "def f(*, op=torch.ops._C.gone): pass": GONE,
    "@wraps(torch.ops._C.gone)\ndef f(): pass": GONE,
    '@register_fake("_C::gone")\ndef f(): pass': GONE,
    '@torch.library.register_fake("_C::gone")\ndef f(): pass': GONE,
    '@torch.library.impl_abstract("_C::gone")\ndef f(): pass': GONE,
    "from torch import ops\nOP = ops._C.gone": GONE,
    "import torch as t\nOP = t.ops._C.gone": GONE,
    "from torch.ops import _C\nOP = _C.gone": GONE,
    "ops = torch.ops._C\nOP = ops.gone.default": GONE,
    'OP = getattr(torch.ops._C, "gone")': GONE,
    "OP = torch.ops._C.base.default": {"_C.base": "here"},
    "OP = torch.ops._C.perhaps": {"_C.perhaps": "unknown"},
    # An overload is not the operator.
    "OP = torch.ops._C.base.out": {"_C.base.out": "gone"},
    "OP = torch.ops._C.out.default": {"_C.out": "gone"},
    "OP = torch.ops._C.out": {"_C.out": "here"},
    '@register_fake("_C::base.out")\ndef f(): pass': {"_C.base.out": "gone"},
    # Nothing of these is run on import.
    "def f(): return torch.ops._C.gone": {},
    "F = lambda: torch.ops._C.gone": {},
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    OP = torch.ops._C.gone": {},
    'NAMES = ["torch.ops._C.gone", "_C::gone"]': {},
    'OP = getattr(torch.ops._C, "gone", None)': {},
    "IS_THERE = hasattr(torch.ops._C, 'gone')": {},
    "OPS = torch.ops._C": {},
    "OP = torch._C.gone": {},
}
HAS = 'hasattr(torch.ops._C, "{}")'
GUARDED = {
    f"if {HAS.format('gone')}:\n    OP = torch.ops._C.gone": {},
    f"if {HAS.format('base')}:\n    OP = torch.ops._C.gone": GONE,
    f"if not {HAS.format('gone')}:\n    OP = 1\nelse:\n    OP = torch.ops._C.gone": {},
    f"if not {HAS.format('base')}:\n    OP = torch.ops._C.gone": {},
    f"if {HAS.format('perhaps')}:\n    OP = torch.ops._C.gone": {"_C.gone": "unknown"},
    f"OP = torch.ops._C.gone if {HAS.format('gone')} else None": {},
    f"OP = {HAS.format('gone')} and torch.ops._C.gone": {},
    f"OP = {HAS.format('base')} or torch.ops._C.gone": {},
    f"if not {HAS.format('gone')}:\n    raise ImportError\nOP = torch.ops._C.gone": {},
    f"OK = {HAS.format('gone')}\nif OK:\n    OP = torch.ops._C.gone": {},
    f"OK = cuda() and {HAS.format('gone')}\nif OK:\n    OP = torch.ops._C.gone": {},
    f"OK = {HAS.format('gone')}\nOK = True\nif OK:\n    OP = torch.ops._C.gone": {
        "_C.gone": "perhaps"
    },
    "OK = OK and 1\nif OK:\n    OP = torch.ops._C.gone": {"_C.gone": "perhaps"},
    'OP = getattr(torch.ops._C, "gone", None)\nif OP is not None:\n    X = torch.ops._C.gone': {},
    'if hasattr(torch.ops, "_C"):\n    OP = torch.ops._C.gone': GONE,
    "if current_platform.is_cuda():\n    OP = torch.ops._C.gone": {"_C.gone": "perhaps"},
    "if x:\n    pass\nelif y:\n    pass\nelse:\n    OP = torch.ops._C.gone": {"_C.gone": "perhaps"},
    "try:\n    OP = torch.ops._C.gone\nexcept AttributeError:\n    pass": {},
    "try:\n    OP = torch.ops._C.gone\nexcept (ValueError, Exception):\n    pass": {},
    # Another error is caught, or it is raised again.
    "try:\n    OP = torch.ops._C.gone\nexcept ImportError:\n    pass": GONE,
    "try:\n    OP = torch.ops._C.gone\nexcept AttributeError:\n    raise": GONE,
    "with suppress(AttributeError):\n    OP = torch.ops._C.gone": {},
    "with suppress(ImportError):\n    OP = torch.ops._C.gone": GONE,
}


@pytest.mark.parametrize("code", [*NAMING, *GUARDED])
def test_what_an_import_needs_of_a_build(code):
    assert lacks(code) == (NAMING | GUARDED)[code]
