"""Merged pull requests of vLLM: two adjacent releases, and what of their difference is the change.

These are facts: the last release without the change and the first one with it, files, qualified
names of definitions, and words. A part is what differs in a definition, outside of all definitions
(`MODULE`), or in the whole file (`ANY`). Where other changes are in the same definition, a run of
lines that differ counts only if one of the words is in it. So a run may have a line of its
neighbour, as where two changes add a line at the same place.

A name without `#` is a correction of a patch release: its pull request is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass

MODULE = ""
ANY = "*"
Parts = dict[str, dict[str, tuple[str, ...]]]
_SPEECH = "vllm/entrypoints/speech_to_text"
_SALT = ("validate_cache_salt", "_CACHE_SALT")


@dataclass(frozen=True)
class Merged:
    """A change that `new` has and `old` has not; files, and in them definitions with words."""

    name: str
    old: str
    new: str
    parts: Parts


MERGED = (
    Merged(
        "#43426 Host header",
        "0.21.0",
        "0.22.0",
        {
            "vllm/entrypoints/openai/server_utils.py": {
                MODULE: ("import URL", "GUARDED_PREFIX"),
                "AuthenticationMiddleware": (),
                "AuthenticationMiddleware.__call__": (),
            }
        },
    ),
    Merged(
        "#44744 recovered token",
        "0.23.0",
        "0.24.0",
        {
            "vllm/v1/sample/rejection_sampler.py": {
                "sample_recovered_tokens_kernel": ("tile reduction", "vocab_mask", "minimum")
            }
        },
    ),
    Merged(
        "0.24.0 type of offsets",
        "0.23.0",
        "0.24.0",
        {
            "vllm/v1/sample/rejection_sampler.py": {
                "rejection_greedy_sample_kernel": (),
                "rejection_random_sample_kernel": (),
                "expand_kernel": (),
                "sample_recovered_tokens_kernel": ("tl.zeros",),
            }
        },
    ),
    Merged(
        "#45116 finite parameters",
        "0.23.0",
        "0.24.0",
        {
            "vllm/sampling_params.py": {
                MODULE: ("import math",),
                "SamplingParams._verify_args": ("isfinite",),
            }
        },
    ),
    Merged(
        "#45118 regex time-out",
        "0.23.0",
        "0.24.0",
        {
            "vllm/envs.py": {MODULE: ("VLLM_REGEX_COMPILATION",)},
            "vllm/v1/structured_output/utils.py": {
                MODULE: ("TypeVar", "_T =", "Callable", "compile_regex"),
                "compile_regex_with_timeout": (),
            },
            "vllm/v1/structured_output/backend_xgrammar.py": {
                MODULE: ("compile_regex",),
                "XgrammarBackend.compile_grammar": (),
                "validate_xgrammar_grammar": ("compile_regex",),
            },
            "vllm/v1/structured_output/backend_outlines.py": {
                MODULE: ("compile_regex",),
                "OutlinesBackend._compile_index": (),
            },
        },
    ),
    Merged(
        "#45119 error texts",
        "0.23.0",
        "0.24.0",
        {
            "vllm/entrypoints/anthropic/api_router.py": {
                MODULE: ("sanitize_message",),
                "create_messages": ("sanitize_message",),
                "count_tokens": ("sanitize_message",),
            },
            "vllm/entrypoints/anthropic/serving.py": {
                MODULE: ("sanitize_message",),
                "AnthropicServingMessages.message_stream_converter": ("sanitize_message",),
            },
            f"{_SPEECH}/realtime/connection.py": {
                MODULE: ("sanitize_message",),
                "RealtimeConnection.handle_connection": (),
                "RealtimeConnection._run_generation": (),
            },
        },
    ),
    Merged(
        "#44970 audio duration",
        "0.23.0",
        "0.24.0",
        {
            "vllm/envs.py": {MODULE: ("VLLM_MAX_AUDIO_DECODE_DURATION_S",)},
            "vllm/multimodal/media/audio.py": {
                MODULE: ("vllm.envs",),
                "load_audio_pyav": (),
                "load_audio_soundfile": (),
                "load_audio": (),
                "AudioMediaIO.load_bytes": (),
                "AudioMediaIO.load_file": (),
            },
        },
    ),
    Merged(
        "#44974 transparent images",
        "0.23.0",
        "0.24.0",
        {
            "vllm/multimodal/image.py": {
                MODULE: ("contextlib", "ImageOps"),
                "normalize_image": (),
                "_has_transparency": (),
                "convert_image_mode": (),
            },
            "vllm/multimodal/media/image.py": {
                MODULE: ("normalize_image",),
                "ImageMediaIO._convert_image_mode": (),
                "ImageMediaIO.load_bytes": (),
            },
        },
    ),
    Merged(
        "#45252 M-RoPE",
        "0.23.0",
        "0.24.0",
        {"vllm/v1/worker/gpu_model_runner.py": {"GPUModelRunner._init_mrope_positions": ()}},
    ),
    Merged(
        "#45510 size of uploads",
        "0.23.0",
        "0.24.0",
        {
            f"{_SPEECH}/base/utils.py": {ANY: ()},
            f"{_SPEECH}/transcription/api_router.py": {
                MODULE: ("read_upload",),
                "create_transcriptions": (),
            },
            f"{_SPEECH}/translation/api_router.py": {
                MODULE: ("read_upload",),
                "create_translations": (),
            },
        },
    ),
    Merged(
        "#44821 MTP prefix",
        "0.23.0",
        "0.24.0",
        {
            "vllm/models/deepseek_v4/nvidia/mtp.py": {
                "DeepSeekV4MultiTokenPredictorLayer.__init__": ("prefix=",)
            },
            "vllm/models/deepseek_v4/amd/mtp.py": {
                "DeepSeekV4MultiTokenPredictorLayer.__init__": ("prefix=",)
            },
        },
    ),
    Merged(
        "#45240 MTP prefix on XPU",
        "0.23.0",
        "0.24.0",
        {
            "vllm/models/deepseek_v4/xpu/mtp.py": {
                MODULE: ("support_torch_compile",),
                "DeepSeekV4MultiTokenPredictorLayer.__init__": ("prefix=",),
                "DeepSeekV4MTP": ("support_torch_compile",),
            }
        },
    ),
    Merged(
        "#52952 remote code",
        "0.27.1",
        "0.28.0",
        {
            "vllm/model_executor/models/llava_onevision2.py": {
                MODULE: ("resolve_trust_remote_code",),
                "_load_ov2_processor": (),
            }
        },
    ),
    Merged(
        "#51795 negative token ids",
        "0.27.1",
        "0.28.0",
        {
            "vllm/v1/engine/input_processor.py": {
                "InputProcessor._validate_model_input": ("min_input_id",)
            }
        },
    ),
    Merged(
        "#51444 cache salt",
        "0.29.0",
        "0.30.0",
        {
            "vllm/entrypoints/generate/base/protocol.py": {
                MODULE: _SALT,
                "validate_cache_salt": (),
            },
            "vllm/entrypoints/openai/chat_completion/protocol.py": {
                MODULE: _SALT,
                "ChatCompletionRequest.check_cache_salt_support": (),
            },
            "vllm/entrypoints/openai/completion/protocol.py": {
                MODULE: _SALT,
                "CompletionRequest.check_cache_salt_support": (),
            },
            "vllm/entrypoints/openai/responses/protocol.py": {
                MODULE: _SALT,
                "ResponsesRequest.check_cache_salt_support": (),
            },
        },
    ),
    Merged(
        "0.20.2 deepstack",
        "0.20.1",
        "0.20.2",
        {
            "vllm/model_executor/models/qwen3_vl.py": {
                "Qwen3VLForConditionalGeneration._get_deepstack_input_embeds": (),
                "Qwen3VLForConditionalGeneration._clear_deepstack_input_embeds": (),
            },
            "vllm/model_executor/models/qwen3_omni_moe_thinker.py": {
                "Qwen3OmniMoeThinkerForConditionalGeneration._get_deepstack_input_embeds": (),
                "Qwen3OmniMoeThinkerForConditionalGeneration._clear_deepstack_input_embeds": (),
            },
        },
    ),
    Merged(
        "0.20.2 cap of admission",
        "0.20.1",
        "0.20.2",
        {
            "vllm/v1/core/kv_cache_coordinator.py": {ANY: ()},
            "vllm/v1/core/kv_cache_manager.py": {ANY: ()},
            "vllm/v1/core/single_type_kv_cache_manager.py": {ANY: ()},
        },
    ),
    Merged(
        "0.22.1 type of RoPE",
        "0.22.0",
        "0.22.1",
        {"vllm/transformers_utils/config.py": {ANY: ("rope_type",)}},
    ),
    Merged(
        "0.22.1 ports of Ray",
        "0.22.0",
        "0.22.1",
        {"vllm/entrypoints/cli/serve.py": {"run_multi_api_server": ()}},
    ),
    Merged(
        "0.22.1 minimum of floats",
        "0.22.0",
        "0.22.1",
        {"vllm/models/deepseek_v4/nvidia/ops/sparse_attn_compress_cutedsl.py": {ANY: ()}},
    ),
    Merged(
        "0.25.1 types of weights",
        "0.25.0",
        "0.25.1",
        {"vllm/compilation/passes/fusion/allreduce_rms_fusion.py": {ANY: ()}},
    ),
    Merged(
        "0.25.1 torchcodec",
        "0.25.0",
        "0.25.1",
        {"vllm/multimodal/video.py": {ANY: ()}, "vllm/utils/import_utils.py": {ANY: ()}},
    ),
    Merged(
        "0.27.1 quantised draft",
        "0.27.0",
        "0.27.1",
        {"vllm/model_executor/models/qwen3_dspark.py": {ANY: ()}},
    ),
)
