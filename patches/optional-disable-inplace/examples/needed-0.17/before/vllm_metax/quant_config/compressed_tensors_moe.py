class CompressedTensorsW8A8Int8MoEMethod(vllm_ctm.CompressedTensorsMoEMethod):
    def apply(self, layer, x, topk_weights, topk_ids, shared_experts_input):
        return fused_experts(
            hidden_states=x,
            w1=layer.w13_weight,
            w2=layer.w2_weight,
            topk_weights=topk_weights,
            topk_ids=topk_ids,
            inplace=not self.moe.disable_inplace,
            quant_config=self.moe_quant_config,
        )


class CompressedTensorsWNA16MoEMethod(vllm_ctm.CompressedTensorsWNA16MoEMethod):
    def apply(self, layer, x, topk_weights, topk_ids, shared_experts_input):
        return fused_experts(
            x,
            layer.w13_weight_packed,
            layer.w2_weight_packed,
            topk_weights=topk_weights,
            topk_ids=topk_ids,
            inplace=not self.moe.disable_inplace,
            quant_config=self.moe_quant_config,
        )
