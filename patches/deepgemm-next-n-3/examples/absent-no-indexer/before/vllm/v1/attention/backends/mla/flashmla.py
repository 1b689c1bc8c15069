class FlashMLAMetadataBuilder(MLACommonMetadataBuilder[FlashMLAMetadata]):
    def _build_decode(self, seq_lens_device: torch.Tensor):
        tile_scheduler_metadata, num_splits = get_mla_metadata(seq_lens_device)
        return FlashMLADecodeMetadata(tile_scheduler_metadata, num_splits)
