"""Oracles of the patches for models and for the configuration. They run what a patch edits."""

from __future__ import annotations

import ast
import inspect
import re
from itertools import product
from typing import Any

from mutants.scene import Answer, Given, Scene, together
from mutants.world import CannotSayError, Stub, World

PROJECTIONS = ("e_proj", "h_proj")
SPECULATIVE = "vllm/config/speculative.py"
O_PROJ = "vllm/models/deepseek_v4/nvidia/ops/o_proj.py"
MATMULS = ("bmm", "einsum", "matmul", "baddbmm", "linear", "operator.matmul")


def mtp_proj_prefix(scene: Scene) -> Answer:
    """Construct each class that has a projection, and look at the names that these got."""
    answers: list[Answer] = []
    for path in scene.holding(r"\b[eh]_proj\b"):
        text = scene.files[path].decode()
        names = {
            node.name
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.ClassDef)
            and re.search(r"\b[eh]_proj\b", ast.get_source_segment(text, node) or "")
        }
        for truth, name in product((True, False), sorted(names)):
            world = scene.world(path, truth=truth, special=_linears())
            found = getattr(world.run(path), name, None)
            if isinstance(found, type):
                answers += _projections(world, found, scene)
    return together(answers)


class Linear:
    def __init__(self, prefix: object) -> None:
        self.prefix = prefix


def _linears() -> dict[str, Any]:
    def linear(
        input_size: object,  # noqa: ARG001
        output_size: object,  # noqa: ARG001
        bias: object = True,  # noqa: ARG001, FBT002
        skip_bias_add: object = False,  # noqa: ARG001, FBT002
        params_dtype: object = None,  # noqa: ARG001
        quant_config: object = None,  # noqa: ARG001
        prefix: object = "",
        **_: object,
    ) -> Linear:
        return Linear(prefix)

    return {
        "ReplicatedLinear": linear,
        "maybe_prefix": lambda prefix, name: f"{prefix}.{name}" if prefix else name,
    }


def _projections(world: World, found: type, scene: Scene) -> list[Answer]:
    layer: Any = object.__new__(found)
    parameters = list(inspect.signature(found.__init__).parameters.values())[1:]
    wanted = scene.name("prefix")
    own = next((p.name for p in parameters if p.name == wanted), "prefix")
    given = {
        p.name: f"<{p.name}>" if p.name == own else Stub(world, f"<{p.name}>")
        for p in parameters
        if p.kind in {p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY} and p.default is p.empty
    }
    if not any(p.name == own for p in parameters):
        return []
    layer.__init__(**given | {own: f"<{own}>"})
    made = {name: layer.__dict__.get(name) for name in PROJECTIONS}
    return [
        "cured" if linear.prefix == f"<{own}>.{name}" else "defect"
        for name, linear in made.items()
        if isinstance(linear, Linear)
    ]


class Constructed(BaseException):
    """The draft's ModelConfig is made; not an Exception, so that the code does not catch it."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given


def draft_hf_config_path(scene: Scene) -> Answer:
    """Run `__post_init__` up to the draft's ModelConfig, for drafts of two kinds."""
    answers: list[Answer] = []
    for path, name in scene.entries(SPECULATIVE, "SpeculativeConfig"):
        own = _draft_config(scene, path, name, method="mtp", model=None)
        if own is None:
            answers.append("absent")
            continue
        weights = _draft_config(scene, path, name, method="mtp", model=None, weights="/w")
        other = _draft_config(scene, path, name, method="eagle", model="/draft")
        values = [(own or {}).get("hf_config_path"), (weights or {}).get("hf_config_path")]
        right = values == ["/config"] * 2 and not (other or {}).get("hf_config_path")
        answers.append("cured" if right else "defect")
    return together(answers)


def _draft_config(
    scene: Scene, path: str, name: str, *, method: str, model: str | None, weights: str = ""
) -> dict[str, Any] | None:
    def config(*_: object, **given: Any) -> Any:
        if given.get("runner") == "draft":
            raise Constructed(given)
        return Stub(world, "ModelConfig()")

    world = scene.world(path, special={"ModelConfig": config}, truth=False)
    found = getattr(world.run(path), name, None)
    if found is None:
        return None
    made: Any = object.__new__(found)
    for field in inspect.get_annotations(found):
        value = found.__dict__.get(field)
        made.__dict__[field] = None if isinstance(value, Stub) else value
    made.__dict__.update(method=method, model=model, num_speculative_tokens=1)
    made.__dict__["target_model_config"] = Given(
        world,
        "target",
        model="/model",
        model_weights=weights,
        hf_config_path="/config",
        quantization=None,
    )
    try:
        getattr(made, scene.name("__post_init__"))()
    except Constructed as done:
        return done.given
    raise CannotSayError("no draft's ModelConfig was made")


