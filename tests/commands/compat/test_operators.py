"""A plugin that builds operators of vLLM itself, and lacks some that vLLM names on import."""

from __future__ import annotations

import pytest

from tests.commands.compat.plugins import VLLM, write_plugin
from tests.projects import archive

FUSION = "vllm/fusion.py"
NAMES = b"""import torch
from vllm.platforms import current_platform

NORM = torch.ops._C.norm.default
SILU = torch.ops._C.silu.default
if hasattr(torch.ops._C, "quant"):
    QUANT = torch.ops._C.quant.out
if current_platform.is_cuda_alike():
    BLOCK = torch.ops._C.block.default


def later():
    return torch.ops._C.call
"""
OLD = VLLM | {
    FUSION: NAMES.replace(b"SILU = torch.ops._C.silu.default\n", b""),
    "csrc/ops.cpp": b'TORCH_LIBRARY(_C, ops) { ops.def("norm() -> ()"); ops.def("silu() -> ()"); }',
}
NEW = OLD | {FUSION: NAMES}
HEAD = "TORCH_LIBRARY(_C, ops) {\n"
NORM = '  ops.def("norm(Tensor! out) -> ()");\n'
SILU = '  ops.def("silu(Tensor! out) -> ()");\n'
QUANT = '  ops.def("quant(Tensor a) -> Tensor");\n'
BLOCK = '  ops.def("block(Tensor a) -> Tensor");\n'


@pytest.fixture
def judged(project):
    """Judge a plugin with a C++ source in two releases: the states and reasons of operators."""

    def judge(code, python="", new=NEW):
        project.index.add("0.50.0", archive("0.50.0", OLD))
        project.index.add("0.51.0", archive("0.51.0", new))
        files = {"csrc/ops.cpp": code.encode()} | (
            {"my_plugin/ops.py": python.encode()} if python else {}
        )
        plugin = write_plugin(project.folder, files)
        run = project.run("compat", plugin, "--vllm", "0.50.0,0.51.0", "--json", code=None)
        return {
            one["name"]: {
                release: (verdict["state"], verdict["why"])
                for release, verdict in one["verdicts"].items()
            }
            for one in run.json["items"]
            if one["kind"] == "operator"
        }, run

    return judge


def states(items):
    return {name: [state for state, _ in of.values()] for name, of in items.items()}


def test_an_operator_that_vllm_names_on_import_and_the_build_lacks_is_gone(judged):
    items, run = judged(HEAD + NORM + "}")
    assert states(items) == {
        "_C.norm": ["holds", "holds"],
        "_C.silu": ["holds", "gone"],
        "_C.block": ["holds", "holds"],
    }
    assert items["_C.silu"]["0.51.0"][1] == (
        "vLLM's module vllm.fusion names it when it is imported, "
        "and the target's build does not have it"
    )
    silu = next(one for one in run.json["items"] if one["name"] == "_C.silu")
    assert silu["verdicts"]["0.51.0"]["where"] == "vllm/fusion.py:5"
    assert silu["at_import"] is True
    assert [(one["path"], one["line"]) for one in silu["places"]] == [("csrc/ops.cpp", 1)]


def test_what_only_some_platforms_name_is_looked_at_again(judged):
    new = NEW | {FUSION: NAMES.replace(b".block.", b".other_block.")}
    items, _ = judged(HEAD + NORM + SILU + BLOCK + "}", new=new)
    state, why = items["_C.other_block"]["0.51.0"]
    assert state == "look again"
    assert "(current_platform.is_cuda_alike())" in why


def test_an_overload_that_the_build_lacks_is_gone(judged):
    items, _ = judged(HEAD + NORM + SILU + QUANT + "}")
    assert states(items)["_C.quant.out"] == ["gone", "gone"]


def test_what_only_some_builds_have_is_unknown(judged):
    items, _ = judged(HEAD + NORM + "#ifdef WITH_SILU\n" + SILU + "#endif\n}")
    state, why = items["_C.silu"]["0.51.0"]
    assert (state, why.partition(": ")[2]) == ("unknown", "only some conditions build _C.silu")


OTHERS = {
    "imports another build": "import other._C\n",
    "imports vLLM's own build": "from vllm import _C\n",
    "adds to the namespace": 'LIB = Library("_C", "FRAGMENT")\nLIB.define(text)\n',
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_plugin_that_may_register_more_is_looked_at_again(judged, other):
    items, _ = judged(HEAD + NORM + "}", OTHERS[other])
    assert states(items)["_C.silu"] == ["holds", "look again"]


def test_what_the_plugin_registers_in_python_is_there(judged):
    python = 'L = torch.library.Library("_C", "FRAGMENT")\nL.define("silu(Tensor a) -> ()")\n'
    items, _ = judged(HEAD + NORM + "}", python)
    assert states(items)["_C.silu"] == ["holds", "holds"]


@pytest.mark.parametrize(
    "code",
    [
        HEAD.replace("_C", "_mine_C") + NORM + "}",
        # It adds to vLLM's own build, which both can be loaded beside.
        HEAD.replace("LIBRARY", "LIBRARY_FRAGMENT") + QUANT + "}",
    ],
)
def test_a_build_beside_that_of_vllm_lacks_nothing(judged, code):
    assert judged(code)[0] == {}


def test_a_build_of_an_operator_of_vllm_takes_the_place_of_its_build(judged):
    items, _ = judged(HEAD.replace("LIBRARY", "LIBRARY_FRAGMENT") + NORM + "}")
    assert states(items)["_C.silu"] == ["holds", "gone"]


def test_an_operator_that_the_plugin_names_on_import_and_does_not_build_is_gone(judged):
    items, run = judged(HEAD + NORM + SILU + "}", "import torch\nOP = torch.ops._C.mine\n")
    assert states(items)["_C.mine"] == ["gone", "gone"]
    mine = next(one for one in run.json["items"] if one["name"] == "_C.mine")
    assert [(one["path"], one["line"]) for one in mine["places"]] == [("my_plugin/ops.py", 2)]
    assert mine["verdicts"]["0.51.0"]["why"].startswith("its module my_plugin.ops names it")


def test_the_difference_of_two_releases_shows_an_operator(project, judged):
    judged(HEAD + NORM + "}")
    args = ("--from", "0.50.0", "--to", "0.51.0", "--json")
    document = project.run("compat", project.folder / "plugin", *args, code=None).json
    assert [one["item"]["name"] for one in document["differences"]] == ["_C.silu"]
