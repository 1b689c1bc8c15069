from vllm.triton_utils import tl, triton


@triton.jit(do_not_specialize=["N", "T"])
def fused_recurrent_kda_fwd_kernel(
    out,
    state,
    state_indices,
    num_accepted_tokens,
    stride_state_token: tl.constexpr,
    stride_indices_seq: tl.constexpr,
    IS_SPEC_DECODING: tl.constexpr,
):
    i_n = tl.program_id(0)
    if IS_SPEC_DECODING:
        initial_token = tl.load(num_accepted_tokens + i_n).to(tl.int64) - 1
        # A stale row may have accepted nothing: stay in its own slots.
        initial_token = tl.minimum(tl.maximum(initial_token, 0), stride_indices_seq - 1)
    else:
        initial_token = 0
    state_index = tl.load(state_indices + i_n * stride_indices_seq + initial_token).to(
        tl.int64
    )
    if state_index <= 0:
        return
    p_state = state + state_index * stride_state_token
