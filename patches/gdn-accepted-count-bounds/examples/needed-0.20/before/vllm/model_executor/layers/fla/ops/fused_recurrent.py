from vllm.triton_utils import tl, triton


@triton.jit(do_not_specialize=["N", "T"])
def fused_recurrent_gated_delta_rule_fwd_kernel(
    h0,
    ssm_state_indices,
    num_accepted_tokens,
    stride_init_state_token: tl.constexpr,
    stride_indices_seq: tl.constexpr,
    IS_SPEC_DECODING: tl.constexpr,
):
    i_n = tl.program_id(0)
    if IS_SPEC_DECODING:
        i_t = tl.load(num_accepted_tokens + i_n).to(tl.int64) - 1
    else:
        i_t = 0
    # Load state index and check for invalid entries
    state_idx = tl.load(ssm_state_indices + i_n * stride_indices_seq + i_t).to(
        tl.int64
    )
    if state_idx <= 0:
        return
    p_h0 = h0 + state_idx * stride_init_state_token
