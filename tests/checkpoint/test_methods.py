"""Each method of quantisation that a release registers: understood, refused, or not known."""

from __future__ import annotations

import ast
import re
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from tests.checkpoint import builders as b
from tests.checkpoint.test_reported import MLP, by_method, faults, findings, quantised
from tests.helpers import fails
from vpatch.checkpoint.fused import Naming, RunTime
from vpatch.checkpoint.gaps import RELEASES
from vpatch.checkpoint.list_entry import Entry, Matching
from vpatch.checkpoint.methods import METHODS, MODELSLIM_METHOD, WHILE_LOADING
from vpatch.checkpoint.mixed_precision import covered_by_layers
from vpatch.checkpoint.quantisation import Quantisation
from vpatch.checkpoint.support import files_of, support_of
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context

FOLDER = "vllm/model_executor/layers/quantization"
LAYERS = (*MLP, "q_proj", "k_proj", "v_proj", "o_proj")
GROUP = {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int"}}}
TABLE = {
    f"model.layers.{n}.{part}.{name}": {"quant_algo": "NVFP4"}
    for n in range(2)
    for part, names in (("mlp", MLP), ("self_attn", LAYERS[3:]))
    for name in names
}
# A config of its own form for each method, and how the tensors of a trunk are stored.
FORMS = {
    "awq": ({"bits": 4, "modules_to_not_convert": ["lm_head"]}, "gptq"),
    "auto_awq": ({"bits": 4, "modules_to_not_convert": ["lm_head"]}, "gptq"),
    "awq_marlin": ({"bits": 4, "modules_to_not_convert": ["lm_head"]}, "gptq"),
    "gptq": ({"bits": 4, "modules_in_block_to_quantize": [["self_attn", "mlp"]]}, "gptq"),
    "auto_gptq": ({"bits": 4, "modules_in_block_to_quantize": [["self_attn", "mlp"]]}, "gptq"),
    "gptq_marlin": ({"bits": 4, "modules_in_block_to_quantize": [["self_attn", "mlp"]]}, "gptq"),
    "fp8": ({"activation_scheme": "dynamic"}, "fp8"),
    "deepseek_v4_fp8": ({"activation_scheme": "dynamic"}, "fp8"),
    "fbgemm_fp8": ({"activation_scale_ub": 1200.0}, "fp8"),
    "fp_quant": ({"forward_dtype": "mxfp4"}, "int4"),
    "modelopt": ({"quant_algo": "FP8"}, "fp8"),
    "modelopt_fp4": ({"quant_algo": "NVFP4"}, "nvfp4"),
    "modelopt_mxfp8": ({"quant_algo": "MXFP8"}, "fp8"),
    "modelopt_mixed": ({"quant_algo": "MIXED_PRECISION", "quantized_layers": TABLE}, "nvfp4"),
    "mxfp8": ({}, "fp8"),
    "compressed-tensors": ({"config_groups": GROUP}, "int4"),
    "quark": ({"exclude": ["lm_head"]}, "fp8"),
    "torchao": ({"quant_type": {"default": {}}}, "fp8"),
    "inc": ({"bits": 4}, "gptq"),
    "humming": ({"ignore": ["lm_head"]}, "int4"),
    "bitsandbytes": ({"load_in_4bit": True}, "bnb"),
    "mxfp4": ({}, "BF16"),
    "gpt_oss_mxfp4": ({}, "BF16"),
    "experts_int8": ({}, "BF16"),
    "gguf": ({}, "BF16"),
    "cpu_awq": ({"bits": 4}, "gptq"),
    **{name: ({}, "BF16") for name in WHILE_LOADING},
}
# They quantise no linear layer of a checkpoint, or what their table names, and no head is in it.
WITHOUT_LINEAR = ("mxfp4", "gpt_oss_mxfp4", "experts_int8", "modelopt_mixed")


@pytest.fixture(scope="module")
def trees():
    with ExitStack() as stack:
        yield {v: stack.enter_context(Context().tree(parse_vllm(v))) for v in RELEASES}


def registered(tree):
    for node in ast.parse(tree.read(f"{FOLDER}/__init__.py")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "QuantizationMethods":
            return {one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant)}
    raise AssertionError


@pytest.mark.slow
def test_each_method_of_each_registry_has_a_form_here(trees, tmp_path):
    folders = {
        name: b.look_at(by_method(tmp_path / name, name, kind, **keys))
        for name, (keys, kind) in FORMS.items()
    }
    for version, tree in trees.items():
        names = registered(tree)
        assert names <= set(FORMS), version
        files = files_of(tree)
        for name, found in folders.items():
            reads = support_of(found, files, version).quantisation
            # The class of another method may read it: override_quantization_method.
            if name in names:
                assert reads is (name not in WHILE_LOADING), (version, name)
            elif reads:
                assert any(f'"{name}"'.encode() in text for text in files.values()), name


@pytest.mark.parametrize("method", FORMS)
def test_a_config_of_its_own_form_is_understood_or_named(method, tmp_path):
    keys, kind = FORMS[method]
    folder = by_method(tmp_path / "covered", method, kind, **keys)
    found, notes = faults(folder), findings(folder)
    if method in WHILE_LOADING:
        assert list(found) == ["method-refused"]
        assert method in notes["method-refused"].what
        return
    if method not in METHODS:
        assert found == {}
        assert method in notes["method-unknown"].what
        return
    assert "method-unknown" not in notes
    by_tensors = b.look_at(folder).quantisation.by_tensors
    covers = method not in WITHOUT_LINEAR and not by_tensors
    assert list(found) == (["mtp-format"] if covers else [])
    head = quantised(b.mimo_head(), kind, *LAYERS)
    twin = by_method(tmp_path / "twin", method, kind, head=head, **keys)
    expected = ["quantised-left-out"] if method == "modelopt_mixed" else []
    assert list(faults(twin)) == expected


def test_the_forms_are_those_of_the_methods():
    assert set(METHODS) - {"auto-round", MODELSLIM_METHOD} <= set(FORMS)


def class_of(tree, path, name):
    (node,) = (
        one
        for one in ast.parse(tree.read(path)).body
        if isinstance(one, ast.ClassDef) and one.name == name
    )
    return node


def runnable(definition, *names):
    """Functions of a class of vLLM, without annotations and decorators."""
    body = [f for f in definition.body if isinstance(f, ast.FunctionDef) and f.name in names]
    for one in body:
        one.returns, one.decorator_list = None, []
        for argument in one.args.args:
            argument.annotation = None
        for node in ast.walk(one):
            if isinstance(node, ast.AnnAssign):
                node.annotation = ast.Constant("Any")
    scope = {"re": re}
    module = ast.fix_missing_locations(ast.Module(body, type_ignores=[]))
    exec(compile(module, definition.name, "exec"), scope)  # noqa: S102 - of a pinned archive
    return [scope.get(name) for name in names]


@pytest.mark.slow
def test_methods_of_the_command_line_refuse_a_config(trees):
    for tree in trees.values():
        (online,) = runnable(
            class_of(tree, f"{FOLDER}/online/base.py", "OnlineQuantizationConfig"), "from_config"
        )
        with pytest.raises(NotImplementedError):
            online(None, {"quant_method": "online"})
        (wna16,) = runnable(
            class_of(tree, f"{FOLDER}/moe_wna16.py", "MoeWNA16Config"), "from_config"
        )
        own = SimpleNamespace(
            get_from_keys=lambda config, keys: config.get(keys[0]),
            get_from_keys_or=lambda config, keys, default: config.get(keys[0], default),
        )
        with pytest.raises(ValueError, match="only support gptq and awq"):
            wna16(own, {"quant_method": "moe_wna16"})


NAMES = ("lm_head", "mtp.fc", "model.layers.1.mlp.down_proj", "model.layers.11.self_attn.qkv_proj")


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["mtp", "layers.1.", r"re:.*\.mlp\.", "re:mtp", "down_proj"])
def test_humming_compares_so(entry, trees):
    for version, tree in trees.items():
        (skips,) = runnable(
            class_of(tree, f"{FOLDER}/humming.py", "HummingConfig"), "is_layer_skipped"
        )
        own = SimpleNamespace(get_from_keys_or=lambda config, keys, _: config.get(keys[1]))
        hits = {n for n in NAMES if skips(own, {"ignore": [entry]}, n)} - {"lm_head"}
        is_pattern = entry.startswith("re:")
        matching = Matching.LATER_REGEX if is_pattern else Matching.ANYWHERE
        later = RELEASES.index(version) >= RELEASES.index("0.26.0")
        expected = set(Entry(entry, matching).those(NAMES)) if later or not is_pattern else set()
        assert hits == expected - {"lm_head"}


