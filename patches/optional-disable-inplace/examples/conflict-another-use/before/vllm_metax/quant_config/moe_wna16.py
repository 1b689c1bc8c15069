class MoeWNA16Method(vllm_MoeWNA16Method):
    def apply(self, layer, x, topk_weights, topk_ids, shared_experts_input):
        if self.moe.disable_inplace:
            x = x.clone()
        return inplace_fused_experts(x, layer.w13_qweight, layer.w2_qweight)
