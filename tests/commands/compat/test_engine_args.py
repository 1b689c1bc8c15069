"""Keywords of `LLM(...)` that vLLM hands on to `EngineArgs`."""

from __future__ import annotations

import pytest

from tests.projects import archive

LLM = b'''from vllm.engine.arg_utils import EngineArgs


class LLM:
    def __init__(self, model, *, seed=0, **kwargs):
        """It may get swap_space."""
        if "old_name" in kwargs:
            kwargs.pop("old_name")
        self.args = EngineArgs(model=model, seed=seed, **kwargs)
'''
ARGUMENTS = b"""from dataclasses import dataclass


@dataclass
class EngineArgs:
    model: str
    seed: int = 0
    max_len: int = 1
    depth: int = 1
"""
OLD = {"vllm/entrypoints/llm.py": LLM, "vllm/engine/arg_utils.py": ARGUMENTS}
NEW = OLD | {"vllm/engine/arg_utils.py": ARGUMENTS.replace(b"depth", b"height")}
CALLS = {
    "LLM('m', depth=3)": "changed",
    "LLM('m', max_len=3, seed=1)": "holds",
    "LLM('m', old_name=3)": "holds",
    "LLM('m', **more)": "holds",
    "EngineArgs('m', depth=3)": "changed",
    "EngineArgs('m', max_len=3)": "holds",
}


@pytest.mark.parametrize("call", CALLS)
def test_a_keyword_is_judged_by_the_fields_that_get_it(project, call):
    project.index.add("0.50.0", archive("0.50.0", OLD))
    project.index.add("0.51.0", archive("0.51.0", NEW))
    file = project.folder / "module.py"
    file.write_text(
        "from vllm.entrypoints.llm import LLM\nfrom vllm.engine.arg_utils import EngineArgs\n"
        f"def run(more):\n    return {call}\n"
    )
    args = ("--vllm", "0.50.0,0.51.0", "--base", "0.50.0", "--json")
    items = project.run("compat", file, *args, code=None).json["items"]
    (item,) = [one for one in items if one["kind"] == "call"]
    assert item["verdicts"]["0.50.0"]["state"] == "holds"
    assert item["verdicts"]["0.51.0"]["state"] == CALLS[call]
