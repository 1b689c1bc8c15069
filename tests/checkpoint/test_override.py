"""Which draft a config gets: vpatch's evaluation of hf_config_override, and the function itself."""

from __future__ import annotations

import ast
import copy
from contextlib import ExitStack
from functools import cache

import pytest

from tests.checkpoint.test_support import TYPES
from vpatch.checkpoint.drafts import ARCHITECTURES, IN_TARGET, MODEL_TYPES
from vpatch.checkpoint.gaps import RELEASES
from vpatch.checkpoint.override import (
    RefusedConfigError,
    UnreadableOverrideError,
    draft_architecture,
)
from vpatch.checkpoint.schemes import FAMILIES, family_of
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context

PATH = "vllm/config/speculative.py"
UNKNOWN = "the config lacks what the function asks for"


class HfConfig:
    """A config as transformers has it: keys are attributes."""

    def __init__(self, values):
        for name, value in values.items():
            inner = isinstance(value, dict) and name in {"text_config", "decoder"}
            setattr(self, name, HfConfig(value) if inner else copy.deepcopy(value))

    def update(self, values):
        for name, value in values.items():
            setattr(self, name, value)

    def get_text_config(self):
        return getattr(self, "text_config", self)


class Runnable(ast.NodeTransformer):
    """Takes away annotations and imports."""

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        node.returns, node.decorator_list = None, []
        for argument in node.args.args:
            argument.annotation = None
        return node

    def visit_ImportFrom(self, node):
        names = [ast.Name(one.name, ast.Store()) for one in node.names]
        return ast.Assign(names, ast.Constant(1), lineno=node.lineno)


def function_of(tree):
    (node,) = (
        one
        for one in ast.walk(ast.parse(tree.read(PATH)))
        if isinstance(one, ast.FunctionDef) and one.name == "hf_config_override"
    )
    return node


@cache
def compiled(function):
    module = ast.fix_missing_locations(
        ast.Module([Runnable().visit(copy.deepcopy(function))], type_ignores=[])
    )
    names = {"copy": copy, "get_hf_text_config": HfConfig.get_text_config}
    exec(compile(module, PATH, "exec"), names)  # noqa: S102 - of a pinned archive
    return names["hf_config_override"]


def run(function, config):
    """Run the function itself; None where it ends with an error."""
    try:
        result = compiled(function)(HfConfig(config))
        return getattr(result, "architectures", [None])[0]
    except AttributeError:
        return UNKNOWN
    except (ValueError, AssertionError, TypeError):
        return None


def evaluate(function, config):
    try:
        return draft_architecture(function, config)
    except RefusedConfigError:
        return None
    except UnreadableOverrideError:
        return UNKNOWN


@pytest.fixture(scope="module")
def functions():
    with ExitStack() as stack:
        trees = {v: stack.enter_context(Context().tree(parse_vllm(v))) for v in RELEASES}
        yield {version: function_of(tree) for version, tree in trees.items()}


def config_of(architecture, model_type, **keys):
    own = {"hc_count": 1, "mtp_num_experts": 1, "mtp_num_experts_per_tok": 1, "layer_types": []}
    return {"architectures": [architecture], "model_type": model_type, **own, **keys}


