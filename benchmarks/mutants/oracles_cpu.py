"""Oracles of the patches for the CPU's stand-ins, and for operators that a build lacks."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any

import numpy as np

from mutants import tensors
from mutants.scene import Answer, Scene, together
from mutants.tensors import Tensor
from mutants.world import CannotSayError, Stub

STAND_INS = "vllm/utils/cpu_triton_utils.py"
PLATFORM = "vllm/platforms/cpu.py"
SAMPLER = "vllm/v1/sample/rejection_sampler.py"
# Paths with their bytes.
Texts = tuple[tuple[str, bytes], ...]
FUSION = r"vllm/compilation/passes/fusion/"


class Operators:
    """`torch.ops._C`, as far as the oracles ask it."""

    def expand_kernel_impl(self, *given: Any) -> None:
        output, values, totals, old, new = given
        if {t.dtype for t in (output, values, totals)} != {np.dtype("int64")}:
            raise TypeError("expected int64")
        counts = np.diff(totals.array, prepend=0)
        made = np.where(values.array == old, new, values.array)
        output.array[: counts.sum()] = np.repeat(made, counts)

    def sample_recovered_tokens_kernel_impl(self, *given: Any) -> None:
        if given[5].dtype != np.dtype("float32"):
            raise TypeError("expected scalar type Float but found Double")
        given[0].array[...] = 3

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


def stand_in(scene: Scene, path: str, kernel: str) -> Any:
    """The CPU's function for a kernel, or None."""
    world = scene.world(path, special={"torch": tensors.torch(Operators())})
    module = world.run(path)
    wrapper = getattr(module, scene.name(kernel), None)
    if wrapper is not None and not isinstance(wrapper, Stub):
        return wrapper[(1,)]
    named = scene.name(f"_{kernel}_impl")
    text = scene.files.get(PLATFORM, b"").decode()
    for node in ast.walk(ast.parse(text)) if kernel in text else ():
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                whole = key.value if isinstance(key, ast.Constant) else None
                if isinstance(whole, str) and whole.endswith(f".{scene.name(kernel)}"):
                    named = ast.unparse(value).rpartition(".")[2]
    return getattr(module, named, None)


def expand_copy_back(scene: Scene) -> Answer:
    """Expand values of each type that the sampler has, and look at the output it gave."""
    answers: list[Answer] = []
    for path, name in scene.entries(STAND_INS, "expand_kernel"):
        if path == STAND_INS:
            function = stand_in(scene, path, "expand_kernel")
        else:
            world = scene.world(path, special={"torch": tensors.torch(Operators())})
            function = getattr(world.run(path), name, None)
        if function is None:
            answers.append("absent")
            continue
        right = [_expands(function, dtype) for dtype in ("int64", "int32", "float32")]
        if not right[0]:
            raise CannotSayError("it does not expand int64")
        answers.append("cured" if all(right) else "defect")
    return together(answers)


def _expands(function: Any, dtype: str) -> bool:
    values = np.array([0, 5, 9], dtype) + (np.array(0.25, dtype) if dtype == "float32" else 0)
    values[0] = 0
    output = Tensor(np.full(8, -7, dtype))
    totals = Tensor(np.array([2, 3, 6], "int32"))
    function(output, Tensor(values), totals, 0, 1, MAX_NUM_TOKENS=32)
    wanted = np.repeat(np.array([1, values[1], values[2]], dtype), [2, 1, 3])
    return bool((output.array[:6] == wanted).all())


def fp64_gumbel(scene: Scene) -> Answer:
    """Call the stand-in with the constants that the kernel has, and noise of both types."""
    kernel = scene.name("sample_recovered_tokens_kernel")
    functions = (
        n for n in ast.walk(ast.parse(scene.files[SAMPLER])) if isinstance(n, ast.FunctionDef)
    )
    found = next((node for node in functions if node.name == kernel), None)
    if found is None:
        raise CannotSayError(f"no {kernel}")
    constants = {a.arg: True for a in (*found.args.args, *found.args.kwonlyargs) if a.arg.isupper()}
    constants |= {"BLOCK_SIZE": 8192, "NO_DRAFT_PROBS": False}
    if len(constants) < len(("BLOCK_SIZE", "NO_DRAFT_PROBS", "flag")):
        return "absent"
    answers: list[Answer] = []
    for path, name in scene.entries(STAND_INS, "sample_recovered_tokens_kernel"):
        if path == STAND_INS:
            function = stand_in(scene, path, "sample_recovered_tokens_kernel")
        else:
            world = scene.world(path, special={"torch": tensors.torch(Operators())})
            function = getattr(world.run(path), name, None)
        if function is None:
            answers.append("absent")
        else:
            right = all(_samples(function, constants, dtype) for dtype in ("float32", "float64"))
            answers.append("cured" if right else "defect")
    return together(answers)


