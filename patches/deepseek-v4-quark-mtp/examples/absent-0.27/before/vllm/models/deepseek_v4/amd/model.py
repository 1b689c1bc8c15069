class DeepseekV4ForCausalLM(nn.Module):
    hf_to_vllm_mapper = _make_deepseek_v4_weights_mapper("fp4")
