"""Merged pull requests of vLLM that nobody chose: drawn at random, and in none of the other groups.

Facts as in benchmarks/imports/merged.py. `python benchmarks/import_draw.py CLONE` drew them with
seed 45, from a public clone that has vLLM's history up to 2026-08-14. A change is the difference of
two releases in the definitions that the pull request touches, and has the same lines.
"""

from __future__ import annotations

from imports.merged import MODULE, Merged

_WNA16 = "vllm/model_executor/layers/quantization/compressed_tensors/compressed_tensors_moe"

PUBLIC = (
    Merged(
        name="#46415 server_utils",
        old="0.25.1",
        new="0.26.0",
        parts={
            "vllm/entrypoints/serve/utils/api_utils.py": {"sanitize_message": ()},
            "vllm/entrypoints/serve/utils/server_utils.py": {"validation_exception_handler": ()},
        },
    ),
    Merged(
        name="#50141 audio",
        old="0.26.0",
        new="0.27.0",
        parts={
            "vllm/entrypoints/speech_to_text/base/serving.py": {
                "SpeechToTextBaseServing._decode_and_chunk_speech": ()
            },
            "vllm/multimodal/audio.py": {"find_split_point": (), "split_audio": ()},
        },
    ),
    Merged(
        name="#45322 indexer",
        old="0.23.0",
        new="0.24.0",
        parts={
            "vllm/v1/attention/backends/mla/indexer.py": {
                "DeepseekV32IndexerMetadataBuilder": (),
                "DeepseekV32IndexerMetadataBuilder.__init__": (),
            }
        },
    ),
    Merged(
        name="#40815 fa_utils",
        old="0.20.2",
        new="0.21.0",
        parts={
            "vllm/v1/attention/backends/fa_utils.py": {"get_flash_attn_version": ()},
            "vllm/v1/attention/backends/flash_attn.py": {"FlashAttentionImpl.__init__": ()},
        },
    ),
    Merged(
        name="#41617 causal_conv1d",
        old="0.20.2",
        new="0.21.0",
        parts={
            "vllm/model_executor/layers/mamba/ops/causal_conv1d.py": {
                "_causal_conv1d_fwd_kernel": (),
                "_causal_conv1d_update_kernel": (),
            }
        },
    ),
    Merged(
        name="#41991 gemma4_tool_parser",
        old="0.20.2",
        new="0.21.0",
        parts={
            "vllm/tool_parsers/gemma4_tool_parser.py": {
                "_parse_gemma4_args": (),
                "_parse_gemma4_array": (),
            }
        },
    ),
    Merged(
        name="#43595 cache",
        old="0.23.0",
        new="0.24.0",
        parts={"vllm/utils/cache.py": {"LRUCache.touch": ()}},
    ),
    Merged(
        name="#46037 vllm",
        old="0.24.0",
        new="0.25.0",
        parts={"vllm/config/vllm.py": {"VllmConfig.try_verify_and_update_config": ()}},
    ),
    Merged(
        name="#41161 compressed_tensors_moe_wna16_marlin",
        old="0.23.0",
        new="0.24.0",
        parts={
            f"{_WNA16}/compressed_tensors_moe_wna16.py": {
                "CompressedTensorsWNA16MoEMethod.create_weights": ()
            },
            f"{_WNA16}/compressed_tensors_moe_wna16_marlin.py": {
                "CompressedTensorsWNA16MarlinMoEMethod._w2_scale_sharding": (),
                "CompressedTensorsWNA16MarlinMoEMethod.create_weights": (),
            },
        },
    ),
    Merged(
        name="#50458 deep_gemm_utils",
        old="0.26.0",
        new="0.27.0",
        parts={
            "vllm/model_executor/layers/fused_moe/deep_gemm_utils.py": {MODULE: (), "ep_gather": ()}
        },
    ),
    Merged(
        name="#47007 params",
        old="0.24.0",
        new="0.25.0",
        parts={
            "vllm/renderers/params.py": {
                "TokenizeParams._text_len_check": (),
                "TokenizeParams.get_encode_kwargs": (),
            }
        },
    ),
    Merged(
        name="#43118 aya_vision",
        old="0.21.0",
        new="0.22.0",
        parts={
            "vllm/model_executor/models/aya_vision.py": {
                "AyaVisionForConditionalGeneration.__init__": ()
            },
            "vllm/model_executor/models/voxtral.py": {
                "VoxtralForConditionalGeneration.__init__": ()
            },
        },
    ),
    Merged(
        name="#51627 cpu",
        old="0.27.1",
        new="0.28.0",
        parts={"vllm/platforms/cpu.py": {"CpuPlatform.supported_dtypes": ()}},
    ),
    Merged(
        name="#45873 protocol",
        old="0.23.0",
        new="0.24.0",
        parts={
            "vllm/entrypoints/pooling/embed/protocol.py": {
                "CohereEmbedContent.validate_content_payload": ()
            }
        },
    ),
    Merged(
        name="#49513 layernorm",
        old="0.26.0",
        new="0.27.0",
        parts={
            "vllm/ir/ops/layernorm.py": {
                "_fused_add_rms_norm_input_generator": (),
                "_rms_norm_input_generator": (),
            }
        },
    ),
    Merged(
        name="#49247 utils",
        old="0.26.0",
        new="0.27.0",
        parts={
            "vllm/config/utils.py": {MODULE: (), "_update_config": (), "update_config": ()},
            "vllm/v1/worker/gpu_model_runner.py": {"GPUModelRunner.update_config": ()},
        },
    ),
    Merged(
        name="#42098 rocm_aiter_moe",
        old="0.21.0",
        new="0.22.0",
        parts={
            "vllm/model_executor/layers/fused_moe/experts/rocm_aiter_moe.py": {
                "rocm_aiter_fused_experts": ()
            }
        },
    ),
    Merged(
        name="#44283 serving",
        old="0.22.1",
        new="0.23.0",
        parts={
            "vllm/entrypoints/anthropic/protocol.py": {"AnthropicMessage": ()},
            "vllm/entrypoints/anthropic/serving.py": {
                "AnthropicServingMessages._convert_messages": (),
                "AnthropicServingMessages._convert_system_message": (),
            },
        },
    ),
    Merged(
        name="#47060 triton_mla",
        old="0.25.1",
        new="0.26.0",
        parts={"vllm/v1/attention/backends/mla/triton_mla.py": {"TritonMLAImpl.__init__": ()}},
    ),
    Merged(
        name="#44747 cohere2_moe",
        old="0.23.0",
        new="0.24.0",
        parts={
            "vllm/model_executor/models/cohere2_moe.py": {
                "Cohere2MoeAttention.__init__": (),
                "Cohere2MoeDecoderLayer.__init__": (),
                "Cohere2MoeModel.__init__": (),
                "is_prefix_dense_layer": (),
            }
        },
    ),
    Merged(
        name="#51256 speculative",
        old="0.27.1",
        new="0.28.0",
        parts={
            "vllm/config/speculative.py": {"SpeculativeConfig.max_num_new_slots_for_drafting": ()}
        },
    ),
    Merged(
        name="#51819 flashinfer_b12x_moe",
        old="0.27.1",
        new="0.28.0",
        parts={
            "vllm/model_executor/layers/fused_moe/experts/flashinfer_b12x_moe.py": {
                "FlashInferB12xExperts": (),
                "FlashInferB12xExperts._supports_activation": (),
            }
        },
    ),
    Merged(
        name="#49372 config",
        old="0.26.0",
        new="0.27.0",
        parts={
            "vllm/model_executor/models/config.py": {
                "ColQwen3_5Config": (),
                "ColQwen3_5Config.verify_and_update_model_config": (),
            }
        },
    ),
    Merged(
        name="#40356 _xpu_ops",
        old="0.20.2",
        new="0.21.0",
        parts={"vllm/_xpu_ops.py": {"xpu_ops.flash_attn_varlen_func": ()}},
    ),
    Merged(
        name="#49621 fp8_utils",
        old="0.26.0",
        new="0.27.0",
        parts={
            "vllm/compilation/passes/fusion/allreduce_rms_fusion.py": {
                "AiterAllreduceFusedAddRMSNormGroupQuantWithIndexerPattern": ()
            },
            "vllm/model_executor/layers/quantization/input_quant_fp8.py": {
                "QuantFP8.forward_hip": ()
            },
            "vllm/model_executor/layers/quantization/utils/fp8_utils.py": {
                MODULE: (),
                "_triton_per_token_group_quant_fp8_fake": (),
                "_triton_per_token_group_quant_fp8_impl": (),
            },
        },
    ),
)
