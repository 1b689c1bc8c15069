import torch


def cpu_gdn_attention_core(layer, attn_metadata_i, mixed_qkv):
    assert (
        attn_metadata_i.spec_sequence_masks is None
        and attn_metadata_i.num_accepted_tokens is None
    ), "speculative decode not supported on CPU"
    return torch.empty_like(mixed_qkv)
