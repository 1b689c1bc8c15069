from vllm.triton_utils import tl, triton


@triton.jit
def _lightning_attn_spec_decode_kernel(
    state_indices_ptr,
    num_accepted_tokens_ptr,
    state_indices_b_stride,
    state_indices_t_stride,
    STATE_WIDTH: tl.constexpr,
):
    req_id = tl.program_id(0)
    accepted_offset = tl.load(num_accepted_tokens_ptr + req_id).to(tl.int64) - 1
    accepted_offset = tl.maximum(accepted_offset, 0)
    accepted_offset = tl.minimum(accepted_offset, STATE_WIDTH - 1)
    src_slot = tl.load(
        state_indices_ptr
        + req_id * state_indices_b_stride
        + accepted_offset * state_indices_t_stride
    ).to(tl.int64)
