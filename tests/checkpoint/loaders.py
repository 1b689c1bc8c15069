"""What the loader of a release does with the tensors of an MTP layer: its own code, run on names.

It runs `load_weights` of the draft model, and after it what the default loader asks for. Parameters
are those that the classes of the draft make, and their values are nothing.
"""

from __future__ import annotations

import ast
import re
from types import SimpleNamespace

MODELS = "vllm/model_executor/models"
_LOADER = "vllm/model_executor/model_loader/default_loader.py"
LAYERS = 2
_UTILS = f"{MODELS}/utils.py"
# Layers with a method of quantisation, which is one for no quantisation as well.
_WITH_METHOD = ("ParallelLMHead", "VocabParallelEmbedding", "ReplicatedLinear")
_BARE = ("RMSNorm", "GemmaRMSNorm", "nn.Linear")


class LoaderRefusalError(Exception):
    """A release would end with an error, and this is what it says."""


class _Nothing:
    """A tensor or a parameter without a value."""

    shape, ndim, requires_grad = (8, 8), 2, True

    def __getitem__(self, _):
        return self

    def numel(self):
        return 64

    def weight_loader(self, *_, **__):
        return True


class _Module(ast.NodeTransformer):
    """Takes away what an annotation or a decorator would ask for."""

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        node.returns, node.decorator_list = None, []
        for argument in (*node.args.args, *node.args.kwonlyargs):
            argument.annotation = None
        return node

    def visit_AnnAssign(self, node):
        return ast.Assign([node.target], node.value, lineno=node.lineno) if node.value else None


def _parsed(tree, path):
    return _Module().visit(ast.parse(tree.read(path)))


def _functions(module):
    return {one.name: one for one in module.body if isinstance(one, ast.FunctionDef)}


def _classes(tree, module, path):
    """Return the classes of a file, and those that it takes from its neighbours."""
    classes = {one.name: one for one in module.body if isinstance(one, ast.ClassDef)}
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and any(a.name == "SharedHead" for a in node.names):
            name = (node.module or "").rpartition(".")[2]
            there = f"{path.rpartition('/')[0]}/{name}.py" if node.level else f"{MODELS}/{name}.py"
            for one in ast.parse(tree.read(there)).body:
                if isinstance(one, ast.ClassDef) and one.name == "SharedHead":
                    classes[one.name] = one
    return classes


def _made(definition):
    """Return what `__init__` of a class makes: attribute, and the class of it."""
    (init,) = (f for f in definition.body if getattr(f, "name", None) == "__init__")
    for node in ast.walk(init):
        match node:
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Call(func=function)):
                yield name, ast.unparse(function)


def _parameters(classes, layers):
    """Return the parameters of a draft, and those of them whose layer has a method."""
    (layer,) = (c for name, c in classes.items() if name.endswith("PredictorLayer"))
    own = {}
    for name, kind in _made(layer):
        inner = _made(classes[kind]) if kind in classes else [("", kind)]
        own |= {f"{name}.{part}".rstrip("."): one for part, one in inner}
    own = {name: one for name, one in own.items() if one in {*_WITH_METHOD, *_BARE}}
    own["mtp_block.input_layernorm"], own["mtp_block.self_attn.o_proj"] = "RMSNorm", "Linear"
    numbers = range(LAYERS, LAYERS + layers)
    kinds = {f"model.layers.{n}.{name}": kind for n in numbers for name, kind in own.items()}
    kinds["model.embed_tokens"] = "VocabParallelEmbedding"
    return kinds


class DraftLoader:
    """The loader of a draft model of a release, made ready to be run on the names of tensors."""

    def __init__(self, tree, path, name):
        module = _parsed(tree, path)
        self._classes = _classes(tree, module, path)
        self._exempt = "has_postprocess_quant" in tree.read(_LOADER).decode()
        nearby = {}
        for node in module.body:
            if isinstance(node, ast.ImportFrom):
                inner = (node.module or "").replace(".", "/")
                file = f"{path.rpartition('/')[0]}/{inner}.py" if node.level else f"{inner}.py"
                nearby |= {a.name: file for a in node.names if a.name in _HELPERS}
        methods = [m for m in self._classes[name].body if isinstance(m, ast.FunctionDef)]
        self._methods = [m.name for m in methods if m.name in _USED]
        helpers = _functions(module)
        for helper, file in nearby.items():
            there = _functions(_parsed(tree, file))
            # A file may have it from another one.
            helpers[helper] = there.get(helper) or _functions(_parsed(tree, _UTILS))[helper]
        body = [*helpers.values(), *(m for m in methods if m.name in _USED)]
        self._scope = {**_STUBS, "re": re}
        code = ast.fix_missing_locations(ast.Module(body, type_ignores=[]))
        exec(compile(code, path, "exec"), self._scope)  # noqa: S102 - of a pinned archive

    def load(self, names, *, layers=1, quantised=False):
        """Load tensors of these names; return what it says that it loaded, None if it does not.

        Raises:
            LoaderRefusalError: it ends with an error.
        """
        kinds = _parameters(self._classes, layers)
        config = SimpleNamespace(
            num_hidden_layers=LAYERS, num_nextn_predict_layers=layers, n_routed_experts=0,
            num_experts=0, num_attention_heads=1, tie_word_embeddings=False, n_shared_experts=0,
        )  # fmt: skip
        parameters = {f"{name}.weight": _Nothing() for name in kinds}
        model = SimpleNamespace(
            config=config,
            quant_config=None,
            is_fused_shared_expert_enabled=False,
            named_parameters=lambda: list(parameters.items()),
            model=SimpleNamespace(mtp_start_layer_idx=LAYERS, num_mtp_layers=layers),
        )
        for name in self._methods:
            setattr(model, name, _bound(self._scope[name], model))
        try:
            loaded = model.load_weights([(name, _Nothing()) for name in names])
        except (KeyError, ValueError, RuntimeError) as error:
            raise LoaderRefusalError(f"{type(error).__name__}: {error}") from error
        if loaded is None or quantised:
            return loaded
        with_method = {f"{one}.weight" for one, kind in kinds.items() if kind not in _BARE}
        missing = set(parameters) - set(loaded) - (with_method if self._exempt else set())
        if missing:
            raise LoaderRefusalError(f"not initialized from checkpoint: {sorted(missing)}")
        return loaded


def _bound(function, model):
    return lambda *arguments: function(model, *arguments)


_HELPERS = ("get_spec_layer_idx_from_weight_name", "_get_cla_factor", "_is_moe")
_USED = (
    *("load_weights", "_rewrite_spec_layer_name", "get_spec_layer", "is_unused_checkpoint_weight"),
    "_split_qkv_weight",
)
_STUBS = {
    "rocm_aiter_ops": SimpleNamespace(is_fusion_moe_shared_experts_enabled=lambda: False),
    "fused_moe_make_expert_params_mapping": lambda *_, **__: [],
    "FusedMoE": SimpleNamespace(make_expert_params_mapping=lambda *_, **__: []),
    "get_pp_missing_layer_names": lambda _: [],
    "_try_load_fp8_indexer_wk": lambda *_: False,
    "maybe_remap_kv_scale_name": lambda name, _: name,
    "is_mtp_completeness_check_enabled": lambda: True,
    "is_pp_missing_parameter": lambda *_: False,
    "default_weight_loader": lambda *_: None,
}
