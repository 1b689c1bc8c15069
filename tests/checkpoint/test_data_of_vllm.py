"""What is data here about vLLM's models is what its releases have."""

from __future__ import annotations

import ast
import re
from contextlib import ExitStack
from fnmatch import fnmatch
from types import MappingProxyType, SimpleNamespace

import pytest

from vpatch.checkpoint.conversions import SUFFIXES
from vpatch.checkpoint.fused import _COMMON, _DEEPSEEK_V4, _GATED, _VISION
from vpatch.checkpoint.gaps import RELEASES
from vpatch.checkpoint.list_entry import Entry, Matching
from vpatch.checkpoint.schemes import FAMILIES
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context

CONFIG = "vllm/config/speculative.py"
REGISTRY = "vllm/model_executor/models/registry.py"

# It fetches the archives of all these releases.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trees():
    with ExitStack() as stack:
        yield {v: stack.enter_context(Context().tree(parse_vllm(v))) for v in RELEASES}


def text(tree, path):
    return tree.read(path).decode()


def since(trees, holds):
    """The first of these releases that something holds for; it must hold in all later ones."""
    held = [holds(tree) for tree in trees.values()]
    assert held == sorted(held)
    return RELEASES[held.index(True)]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.architectures[0])
def test_a_family_has_mtp_since(family, trees):
    registries = {release: text(tree, REGISTRY) for release, tree in trees.items()}
    for release in RELEASES[RELEASES.index(family.since) :]:
        assert any(f'"{name}"' in registries[release] for name in family.architectures)
    for name in family.architectures:
        assert any(f'"{name}"' in registry for registry in registries.values())
    assert family.key in text(trees["0.33.0"], CONFIG) or family.always
    source = f"vllm/{family.scheme.source}"
    assert source in trees["0.33.0"].paths()


def test_families_that_began_later(trees):
    begins = {
        "0.21.0": '"MiMoV2OmniForCausalLM"',
        "0.24.0": '"MiniMaxM3SparseForConditionalGeneration"',
    }
    for release, word in begins.items():
        assert since(trees, lambda t, w=word: w in text(t, REGISTRY)) == release
    assert since(trees, lambda t: "qwen3_5_text" in text(t, CONFIG)) == "0.28.0"


@pytest.mark.parametrize(
    "family",
    [family for family in FAMILIES if family.scheme.glue],
    ids=lambda f: f.architectures[0],
)
def test_the_loader_has_what_joins_a_layer(family, trees):
    source = text(trees["0.33.0"], f"vllm/{family.scheme.source}")
    for glue in family.scheme.glue:
        # tests/checkpoint/test_loaders.py looks at what is inside of it.
        first = glue.partition("|")[0].partition(".")[0]
        assert re.search(rf"\b{first}\b", source)


@pytest.mark.parametrize(
    "family", [f for f in FAMILIES if f.default], ids=lambda f: f.architectures[0]
)
def test_what_a_draft_takes_without_the_key(family, trees):
    source = family.scheme.source
    if family.key == "mtp_num_hidden_layers":
        # The names are those of Qwen3-Next, and the draft is another one.
        source = source.replace("qwen3_next_mtp", "qwen3_5_mtp")
    folder, _, name = source.rpartition("/")
    file = f"vllm/{folder}/nvidia/mtp.py" if name == "__init__.py" else f"vllm/{folder}/{name}"
    for release in RELEASES[RELEASES.index(family.since) :]:
        assert f'getattr(config, "{family.key}", 1)' in text(trees[release], file), release


def declared(tree, source):
    """The packed_modules_mapping of a file's classes, and what __init__ adds."""
    if source not in tree.paths():
        return {}
    found = {}
    for node in ast.walk(ast.parse(tree.read(source))):
        target = getattr(node, "targets", [getattr(node, "target", None)])[0]
        if "packed_modules_mapping" not in (ast.unparse(target) if target else ""):
            continue
        for part in ast.walk(node):
            if isinstance(part, ast.Dict):
                for key, value in zip(part.keys, part.values, strict=True):
                    if isinstance(key, ast.Constant):
                        found[key.value] = ast.literal_eval(value)
        if isinstance(target, ast.Subscript):
            found[ast.literal_eval(target.slice)] = ast.literal_eval(node.value)
    return found


