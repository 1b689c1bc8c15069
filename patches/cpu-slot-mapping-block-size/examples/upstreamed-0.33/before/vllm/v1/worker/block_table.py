class ComputeSlotMappingKernel(
    VllmTritonJitKernel["ComputeSlotMappingKernel.CompileKey"]
):
    @staticmethod
    @triton.jit(do_not_specialize=["num_tokens", "max_num_tokens"])
    def kernel(
        num_tokens,
        max_num_tokens,
        query_start_loc_ptr,  # [num_reqs + 1], int32
        positions_ptr,  # [num_tokens], int64
        block_table_ptr,  # [max_num_reqs, max_num_blocks_per_req], int32 (flat)
        block_table_stride,  # max_num_blocks_per_req
        slot_mapping_ptr,  # [max_num_tokens], int64
        KV_CACHE_BLOCK_SIZE: tl.constexpr,
        TOTAL_CP_WORLD_SIZE: tl.constexpr,
        TOTAL_CP_RANK: tl.constexpr,
        CP_KV_CACHE_INTERLEAVE_SIZE: tl.constexpr,
        PAD_ID: tl.constexpr,
        BLOCK_SIZE: tl.constexpr,
    ):
        req_idx = tl.program_id(0)

        if req_idx == tl.num_programs(0) - 1:
            # Pad remaining slots for CUDA graph compatibility.
            for i in range(num_tokens, max_num_tokens, BLOCK_SIZE):
                offsets = i + tl.arange(0, BLOCK_SIZE)
                tl.store(
                    slot_mapping_ptr + offsets,
                    PAD_ID,
                    mask=offsets < max_num_tokens,
                )
            return

        start_idx = tl.load(query_start_loc_ptr + req_idx).to(tl.int64)
        end_idx = tl.load(query_start_loc_ptr + req_idx + 1).to(tl.int64)

        virtual_block_size = KV_CACHE_BLOCK_SIZE * TOTAL_CP_WORLD_SIZE
        row_offset = req_idx * block_table_stride
        for i in range(start_idx, end_idx, BLOCK_SIZE):
            offsets = i + tl.arange(0, BLOCK_SIZE)
            mask = offsets < end_idx
            pos = tl.load(positions_ptr + offsets, mask=mask, other=0)
            virtual_block_indices = pos // virtual_block_size
            virtual_block_offsets = pos - virtual_block_indices * virtual_block_size
            is_local = (
                virtual_block_offsets // CP_KV_CACHE_INTERLEAVE_SIZE
            ) % TOTAL_CP_WORLD_SIZE == TOTAL_CP_RANK
            local_block_offsets = (
                virtual_block_offsets
                // (TOTAL_CP_WORLD_SIZE * CP_KV_CACHE_INTERLEAVE_SIZE)
            ) * CP_KV_CACHE_INTERLEAVE_SIZE + (
                virtual_block_offsets % CP_KV_CACHE_INTERLEAVE_SIZE
            )

            block_numbers = tl.load(
                block_table_ptr + row_offset + virtual_block_indices,
                mask=mask & is_local,
                other=0,
            ).to(tl.int64)
            slot_ids = block_numbers * KV_CACHE_BLOCK_SIZE + local_block_offsets
            slot_ids = tl.where(is_local, slot_ids, PAD_ID)
            tl.store(slot_mapping_ptr + offsets, slot_ids, mask=mask)
