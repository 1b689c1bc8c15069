from dataclasses import dataclass

import torch

from vllm.config import VllmConfig
from vllm.logger import init_logger
from vllm.platforms import current_platform
from vllm.utils.deep_gemm import (
    get_paged_mqa_logits_metadata,
    has_deep_gemm,
)
from vllm.v1.attention.backend import AttentionMetadataBuilder
from vllm.v1.attention.backends.mla.compressor_utils import get_compressed_slot_mapping
from vllm.v1.attention.backends.mla.next_n_3 import NEXT_N, CallRows, NextN3Buffers
from vllm.v1.attention.backends.utils import (
    split_decodes_and_prefills,
)

logger = init_logger(__name__)


@dataclass
class DeepSeekV32IndexerDecodeMetadata:
    block_table: torch.Tensor
    seq_lens: torch.Tensor
    decode_lens: torch.Tensor
    requires_padding: bool
    schedule_metadata: torch.Tensor
    # The same rows as 2 + 1 per request, where they can be split.
    next_n_3: tuple[CallRows, CallRows] | None = None


def _splits_next_n_3(vllm_config: VllmConfig) -> bool:
    """Whether decode steps with two draft tokens can run as 2 + 1 rows per request.

    Adaptive verification stays flattened, as the host does not know its query
    lengths, and so does context parallelism, where this has not been tried.
    """
    speculative_config = vllm_config.speculative_config
    parallel_config = vllm_config.parallel_config
    return (
        speculative_config is not None
        and 1 + speculative_config.num_speculative_tokens == NEXT_N
        and not getattr(speculative_config, "enable_adaptive_verification", False)
        and parallel_config.decode_context_parallel_size == 1
        and parallel_config.prefill_context_parallel_size == 1
        and current_platform.is_cuda()
        and current_platform.is_device_capability_family(90)
        and has_deep_gemm()
    )


class DeepseekV32IndexerMetadataBuilder(AttentionMetadataBuilder):
    natively_supported_next_n_fp4: list[int] = [1, 2]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        scheduler_config = self.vllm_config.scheduler_config
        self.use_flattening = (
            self.use_fp4_indexer_cache
            or not current_platform.is_device_capability_family(100)
        ) and next_n not in self.natively_supported_next_n_fp4

        # See: DeepGMM/csrc/apis/attention.hpp
        self.scheduler_metadata_buffer = torch.empty(
            (self.num_sms + 1, 2), dtype=torch.int32, device=self.device
        )
        # For two draft tokens on SM90, build() also groups the flattened rows by
        # request, so that they can be scored by calls of 2 and of 1 rows.
        self.next_n_3 = (
            NextN3Buffers(
                scheduler_config.max_num_batched_tokens, self.num_sms, self.device
            )
            if self.use_flattening and _splits_next_n_3(self.vllm_config)
            else None
        )
        if self.next_n_3 is not None:
            logger.info_once("DSA indexer decode path: next_n=3 is split as 2 + 1")

        # KV compression. Default to 1 for no compression.
        self.compress_ratio = 1

    def build(self, common_prefix_len, common_attn_metadata, fast_build=False):
        decode_metadata = None
        if num_decodes > 0:
            decode_lens_cpu = torch.diff(query_start_loc_cpu[: num_decodes + 1])
            if seq_lens.dim() == 1:
                seq_lens = seq_lens.unsqueeze(-1)

            # DeepGEMM is required for the paged MQA logits on CUDA devices
            if current_platform.is_cuda() and has_deep_gemm():
                self.scheduler_metadata_buffer[:] = get_paged_mqa_logits_metadata(
                    seq_lens,
                    self.kv_cache_spec.storage_block_size,
                    self.num_sms,
                )

            decode_metadata = DeepSeekV32IndexerDecodeMetadata(
                block_table=block_table,
                seq_lens=seq_lens,
                decode_lens=decode_lens,
                requires_padding=requires_padding,
                schedule_metadata=self.scheduler_metadata_buffer,
            )
            if self.next_n_3 is not None:
                decode_metadata.next_n_3 = self.next_n_3.update(
                    seq_lens,
                    block_table,
                    decode_lens_cpu,
                    lambda lens: get_paged_mqa_logits_metadata(
                        lens, self.kv_cache_spec.storage_block_size, self.num_sms
                    ),
                )

        return DeepseekV32IndexerMetadata(decode=decode_metadata)
