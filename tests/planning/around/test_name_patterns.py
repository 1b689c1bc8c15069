"""What no parser has to be asked for: a text search never misses what the syntax has."""

from __future__ import annotations

import pytest

from vpatch.planning.around.code_entries import CodeEntry, read_entries
from vpatch.planning.around.name_patterns import DEFINED, NameUse, may_use
from vpatch.planning.outline import outline
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context

PATH = "vllm/a.py"


def uses_of(entry: CodeEntry) -> list[tuple[str, tuple[NameUse, ...]]]:
    """The names that an entry uses, each with what a search for it asks."""
    last = entry.name.rpartition(".")[2]
    uses: list[tuple[str, tuple[NameUse, ...]]] = [(last, DEFINED)]
    if entry.is_statement:
        uses.clear()
    if entry.kind == "function":
        uses.append((last, (NameUse.CALLABLE,)))
    uses += [(entry.taken, (NameUse.IMPORTED,))] if entry.taken else []
    uses += [(name, (NameUse.OWN_ATTRIBUTE,)) for name in entry.stored]
    ends = (name.rpartition(".")[2] for name in entry.assigned)
    uses += [(name, (NameUse.ATTRIBUTE, NameUse.TEXT)) for name in ends]
    uses += [(name, (NameUse.TEXT,)) for name in entry.asked]
    return [(name, asked) for name, asked in uses if name.isidentifier()]


@pytest.mark.parametrize(
    "text",
    [
        "def searched():\n    pass\n",
        "class  searched(int):\n    pass\n",
        "async def\\\n  searched():\n    pass\n",
        "searched = 1\n",
        "searched: int = 1\n",
        "a = 1; searched = 2\n",
        "a = 1\rsearched = 2\n",
        "(searched) = 1\n",
        "searched \\\n    = 1\n",
        "class A: searched = 1\n",
        "class A:\n    searched: int\n",
        "if a:\n    def searched(): pass\n",
        "from a import searched\n",
        "from a import searched as b\n",
        "from a import (\n    b,\n    searched,  # c\n)\n",
        "from a import (b, c,\n    d, searched)\n",
        "from a import \\\n    searched\n",
        "from a import b, \\\n    searched as c\n",
        "import searched\n",
        "import searched.b\n",
        "import a.b as searched\n",
        "class A:\n    def b(self):\n        self.searched = 1\n",
        "class A:\n    def b(self):\n        self . searched = 1\n",
        "class A:\n    def b(self):\n        self.c, self.searched = 1, 2\n",
        "class A:\n    def b(self):\n        (self\n         .searched) = 1\n",
        "class A:\n    def b(self):\n        self.\\\n  searched += 1\n",
        "def b(c):\n    c.searched = 1\n",
        "def b(c):\n    setattr(c, 'searched', 1)\n",
        'def b(c):\n    setattr(c, """searched""", 1)\n',
        "def b(c):\n    return hasattr(c, 'searched')\n",
    ],
)
def test_each_spelling_of_a_use_is_seen(text: str) -> None:
    uses = [
        use
        for entry in read_entries(PATH, outline(text.encode()))
        for use in uses_of(entry)
        if use[0] == "searched"
    ]
    assert uses, "the syntax has no such use"
    for name, asked in uses:
        assert may_use(text.encode(), name, asked), asked


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("searched()\n", NameUse.CALLABLE),
        ("b = searched\n", NameUse.ASSIGNED),
        ("b(searched=1, c=2)\n", NameUse.ASSIGNED),
        ("searched == 1\n", NameUse.ASSIGNED),
        ("b = searched.c\n", NameUse.IMPORTED),
        ("b.searched = 1\n", NameUse.OWN_ATTRIBUTE),
        ("searched = 1\n", NameUse.ATTRIBUTE),
        ("b = searched\n", NameUse.TEXT),
        ("def unsearched(): pass\n", NameUse.CALLABLE),
        ("def searched_too(): pass\n", NameUse.CALLABLE),
    ],
)
def test_other_code_is_not_parsed_for_it(text: str, use: NameUse) -> None:
    assert not may_use(text.encode(), "searched", [use])


@pytest.mark.slow
def test_no_use_of_a_release_is_missed() -> None:
    missed = []
    with Context().tree(parse_vllm("0.28.0")) as tree:
        for path in tree.records:
            if path.startswith("vllm/") and path.endswith(".py"):
                text = tree.read(path) or b""
                missed += [
                    (path, name, asked)
                    for entry in read_entries(path, outline(text))
                    for name, asked in uses_of(entry)
                    if not may_use(text, name, asked)
                ]
    assert missed == []
