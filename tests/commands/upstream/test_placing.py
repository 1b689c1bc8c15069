"""A patch's test, put into a file of upstream's, or made one."""

from __future__ import annotations

import pytest

from tests.helpers import fails
from vpatch.commands.upstream.placement import place_test

THERE = b'''# SPDX-License-Identifier: Apache-2.0
"""What is there."""
import json
from typing import Any

import pytest

from tests.util import helper
from vllm.b import B
from vllm.z import (
    Z,
)

LIMIT = 3


def test_old():
    assert B  # keeps  its   format
'''
OURS = b'''# SPDX-License-Identifier: Apache-2.0
"""Ours alone."""

import pytest

from vllm.c import C
from vllm.a import A

# Why it is so.
VALUE = 4


@pytest.mark.parametrize("n", [1])
def test_new(n):
    assert (A, C, VALUE, n)
'''


def test_a_new_file_is_the_test_as_it_is():
    assert place_test(None, OURS, "tests/new.py") == OURS


def test_what_is_there_stays_and_imports_are_sorted_in():
    merged = place_test(THERE, OURS, "tests/test_it.py").decode()
    assert merged == (
        THERE.decode().replace(
            "from vllm.b import B\n",
            "from vllm.a import A\nfrom vllm.b import B\nfrom vllm.c import C\n",
        )
        + OURS.decode()[OURS.decode().index("\n\n# Why") :].replace("\n\n# Why", "\n\n# Why", 1)
    )
    assert merged.count("import pytest\n") == 1
    assert "Ours alone" not in merged


def test_an_import_of_a_package_that_is_not_there_yet():
    merged = place_test(THERE, b"import torch\n\n\ndef test_new():\n    torch.zeros(1)\n", "x")
    assert b"    Z,\n)\n\nimport torch\n\nLIMIT" in merged
    assert place_test(b"A = 1\n", b"import torch\n\n\ndef test_new():\n    pass\n", "x") == (
        b"import torch\nA = 1\n\n\ndef test_new():\n    pass\n"
    )


@pytest.mark.parametrize(
    "ours", ["def test_old():\n    pass\n", "LIMIT = 4\n", "class LIMIT:\n    pass\n"]
)
def test_a_name_that_is_taken(ours):
    with fails("upstream.test-does-not-fit", r"has another '(test_old|LIMIT)'") as caught:
        place_test(THERE, ours.encode(), "tests/test_it.py")
    assert caught.value.where == "tests/test_it.py"
    assert "rename" in caught.value.hint


def test_what_is_no_python():
    with fails("upstream.test-does-not-fit", "not Python"):
        place_test(b"def (", OURS, "tests/test_it.py")
    with fails("upstream.test-does-not-fit", "not Python"):
        place_test(THERE, b"def (", "tests/test_it.py")


def test_the_future_comes_first():
    ours = b"from __future__ import annotations\n\n\ndef test_new():\n    pass\n"
    merged = place_test(THERE, ours, "x")
    assert b'"""What is there."""\nfrom __future__ import annotations\nimport json\n' in merged
    assert place_test(merged, ours.replace(b"_new", b"_more"), "x").count(b"__future__") == 1


@pytest.mark.parametrize(
    "ours",
    [
        "from other import helper\n\n\ndef test_new():\n    pass\n",
        "import other as json\n\n\ndef test_new():\n    pass\n",
        "from other import test_old\n\n\ndef test_new():\n    pass\n",
        "def helper():\n    pass\n",
    ],
)
def test_a_name_that_an_import_binds(ours):
    with fails("upstream.test-does-not-fit", "already has another"):
        place_test(THERE, ours.encode(), "x")


def test_a_test_without_a_test():
    with fails("upstream.test-does-not-fit", "imports only"):
        place_test(THERE, b"import json\n", "x")


@pytest.mark.parametrize(
    ("ours", "merged"),
    [
        ("from vllm.z import Z", "from vllm.z import (\n    Z,\n)\n"),
        ("from vllm.z import A, Z", "from vllm.z import (\n    A,\n    Z,\n)\n"),
        ("from vllm.z import make, MAX", "from vllm.z import (\n    MAX,\n    Z,\n    make,\n)\n"),
        ("from vllm.b import C", "from vllm.b import B, C\n"),
        ("from vllm.b import A as D", "from vllm.b import A as D, B\n"),
    ],
)
def test_names_of_a_module_that_is_imported_already(ours, merged):
    found = place_test(THERE, f"{ours}\n\n\ndef test_new():\n    pass\n".encode(), "x").decode()
    assert merged in found
    assert found.count(merged.partition(" import")[0]) == 1
