from __future__ import annotations

import pytest

from tests.commands.compat.plugins import CORE, VLLM
from tests.commands.compat.test_compat import document_of, item_of
from tests.projects import archive


@pytest.fixture
def releases(project):
    project.index.add("0.50.0", archive("0.50.0", VLLM))
    project.index.add(
        "0.51.0",
        archive("0.51.0", VLLM | {CORE: VLLM[CORE].replace(b"self.seen = 0", b"self.sight = 0")}),
    )
    return project


HEAD = "import vllm.core as core\nfrom vllm.core import Runner, Worker\n"
FUNCTION = "def patched(self, batch):\n    return self.seen\n"
OUTER = "def outer(self, batch):\n    return patched(self, batch)\n"
SEEN = "vllm.core.Worker.seen"


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}{FUNCTION}Worker.run = patched\n",
        f"{HEAD}{FUNCTION}core.Worker.run = patched\n",
        f"{HEAD}{FUNCTION}setattr(Worker, 'run', patched)\n",
        f"{HEAD}{FUNCTION}def apply():\n    Worker.run = patched\n",
        f"{HEAD}{FUNCTION}{OUTER}Worker.run = outer\n",
    ],
)
def test_self_of_a_function_that_becomes_a_method_is_of_that_class(releases, text):
    item = item_of(document_of(releases, text), SEEN, "field")
    assert item["verdicts"]["0.50.0"]["state"] == "holds"
    assert item["verdicts"]["0.51.0"]["state"] == "gone"


@pytest.mark.parametrize(
    "text",
    [
        # Two classes, a module, another first parameter, and a decorator that may hand on another.
        f"{HEAD}{FUNCTION}Worker.run = patched\nRunner.step = patched\n",
        f"{HEAD}{FUNCTION}core.Worker = patched\n",
        f"{HEAD}{FUNCTION}Worker.run = patched\n".replace("self", "me"),
        f"{HEAD}@wrapped\n{FUNCTION}Worker.run = patched\n",
        f"{HEAD}{FUNCTION}Worker.run = staticmethod(patched)\n",
    ],
)
def test_a_self_that_is_not_sure_says_nothing(releases, text):
    names = [one["name"] for one in document_of(releases, text)["items"]]
    assert names
    assert [name for name in names if name.endswith(".seen")] == []
