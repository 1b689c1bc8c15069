def get_spec_layer_idx_from_weight_name(config, weight_name):
    if hasattr(config, "num_nextn_predict_layers"):
        layer_idx = config.num_hidden_layers
        for i in range(config.num_nextn_predict_layers):
            if f"layers.{layer_idx + i}." in weight_name:
                return layer_idx + i
    return None