def configs():
    """Configs of each family and draft, and those that a condition is about."""
    for family in FAMILIES:
        for architecture in family.architectures:
            named = TYPES.get(architecture, "none")
            inner = {"model_type": named, family.key: 1}
            yield config_of(architecture, named, **{family.key: 1})
            yield config_of(architecture, named)
            inner |= {"mtp_num_experts": 1, "mtp_num_experts_per_tok": 1, "hc_count": 1}
            yield config_of(architecture, named, text_config=inner, mtp_config={family.key: 1})
    for name in MODEL_TYPES:
        yield config_of("SomeModel", name)
    for name in ARCHITECTURES:
        yield config_of(name, "some")
    for name, flag in (("RadioMBartPrefixForCausalLM", True), ("RadioMBartPrefixForCausalLM", 0)):
        yield config_of(name, "nemotron_parse", decoder={"causal_vision_prefix": flag})
    for count in (0, 1):
        yield config_of("NemotronHForCausalLM", "nemotron_h", num_nextn_predict_layers=count)
        text = {"model_type": "nemotron_h", "num_nextn_predict_layers": count}
        yield config_of("NemotronH_Omni_Reasoning_V3", "nemotron_omni", text_config=text)
        mtp = {"num_nextn_predict_layers": count}
        yield config_of("InklingForCausalLM", "inkling_model", mtp_config=mtp)
    for kinds in (["full_attention"], ["full_attention"] * 2):
        keys = {"mtp_layer_types": kinds, "num_nextn_predict_layers": 1}
        yield config_of("Dots3NoteForCausalLM", "dots3_note", **keys)
    for text in ("qwen3_5_moe_text", "qwen3_5_text"):
        inner = {"model_type": text, "mtp_num_hidden_layers": 1}
        yield config_of("InternS2PreviewForConditionalGeneration", "intern_s2_preview",
                        text_config=inner)  # fmt: skip
    for name, named in (
        ("DeepseekV41ForCausalLM", "deepseek_v41"), ("MistralLarge3ForCausalLM", "mistral"),
        ("MiniMaxM3MTP", "minimax_m3_mtp"), ("Qwen4ExpForCausalLM", "qwen4_exp_text"),
        ("Exaone4_5_ForConditionalGeneration", "exaone4_5_vl"), ("LlamaForCausalLM", "llama"),
    ):  # fmt: skip
        yield config_of(name, named)


@pytest.mark.slow
def test_a_config_gets_the_draft_that_the_release_gives_it(functions):
    for version, function in functions.items():
        for config in configs():
            assert evaluate(function, config) == run(function, config), (version, config)


@pytest.mark.slow
def test_each_model_of_the_last_release_is_known(functions):
    """What a condition asks for is a family, a draft, or a name that the function itself gives."""
    asked = {"model_type": set(), "architecture": set()}
    for node in ast.walk(functions[RELEASES[-1]]):
        if isinstance(node, ast.If):
            for one in ast.walk(node.test):
                if isinstance(one, ast.Compare):
                    about = "model_type" if "model_type" in ast.unparse(one) else "architecture"
                    words = {c.value for c in ast.walk(one) if isinstance(c, ast.Constant)}
                    asked[about] |= {word for word in words if isinstance(word, str)}
    own = {name for name in asked["model_type"] if name.endswith("_mtp")}
    families = {name for family in FAMILIES for name in family.architectures}
    by_type = {TYPES[name] for name in families if name in TYPES}
    further = {
        *MODEL_TYPES, *own, "deepseek_v41",
        # Other types of models that are known by their architecture.
        *("inkling_model", "qwen4_exp_text", "qwen3_5_text", "step5"),
    }  # fmt: skip
    assert asked["model_type"] - by_type - further == set()
    assert len(asked["model_type"] - own) == 37
    names = {name for name in asked["architecture"] if name[0].isupper()}
    # It gets an EAGLE head as its draft, and has no MTP layers.
    drafts = {*ARCHITECTURES, *IN_TARGET, "MistralLarge3ForCausalLM"}
    assert {name for name in names if family_of(name) is None} <= drafts


FUNCTION = """
def hf_config_override(hf_config):
    if hf_config.model_type == "some":
        hf_config.update({"architectures": ["SomeMTP"], "n_predict": hf_config.layers})
    for one in range(hf_config.more if hf_config.model_type == "loop" else 0):
        pass
    return hf_config
"""


def test_what_is_not_known_is_not_claimed():
    (function,) = ast.parse(FUNCTION.replace("    for one", "    if 0:\n     for one")
                            .replace("        pass", "      pass")).body  # fmt: skip
    config = config_of("Some", "some", layers=1)
    assert draft_architecture(function, config) == "SomeMTP"
    assert config["architectures"] == ["Some"]
    with pytest.raises(UnreadableOverrideError):  # a class may have a default for it
        draft_architecture(function, config_of("Some", "some"))
    (function,) = ast.parse(FUNCTION).body
    with pytest.raises(UnreadableOverrideError):
        draft_architecture(function, config_of("Some", "other"))
