import torch

import vllm.envs as envs
from vllm.compat_ops import provide_fp4_out_overload
from vllm.logger import init_logger
from vllm.platforms import current_platform
from vllm.scalar_type import ScalarType

logger = init_logger(__name__)

current_platform.import_kernels()
provide_fp4_out_overload()

if hasattr(torch.ops, "_C") and hasattr(torch.ops._C, "scaled_fp4_quant"):

    @register_fake("_C::scaled_fp4_quant.out")
    def _scaled_fp4_quant_out_fake(input, input_scale, *, output, output_scale):
        return None
