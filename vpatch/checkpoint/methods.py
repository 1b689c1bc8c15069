"""How vLLM reads the config of each method of quantisation.

Data, read in the sources of vLLM 0.20.0 to 0.33.0 (model_executor/layers/quantization), and for
ModelSlim in those of vllm-ascend 0.30.0rc2.
"""

from __future__ import annotations

from dataclasses import dataclass

from vpatch.checkpoint.list_entry import Matching

MODELSLIM_METHOD = "modelslim"
"""What vpatch calls ModelSlim's table, which names no method."""
_NOT_CONVERTED = "modules_to_not_convert"


@dataclass(frozen=True)
class ListKey:
    """A list of what is left out. The first of `keys` that the config has is what counts.

    `patterns`: it is about the entries that begin with re:, or about the others; None for all.
    """

    keys: tuple[str, ...]
    matching: Matching
    patterns: bool | None = None


@dataclass(frozen=True)
class Method:
    """What a method quantises, and where its config says what it does not.

    `linear` and `experts`: whether it quantises linear layers, and layers of experts.
    `measured` is the list without which vLLM takes from the tensors' dtypes what is quantised.
    """

    lists: tuple[ListKey, ...] = ()
    linear: bool = True
    experts: bool = True
    measured: str | None = None


_FP8 = Method((ListKey(("ignored_layers", _NOT_CONVERTED), Matching.EXACT),))
_AWQ = Method((ListKey((_NOT_CONVERTED,), Matching.INSIDE),), measured=_NOT_CONVERTED)
_GPTQ = Method((ListKey(("dynamic",), Matching.DYNAMIC),), measured="modules_in_block_to_quantize")
_MODELOPT = Method((ListKey(("ignore", "exclude_modules"), Matching.WILDCARD),))
_AUTO_ROUND = Method((ListKey(("extra_config",), Matching.CONFIGURED),))
_MXFP4 = Method(linear=False)
_HUMMING_KEYS = ("ignored_layers", "ignore", _NOT_CONVERTED)
_HUMMING = Method(
    (
        ListKey(_HUMMING_KEYS, Matching.ANYWHERE, patterns=False),
        ListKey(_HUMMING_KEYS, Matching.LATER_REGEX, patterns=True),
        ListKey(("dynamic",), Matching.DYNAMIC),
    )
)
METHODS = {
    "compressed-tensors": Method((ListKey(("ignore",), Matching.REGEX),)),
    "fp8": _FP8,
    "deepseek_v4_fp8": _FP8,
    "fbgemm_fp8": Method((ListKey((_NOT_CONVERTED,), Matching.EXACT),), experts=False),
    "awq": _AWQ,
    "awq_marlin": _AWQ,
    "auto_awq": _AWQ,
    "gptq": _GPTQ,
    "gptq_marlin": _GPTQ,
    "auto_gptq": _GPTQ,
    "modelopt": _MODELOPT,
    "modelopt_fp4": _MODELOPT,
    "modelopt_mxfp8": _MODELOPT,
    "modelopt_mixed": _MODELOPT,
    "mxfp8": Method((ListKey(("ignored_layers",), Matching.WILDCARD),)),
    "quark": Method((ListKey(("exclude",), Matching.REGEX),)),
    "auto-round": _AUTO_ROUND,
    "inc": _AUTO_ROUND,
    "mxfp4": _MXFP4,
    "gpt_oss_mxfp4": _MXFP4,
    "torchao": Method((ListKey((_NOT_CONVERTED,), Matching.COMPONENTS),), experts=False),
    "bitsandbytes": Method((ListKey(("llm_int8_skip_modules",), Matching.BEGINNING),)),
    "fp_quant": Method((ListKey((_NOT_CONVERTED,), Matching.END),), experts=False),
    "humming": _HUMMING,
    # It quantises unquantised experts while vLLM loads them.
    "experts_int8": Method(linear=False, experts=False),
    MODELSLIM_METHOD: Method((ListKey((), Matching.TABLE),)),
}
"""The methods whose matching vpatch knows, by the name in `quant_method`."""
WITH_OWN_MATCHING = ("BailingMoeV3ForCausalLM", "BailingMoeV3VLForConditionalGeneration")
"""Models that have fp8's list compared in a way of their own: bailing_moe_v3.py."""
FLOAT_BITS = 16
"""So many bits, or more, mean in auto-round's configs that a module keeps its format."""
MIXED = "MIXED_PRECISION"
"""ModelOpt's algorithm that has one for each layer, in `quantized_layers`."""
WHILE_LOADING = (
    *("online", "fp8_per_tensor", "fp8_per_block", "fp8_per_channel", "nvfp4_per_token"),
    *("int8_per_channel_weight_only", "moe_wna16"),
)
"""Methods of --quantization alone: from_config refuses a checkpoint whose config names one."""
