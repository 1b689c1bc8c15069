class SpeculativeConfig:
    def __post_init__(self):
        if self.method == "mtp" and self.model is None:
            self.model = (
                self.target_model_config.model_weights
                or self.target_model_config.model
            )
        if self.model is not None:
            self.draft_model_config = ModelConfig(
                model=self.model,
                runner="draft",
                tokenizer=(
                    self.model
                    if self.use_heterogeneous_vocab
                    else self.target_model_config.tokenizer
                ),
                config_format=self.target_model_config.config_format,
                hf_config_path=None,
            )
