"""Oracles of the patches for drafts of hybrid models, and for the CPU's rejection kernels."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any

import numpy as np

from mutants import tensors
from mutants.oracles_cpu import SAMPLER, STAND_INS, Operators, stand_in
from mutants.scene import Answer, Scene, together
from mutants.tensors import Tensor
from mutants.world import CannotSayError

BLOCK_TABLE = "vllm/v1/worker/block_table.py"
MANAGERS = "vllm/v1/core/single_type_kv_cache_manager.py"
MODELS = r"vllm/model_executor/models/(bamba|falcon_h1|granitemoehybrid|zamba2)\.py"
_DRAFTS = 3
_BLOCK = 16


def synthetic_mode(scene: Scene) -> Answer:
    """Call both stand-ins with what the sampler passes."""
    if "SYNTHETIC_MODE=" not in scene.files[SAMPLER].decode():
        return "absent"
    answers: list[Answer] = []
    for kernel, given in (("rejection_greedy_sample", 7), ("rejection_random_sample", 11)):
        for path, name in scene.entries(STAND_INS, f"{kernel}_kernel"):
            function = (
                stand_in(scene, path, f"{kernel}_kernel")
                if path == STAND_INS
                else getattr(_run(scene, path, Operators()), name, None)
            )
            if function is None:
                answers.append("absent")
                continue
            further = {"NO_DRAFT_PROBS": True} if given > len("greedy_") else {}
            extra = 2 if not further else 1
            right = _takes(function, given, extra, **further, SYNTHETIC_MODE=False)
            answers.append("cured" if right else "defect")
    return together(answers)


def _takes(function: Any, given: int, extra: int, **keywords: bool) -> bool:
    ids = [Tensor(np.zeros(3, "int64")) for _ in range(given)]
    try:
        function(*ids, *[None] * extra, **keywords)
    except TypeError:
        return False
    return True


def _run(scene: Scene, path: str, operators: Any, **special: Any) -> Any:
    return scene.world(path, special={"torch": tensors.torch(operators), **special}).run(path)


class _Recorder(Operators):
    """Keeps what the slot mapping gets."""

    def __init__(self) -> None:
        self.given: tuple[Any, ...] = ()

    def compute_slot_mapping_kernel_impl(self, *given: Any) -> None:
        self.given = given


def slot_mapping(scene: Scene) -> Answer:
    """Call the stand-in as the kernel is called, and look at what the C++ kernel gets."""
    kernels = [
        node
        for node in ast.walk(ast.parse(scene.files[BLOCK_TABLE]))
        if isinstance(node, ast.FunctionDef)
        and [one.arg for one in node.args.args][:2] == ["num_tokens", "max_num_tokens"]
    ]
    if not kernels:
        raise CannotSayError("no kernel")
    if any(one.arg == "block_size" for one in kernels[0].args.args):
        return "absent"
    answers: list[Answer] = []
    for path, name in scene.entries(STAND_INS, "_compute_slot_mapping_kernel_impl"):
        recorder = _Recorder()
        function = getattr(_run(scene, path, recorder), name, None)
        if function is None:
            answers.append("absent")
            continue
        starts, positions, table, slots = (Tensor(np.full(3, n, "int64")) for n in range(4))
        try:
            function(
                *(3, 8, starts, positions, table, 2, slots),
                KV_CACHE_BLOCK_SIZE=_BLOCK,
                TOTAL_CP_WORLD_SIZE=1,
                TOTAL_CP_RANK=0,
                CP_KV_CACHE_INTERLEAVE_SIZE=1,
                PAD_ID=-1,
                BLOCK_SIZE=1024,
            )
        except TypeError:
            answers.append("defect")
            continue
        wanted = (starts, positions, table, slots, _BLOCK)
        right = len(recorder.given) == len(wanted) and all(
            one is other or one == other
            for one, other in zip(recorder.given, wanted, strict=True)
            if not isinstance(one, Tensor) or one is not other
        )
        answers.append("cured" if right else "defect")
    return together(answers)


def fewer_blocks(scene: Scene) -> Answer:
    """Ask for one block fewer than a request has, and for as many."""
    answers: list[Answer] = []
    for path, name in scene.entries(MANAGERS, "MambaManager"):
        specials = {"cdiv": lambda a, b: -(-a // b), "MambaSpec": SimpleNamespace}
        module = scene.world(path, special=specials).run(path)
        found = getattr(module, name, None)
        method = getattr(found, scene.name("allocate_new_blocks"), None)
        if method is None:
            answers.append("absent")
            continue
        if method(_manager(), "r", 2 * _BLOCK + 1, 2 * _BLOCK + 1) != []:
            raise CannotSayError("it allocates where there is enough")
        manager = _manager()
        fewer = method(manager, "r", 2 * _BLOCK, 2 * _BLOCK)
        # Assertions do not run here: without them, it asks for fewer than no blocks.
        right = fewer == [] and min(manager.asked, default=0) >= 0
        answers.append("cured" if right else "defect")
    return together(answers)


def _manager() -> Any:
    """A manager whose request has three blocks of tokens, and one for drafts."""
    asked: list[int] = []

    def get_new_blocks(count: int) -> list[int]:
        asked.append(count)
        return list(range(200, 200 + count))

    return SimpleNamespace(
        asked=asked,
        kv_cache_spec=SimpleNamespace(),
        mamba_cache_mode="align",
        block_size=_BLOCK,
        num_speculative_blocks=1,
        req_to_blocks={"r": [0, 0, 100, 101]},
        last_state_block_idx={},
        _allocated_block_reqs={"r"},
        _checkpoints={},
        _partial_hit_reqs={},
        _null_block=0,
        block_pool=SimpleNamespace(get_new_blocks=get_new_blocks),
    )


def state_shape(scene: Scene) -> Answer:
    """Ask each class for its state with drafts, and look at the number that it hands on."""
    answers: list[Answer] = []
    for path in scene.holding(r"mamba2_state_shape\("):
        if "get_mamba_state_shape_from_config" not in scene.files[path].decode():
            continue
        world = scene.world(path)
        module = world.run(path)
        classes = [
            one
            for one in vars(module).values()
            if isinstance(one, type) and "get_mamba_state_shape_from_config" in vars(one)
        ]
        for one in classes:
            world.calls.clear()
            config = SimpleNamespace(
                parallel_config=SimpleNamespace(tensor_parallel_size=1),
                model_config=SimpleNamespace(hf_config=_Config()),
                cache_config=SimpleNamespace(use_replayssm=False),
                num_speculative_tokens=_DRAFTS,
            )
            one.get_mamba_state_shape_from_config(config)
            calls = [c for c in world.calls if c.name.endswith(".mamba2_state_shape")]
            for call in calls:
                # A layer of its own that counts no drafts.
                if call.kwargs.get("n_groups") == 0:
                    continue
                right = call.kwargs.get("num_spec") == _DRAFTS
                answers.append("cured" if right else "defect")
    return together(answers)


class _Config:
    """Any number of a model's configuration."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None if name == "mamba_d_ssm" else 8
