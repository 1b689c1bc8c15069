import torch
import torch.nn.functional as F

import vllm._custom_ops as ops


def _spec_forward(layer, attn_metadata_i, mixed_qkv_spec, conv_buf, ssm_state, width, state_len):
    num_spec_decodes = attn_metadata_i.num_spec_decodes
    spec_qsl = attn_metadata_i.spec_query_start_loc
    num_accepted = attn_metadata_i.num_accepted_tokens
    assert spec_qsl is not None
    assert num_accepted is not None
    # The recurrence reads a 0 like a 1, and the convolution knows no 0.
    num_accepted = num_accepted.clamp(min=1)

    seq_starts = spec_qsl[:-1]
    seq_lens = spec_qsl[1:] - spec_qsl[:-1]
    conv_out = torch.empty_like(mixed_qkv_spec)
    w = layer.conv1d.weight

    can_use_native_conv = (
        torch.cpu._is_amx_tile_supported()
        and bool(torch.all(seq_lens == seq_lens[0]).item())
        and int(seq_lens[0].item()) == state_len - (width - 2)
    )
    if can_use_native_conv:
        conv_out = ops.causal_conv1d_update_cpu(
            x=mixed_qkv_spec,
            conv_states=conv_buf,
            num_accepted_tokens=num_accepted[:num_spec_decodes].to("cpu", torch.int32),
        )
    else:
        for i in range(num_spec_decodes):
            q_i = int(seq_lens[i].item())
            start = int(seq_starts[i].item())
            offset = int(num_accepted[i].item()) - 1
            B = conv_buf[i]  # (dim, state_len)
            x_seq = mixed_qkv_spec[start : start + q_i].transpose(0, 1).to(B.dtype)
            prior = B[:, offset : offset + (width - 1)]
            conv_in = torch.cat([prior, x_seq], dim=-1).unsqueeze(0)
            out = F.conv1d(conv_in, w, None, groups=w.size(0))[0]
            conv_out[start : start + q_i] = out.transpose(0, 1).to(conv_out.dtype)
            # Same layout as causal_conv1d_update: the next step reads its
            # history at column ``num_accepted - 1``.
            B[:, : width - 2 + q_i] = conv_in[0, :, 1:]

    return ops.fused_sigmoid_gating_delta_rule_update_spec_cpu(
        q=conv_out,
        initial_state_source=ssm_state,
        num_accepted_tokens=num_accepted,
    )
