@triton_kernel_dispatcher_with_warmup(
    kernel=eagle_step_slot_mapping_metadata_kernel,
    warmup_inputs=_eagle_step_warmup_inputs,
)
def _eagle_step_slot_mapping_metadata(
    positions: torch.Tensor,
    block_table: torch.Tensor,
    block_table_stride: int,
    seq_lens: torch.Tensor,
    out_clamped_positions: torch.Tensor,
    out_slot_mapping: torch.Tensor,
    *,
    block_size: int,
    max_model_len: int,
    n_blocks_per_req: int,
    PAD_ID: int,
    batch_size: int,
    input_batch_size: int,
) -> DispatchSpec:
    return (input_batch_size,), {}