FUSED = {f.name + f.source: f for f in (*_COMMON, *_GATED, *_DEEPSEEK_V4.fused)}


@pytest.mark.parametrize("fused", FUSED.values(), ids=lambda f: f.name)
def test_a_fused_module_is_declared_since(fused, trees):
    def holds(tree):
        found = declared(tree, f"vllm/{fused.source}").get(fused.name)
        return found is not None and set(found) == set(fused.parts)

    assert since(trees, holds) == fused.declared


def test_what_is_fused_is_loaded_so_before_it_is_declared(trees):
    source = text(trees["0.23.0"], "vllm/models/deepseek_v4/nvidia/model.py")
    for fused in _DEEPSEEK_V4.fused:
        assert fused.name in source
        assert all(f'{part}"' in source for part in fused.parts)


@pytest.mark.parametrize(
    ("source", "naming"),
    [
        ("vllm/models/deepseek_v4/nvidia/model.py", _DEEPSEEK_V4),
        ("vllm/model_executor/models/qwen3_vl.py", _VISION),
    ],
)
def test_prefixes_are_those_of_the_mapper(source, naming, trees):
    for release in ("0.23.0", "0.33.0"):
        for old, new in naming.prefixes:
            assert f'"{old}": "{new}"' in text(trees[release], source)


def function_of(tree, path, name):
    """A function of vLLM, without what it is annotated with, as a function here."""
    (node,) = (
        one
        for one in ast.walk(ast.parse(tree.read(path)))
        if isinstance(one, ast.FunctionDef) and one.name == name
    )
    node.returns = None
    for argument in (*node.args.args, *node.args.kwonlyargs):
        argument.annotation = None
    names = {"MappingProxyType": MappingProxyType, "fnmatch": fnmatch}
    exec(compile(ast.unparse(node), path, "exec"), names)  # noqa: S102 - of a pinned archive
    return names[name], names


def test_glm_ocr_is_not_read_in_some_releases(trees):
    models = "vllm/model_executor/models"
    config = SimpleNamespace(num_nextn_predict_layers=1, num_hidden_layers=16)
    reads = {}
    for release, tree in trees.items():
        imported = "from .glm4 import Glm4DecoderLayer, get_spec" in text(
            tree, f"{models}/glm_ocr_mtp.py"
        )
        file = f"{models}/{'glm4' if imported else 'utils'}.py"
        layer, _ = function_of(tree, file, "get_spec_layer_idx_from_weight_name")
        reads[release] = layer(config, "model.language_model.layers.16.eh_proj.weight") == 16
    without = {release for release, one in reads.items() if not one}
    assert without == {"0.26.0", "0.27.0", "0.27.1", "0.28.0", "0.29.0"}


def test_a_shared_head_of_step_has_a_name_since(trees):
    path = "vllm/model_executor/models/step3p5_mtp.py"
    named = since(trees, lambda tree: 'prefix=f"{prefix}.shared_head"' in text(tree, path))
    modelopt = "vllm/model_executor/layers/quantization/modelopt.py"
    word = "isinstance(layer, (LinearBase, ParallelLMHead))"
    covered = since(trees, lambda tree: word in text(tree, modelopt))
    assert (named, covered) == ("0.27.0", "0.23.0")


FC = {
    "qwen3_5_mtp": "0.20.0",
    "qwen3_next_mtp": "0.25.0",
    "exaone_moe_mtp": None,
}
"""The first release in which a draft leaves its fc unquantised under ModelOpt's NVFP4."""


@pytest.mark.parametrize("file", FC)
def test_fc_is_unquantised_under_nvfp4_since(file, trees):
    path = f"vllm/model_executor/models/{file}.py"
    leaves = [release for release, tree in trees.items() if "modelopt_fp4" in text(tree, path)]
    first = FC[file]
    assert leaves == (list(RELEASES[RELEASES.index(first) :]) if first else [])


