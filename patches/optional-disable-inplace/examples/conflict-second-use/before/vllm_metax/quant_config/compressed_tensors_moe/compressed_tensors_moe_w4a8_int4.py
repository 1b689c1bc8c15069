class CompressedTensorsW4A8Int4MoEMethod(vllm_ctm.CompressedTensorsW4A8Int4MoEMethod):
    def apply(self, layer, x, topk_weights, topk_ids, shared_experts_input):
        fused_experts = get_fused_experts_fn()

        return fused_experts(
            x,
            layer.w13_weight,
            layer.w2_weight,
            topk_weights=topk_weights,
            topk_ids=topk_ids,
            inplace=not self.moe.disable_inplace,
            quant_config=self.moe_quant_config,
        )
