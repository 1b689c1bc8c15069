from torch import nn

from .qwen3_next import QwenNextMixtureOfExperts


class Qwen3NextMTP(nn.Module, QwenNextMixtureOfExperts):
    packed_modules_mapping = {
        "qkv_proj": [
            "q_proj",
            "k_proj",
            "v_proj",
        ],
        "gate_up_proj": ["gate_proj", "up_proj"],
    }