HEAD_CALLS = {
    "deepseek_mtp": "SharedHead(config=config,prefix=prefix,",
    "glm4_moe_mtp": "SharedHead(config=config,prefix=prefix,",
    "glm4_moe_lite_mtp": "SharedHead(config=config,prefix=prefix,",
    "glm_ocr_mtp": "SharedHead(config=config,prefix=prefix,",
    "openpangu_mtp": 'prefix=maybe_prefix(prefix,"shared_head")',
    "hy_v3_mtp": "HYV3SharedHead(config=config,quant_config=quant_config)",
}


@pytest.mark.parametrize("file", HEAD_CALLS)
def test_the_name_by_which_a_head_of_a_layer_asks_the_config(file, trees):
    for tree in trees.values():
        source = re.sub(r"\s", "", text(tree, f"vllm/model_executor/models/{file}.py"))
        assert HEAD_CALLS[file] in source
        if "classSharedHead" in source:
            assert 'prefix=maybe_prefix(prefix,"head")' in source


NAMES = (
    *("lm_head", "mtp.fc", "mtp.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj"),
    *("model.layers.11.mlp.down_proj", "language_model.model.layers.1.self_attn.o_proj"),
    "visual.blocks.1.mlp.down_proj",
)
TEXTS = (
    *("lm_head", "mtp", "mtp.fc", "model.layers.1", "layers.1", "down_proj", "mlp.down_proj"),
    *("*mtp*", "model.layers.1.*", "*.down_proj", "visual", "visual.*", "o_proj"),
)


@pytest.mark.parametrize("release", ["0.20.0", "0.27.1", "0.33.0"])
@pytest.mark.parametrize("entry", TEXTS)
def test_entries_are_compared_as_vllm_compares_them(entry, release, trees):
    tree, folder = trees[release], "vllm/model_executor/layers/quantization"
    skip, _ = function_of(tree, f"{folder}/torchao.py", "should_skip")
    assert Entry(entry, Matching.COMPONENTS).those(NAMES) == [n for n in NAMES if skip(n, [entry])]
    if f"{folder}/bitsandbytes.py" in tree.paths():
        skip, _ = function_of(tree, f"{folder}/bitsandbytes.py", "is_layer_skipped_bnb")
        hits = [n for n in NAMES if skip(n, [entry])]
        assert Entry(entry, Matching.BEGINNING).those(NAMES) == hits
    plain, _ = function_of(tree, f"{folder}/utils/quant_utils.py", "is_layer_skipped")
    assert Entry(entry, Matching.EXACT).those(NAMES) == [n for n in NAMES if plain(n, [entry])]
    excluded, names = function_of(tree, f"{folder}/modelopt.py", "is_layer_excluded")
    names["is_layer_skipped"] = plain
    config = SimpleNamespace(exclude_modules=[entry], packed_modules_mapping={})
    hits = [name for name in NAMES if excluded(config, name)]
    assert Entry(entry, Matching.WILDCARD).those(NAMES) == hits


def test_how_the_names_of_models_end(trees):
    for release, tree in trees.items():
        (table,) = (
            node.value
            for node in ast.parse(text(tree, "vllm/config/model.py")).body
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "_SUFFIX_TO_DEFAULTS"
        )
        rows = ast.literal_eval(table)
        assert [(suffix, runner) for suffix, (runner, _) in rows] == [*SUFFIXES.items()], release


@pytest.mark.parametrize(("path", "line"), [
    ("vllm/transformers_utils/config.py", '    "llm_config": "text_config",'),
    ("vllm/transformers_utils/config.py", "            if is_mistral_model_repo("),
    (
        "vllm/model_executor/layers/quantization/fp8.py",
        '        activation_scheme = cls.get_from_keys(config, ["activation_scheme"])',
    ),
])  # fmt: skip
def test_what_each_release_does_with_a_config(path, line, trees):
    assert [v for v, tree in trees.items() if line not in text(tree, path).splitlines()] == []
