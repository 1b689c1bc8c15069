import vllm.config.model as model_config


class DraftConfig:
    def build(self, model, target):
        config: model_config.ModelConfig = model_config.ModelConfig(
            model=model,
            runner="draft",
            config_format=target.config_format,
            hf_config_path=(
                target.hf_config_path
                if model
                in (
                    target.model,
                    target.model_weights,
                )
                else None
            ),
        )
        return config
