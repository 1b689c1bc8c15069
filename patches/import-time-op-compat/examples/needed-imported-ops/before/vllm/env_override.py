import os

import torch

from vllm.logger import init_logger
from vllm.utils.torch_utils import is_torch_equal, is_torch_equal_or_newer

logger = init_logger(__name__)

# set some common config/environment variables that should be set
# for all processes created by vllm and all processes
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
