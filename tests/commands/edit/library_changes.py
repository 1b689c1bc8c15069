"""Changes of patches of the library, as somebody makes them in the work tree of `vpatch edit`."""

from __future__ import annotations

from typing import NamedTuple


class Change(NamedTuple):
    """What somebody edits.

    `texts` are replacements by path. `new` are new files, `gone` are files that go. `lines` is the
    most that patch.yaml may have of added and removed lines.
    """

    name: str
    patch: str
    release: str
    texts: dict[str, list[tuple[str, str]]] = {}  # noqa: RUF012 - nobody changes it
    new: dict[str, str] = {}  # noqa: RUF012
    gone: tuple[str, ...] = ()
    lines: int = 2


SCHEDULER = "vllm/v1/core/sched/scheduler.py"
MTP = [f"vllm/models/deepseek_v4/{name}/mtp.py" for name in ("amd", "nvidia", "xpu")]
CHANGES = [
    Change(
        "another value, by a metavariable",
        "mtp-proj-prefix",
        "0.23.0",
        {
            path: [
                ('prefix=f"{prefix}.e_proj"', 'prefix=prefix + ".e_proj"'),
                ('prefix=f"{prefix}.h_proj"', 'prefix=prefix + ".h_proj"'),
            ]
            for path in MTP
        },
    ),
    Change(
        "one more keyword",
        "mtp-proj-prefix",
        "0.23.0",
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
        lines=1,
    ),
    Change(
        "another value in inserted code",
        "mamba-align-chunks-with-drafts",
        "0.23.0",
        {
            SCHEDULER: [
                (
                    "prefill_end = max(request.num_prompt_tokens, request.num_tokens - 1)",
                    "prefill_end = max(request.num_prompt_tokens, request.num_tokens)",
                )
            ]
        },
    ),
    Change(
        "another comment in inserted code",
        "mamba-align-chunks-with-drafts",
        "0.23.0",
        {
            SCHEDULER: [
                (
                    "# What a chunk ends with is cached as the state at the end of its",
                    "# The end of a chunk is cached as the state at the end of its",
                )
            ]
        },
    ),
    Change(
        "one more statement in inserted code",
        "mamba-align-chunks-with-drafts",
        "0.23.0",
        {
            SCHEDULER: [
                (
                    "            num_new_tokens = max(end - num_computed_tokens, 0)\n",
                    (
                        "            end = max(end, 0)\n"
                        "            num_new_tokens = max(end - num_computed_tokens, 0)\n"
                    ),
                )
            ]
        },
        lines=1,
    ),
    Change(
        "one statement less in inserted code",
        "mamba-align-chunks-with-drafts",
        "0.23.0",
        {
            SCHEDULER: [
                (
                    (
                        "            if end < prefill_end:\n"
                        "                end = end // block_size * block_size\n"
                        "            num_new"
                    ),
                    (
                        "            if end < prefill_end:\n"
                        "                end = end // block_size * block_size\n"
                        "            assert end\n"
                        "            num_new"
                    ),
                )
            ]
        },
        lines=1,
    ),
    Change(
        "a line in a new file",
        "import-time-op-compat",
        "0.25.1",
        {"vllm/compat_ops.py": [("import torch\n", "import torch\n\nOURS = True\n")]},
        lines=0,
    ),
    Change(
        "one more new file, and its import",
        "import-time-op-compat",
        "0.25.1",
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
        lines=10,
    ),
    Change(
        "a removed hunk",
        "import-time-op-compat",
        "0.25.1",
        {
            "vllm/env_override.py": [
                ("provide_accelerator_helpers()\n", ""),
                ("from vllm.compat_accelerator import provide_accelerator_helpers\n", ""),
            ]
        },
        lines=6,
    ),
    Change(
        "a removed file",
        "import-time-op-compat",
        "0.25.1",
        {
            "vllm/env_override.py": [
                ("provide_accelerator_helpers()\n", ""),
                ("from vllm.compat_accelerator import provide_accelerator_helpers\n", ""),
            ]
        },
        gone=("vllm/compat_accelerator.py",),
        lines=8,
    ),
    Change(
        "another keyword value with metavariables",
        "draft-hf-config-path",
        "0.25.1",
        {
            "vllm/config/speculative.py": [
                (
                    "self.target_model_config.model_weights,\n",
                    (
                        "self.target_model_config.model_weights,\n"
                        "                            self.target_model_config.tokenizer,\n"
                    ),
                )
            ]
        },
        lines=2,
    ),
    Change(
        "one more value in a tuple",
        "glm-ocr-mtp-names",
        "0.27.1",
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
        lines=9,
    ),
    Change(
        "one keyword value for one of two places",
        "mtp-proj-prefix",
        "0.23.0",
        {path: [('prefix=f"{prefix}.h_proj"', 'prefix=f"{prefix}.h"')] for path in MTP},
        lines=24,
    ),
    Change(
        "another name in several edits",
        "gdn-gates-of-spec-tokens",
        "0.23.0",
        {
            "vllm/model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py": [
                ("a_spec = a\n", "spec_a = a\n"),
                ("a_spec = a.index", "spec_a = a.index"),
                ("a=a_spec,", "a=spec_a,"),
            ]
        },
        lines=16,
    ),
    Change(
        "another value that is a word",
        "cpu-spec-decode-fp64-gumbel",
        "0.23.0",
        {"vllm/utils/cpu_triton_utils.py": [("USE_FP64_GUMBEL=False,", "USE_FP64_GUMBEL=None,")]},
    ),
    Change(
        "another value in code that is rewritten",
        "cpu-gdn-zero-accepted",
        "0.27.1",
        {
            "vllm/model_executor/layers/mamba/ops/cpu/gdn_attention.py": [
                (
                    "num_accepted = num_accepted.clamp(min=1)",
                    "num_accepted = num_accepted.clamp(min=2)",
                )
            ]
        },
    ),
    Change(
        "another commit in a text",
        "deepgemm-next-n-3-kernel",
        "0.23.0",
        {
            "cmake/external_projects/deepgemm.cmake": [("57b90e0\n", "57b90e1\n")],
            "tools/install_deepgemm.sh": [("57b90e0", "57b90e1")],
        },
        lines=10,
    ),
    Change(
        "another function beside the patch",
        "o-proj-bf16-fallback",
        "0.23.0",
        {
            "vllm/models/deepseek_v4/nvidia/ops/o_proj.py": [
                (
                    "    grouped_weight = weight.view(n_groups, o_lora_rank, -1)\n",
                    "    grouped_weight = weight.reshape(n_groups, o_lora_rank, -1)\n",
                )
            ]
        },
        lines=0,
    ),
]
