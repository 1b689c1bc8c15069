"""Oracles of the two patches for the sparse indexer. They run its builder and its decode half."""

from __future__ import annotations

import inspect
import re
from typing import Any, NamedTuple

import numpy as np

from mutants import tensors
from mutants.scene import Answer, Given, Scene, together
from mutants.tensors import Tensor
from mutants.world import CannotSayError, Stub, World

INDEXER = "vllm/v1/attention/backends/mla/indexer.py"
LAYER = "vllm/model_executor/layers/sparse_attn_indexer.py"
BUILDER = "DeepseekV32IndexerMetadataBuilder"
# The module that the patch adds. Its parts are stubs, as they need a whole torch.
ADDED = "vllm/v1/attention/backends/mla/next_n_3.py"
CMAKE = "cmake/external_projects/deepgemm.cmake"
INSTALL = "tools/install_deepgemm.sh"
OLD_PIN = "891d57b4db1071624b5c8fa0d1e51cb317fa709f"
NEW_PIN = "57b90e0"
HOPPER = 90


def _hopper() -> dict[str, Any]:
    """An engine with two draft tokens on SM90."""
    return {
        "is_xpu": lambda: False,
        "is_rocm": lambda: False,
        "is_cpu": lambda: False,
        "is_cuda": lambda: True,
        "is_cuda_alike": lambda: True,
        "is_device_capability_family": lambda family: family == HOPPER,
        "is_device_capability": lambda family: family == HOPPER,
        "has_device_capability": lambda family: family <= HOPPER,
        "has_deep_gemm": lambda: True,
        "num_speculative_tokens": 2,
        "num_sms": 4,
        "enable_adaptive_verification": False,
        "use_fp4_indexer_cache": False,
        "decode_context_parallel_size": 1,
        "prefill_context_parallel_size": 1,
        "dcp_world_size": 1,
        "pcp_world_size": 1,
        "reorder_batch_threshold": 1,
        "max_model_len": 64,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 12,
        "block_size": 4,
        "get_max_prefill_buffer_size": lambda _: 64,
        "resolve_indexer_kv_dtype": lambda *_: "fp8",
        "get_total_cp_world_size": lambda: 1,
        "dsa_indexer_uses_fp4": lambda *_: False,
        "cdiv": lambda a, b: -(-a // b),
        "native_next_n_supported": lambda n: n in {1, 2, 4},
    }


class Buffers:
    """Stands for the patch's NextN3Buffers."""

    def __init__(self, *_: object) -> None:
        pass

    def update(self, *_: object, **__: object) -> str:
        return "split"


class Rows(NamedTuple):
    """Stands for the patch's DecodeCall."""

    rows: Any
    q: Any
    q_scale: Any
    weights: Any
    topk_indices: Any


def next_n_3(scene: Scene) -> Answer:
    """Whether the builder splits three rows, and whether the layer then makes two calls."""
    answers: list[Answer] = []
    for path, name in scene.entries(INDEXER, BUILDER):
        special = {
            **_hopper(),
            "NextN3Buffers": Buffers,
            "NEXT_N": 3,
            "split_decodes_and_prefills": lambda *_, **__: (1, 0, 3, 0),
        }
        world = scene.world(path, special=special)
        world.runs -= {ADDED}
        found = getattr(world.run(path), name, None)
        if found is None:
            answers.append("absent")
            continue
        builder = _made(world, found)
        if not builder.use_flattening:
            answers.append("cured")
            continue
        split = isinstance(builder.__dict__.get("next_n_3"), Buffers)
        split = split and _built(world, builder) == "split"
        answers.append("cured" if split and _calls(scene) > 1 else "defect")
    return together(answers)


def _made(world: World, found: Any) -> Any:
    parameters = inspect.signature(found.__init__).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty and p.kind is p.KEYWORD_ONLY]
    return found(**{name: Stub(world, name) for name in needed})


def _built(world: World, builder: Any) -> object:
    common = Given(
        world, "common", num_reqs=1, num_actual_tokens=3, max_query_len=3, batch_spec=None
    )
    decode = builder.build(0, common).decode
    return getattr(decode, "next_n_3", None)


