from torch import nn


class Qwen3NextMTP(nn.Module):
    packed_modules_mapping = {
        "gate_up_proj": ["gate_proj", "up_proj"],
        "in_proj_ba": ["in_proj_ba"],
    }
