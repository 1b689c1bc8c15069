"""Changes of patches of the library, as somebody makes them in the work tree of `vpatch edit`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


@dataclass(frozen=True)
class Change:
    """What somebody edits.

    Attributes:
        name: what kind of change it is.
        patch: the patch, below `security` if `folder` says so.
        release: the release that it is edited on.
        lines: how many lines of patch.yaml a person would add or remove; `need` says which.
        texts: replacements, by path.
        new: files that come, by path.
        gone: files that go.
        moved: files that get another path.
        code: what is from a text up to another one, and moves in front of a third one, by path.
        below: the patches that come before it in the recipe.
        declared: texts of patch.yaml that are replaced before the edit begins.
    """

    name: str
    patch: str
    release: str
    lines: int
    need: str
    texts: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    new: dict[str, str] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    moved: dict[str, str] = field(default_factory=dict)
    code: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    declared: dict[str, str] = field(default_factory=dict)
    below: tuple[str, ...] = ()
    place: str = ""

    @property
    def folder(self) -> str:
        """The folder of the patch in `patches`."""
        return self.place or self.patch

    def make(self, folder: Path, files: Iterable[str]) -> dict[str, bytes | None]:
        """Make the change in a checkout, and return its files; None for one that is gone.

        `files` are those that the patch changes.
        """
        for old, new in self.moved.items():
            (folder / old).rename(folder / new)
        for path, texts in self.texts.items():
            text = (folder / path).read_text()
            for old, new in texts:
                if old not in text:
                    raise ValueError(f"{self.name}: {path} has no {old!r}")
                text = text.replace(old, new)
            (folder / path).write_text(text)
        for path, (first, end, before) in self.code.items():
            text = (folder / path).read_text()
            part = text[text.index(first) : text.index(end)]
            text = text.replace(part, "").replace(before, part + before)
            (folder / path).write_text(text)
        for path, text in self.new.items():
            (folder / path).write_text(text)
        for path in self.gone:
            (folder / path).unlink()
        paths = {*files, *self.texts, *self.new, *self.code, *self.moved.values()}
        contents = {path: folder / path for path in sorted(paths)}
        return {p: file.read_bytes() if file.exists() else None for p, file in contents.items()}


SCHEDULER = "vllm/v1/core/sched/scheduler.py"
MTP = [f"vllm/models/deepseek_v4/{name}/mtp.py" for name in ("amd", "nvidia", "xpu")]
OURS = "deepseek-v4-quark-mtp"
AMD_MTP = "vllm/models/deepseek_v4/amd/mtp.py"
O_PROJ = "vllm/models/deepseek_v4/nvidia/ops/o_proj.py"
KDA = "ops/third_party/kda/fused_recurrent.py"
KERNELS = {
    f"vllm/models/kimi_k3/amd/{KDA}": "initial_token",
    f"vllm/models/kimi_k3/nvidia/{KDA}": "initial_token",
    "vllm/third_party/flash_linear_attention/ops/fused_recurrent.py": "i_t",
    "vllm/third_party/flash_linear_attention/ops/fused_sigmoid_gating.py": "i_t",
}
TRITON = "vllm/utils/cpu_triton_utils.py"
_BLOCK = """\
        # What a chunk ends with is cached as the state at the end of its
        # block: only the last chunk may end elsewhere, and none may cross
        # the end of its block.
        prefill_end = max(request.num_prompt_tokens, request.num_tokens - 1)
        if start % block_size != 0:
            end = min(end, (start // block_size + 1) * block_size)
        if end < prefill_end:
            end = end // block_size * block_size
"""
_BOUNDARY = "        next_block_boundary = (start // block_size + 1) * block_size\n"
CHANGES = [
    Change(
        "another value, by a metavariable",
        "mtp-proj-prefix",
        "0.23.0",
        2,
        "the value of the keyword",
        {
            path: [
                ('prefix=f"{prefix}.e_proj"', 'prefix=prefix + ".e_proj"'),
                ('prefix=f"{prefix}.h_proj"', 'prefix=prefix + ".h_proj"'),
            ]
            for path in MTP
        },
    ),
    Change(
        "one more keyword, in three files",
        "mtp-proj-prefix",
        "0.23.0",
        1,
        "the keyword",
        {
            path: [
                (
                    f'prefix=f"{{prefix}}.{name}",',
                    f'prefix=f"{{prefix}}.{name}",\n            disable_tp=True,',
                )
                for name in ("e_proj", "h_proj")
            ]
            for path in MTP
        },
    ),
    Change(
        "an argument less",
        "cpu-spec-decode-synthetic-mode",
        "0.20.2",
        1,
        "the argument",
        {TRITON: [("    uniform_probs=None,\n", "")]},
    ),
    Change(
        "another statement to stand behind",
        "mamba-align-chunks-with-drafts",
        "0.26.0",
        2,
        "the statement that the code is behind",
        {
            SCHEDULER: [
                (_BLOCK + "\n" + _BOUNDARY, "\n" + _BOUNDARY + _BLOCK),
            ]
        },
    ),
    Change(
        "a comment and a statement, in a variant for older releases",
        "mamba-align-chunks-with-drafts",
        "0.23.0",
        3,
        "a line of the comment, and the statement",
        {
            SCHEDULER: [
                (
                    "# What a chunk ends with is cached as the state at the end of its",
                    "# The end of a chunk is cached as the state at the end of its",
                ),
                (
                    "            num_new_tokens = max(end - num_computed_tokens, 0)\n",
                    (
                        "            end = max(end, 0)\n"
                        "            num_new_tokens = max(end - num_computed_tokens, 0)\n"
                    ),
                ),
            ]
        },
    ),
    Change(
        "another docstring, beside the patch",
        "cpu-spec-decode-expand-copy-back",
        "0.23.0",
        0,
        "nothing: the code is in a file of its own",
        {
            TRITON: [
                (
                    '"""Write each request\'s value to all of its tokens.\n',
                    '"""Repeat each request\'s value for all of its tokens.\n',
                )
            ]
        },
    ),
    Change(
        "a decorator on a function of the patch",
        "o-proj-bf16-fallback",
        "0.23.0",
        0,
        "nothing: the code is in a file of its own",
        {O_PROJ: [("def bf16_o_proj(", "@torch.no_grad()\ndef bf16_o_proj(")]},
    ),
    Change(
        "a decorator on a function of vLLM",
        "o-proj-bf16-fallback",
        "0.23.0",
        8,
        "three lines for the import, and five for the function before and after",
        {
            O_PROJ: [
                ("def compute_fp8_einsum_recipe(", "@cache\ndef compute_fp8_einsum_recipe("),
                (
                    "import torch\nimport torch.nn",
                    "from functools import cache\n\nimport torch\nimport torch.nn",
                ),
            ]
        },
    ),
    Change(
        "a function at another place",
        "o-proj-bf16-fallback",
        "0.23.0",
        8,
        "its place: six lines become two",
        code={
            O_PROJ: (
                "def bf16_o_proj(",
                "def deep_gemm_fp8_o_proj(",
                "def compute_fp8_einsum_recipe(",
            )
        },
    ),
    Change(
        "an expression, in a variant for older releases",
        "o-proj-bf16-fallback",
        "0.22.0",
        2,
        "the line with it",
        {
            "vllm/models/deepseek_v4/attention.py": [
                ('weight = getattr(self.wo_a, "weight", None)', "weight = self.wo_a.weight")
            ]
        },
    ),
    Change(
        "a new method",
        OURS,
        "0.32.0",
        4,
        "an edit: insert, its place, within, files; the code is in a file of its own",
        {
            AMD_MTP: [
                (
                    "        return self.model.embed_input_ids(input_ids)\n\n    def forward(\n",
                    (
                        "        return self.model.embed_input_ids(input_ids)\n\n"
                        "    def num_draft_layers(self) -> int:\n"
                        '        """The number of layers that draft."""\n'
                        "        return self.config.num_nextn_predict_layers\n\n"
                        "    def forward(\n"
                    ),
                )
            ]
        },
    ),
    Change(
        "a new import, and a call of it",
        OURS,
        "0.32.0",
        5,
        "an edit of three lines for the import, and the line with the call",
        {
            AMD_MTP: [
                (
                    "from vllm.sequence import IntermediateTensors\n",
                    (
                        "from vllm.sequence import IntermediateTensors\n"
                        "from vllm.utils.math_utils import cdiv\n"
                    ),
                ),
                (
                    "            first = self.config.num_hidden_layers\n",
                    "            first = cdiv(self.config.num_hidden_layers, 1)\n",
                ),
            ]
        },
    ),
    Change(
        "a class attribute, and an entry of a dict",
        OURS,
        "0.32.0",
        5,
        "one line of code becomes four",
        {
            AMD_MTP: [
                (
                    ("    packed_modules_mapping = DeepseekV4ForCausalLM.packed_modules_mapping\n"),
                    (
                        "    packed_modules_mapping = {\n"
                        "        **DeepseekV4ForCausalLM.packed_modules_mapping,\n"
                        '        "eh_proj": ["e_proj", "h_proj"],\n'
                        "    }\n"
                    ),
                )
            ]
        },
    ),
    Change(
        "one more entry of a list, in two files, and in the effect",
        "gate-up-proj-mapping",
        "0.22.0",
        11,
        "two rewrites of a line, and two lines of the effect become five, for both variants",
        {
            path: [('["gate_proj", "up_proj"]', '["gate_proj", "up_proj", "gate_up"]')]
            for path in (
                "vllm/model_executor/models/bamba.py",
                "vllm/model_executor/models/qwen3_next_mtp.py",
            )
        },
    ),
    Change(
        "one more value in a tuple",
        "glm-ocr-mtp-names",
        "0.27.1",
        2,
        "the line of the rewrite",
        {
            "vllm/model_executor/models/utils.py": [
                (
                    '                f"model.language_model.layers.{(base + i)}.",\n',
                    (
                        '                f"model.language_model.layers.{(base + i)}.",\n'
                        '                f"language_model.layers.{(base + i)}.",\n'
                    ),
                )
            ]
        },
    ),
    Change(
        "another bound, in four files, and in the effect",
        "gdn-accepted-count-bounds",
        "0.28.0",
        3,
        "the line of the edit, and one of the effect, for both variants",
        {
            path: [
                (
                    f"tl.minimum(tl.maximum({name}, 0), stride_indices_seq - 1)",
                    f"tl.minimum(stride_indices_seq - 1, tl.maximum({name}, 0))",
                )
            ]
            for path, name in KERNELS.items()
        },
    ),
    Change(
        "a new file, and its import",
        "import-time-op-compat",
        "0.25.1",
        10,
        "two lines for the file; the import and the call become blocks of two lines",
        {
            "vllm/env_override.py": [
                (
                    "provide_accelerator_helpers()\n",
                    "provide_accelerator_helpers()\nprovide_more()\n",
                ),
                (
                    "from vllm.compat_accelerator import provide_accelerator_helpers\n",
                    (
                        "from vllm.compat_accelerator import provide_accelerator_helpers\n"
                        "from vllm.compat_more import provide_more\n"
                    ),
                ),
            ]
        },
        new={"vllm/compat_more.py": "def provide_more():\n    pass\n"},
    ),
    Change(
        "a removed hunk",
        "import-time-op-compat",
        "0.25.1",
        6,
        "two edits of three lines go",
        {
            "vllm/env_override.py": [
                ("provide_accelerator_helpers()\n", ""),
                ("from vllm.compat_accelerator import provide_accelerator_helpers\n", ""),
            ]
        },
    ),
    Change(
        "a removed file",
        "import-time-op-compat",
        "0.25.1",
        8,
        "three edits of two and three lines go",
        {
            "vllm/env_override.py": [
                ("provide_accelerator_helpers()\n", ""),
                ("from vllm.compat_accelerator import provide_accelerator_helpers\n", ""),
            ]
        },
        gone=("vllm/compat_accelerator.py",),
    ),
    Change(
        "a moved file",
        "import-time-op-compat",
        "0.25.1",
        4,
        "its path, and the line of the import",
        {
            "vllm/env_override.py": [
                ("from vllm.compat_accelerator import", "from vllm.accelerator_compat import")
            ]
        },
        moved={"vllm/compat_accelerator.py": "vllm/accelerator_compat.py"},
    ),
    Change(
        "an entry of a dict in a new file",
        "import-time-op-compat",
        "0.25.1",
        0,
        "nothing: the code is in a file of its own",
        {
            "vllm/compat_accelerator.py": [
                ('    "memory_stats": "memory_stats",\n', ""),
            ]
        },
    ),
    Change(
        "one keyword value for one of two places",
        "mtp-proj-prefix",
        "0.23.0",
        21,
        "an edit of its own for each of the two",
        {path: [('prefix=f"{prefix}.h_proj"', 'prefix=f"{prefix}.h"')] for path in MTP},
    ),
    Change(
        "another name in several edits",
        "gdn-gates-of-spec-tokens",
        "0.23.0",
        6,
        "the three lines with the name",
        {
            "vllm/model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py": [
                ("a_spec = a\n", "spec_a = a\n"),
                ("a_spec = a.index", "spec_a = a.index"),
                ("a=a_spec,", "a=spec_a,"),
            ]
        },
    ),
    Change(
        "another condition, with a metavariable",
        "gemma4-mtp-shared-embeddings",
        "0.26.0",
        2,
        "the line of the rewrite",
        {
            "vllm/v1/spec_decode/llm_base_proposer.py": [
                (
                    'share_embeddings and hasattr(self.model, "has_own_embed_tokens")',
                    "share_embeddings and self.use_own_embed_tokens",
                )
            ]
        },
    ),
    Change(
        "another argument of a call, beside another patch of the series",
        "cpu-spec-decode-fp64-gumbel",
        "0.23.0",
        2,
        "the line of the rewrite",
        {TRITON: [("inv_q.to(torch.float32),", "inv_q.float(),")]},
        below=("cpu-spec-decode-expand-copy-back",),
    ),
    Change(
        "code that a required patch makes",
        "cpu-spec-decode-expand-copy-back",
        "0.23.0",
        3,
        "an edit: find, rewrite, within",
        {TRITON: [("inv_q.to(torch.float32),", "inv_q.float(),")]},
        below=("cpu-spec-decode-fp64-gumbel",),
        declared={"needed-in:\n": "requires: [cpu-spec-decode-fp64-gumbel]\nneeded-in:\n"},
    ),
    Change(
        "a file of C++ that the patch did not touch",
        "cpu-spec-decode-expand-copy-back",
        "0.23.0",
        5,
        "an edit by text: text, find, replace, files, and a comment",
        {
            "csrc/cpu/spec_decode_utils.cpp": [
                (
                    "    int64_t val = in_ptr[req_idx];\n\n    if (val == replace_from) {\n",
                    "    int64_t val = in_ptr[req_idx];\n    if (val == replace_from) {\n",
                )
            ]
        },
    ),
    Change(
        "another commit in CMake and a script",
        "deepgemm-next-n-3-kernel",
        "0.23.0",
        20,
        "two texts; twice, two lines of the effect become five, and concerns get two",
        {
            "cmake/external_projects/deepgemm.cmake": [("57b90e0\n", "57b90e1\n")],
            "tools/install_deepgemm.sh": [("57b90e0", "57b90e1")],
        },
    ),
    Change(
        "code that a codemod writes",
        "deepgemm-next-n-3",
        "0.29.0",
        0,
        "nothing: the code is in codemod.py",
        {
            "vllm/model_executor/layers/sparse_attn_indexer.py": [
                (
                    '"""Score the rows of one call of a decode step, and select keys for each."""',
                    '"""Score the rows of one call, and select keys for each."""',
                ),
                (
                    "# Three rows per request may be split; otherwise there is one call.",
                    "# Three rows per request may be split, or there is one call.",
                ),
            ]
        },
    ),
    Change(
        "one more rewrite in a function of the patch",
        "cve-2026-55514",
        "0.23.0",
        3,
        "an edit: find, rewrite, within",
        {
            "vllm/v1/worker/gpu_model_runner.py": [
                ("mrope_model = cast(SupportsMRoPE, model)", "mrope_model: SupportsMRoPE = model")
            ]
        },
        place="security/cve-2026-55514",
    ),
    Change(
        "a file of vLLM that the patch did not touch",
        "mamba-fewer-blocks",
        "0.22.1",
        3,
        "an edit: find, rewrite, within",
        {"vllm/v1/core/kv_cache_utils.py": [("os.urandom(32)", "os.urandom(64)")]},
    ),
]
