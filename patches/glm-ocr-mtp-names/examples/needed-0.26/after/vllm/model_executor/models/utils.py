def get_spec_layer_idx_from_weight_name(config, weight_name):
    if not (n := getattr(config, "num_nextn_predict_layers", 0)):
        return None
    base = config.num_hidden_layers
    for i in range(n):
        if weight_name.startswith(
            (
                f"model.layers.{base + i}.",
                f"layers.{base + i}.",
                f"model.language_model.layers.{(base + i)}.",
            )
        ):
            return base + i
    return None
