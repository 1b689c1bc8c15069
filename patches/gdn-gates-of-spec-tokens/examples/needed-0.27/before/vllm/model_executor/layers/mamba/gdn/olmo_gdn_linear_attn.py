from vllm.model_executor.layers.mamba.abstract import MambaBase


class OlmoHybridGatedDeltaNetAttention(MambaBase):
    def _forward_core(self, mixed_qkv, attn_metadata):
        spec_token_indx = attn_metadata.spec_token_indx
        if attn_metadata.num_prefills == 0 and attn_metadata.num_decodes == 0:
            mixed_qkv_spec = mixed_qkv
        else:
            mixed_qkv_spec = mixed_qkv.index_select(0, spec_token_indx)
        return mixed_qkv_spec