MIXED_TABLES = (
    ["model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.k_proj"],
    [f"model.layers.0.self_attn.{name}_proj" for name in "qkvo"],
    ["model.layers.0.self_attn.qkv_proj", "lm_head"],
    ["model.layers.0.mlp.gate_proj", "model.layers.0.mlp.up_proj"],
    ["model.layers.0.mlp.experts.0.up_proj", "model.language_model.layers.0.mlp.down_proj"],
    ["model.layers.0.mlp.up_proj", "model.layers.0.mlp.shared_experts.up_proj"],
    ["model.layers.0.mlp.experts", "language_model.model.layers.0.mlp.down_proj"],
)
START = "model.layers.0"
MODULES = (
    RunTime(
        f"{START}.self_attn.qkv_proj",
        tuple(f"{START}.self_attn.{one}_proj" for one in "qkv"),
        tuple(f"{START}.self_attn.{one}_proj" for one in "qkv"),
        "0.20.0",
    ),
    RunTime(f"{START}.self_attn.o_proj", (f"{START}.self_attn.o_proj",)),
    RunTime(f"{START}.mlp.gate_up_proj", (f"{START}.mlp.gate_up_proj",)),
    RunTime(f"{START}.mlp.experts.0.up_proj", (f"{START}.mlp.experts.0.up_proj",)),
    RunTime("language_model.lm_head", ("lm_head",)),
    RunTime("model.language_model.layers.0.mlp.down_proj", ("x",)),
)
PACKED = {"qkv_proj": ["q_proj", "k_proj", "v_proj"]}


