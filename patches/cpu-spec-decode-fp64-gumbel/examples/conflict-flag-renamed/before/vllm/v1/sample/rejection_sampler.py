def sample_recovered_tokens(output_token_ids, target_probs, inv_q, vocab_size, use_fp64_gumbel):
    q_dtype = torch.float64 if use_fp64_gumbel else torch.float32
    sample_recovered_tokens_kernel[grid](
        output_token_ids,
        target_probs,
        inv_q,
        vocab_size,
        NO_DRAFT_PROBS=True,
        USE_FP64_NOISE=use_fp64_gumbel,
    )
