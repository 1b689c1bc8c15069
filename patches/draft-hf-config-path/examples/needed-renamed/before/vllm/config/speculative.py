import vllm.config.model as model_config


class DraftConfig:
    def build(self, model, target):
        config: model_config.ModelConfig = model_config.ModelConfig(
            model=model,
            runner="draft",
            config_format=target.config_format,
        )
        return config
