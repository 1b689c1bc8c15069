from __future__ import annotations

import pytest

from tests.helpers import edited, edits_of, fails, run


def add(item):
    return {"add-import": item, "beside": "f($x)"}


@pytest.mark.parametrize(
    ("item", "before", "after"),
    [
        ("import a", "f(1)\n", "import a\n\nf(1)\n"),
        (
            "from a import b",
            '"""Doc."""\nimport os  # why\n\nf(1)\n',
            '"""Doc."""\nimport os  # why\nfrom a import b\n\nf(1)\n',
        ),
        (
            "from a import b",
            "from a import (  # why\n    c,  # c\n)\n\nf(1)\n",
            "from a import (  # why\n    b, c,  # c\n)\n\nf(1)\n",
        ),
        (
            "from .a import b as c",
            "from __future__ import x\n\nf(1)\n",
            "from __future__ import x\nfrom .a import b as c\n\nf(1)\n",
        ),
        ("from . import a", "import os\nf(1)\n", "import os\nfrom . import a\n\nf(1)\n"),
        (
            "from a import b",
            "import os\r\n\r\nf(1)",
            "import os\r\nfrom a import b\r\n\r\nf(1)",
        ),
        # An import for the type checker alone is not one.
        (
            "from a import b",
            "if TYPE_CHECKING:\n    from a import b\n\nf(1)\n",
            "from a import b\n\nif TYPE_CHECKING:\n    from a import b\n\nf(1)\n",
        ),
        (
            "from a import b",
            "if TYPE_CHECKING:\n    from a import c\n\nf(1)\n",
            "from a import b\n\nif TYPE_CHECKING:\n    from a import c\n\nf(1)\n",
        ),
    ],
)
def test_add_import(item, before, after):
    assert edited(add(item), before) == after


@pytest.mark.parametrize(
    ("item", "source"),
    [
        ("import a.b", "import a.b\nf(1)\n"),
        ("import a as b", "import os, a as b\nf(1)\n"),
        ("from a import b", "from a import c, b\nf(1)\n"),
        ("from ..a import b", "from ..a import (\n    b,\n)\nf(1)\n"),
    ],
)
def test_import_that_is_there_is_done(item, source):
    assert edited(add(item), source) == source


@pytest.mark.parametrize(
    ("item", "source"),
    [
        ("import a", "import a as b\nf(1)\n"),
        ("from a import b", "from a import b as c\nf(1)\n"),
        ("from .a import b", "from a import b\nf(1)\n"),
        ("from .a import b", "from .c import b\nf(1)\n"),
    ],
)
def test_import_under_another_name_is_not(item, source):
    assert run(add(item), source).todo


def test_only_beside_the_code():
    result = run(add("import a"), {"vllm/a.py": "f(1)\n", "vllm/b.py": "# f\n"})
    assert set(result.view.files) == {"vllm/a.py"}


def test_two_modules_where_one_was_declared():
    result = run(add("import a"), {"vllm/a.py": "f(1)\n", "vllm/b.py": "f(2)\n"})
    assert result.mismatch == "expected 1, found 2"


@pytest.mark.parametrize("item", ["x = 1", "import a, b", "from a import *", "import a\nimport b"])
def test_one_import_of_one_name(item):
    with fails("codemods.wrong-edit", "one import of one name"):
        edits_of(add(item))
