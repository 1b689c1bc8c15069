"""What the target names in texts: models, hooks of wrapt, and arguments of `vllm serve`."""

from __future__ import annotations

import pytest

from tests.commands.compat.plugins import CORE, UTILS, VLLM
from tests.projects import archive

REGISTRY = "vllm/model_executor/models/registry.py"
ARGUMENTS = "vllm/engine/arg_utils.py"
OLD = VLLM | {
    REGISTRY: b'_MODELS = {\n    "Plain": ("plain", "Plain"),\n}\n',
    ARGUMENTS: b"class EngineArgs:\n    max_len: int = 1\n    eager: bool = False\n",
    "vllm/cli.py": b'def add(parser):\n    parser.add_argument("--host-name")\n',
}
NEW = OLD | {
    REGISTRY: b'_MODELS = {\n    "Plain": (\n        "plain2", "Plain"),\n'
    b'    "Mine": ("mine", "M"),\n}\n',
    ARGUMENTS: b"class EngineArgs:\n    pass\n\n\nmax_len = 1\n",
    "vllm/cli.py": b"",
    CORE: OLD[CORE].replace(b"def step(", b"def move("),
    UTILS: OLD[UTILS].replace(b"def close(", b"def shut("),
}


@pytest.fixture
def judged(project):
    """Judge a module in two releases: the states of its items, and why."""

    def judge(text):
        project.index.add("0.50.0", archive("0.50.0", OLD))
        project.index.add("0.51.0", archive("0.51.0", NEW))
        file = project.folder / "module.py"
        file.write_text(text)
        args = ("--vllm", "0.50.0,0.51.0", "--base", "0.50.0", "--json")
        document = project.run("compat", file, *args, code=None).json
        return {
            (one["kind"], one["name"]): tuple(
                (one["verdicts"][r]["state"], one["verdicts"][r]["why"])
                for r in ("0.50.0", "0.51.0")
            )
            for one in document["items"]
        }

    return judge


HOOKS = {
    'wrapt.wrap_function_wrapper("vllm.core", "Runner.step", wrapper)': "vllm.core.Runner.step",
    '@wrapt.patch_function_wrapper("vllm.core", "Runner.step")': "vllm.core.Runner.step",
    "wrapt.wrap_function_wrapper(vllm.core, 'Runner.step', wrapper)": "vllm.core.Runner.step",
    'wrapt.wrap_object("vllm.utils", "close", wrapper)': "vllm.utils.close",
    'wrapt.register_post_import_hook(wrapper, "vllm.nowhere")': "vllm.nowhere",
    '@wrapt.when_imported("vllm.nowhere")': "vllm.nowhere",
}


@pytest.mark.parametrize("code", HOOKS)
def test_a_hook_of_wrapt_is_a_patch(judged, code):
    more = "\ndef hook(*args):\n    pass\n" if code[0] == "@" else "\n"
    items = judged(f"import wrapt\nimport vllm.core\n{code}{more}")
    old, new = items["patch", HOOKS[code]]
    assert old[0] == ("gone" if "nowhere" in code else "holds")
    assert new[0] == "gone"


def test_a_hook_for_another_package_is_none(judged):
    assert judged('import wrapt, vllm.core\nwrapt.wrap_object("torch", "nn.Linear", print)\n') == {
        ("import", "vllm.core"): (("holds", ""), ("holds", ""))
    }


MODELS = """
from vllm import ModelRegistry
ModelRegistry.register_model("Plain", "module:Plain")
ModelRegistry.register_model("Mine", "module:Plain")
ModelRegistry.register_model("Lost", "module:Lost")
ModelRegistry.register_model("Other", "elsewhere.models:Other")
class Plain: pass
"""


def test_a_model_says_what_it_replaces(judged):
    items = judged(MODELS)
    old, new = items["model", "Plain"]
    assert old == ("holds", "it takes the place of vLLM's plain.Plain")
    assert new[0] == "look again"
    assert "plain2.Plain; in the base, it takes the place of vLLM's plain.Plain" in new[1]
    old, new = items["model", "Mine"]
    assert old == ("holds", "vLLM has no model of this name")
    assert new[0] == "look again"
    assert "mine.M" in new[1]
    assert [state for state, _ in items["model", "Other"]] == ["holds", "holds"]


def test_a_class_that_is_registered_and_not_there_is_gone(judged):
    text = MODELS.replace('"module:Lost"', '"module.inner:Lost"')
    assert [state for state, _ in judged(text)["model", "Lost"]] == ["gone", "gone"]


SERVE = (
    'RUN = ["vllm", "serve", model, "--max-len", "3", "--no-eager", "--host-name=x", "--odd"]\n',
    'RUN = "vllm serve m --max-len 3 --no-eager"\nMORE = "vllm serve m --host-name=x --odd"\n',
)


@pytest.mark.parametrize("text", SERVE)
def test_arguments_of_vllm_serve_are_judged(judged, text):
    items = judged(text)
    states = {name: [state for state, _ in several] for (_, name), several in items.items()}
    # The code has the word max_len still. Nobody knows an argument --odd.
    assert states == {
        "--max-len": ["holds", "unknown"],
        "--no-eager": ["holds", "gone"],
        "--host-name": ["holds", "gone"],
    }


def test_arguments_of_other_programs_are_left_alone(judged):
    text = 'A = ["vllm", "bench", "--max-len"]\nB = "serve --max-len"\nimport vllm.core\n'
    assert not any(kind == "argument" for kind, _ in judged(text))


def test_a_condition_on_the_platform_is_named(project):
    project.index.add("0.50.0", archive("0.50.0", OLD))
    file = project.folder / "module.py"
    file.write_text(
        "from vllm.platforms import current_platform\nif current_platform.is_cuda():\n"
        "    import vllm.core\nelse:\n    import vllm.utils\n"
    )
    document = project.run("compat", file, "--vllm", "0.50.0", "--json", code=None).json
    conditions = {one["name"]: one["conditions"] for one in document["items"]}
    assert conditions["vllm.core"] == ["current_platform.is_cuda()"]
    assert conditions["vllm.utils"] == ["not current_platform.is_cuda()"]
    states = {one["name"]: one["verdicts"]["0.50.0"]["state"] for one in document["items"]}
    assert {states["vllm.core"], states["vllm.utils"]} == {"holds"}


ADDED = """
from argparse import ArgumentParser
from vllm.parsers import FlexibleArgumentParser
def register(parser: FlexibleArgumentParser | None, other: ArgumentParser):
    group = parser.add_argument_group("mine")
    parser.add_argument("-m", "--max-len")
    parser.add_argument("--mine")
    other.add_argument("--max-len")
    other.add_argument("--host-name")
"""


def test_an_argument_that_vllm_has_by_then_is_looked_at_again(project):
    parsers = {"vllm/parsers.py": b"class FlexibleArgumentParser:\n    pass\n"}
    older = OLD | {ARGUMENTS: b"class EngineArgs:\n    pass\n"}
    project.index.add("0.50.0", archive("0.50.0", older | parsers))
    project.index.add("0.51.0", archive("0.51.0", OLD | parsers))
    file = project.folder / "module.py"
    file.write_text(ADDED)
    args = ("--vllm", "0.50.0,0.51.0", "--base", "0.50.0", "--json")
    document = project.run("compat", file, *args, code=None).json
    states = {
        one["name"]: [one["verdicts"][r]["state"] for r in ("0.50.0", "0.51.0")]
        for one in document["items"]
        if one["kind"] == "argument"
    }
    assert states == {"--max-len": ["holds", "look again"], "--mine": ["holds", "holds"]}
