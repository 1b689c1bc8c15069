from torch import nn

from .qwen3_next import Qwen3NextForCausalLM


class Qwen3NextMTP(nn.Module):
    packed_modules_mapping = Qwen3NextForCausalLM.packed_modules_mapping
