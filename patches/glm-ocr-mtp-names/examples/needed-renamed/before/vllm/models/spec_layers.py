def get_spec_layer_idx_from_weight_name(config, name):
    for idx in range(config.num_hidden_layers, config.num_hidden_layers + 1):
        if name.startswith((f"model.layers.{idx}.", f"layers.{idx}.")):
            return idx
    return None
