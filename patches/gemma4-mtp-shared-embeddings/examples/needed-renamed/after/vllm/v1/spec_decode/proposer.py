class SpecDecodeBaseProposer:
    def _maybe_share_embeddings(self, target_language_model):
        target_embed_tokens = target_language_model.model.embed_tokens
        share_embeddings = self.wants_to_share()

        if share_embeddings and hasattr(self.model, "has_own_embed_tokens"):
            own = self.model.model.embed_tokens
            target_dim = target_embed_tokens.weight.shape[-1]
            draft_dim = own.weight.shape[-1]
            if target_dim != draft_dim:
                share_embeddings = False

        if share_embeddings:
            del self.model.model.embed_tokens
            self.model.model.embed_tokens = target_embed_tokens
