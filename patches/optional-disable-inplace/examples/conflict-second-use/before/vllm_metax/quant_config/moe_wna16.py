class MoeWNA16Method(vllm_MoeWNA16Method):
    def apply(self, layer, x, topk_weights, topk_ids, shared_experts_input):
        return fused_experts(
            x,
            layer.w13_qweight,
            layer.w2_qweight,
            topk_weights=topk_weights,
            topk_ids=topk_ids,
            inplace=self.moe.disable_inplace is False,
            quant_config=self.moe_quant_config,
        )