@pytest.mark.slow
@pytest.mark.parametrize("table", MIXED_TABLES, ids=lambda one: one[0])
def test_mixed_precision_finds_layers_so(table, trees):
    config = {
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {name: {"quant_algo": "NVFP4"} for name in table},
    }
    quantisation = Quantisation(("quantization_config",), {"quant_method": "modelopt", **config})
    covered = covered_by_layers(quantisation, Naming(), MODULES)
    by_release = {}
    for version, tree in trees.items():
        resolve, candidates = runnable(
            class_of(tree, f"{FOLDER}/modelopt.py", "ModelOptMixedPrecisionConfig"),
            *("_resolve_quant_algo", "_quantized_layer_prefix_candidates"),
        )
        own = SimpleNamespace(
            quantized_layers=config["quantized_layers"],
            packed_modules_mapping=PACKED,
            _quantized_layer_prefix_candidates=candidates,
        )
        asked = {one.name: one.name.replace("experts.0.up_proj", "experts") for one in MODULES}
        by_release[version] = {name for name, one in asked.items() if resolve(own, one)}
    assert covered.always == set.intersection(*by_release.values())
    assert covered.ever == set.union(*by_release.values())


# --- ModelOpt's table


def mixed(folder, table, *, head="BF16", **keys):
    tensors = quantised(b.mimo_head(), head, *LAYERS) if head != "BF16" else b.mimo_head()
    keys = {"quant_algo": "MIXED_PRECISION", "quantized_layers": table, **keys}
    return by_method(folder, "modelopt", "nvfp4", head=tensors, **keys)


HEAD_TABLE = {
    name.replace("layers.0", "layers.2"): one for name, one in TABLE.items() if "layers.0" in name
}


def test_mixed_precision_and_its_clean_twins(tmp_path):
    assert faults(mixed(tmp_path / "a", TABLE)) == {}
    assert findings(mixed(tmp_path / "b", TABLE))["mtp-format-differs"].what.endswith(
        "as the quantisation config says"
    )
    assert faults(mixed(tmp_path / "c", TABLE | HEAD_TABLE, head="nvfp4")) == {}


