from vllm.triton_utils import tl, triton


@triton.jit()
def _causal_conv1d_update_kernel(
    conv_states_base,
    num_accepted_tokens_ptr,
    stride_conv_state_tok: tl.constexpr,
    IS_SPEC_DECODING: tl.constexpr,
):
    idx_seq = tl.program_id(0)
    if IS_SPEC_DECODING:
        # The rolling of conv state: after acceptance, it begins one token later.
        conv_state_token_offset = (
            tl.load(num_accepted_tokens_ptr + idx_seq).to(tl.int64) - 1
        )
        # A stale row may have accepted nothing: stay in its own cache line.
        conv_state_token_offset = tl.maximum(conv_state_token_offset, 0)
    else:
        conv_state_token_offset = 0
    prior_tokens = conv_states_base + conv_state_token_offset * stride_conv_state_tok
