"""Asks vLLM's own code which modules a checkpoint's compressed-tensors config leaves out.

    PYTHON match_names.py FOLDER NAME...

It prints, as JSON on the last line, for each name whether it is left out (or the error of asking),
and the target that it is matched with.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from torch import nn
from vllm.model_executor.layers.quantization.compressed_tensors import utils
from vllm.model_executor.layers.quantization.compressed_tensors.compressed_tensors import (
    CompressedTensorsConfig,
)
from vllm.models.deepseek_v4.nvidia.model import DeepseekV4ForCausalLM


def asked(config, name):
    fused = config.packed_modules_mapping
    try:
        left_out = utils.should_ignore_layer(name, config.ignore, fused)
    except ValueError as error:
        return str(error)
    targets = config.target_scheme_map
    target = utils.find_matched_target(name, nn.Linear(1, 1), targets, fused)
    return [left_out, target]


def main():
    declared = json.loads((Path(sys.argv[1]) / "config.json").read_text())
    config = CompressedTensorsConfig.from_config(declared["quantization_config"])
    # As configure_quant_config does when the model is made.
    config.apply_vllm_mapper(DeepseekV4ForCausalLM.hf_to_vllm_mapper)
    known = getattr(DeepseekV4ForCausalLM, "packed_modules_mapping", None)
    if known is not None:
        config.packed_modules_mapping = known
    answers = {name: asked(config, name) for name in sys.argv[2:]}
    sys.stdout.write(f"{json.dumps(answers)}\n")


if __name__ == "__main__":
    main()
