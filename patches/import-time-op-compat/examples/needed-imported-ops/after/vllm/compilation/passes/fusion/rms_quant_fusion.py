from torch import ops
from torch._ops import OpOverload

from vllm.platforms import current_platform

from .matcher_utils import MatcherQuantFP8

RMS_ADD_OP = ops._C.fused_add_rms_norm.default

QUANT_OPS: dict[QuantKey, OpOverload] = {
    kFp8StaticTensorSym: ops._C.static_scaled_fp8_quant.default,  # noqa: E501
}
if hasattr(ops._C, "per_token_group_fp8_quant"):
    QUANT_OPS[kFp8Dynamic128Sym] = ops._C.per_token_group_fp8_quant.default  # noqa: E501
    QUANT_OPS[kFp8Dynamic64Sym] = ops._C.per_token_group_fp8_quant.default  # noqa: E501

FUSED_OPS: dict[FusedRMSQuantKey, OpOverload] = {
    FusedRMSQuantKey(
        kFp8StaticTensorSym, False
    ): ops._C.rms_norm_static_fp8_quant.default,  # noqa: E501
    FusedRMSQuantKey(
        kFp8Dynamic128Sym, False
    ): ops._C.rms_norm_per_block_quant.default,  # noqa: E501
}