def test_mixed_precision_that_covers_an_unquantised_head(tmp_path):
    found = faults(mixed(tmp_path, TABLE | HEAD_TABLE))
    assert list(found) == ["mtp-format"]
    assert len(found["mtp-format"].modules) == 4
    assert "lm_head" not in found["mtp-format"].hint


def test_mixed_precision_that_does_not_name_a_quantised_head(tmp_path):
    found = faults(mixed(tmp_path, TABLE, head="nvfp4"))
    assert list(found) == ["quantised-left-out"]
    one = found["quantised-left-out"]
    assert "quantization_config.quantized_layers leaves them out" in one.what
    assert one.hint == "name them in quantization_config.quantized_layers"


def test_mixed_precision_without_its_table(tmp_path):
    found = faults(mixed(tmp_path, {}))
    assert list(found) == ["method-refused"]


# --- scales, adapters and GGUF


def test_scales_of_an_unquantised_head(tmp_path):
    head = b.mimo_head()
    scales = {"lm_head.input_scale": ("F32", ()), "lm_head.weight_scale": ("F32", ())}
    dynamic = {"activation_scheme": "dynamic"}
    folder = by_method(tmp_path / "wrong", "fp8", "fp8", head=head | scales, **dynamic)
    assert faults(folder)["stray-scales"].modules == ("lm_head.input_scale", "lm_head.weight_scale")
    clean = quantised(head, "fp8", *LAYERS)
    assert faults(by_method(tmp_path / "clean", "fp8", "fp8", head=clean, **dynamic)) == {}


@pytest.mark.parametrize(("scheme", "has", "kinds"), [
    ("static", True, []), ("static", False, ["activation-scales"]),
    ("dynamic", False, []), ("dynamic", True, ["activation-scales"]),
])  # fmt: skip
def test_scales_of_activations(scheme, has, kinds, tmp_path):
    tensors = quantised(b.mimo_head(), "fp8", *LAYERS) | quantised(b.trunk(), "fp8", *LAYERS)
    eights = [name.removesuffix(".weight") for name, one in tensors.items() if one[0] == "F8_E4M3"]
    scales = {f"{name}.input_scale": ("F32", ()) for name in eights}
    config = b.config_of("MiMoForCausalLM", num_nextn_predict_layers=1)
    config["quantization_config"] = {"quant_method": "fp8", "activation_scheme": scheme}
    folder = b.write_checkpoint(tmp_path, config, tensors | (scales if has else {}))
    assert list(faults(folder)) == kinds
    if kinds:
        assert len(faults(folder)["activation-scales"].modules) == len(eights)


LORA = "base_model.model.model.layers.0.self_attn.q_proj"


@pytest.mark.parametrize("name", [
    f"{LORA}.lora_A.weight", "model.layers.0.self_attn.q_proj.base_layer.weight",
    "model.layers.0.self_attn.q_proj.lora_B.default.weight",
])  # fmt: skip
def test_names_of_an_adapter(name, tmp_path):
    config = b.config_of("LlamaForCausalLM")
    folder = b.write_checkpoint(tmp_path / "wrong", config, b.trunk() | {name: b.matrix()})
    one = faults(folder)["adapter-names"]
    assert one.modules == (name,)
    assert re.search(one.pattern, name)
    assert faults(b.write_checkpoint(tmp_path / "clean", config, b.trunk())) == {}


@pytest.mark.parametrize("config", [True, False])
def test_gguf(config, tmp_path):
    (tmp_path / "model-Q4_K_M.gguf").write_bytes(b"GGUF")
    if config:
        (tmp_path / "config.json").write_text("{}")
    for path in (tmp_path, tmp_path / "model-Q4_K_M.gguf"):
        with fails("checkpoint.wrong-format", "it is in GGUF") as caught:
            b.look_at(path)
        assert ("there is no config.json" in str(caught.value)) is not config
        assert "vllm-gguf-plugin" in (caught.value.hint or "")
