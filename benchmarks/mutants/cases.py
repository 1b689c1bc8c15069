"""The patches: where each is mutated, and by what oracle it is judged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mutants import effects, oracles, oracles_cpu, oracles_drafts, oracles_indexer, oracles_moe
from mutants.effects import body, other_file, text_edit
from mutants.mutant import Family, Spot
from mutants.source import parsed

if TYPE_CHECKING:
    from mutants.scene import Oracle

Files = Mapping[str, bytes]
RELEASES = ("0.20.0", "0.23.0", "0.27.0", "0.33.0")


@dataclass(frozen=True)
class Case:
    """A patch for the fuzzer.

    `words` choose the files of the release that a mutant has. `spots` are definitions to mutate,
    as a pattern of paths and a name; those that a release lacks are left out. `others` are further
    files that are no Python. `examples` are examples of the patch that stand for releases.
    """

    patch: str
    oracle: Oracle
    words: str
    spots: tuple[tuple[str, str], ...]
    families: tuple[Family, ...] = ()
    others: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    readers: str | None = None
    releases: tuple[str, ...] = field(default=RELEASES)

    def spots_in(self, files: Files) -> list[Spot]:
        found = [
            Spot(files, path, name)
            for pattern, name in self.spots
            for path in sorted(files)
            if path.endswith(".py") and re.fullmatch(pattern, path)
        ]
        if self.readers:
            word = self.readers.encode()
            for path in (p for p, t in files.items() if p.endswith(".py") and word in t):
                names = oracles_moe.readers(parsed(files[path]).tree, files[path].decode())
                found += [Spot(files, path, name) for name in names]
        return [spot for spot in found if spot.node is not None]


_MTP = r"vllm/.*(mtp|deepseek_v4_mtp)\.py"
_LAYER = "DeepSeekV4MultiTokenPredictorLayer"
_EXPAND = "_expand_kernel_impl"
_GUMBEL = "_sample_recovered_tokens_kernel_impl"
_BUILDER = oracles_indexer.BUILDER
_WRAPPER = "DeepseekV4MultiHeadLatentAttentionWrapper"
_WRAPPERS = r"vllm/(model_executor/layers/deepseek_v4_attention|models/deepseek_v4/attention)\.py"
_HELPER = """    torch.ops._C.expand_kernel_impl(
        values_i64, _ensure_int64(input_val), _ensure_int64(cu_num_tokens), replace_from, replace_to
    )