def _samples(function: Any, constants: dict[str, Any], dtype: str) -> bool:
    output = Tensor(np.zeros(3, "int32"))
    ids = Tensor(np.array([1, 2, 3], "int32"))
    probabilities = Tensor(np.ones((3, 4), "float32"))
    noise = Tensor(np.ones((3, 4), dtype))
    try:
        function(output, ids, ids, probabilities, probabilities, noise, 4, **constants)
    except TypeError:
        return False
    return bool((output.array == np.array(3)).all())


class Overloads:
    """An operator with some overloads."""


class Namespace:
    """`torch.ops._C` of a build that has none of its operators but those declared."""

    def __init__(self, *names: str) -> None:
        for name in names:
            self.declare(name)

    def declare(self, name: str) -> None:
        base, _, overload = name.partition(".")
        operator = self.__dict__.setdefault(base, Overloads())
        setattr(operator, overload or "default", name)


def op_compat(scene: Scene) -> Answer:
    """Import what names operators on import, in a build that lacks them."""
    named = r"(?m)^(?!.*(?:def|return)).*torch\.ops\._C\."
    fusion = [p for p in scene.holding(named) if p.startswith(FUSION)]
    fusion += [path for path, _ in scene.places]
    fusion += [p for p in scene.runs if p.startswith(FUSION) and p not in fusion]
    if not fusion:
        return "absent"
    tried = [_imports(scene, path) for path in sorted(set(fusion))]
    tried += [_has_helpers(scene), _imports(scene, "vllm/_custom_ops.py", "scaled_fp4_quant")]
    return "cured" if all(tried) else "defect"


def _operators(scene: Scene, path: str, *names: str) -> tuple[Any, Any]:
    built = Namespace(*names)

    class Library:
        def __init__(self, *_: object) -> None:
            pass

        def define(self, schema: str, *_: object) -> None:
            built.declare(schema.partition("(")[0])

        def impl(self, *_: object) -> None:
            pass

    def register_fake(name: str, *_: object, **__: object) -> Any:
        library, _, operator = name.partition("::")
        base, _, overload = operator.partition(".")
        if library == "_C" and not hasattr(getattr(built, base, None), overload or "default"):
            raise RuntimeError(f"operator {name} does not exist")
        return lambda function: function

    accelerator = SimpleNamespace()
    matcher = f"{FUSION}matcher_utils.py"
    needed = {path, matcher} if path.startswith(FUSION) else {path}
    world = scene.world(
        *needed,
        special={
            "torch.ops._C": built,
            "torch.library.Library": Library,
            "torch.library.register_fake": register_fake,
            "torch.accelerator": accelerator,
            "is_rocm": lambda: False,
            "__version__": "2.9.0",
        },
    )
    return world, accelerator


def _imports(scene: Scene, path: str, *names: str) -> bool:
    texts = _texts(scene, path)
    known = _answered.get((path, texts))
    if known is None:
        world, _ = _operators(Scene(dict(texts), scene.runs), path, *names)
        try:
            world.run(path)
            known = True
        except (AttributeError, RuntimeError):
            known = False
        _remember((path, texts), known)
    return known


def _has_helpers(scene: Scene) -> bool:
    path = "vllm/env_override.py"
    texts = _texts(scene, path)
    known = _answered.get((path, texts))
    if known is None:
        world, accelerator = _operators(Scene(dict(texts), scene.runs), path)
        world.run(path)
        wanted = ("empty_cache", "get_memory_info")
        known = all(hasattr(accelerator, name) for name in wanted)
        _remember((path, texts), known)
    return known


# Most mutants leave all these modules but one as they are.
_answered: dict[tuple[str, Texts], bool] = {}
_MOST = 500


def _texts(scene: Scene, path: str) -> Texts:
    """The files that may be run for a module. The modules of `apart` do not import each other."""
    apart = {"vllm/env_override.py", "vllm/_custom_ops.py"} - {path}
    paths = sorted({path, f"{FUSION}matcher_utils.py", *(scene.runs - apart)})
    return tuple((p, scene.files[p]) for p in paths if p in scene.files)


def _remember(key: tuple[str, Texts], answer: bool) -> None:  # noqa: FBT001
    if len(_answered) > _MOST:
        _answered.clear()
    _answered[key] = answer
