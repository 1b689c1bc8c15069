import torch


def _sample_recovered_tokens_kernel_impl(
    output_token_ids,
    target_probs,
    inv_q,
    vocab_size,
    NO_DRAFT_PROBS=False,
):
    output = _ensure_int64(output_token_ids)
    torch.ops._C.sample_recovered_tokens_kernel_impl(
        output,
        target_probs,
        inv_q,
        vocab_size,
        NO_DRAFT_PROBS,
    )