"""

CASES = [
    Case(
        "mtp-proj-prefix",
        oracles.mtp_proj_prefix,
        rf"\b[eh]_proj\b|{_LAYER}|class ReplicatedLinear\b",
        ((_MTP, f"{_LAYER}.__init__"), (_MTP, _LAYER)),
        (
            Family(
                "cure/own-name",
                "curing",
                effects.added_wrongly("ReplicatedLinear", 'prefix=prefix + ".e_proj"'),
            ),
            Family("effect/wrong-keyword", "meaning", effects.wrong_keyword("prefix")),
            Family(
                "effect/keyword-that-cures-nothing",
                "moving",
                effects.added_wrongly(
                    "ReplicatedLinear",
                    'prefix=""',
                    "prefix=None",
                    "prefix=prefix",
                    'prefix="e_proj"',
                ),
            ),
        ),
    ),
    Case(
        "draft-hf-config-path",
        oracles.draft_hf_config_path,
        r"class SpeculativeConfig\b|draft_model_config =|class ModelConfig\b",
        ((oracles.SPECULATIVE, "SpeculativeConfig.__post_init__"),),
        (
            Family(
                "cure/another-condition",
                "curing",
                text_edit(
                    r"( +)self\.draft_model_config = ModelConfig\(\n( +)model=self\.model,",
                    r"\1draft_path = None\n"
                    r"\1if self.model in (self.target_model_config.model,"
                    r" self.target_model_config.model_weights):\n"
                    r"\1    draft_path = self.target_model_config.hf_config_path\n"
                    r"\1self.draft_model_config = ModelConfig(\n"
                    r"\2model=self.model,\n\2hf_config_path=draft_path,",
                ),
            ),
            Family(
                "effect/keyword-that-cures-nothing",
                "moving",
                effects.added_wrongly(
                    "ModelConfig",
                    "hf_config_path=None",
                    'hf_config_path=""',
                    "hf_config_path=self.model",
                ),
            ),
            Family("effect/wrong-keyword", "meaning", effects.wrong_keyword("hf_config_path")),
        ),
    ),
    Case(
        "o-proj-bf16-fallback",
        oracles.o_proj_bf16_fallback,
        r"fused_inv_rope_fp8_quant|deep_gemm_fp8_o_proj|self\.wo_a\b",
        ((oracles.O_PROJ, "deep_gemm_fp8_o_proj"), (_WRAPPERS, f"{_WRAPPER}.forward")),
        (Family("effect/wrong-keyword", "meaning", effects.wrong_keyword("quantize")),),
    ),
    Case(
        "cpu-spec-decode-expand-copy-back",
        oracles_cpu.expand_copy_back,
        r"_?expand_kernel",
        ((oracles_cpu.STAND_INS, _EXPAND),),
        (
            Family(
                "cure/loop",
                "curing",
                body(
                    _EXPAND,
                    "    start = 0\n    for i, end in enumerate(cu_num_tokens.tolist()):\n"
                    "        value = input_val[i]\n"
                    "        output[start:end] = replace_to if value == replace_from else value\n"
                    "        start = end\n",
                ),
            ),
            Family(
                "cure/where",
                "curing",
                body(
                    _EXPAND,
                    "    lens = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))\n"
                    "    chosen = torch.where(input_val == replace_from, replace_to, input_val)\n"
                    "    expanded = torch.repeat_interleave(chosen.to(output.dtype), lens)\n"
                    "    output[: expanded.shape[0]].copy_(expanded)\n",
                ),
            ),
            Family(
                "half/integers-only",
                "moving",
                body(
                    _EXPAND,
                    f"    values_i64 = _ensure_int64(output)\n{_HELPER}"
                    "    if output.dtype != torch.int64:\n"
                    "        output.copy_(values_i64.to(output.dtype))\n",
                ),
            ),
            Family(
                "moving/hoisted",
                "moving",
                body(_EXPAND, f"    values_i64 = output.to(torch.int64)\n{_HELPER}"),
            ),
        ),
    ),
    Case(
        "cpu-spec-decode-fp64-gumbel",
        oracles_cpu.fp64_gumbel,
        r"sample_recovered_tokens_kernel|USE_FP64_GUMBEL",
        ((oracles_cpu.STAND_INS, _GUMBEL),),
        (
            Family(
                "cure/any-keyword",
                "curing",
                text_edit(
                    r"(def _sample_recovered_tokens_kernel_impl\((?:.*\n)+?)(\) *(?:-> None)?:\n)",
                    r"\1    **unused,\n\2    inv_q = inv_q.to(torch.float32)\n",
                ),
            ),
            Family(
                "cure/float",
                "curing",
                text_edit(
                    r"(def _sample_recovered_tokens_kernel_impl\((?:.*\n)+?)(\) *(?:-> None)?:\n)",
                    r"\1    USE_FP64_GUMBEL: bool = False,\n\2    inv_q = inv_q.float()\n",
                ),
            ),
            Family(
                "half/parameter-only",
                "moving",
                text_edit(
                    r"(def _sample_recovered_tokens_kernel_impl\((?:.*\n)+?)(\) *(?:-> None)?:\n)",
                    r"\1    USE_FP64_GUMBEL=False,\n\2",
                ),
            ),
            Family(
                "effect/half-gone",
                "meaning",
                text_edit(r"inv_q\.(to\(torch\.float32\)|float\(\))", "inv_q"),
            ),
        ),
    ),
    Case(
        "cpu-spec-decode-synthetic-mode",
        oracles_drafts.synthetic_mode,
        r"rejection_(greedy|random)_sample_kernel|SYNTHETIC_MODE",
        (
            (oracles_cpu.STAND_INS, "_rejection_greedy_sample_kernel_impl"),
            (oracles_cpu.STAND_INS, "_rejection_random_sample_kernel_impl"),
        ),
        (
            Family(
                "cure/any-keyword",
                "curing",
                text_edit(
                    r"(def _rejection_(?:greedy|random)_sample_kernel_impl\((?:.*\n)+?)"
                    r"(    NO_DRAFT_PROBS=False,\n)?(\) *(?:-> None)?:\n)",
                    r"\1    uniform=None,\n    rates=None,\n    NO_DRAFT_PROBS=False,\n"
                    r"    **unused,\n\3",
                ),
            ),
        ),
        releases=("0.20.0", "0.20.2", "0.21.0", "0.33.0"),
    ),
    Case(
        "cpu-slot-mapping-block-size",
        oracles_drafts.slot_mapping,
        r"_compute_slot_mapping_kernel_impl|class ComputeSlotMappingKernel",
        ((oracles_cpu.STAND_INS, "_compute_slot_mapping_kernel_impl"),),
        releases=("0.31.0", "0.32.0", "0.33.0"),
    ),
    Case(
        "mamba-fewer-blocks",
        oracles_drafts.fewer_blocks,
        r"class MambaManager",
        ((oracles_drafts.MANAGERS, "MambaManager.allocate_new_blocks"),),
        (
            Family(
                "cure/max",
                "curing",
                text_edit(
                    r"( +)if num_required_blocks == len\(req_blocks\):\n",
                    r"\1num_required_blocks = max(num_required_blocks, len(req_blocks))\n\g<0>",
                ),
            ),
        ),
        releases=("0.20.0", "0.22.1", "0.23.0", "0.33.0"),
    ),
    Case(
        "mamba-state-shape-num-spec",
        oracles_drafts.state_shape,
        r"mamba2_state_shape\(",
        (
            (oracles_drafts.MODELS, "FalconH1ForCausalLM.get_mamba_state_shape_from_config"),
            (oracles_drafts.MODELS, "Zamba2ForCausalLM.get_mamba_state_shape_from_config"),
        ),
        releases=("0.20.0", "0.23.0", "0.31.0", "0.33.0"),
    ),
    Case(
        "deepgemm-next-n-3",
        oracles_indexer.next_n_3,
        rf"{_BUILDER}|fp8_fp4_paged_mqa_logits|sparse_attn_indexer|DeepSeekV32IndexerDecodeMetadata",
        (
            (oracles_indexer.INDEXER, f"{_BUILDER}.__init__"),
            (oracles_indexer.INDEXER, f"{_BUILDER}.build"),
            (oracles_indexer.INDEXER, "DeepSeekV32IndexerDecodeMetadata"),
            (oracles_indexer.LAYER, "sparse_attn_indexer"),
        ),
    ),
    Case(
        "deepgemm-next-n-3-kernel",
        oracles_indexer.next_n_3_kernel,
        rf"{_BUILDER}",
        (
            (oracles_indexer.INDEXER, f"{_BUILDER}.__init__"),
            (oracles_indexer.INDEXER, f"{_BUILDER}._prepare_decode_tensors"),
        ),
        (
            Family(
                "text/comment",
                "harmless",
                other_file(
                    oracles_indexer.CMAKE,
                    r"(?m)^( *)((?:GIT_TAG|set\(_DEEPGEMM).*)$",
                    r"\1# pinned\n\1\2",
                ),
            ),
            Family(
                "text/indented",
                "harmless",
                other_file(oracles_indexer.CMAKE, r"(?m)^( *)GIT_TAG ", r"\1  GIT_TAG  "),
            ),
            Family(
                "text/quotes",
                "harmless",
                other_file(
                    oracles_indexer.INSTALL,
                    r'DEEPGEMM_GIT_REF="([0-9a-f]+)"',
                    r"DEEPGEMM_GIT_REF='\1'",
                ),
            ),
            Family(
                "text/another-pin",
                "meaning",
                other_file(
                    oracles_indexer.CMAKE,
                    oracles_indexer.OLD_PIN,
                    "c9f8b34dcdacc20aa746b786f983492c51072870",
                ),
            ),
            Family(
                "half/pin-only",
                "moving",
                other_file(oracles_indexer.CMAKE, oracles_indexer.OLD_PIN, oracles_indexer.NEW_PIN),
            ),
            Family(
                "effect/pin-back",
                "meaning",
                other_file(oracles_indexer.CMAKE, oracles_indexer.NEW_PIN, oracles_indexer.OLD_PIN),
            ),
        ),
        others=(oracles_indexer.CMAKE, oracles_indexer.INSTALL),
    ),
    Case(
        "import-time-op-compat",
        oracles_cpu.op_compat,
        r"torch\.ops\._C\.rms_norm|QUANT_OPS|import_kernels\(\)|_maybe_set_cuda",
        (
            ("vllm/compilation/passes/fusion/matcher_utils.py", ""),
            ("vllm/_custom_ops.py", ""),
            ("vllm/env_override.py", ""),
        ),
    ),
    Case(
        "optional-disable-inplace",
        oracles_moe.optional_disable_inplace,
        r"disable_inplace|PlatformEnum\.OOT",
        (),
        (
            Family(
                "cure/or",
                "curing",
                text_edit(
                    r"not (self\.[\w.]+)\.disable_inplace",
                    r'not (hasattr(\1, "disable_inplace") and \1.disable_inplace)',
                ),
            ),
            Family(
                "moving/compared",
                "moving",
                text_edit(r"not (self\.[\w.]+\.disable_inplace)", r"\1 is False"),
            ),
            Family(
                "moving/hoisted",
                "moving",
                text_edit(
                    r"(?m)^( +)return (.*\n(?:.*\n)*?.*)not (self\.[\w.]+\.disable_inplace)",
                    r"\1disabled = \3\n\1return \2not disabled",
                ),
            ),
        ),
        examples=("needed-0.23", "needed-0.22", "needed-0.17"),
        readers="disable_inplace",
        releases=(),
    ),
]
BY_PATCH = {case.patch: case for case in CASES}