def _calls(scene: Scene) -> int:
    """How often the decode half asks for logits where the rows are split."""
    world = scene.world(LAYER)
    world.runs -= {ADDED}
    metadata = Given(
        world,
        "metadata",
        num_decodes=1,
        num_prefills=0,
        num_decode_tokens=3,
        decode=Given(world, "decode", requires_padding=False, indices=None, global_seq_lens=None),
    )

    def decode_calls(*_: object, **__: object) -> list[Any]:
        parts = [Stub(world, name) for name in ("q", "weights", "topk")]
        return [Rows(metadata.decode, parts[0], None, *parts[1:]) for _ in range(2)]

    class Steps(dict[Any, Any]):
        def __missing__(self, _: object) -> Any:
            return metadata

    world.special = {**_hopper(), "attn_metadata": Steps(), "decode_calls": decode_calls}
    function = getattr(world.run(LAYER), scene.name("sparse_attn_indexer"))
    before = len(world.calls)
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    plain = {"q_scale": None, "use_fp4_cache": False, "candidate_blocks": None, "topk_tokens": 8}
    required = names[: len(names) - len(function.__defaults__ or ())]
    given = {name: plain.get(name, Stub(world, name)) for name in required}
    function(**given)
    made = [call.name for call in world.calls[before:]]
    return sum(name.endswith("fp8_fp4_paged_mqa_logits") for name in made)


def next_n_3_kernel(scene: Scene) -> Answer:
    """The pins, whether Hopper flattens, and the lengths of padding requests."""
    pins = {_cmake_pin(scene), _script_pin(scene)}
    if not pins & {OLD_PIN, NEW_PIN}:
        return "absent"
    answers: list[Answer] = ["cured" if pins == {NEW_PIN} else "defect"]
    for path, name in scene.entries(INDEXER, BUILDER):
        world = scene.world(path, special=_hopper())
        found = getattr(world.run(path), name, None)
        if found is None:
            raise CannotSayError("no builder")
        builder = _made(world, found)
        right = not builder.use_flattening and _lengths_are_right(scene, path, name)
        answers.append("cured" if right else "defect")
    return together(answers)


def _bare(text: str) -> str:
    return re.sub(r"(?m)(^|\s)#.*$", r"\1", text)


def _cmake_pin(scene: Scene) -> str:
    text = _bare(scene.files.get(CMAKE, b"").decode())
    known = dict(re.findall(r'set\(\s*(\w+)\s+"([^"]*)"', text))
    found = re.search(r'GIT_TAG\s+"?([^\s")]+)', text)
    pin = found[1] if found else ""
    return known.get(pin.strip("${}"), pin)


def _script_pin(scene: Scene) -> str:
    text = _bare(scene.files.get(INSTALL, b"").decode())
    found = re.findall(r'DEEPGEMM_GIT_REF=["\']?([0-9a-f]+)', text)
    return str(found[0]) if found else ""


def _lengths_are_right(scene: Scene, path: str, name: str) -> bool:
    """Prepare a step of two requests, the second padding, where rows are not flattened."""
    torch = tensors.torch(None)
    world = scene.world(path, special={**_hopper(), "torch": _Torch(world_torch=torch)})
    builder: Any = object.__new__(getattr(world.run(path), name))
    two = "dim() == 2" in scene.files[path].decode()
    buffer = np.zeros((4, 3) if two else 12, "int32")
    builder.__dict__.update(
        decode_seq_lens_buffer=Tensor(buffer),
        offsets_buffer=Tensor(np.arange(3, dtype="int32")),
        decode_lens_buffer=Tensor(np.zeros(12, "int32")),
    )
    values = {
        "seq_lens": Tensor(np.array([9, 0], "int32")),
        "block_table": Tensor(np.zeros((2, 4), "int32")),
        "decode_lens": Tensor(np.array([2, 0], "int32")),
        "decode_lens_cpu": Tensor(np.array([2, 0], "int32")),
        "query_start_loc": Tensor(np.array([0, 2], "int32")),
        "num_decodes": 2,
        "num_decode_tokens": 2,
        "use_native": True,
        "next_n": 3,
        "max_decode_len": 2,
    }
    given = {scene.name(key): value for key, value in values.items()}
    made = getattr(builder, scene.name("_prepare_decode_tensors"))(**given)[0]
    wanted = np.array([[8, 9], [0, 0]])
    same = made.shape == wanted.shape and bool((made.array == wanted).all())
    return same and made.is_contiguous()


class _Torch:
    """The small torch, with stubs for what it lacks."""

    def __init__(self, world_torch: Any) -> None:
        self._torch = world_torch
        self._stubs = World(lambda _: None, frozenset())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name, None) or Stub(self._stubs, f"torch.{name}")