def o_proj_bf16_fallback(scene: Scene) -> Answer:
    """Run the O projection with weights of three kinds."""
    answers: list[Answer] = []
    if O_PROJ in scene.files:
        entries = scene.entries(O_PROJ, "deep_gemm_fp8_o_proj")
    else:
        name = "DeepseekV4MultiHeadLatentAttentionWrapper"
        paths = scene.holding(rf"\b{scene.name(name)}\b.*:")
        entries = scene.entries(paths[0] if paths else "", name)
    for path, name in entries:
        if not hasattr(scene.world(path, special=_projecting(None)).run(path), name):
            answers.append("absent")
            continue
        if not _projects(scene, path, name, "fp8", "weight_scale_inv"):
            raise CannotSayError("the FP8 way does not run")
        rest = [("bf16", ""), ("fp8", "weight_scale")]
        done = [_projects(scene, path, name, dtype, scale) for dtype, scale in rest]
        answers.append("cured" if all(done) else "defect")
    return together(answers)


class Weights:
    """A wo_a: its weight of some dtype, and one scale or none."""

    def __init__(self, world: World, dtype: str, scale: str) -> None:
        self.weight = Given(world, "wo_a.weight", dtype=dtype)
        if scale:
            setattr(self, scale, "its scale")


def _projecting(_: object) -> dict[str, Any]:
    return {"float8_e4m3fn": "fp8", "bfloat16": "bf16", "dtype": "bf16"}


def _projects(scene: Scene, path: str, name: str, dtype: str, scale: str) -> bool:
    """Whether the projection does with a weight what it should."""
    world = scene.world(path)
    pair = (Stub(world, "o_fp8"), Stub(world, "o_scale"))
    quantised: list[object] = []

    def fused(*_: object, **given: Any) -> Any:
        quantised.append(given.get("quantize", True))
        return pair

    gave: list[object] = []

    def wo_b(value: object) -> Any:
        gave.append(value)
        return value

    world.special = {
        **_projecting(None),
        "fused_inv_rope_fp8_quant": fused,
        "is_rocm": lambda: False,
        "wo_b": wo_b,
    }
    found = getattr(world.run(path), name)
    weights = Weights(world, dtype, scale)
    try:
        if isinstance(found, type):
            layer: Any = object.__new__(found)
            layer.__dict__.update(wo_a=weights, wo_b=wo_b)
            given = {p: Stub(world, p) for p in required(found.forward)[1:]}
            made = layer.forward(**given)
        else:
            names = required(found)
            cache = Stub(world, "cos_sin_cache")
            given = dict.fromkeys(names, Stub(world, "given"))
            first = dict(
                zip(names, [Stub(world, "o"), Stub(world, "positions"), cache], strict=False)
            )
            made = found(**given | first | {names[3]: weights, names[4]: wo_b})
    except (AttributeError, NameError, TypeError, ValueError):
        return False
    calls = [call.name for call in world.calls]
    by_fp8 = [c for c in world.calls if c.name.endswith("fp8_einsum")]
    if not gave or made is None:
        return False
    if dtype == "fp8":
        return all(quantised) and len(by_fp8) == 1 and "its scale" in _flat(by_fp8[0])
    turned = any(c.endswith("cos_sin_cache[]") for c in calls) or quantised == [False]
    multiplied = any(c.endswith(MATMULS) and not c.endswith("fp8_einsum") for c in calls)
    return turned and multiplied and not by_fp8 and not any(quantised)


def required(function: Any) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.default is p.empty]


def _flat(call: Any) -> list[object]:
    found: list[object] = []
    left = [*call.args, *call.kwargs.values()]
    while left:
        value = left.pop()
        if isinstance(value, tuple):
            left += value
        elif not isinstance(value, Stub):
            found.append(value)
    return found
