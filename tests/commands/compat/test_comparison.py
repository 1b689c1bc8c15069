"""What only two releases tell: the new name of what is gone, and who gives a new parameter."""

from __future__ import annotations

import ast

import pytest

from tests.commands.compat.plugins import CORE, UTILS
from tests.commands.compat.test_compat import item_of
from vpatch.commands.compat.code.bind import function_of
from vpatch.commands.compat.code.signature import lacking

# Six lines, so that what is alike is not so by chance.
CLOSE = b"""def close(handle):
    for one in handle.children:
        one.detach()
    handle.flush()
    handle.release()
    handle.close()
"""
SHUT = CLOSE.replace(b"def close", b"def shut")
LONGER = (UTILS, b"def close(handle):\n    handle.close()\n")
STEP = b"""    def step(self, batch, *, fast=False):
        return self.run(batch)
"""
LONG_STEP = b"""    def step(self, batch, *, fast=False):
        for one in batch.parts:
            self.begin(one)
        if fast:
            self.skip(batch)
        return self.run(batch)
"""
# The first change is made in both releases.
RENAMED = {
    "class renamed": [
        (CORE, STEP, LONG_STEP),
        (CORE, b"class Runner(Worker):", b"class Executor(Worker):"),
    ],
    "overridden method renamed": [
        (CORE, STEP, LONG_STEP),
        (CORE, b"def step(self", b"def move(self"),
    ],
    "function renamed": [(*LONGER, CLOSE), (UTILS, b"def close", b"def shut")],
    "function renamed and moved": [
        (*LONGER, CLOSE),
        (UTILS, CLOSE, b""),
        ("vllm/closing.py", None, SHUT),
    ],
}
UNCLEAR = {
    "two that are alike": [
        (*LONGER, CLOSE),
        (UTILS, CLOSE, SHUT + SHUT.replace(b"shut", b"end")),
    ],
    "one that the base has as well": [
        (*LONGER, CLOSE + SHUT),
        (UTILS, CLOSE, b""),
    ],
    "another body": [
        (*LONGER, CLOSE),
        (UTILS, CLOSE, SHUT.replace(b"handle.", b"self.")),
    ],
    "too short": [
        (*LONGER, b"def close(handle):\n    handle.end()\n"),
        (UTILS, b"def close(", b"def shut("),
    ],
}


@pytest.mark.parametrize(
    ("name", "item", "heir"),
    [
        ("class renamed", "vllm.core.Runner", "vllm.core.Executor (vllm/core.py:26)"),
        ("overridden method renamed", "my_plugin.MyWorker.step", "vllm.core.Runner.move"),
        ("function renamed", "vllm.utils.close", "vllm.utils.shut"),
        ("function renamed and moved", "vllm.utils.close", "vllm.closing.shut"),
    ],
)
def test_a_renamed_definition_is_named(judged, name, item, heir):
    verdicts = [
        one["verdicts"]["0.51.0"]
        for one in judged(RENAMED[name][1:], RENAMED[name][:1])["items"]
        if one["name"] == item and one["verdicts"]["0.51.0"]["state"] == "gone"
    ]
    assert verdicts
    for verdict in verdicts:
        assert verdict["moved"].startswith(f"probably {heir}")
        assert "of the lines are the same" in verdict["moved"]


@pytest.mark.parametrize("name", UNCLEAR)
def test_what_is_not_clearly_the_successor_is_not_named(judged, name):
    document = judged(UNCLEAR[name][1:], UNCLEAR[name][:1])
    item = item_of(document, "vllm.utils.close", "import")
    assert item["verdicts"]["0.51.0"]["state"] == "gone"
    assert item["verdicts"]["0.51.0"]["moved"] == ""


SLOWER = (
    CORE,
    b"def step(self, batch, *, fast=False)",
    b"def step(self, batch, fast=False, slow=0)",
)


@pytest.mark.parametrize(
    ("code", "state", "why"),
    [
        (b"worker.step(1, slow=True)", "changed", "vllm/engine.py:2 gives it"),
        (b"worker.step(1, True, 2)", "changed", "vllm/engine.py:2 calls step with as many"),
        (b"Runner.step(worker, 1, True, 2)", "changed", "vllm/engine.py:2 calls step with"),
        (b"worker.step(1, **more)", "changed", "not known, as vllm/engine.py:2 gives stars"),
        (b"worker.step(*more)", "changed", "not known, as vllm/engine.py:2 gives stars"),
        (b"run(worker.step)", "changed", "not known, as vllm/engine.py:2 hands step on"),
        (b"getattr(worker, 'step')(1)", "changed", "not known, as vllm/engine.py:2 hands"),
        (b"worker.step(1, fast=True)", "look again", "which no call in vLLM gives"),
        (b"Runner.step(worker, 1, True)", "look again", "which no call in vLLM gives"),
        # Neither is a call of it: a text of another one, and a method with other parameters.
        (b"'worker.step(1, slow=True)'", "look again", "which no call in vLLM gives"),
        (b"worker.step(1, way=2, slow=True)", "look again", "which no call in vLLM gives"),
        (
            b"return worker.step(1) or super().step(1, slow=True)",
            "look again",
            "which no call in vLLM gives",
        ),
    ],
)
def test_a_parameter_that_an_override_lacks_breaks_only_if_vllm_may_give_it(
    judged, code, state, why
):
    document = judged([SLOWER, ("vllm/engine.py", None, b"def go(worker):\n    " + code + b"\n")])
    item = item_of(document, "my_plugin.MyWorker.step", "override")
    verdict = item["verdicts"]["0.51.0"]
    assert verdict["state"] == state
    assert f"yours has no parameter slow{',' if state == 'look again' else ':'}" in verdict["why"]
    assert why in verdict["why"]


OTHER_NAME = (
    CORE,
    b"def step(self, batch, *, fast=False)",
    b"def step(self, items, *, fast=False)",
)


@pytest.mark.parametrize(
    ("code", "state", "why"),
    [
        (b"worker.step(1)", "look again", ", which no call in vLLM gives by name"),
        (b"worker.step(items=1)", "changed", ": vllm/engine.py:2 gives it"),
        (b"worker.step(**more)", "changed", "not known, as vllm/engine.py:2 gives stars"),
    ],
)
def test_another_name_of_a_parameter_breaks_only_who_gives_it_by_name(judged, code, state, why):
    body = (CORE, b"return self.run(batch)", b"return self.run(items)")
    changes = [OTHER_NAME, body, ("vllm/engine.py", None, b"def go(worker):\n    " + code + b"\n")]
    verdict = item_of(judged(changes), "my_plugin.MyWorker.step", "override")["verdicts"]["0.51.0"]
    assert verdict["state"] == state
    assert verdict["why"].startswith("yours takes batch in place of items")
    assert why in verdict["why"]


@pytest.mark.parametrize(
    ("original", "replacement", "problems"),
    [
        ("self, a", "self, b", ["takes b in place of a"]),
        ("self, a, *, c=1", "self, b", ["takes b in place of a", "has no parameter c"]),
        # Another parameter came before one of the same name.
        ("self, a, x, b", "self, a, b", ["has no parameter x"]),
        ("self, a", "self", ["has no parameter a"]),
        ("self, a", "self, b, **more", []),
        ("self, a, /", "self, b", []),
    ],
)
def test_a_name_in_place_of_another_is_told_from_one_that_lacks(original, replacement, problems):
    functions = [
        function_of(ast.parse(f"def f({text}): pass").body[0]) for text in (original, replacement)
    ]
    assert lacking(*(one.parameters for one in functions)) == problems
