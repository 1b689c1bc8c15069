from __future__ import annotations

import pytest

from tests.commands.compat.plugins import CORE, VLLM
from tests.commands.compat.test_compat import document_of
from tests.projects import archive

HEAD = "from vllm.core import Runner, Worker\n"
SEEN = ("field", "vllm.core.Worker.seen")


def names_in(project, text):
    gone = VLLM[CORE].replace(b"self.seen = 0", b"self.sight = 0")
    project.index.add("0.50.0", archive("0.50.0", VLLM))
    project.index.add("0.51.0", archive("0.51.0", VLLM | {CORE: gone}))
    items = document_of(project, f"{HEAD}def f(x):\n{text}")["items"]
    return {
        (one["kind"], one["name"]) for one in items if one["verdicts"]["0.51.0"]["state"] == "gone"
    }


@pytest.mark.parametrize(
    "text",
    [
        "    if isinstance(x, Worker):\n        return x.seen\n",
        "    if x and isinstance(x, Worker):\n        return x.seen\n",
        "    assert isinstance(x, Worker)\n    return x.seen\n",
        "    if x:\n        assert isinstance(x.one, Worker)\n        return x.one.seen\n",
        "    return x.seen if isinstance(x, Worker) else 0\n",
    ],
)
def test_isinstance_says_what_a_value_is(project, text):
    assert SEEN in names_in(project, text)


@pytest.mark.parametrize(
    "text",
    [
        "    if isinstance(x, Worker):\n        pass\n    else:\n        return x.seen\n",
        "    if isinstance(x, Worker):\n        pass\n    return x.seen\n",
        "    if x or isinstance(x, Worker):\n        return x.seen\n",
        "    if not isinstance(x, Worker):\n        return x.seen\n",
        "    if isinstance(x, (Worker, int)):\n        return x.seen\n",
        "    if isinstance(x, Worker):\n        x = x.one\n        return x.seen\n",
        "    if isinstance(x.one, Worker):\n        x = x.two\n        return x.one.seen\n",
        "    if x:\n        assert isinstance(x, Worker)\n    return x.seen\n",
        "    if isinstance(x, Worker):\n        return lambda x: x.seen\n",
    ],
)
def test_elsewhere_it_says_nothing(project, text):
    assert SEEN not in names_in(project, text)


@pytest.mark.parametrize(
    ("heir", "is_gone"),
    [
        ("class Mine(Worker):\n    def seen(self):\n        pass\n", False),
        ("class Middle(Worker):\n    pass\nclass Mine(Middle):\n    seen = 1\n", False),
        ("class Mine(Worker):\n    def set(self):\n        self.seen = 1\n", False),
        ("class Mine(Runner):\n    seen = 1\n", False),
        ("class Mine:\n    seen = 1\n", True),
        ("class Mine(Worker):\n    sight = 1\n", True),
    ],
)
def test_a_name_that_the_targets_own_heir_has_is_not_gone(project, heir, is_gone):
    text = f"    if isinstance(x, Worker):\n        return x.seen\n{heir}"
    assert (SEEN in names_in(project, text)) is is_gone
