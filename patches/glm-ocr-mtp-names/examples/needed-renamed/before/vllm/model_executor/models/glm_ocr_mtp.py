from .utils import get_spec_layer_idx_from_weight_name


class GlmOcrMTP(nn.Module):
    def load_weights(self, weights):
        for name, weight in weights:
            spec_layer = get_spec_layer_idx_from_weight_name(self.config, name)
            if spec_layer is None:
                continue
