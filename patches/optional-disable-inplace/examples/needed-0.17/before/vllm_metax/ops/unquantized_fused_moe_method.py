class UnquantizedFusedMoEMethod(FusedMoEMethodBase):
    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        self.kernel = mk.FusedMoEModularKernel(
            MoEPrepareAndFinalizeNoEP(),
            TritonExperts(moe_config=self.moe, quant_config=self.moe_quant_config),
            inplace=not self.moe.disable_inplace,
        )
