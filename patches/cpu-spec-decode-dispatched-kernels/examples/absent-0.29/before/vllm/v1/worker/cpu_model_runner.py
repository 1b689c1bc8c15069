class CPUModelRunner(GPUModelRunner):
    def _postprocess_triton(self) -> None:
        from vllm.triton_utils import HAS_TRITON

        if HAS_TRITON:
            logger.info(
                "Triton-CPU backend is available; skipping C++ monkey-patches "
                "for Triton kernels."
            )
            return

        import vllm.v1.worker.block_table

        vllm.v1.worker.block_table._COMPUTE_SLOT_MAPPING_KERNEL.kernel = (
            cpu_tl.compute_slot_mapping_kernel
        )

        # Speculative decoding fallbacks
        import vllm.v1.sample.rejection_sampler
        import vllm.v1.spec_decode.llm_base_proposer
        import vllm.v1.spec_decode.utils as spec_decode_utils

        vllm.v1.spec_decode.llm_base_proposer.eagle_prepare_inputs_padded_kernel = (
            cpu_tl.eagle_prepare_inputs_padded_kernel
        )
        vllm.v1.spec_decode.llm_base_proposer.eagle_prepare_next_token_padded_kernel = (
            cpu_tl.eagle_prepare_next_token_padded_kernel
        )
        vllm.v1.spec_decode.llm_base_proposer.copy_and_expand_eagle_inputs_kernel = (
            cpu_tl.copy_and_expand_eagle_inputs_kernel
        )
        spec_decode_utils.copy_and_expand_dflash_inputs_kernel = (
            cpu_tl.copy_and_expand_dflash_inputs_kernel
        )
        dflash_module = sys.modules.get("vllm.v1.spec_decode.dflash")
        if dflash_module is not None:
            dflash_kernel_name = "copy_and_expand_dflash_inputs_kernel"
            setattr(
                dflash_module,
                dflash_kernel_name,
                cpu_tl.copy_and_expand_dflash_inputs_kernel,
            )
        spec_decode_utils.eagle_step_slot_mapping_metadata_kernel = (
            cpu_tl.eagle_step_slot_mapping_metadata_kernel
        )
        vllm.v1.sample.rejection_sampler.rejection_greedy_sample_kernel = (
            cpu_tl.rejection_greedy_sample_kernel
        )
        vllm.v1.sample.rejection_sampler.rejection_random_sample_kernel = (
            cpu_tl.rejection_random_sample_kernel
        )
        vllm.v1.sample.rejection_sampler.expand_kernel = cpu_tl.expand_kernel
        vllm.v1.sample.rejection_sampler.sample_recovered_tokens_kernel = (
            cpu_tl.sample_recovered_tokens_kernel
        )

        import vllm.v1.worker.mamba_utils

        vllm.v1.worker.mamba_utils.batch_memcpy_kernel = cpu_tl.batch_memcpy_kernel
