"""How models name the tensors of MTP layers, as the loaders of vLLM 0.20.0 to 0.33.0 read them.

Data: one `Scheme` for each way of naming, with the architectures that use it. Where it was read is
said by `source`, a file of vLLM that still has it in 0.33.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_MODELS = "model_executor/models"
TRUNK = re.compile(
    r"(?P<outer>model\.|language_model\.model\.|model\.language_model\.|backbone\.|)layers\.(?P<layer>\d+)\."
)
"""The beginning of a trunk layer's names, and of MTP layers that are behind it."""


@dataclass(frozen=True)
class Scheme:
    """A way of naming MTP tensors.

    `layer` matches the beginning of a layer's tensors, with its number; `shared` that of what all
    layers share, and `home` is where that is. `behind`: the number goes on from the trunk's layers.
    `runtime` is what vLLM calls the layer where it decides how it is quantised, with a number that
    goes on from the trunk's.
    `glue` must be in each layer (or, for one that shares it, once), each under one of the names
    between bars; vLLM builds those in `configured` by the quantisation config, and never quantises
    the others. `left_away` is what the loader takes out of a name inside a layer. Those in
    `not_by_modelopt` it leaves unquantised under ModelOpt's NVFP4. `like_trunk`: the layer
    has the modules of a trunk layer, under the same names, but for those in `trunk_alone`.
    """

    name: str
    layer: re.Pattern[str]
    source: str
    shared: re.Pattern[str] | None = None
    home: str = "mtp."
    behind: bool = False
    runtime: str | None = None
    glue: tuple[str, ...] = ()
    configured: tuple[str, ...] = ()
    not_by_modelopt: tuple[str, ...] = ()
    like_trunk: bool = True
    trunk_alone: tuple[str, ...] = ()
    left_away: str = ""


@dataclass(frozen=True)
class Family:
    """Architectures whose MTP vLLM runs from `since` on; `key` of the config counts the layers.

    `always` is how many layers vLLM takes whatever the config says, and `default` how many it takes
    if the config does not say so. `inside` is the part of the config that has the key.
    """

    scheme: Scheme
    key: str
    architectures: tuple[str, ...]
    since: str = "0.20.0"
    always: int | None = None
    default: int | None = None
    inside: str | None = None


DEEPSEEK = Scheme(
    "layers behind the trunk",
    TRUNK,
    f"{_MODELS}/deepseek_mtp.py",
    behind=True,
    glue=("enorm", "hnorm", "eh_proj", "shared_head.norm"),
)
STEP = replace(
    DEEPSEEK,
    source=f"{_MODELS}/step3p5_mtp.py",
    runtime="model.layers.{layer}.mtp_block.",
    glue=(*DEEPSEEK.glue, "shared_head.output|shared_head.head"),
    like_trunk=False,
    left_away="transformer.",
)
_HY_V3 = replace(
    DEEPSEEK,
    source=f"{_MODELS}/hy_v3_mtp.py",
    glue=("enorm", "hnorm", "eh_proj", "final_layernorm"),
)
_GLM_OCR = replace(DEEPSEEK, source=f"{_MODELS}/glm_ocr_mtp.py", runtime="model.layers.{layer}.")
DEEPSEEK_V4 = Scheme(
    "mtp.N",
    re.compile(r"mtp\.(?P<layer>\d+)\."),
    "models/deepseek_v4/nvidia/mtp.py",
    runtime="model.layers.{layer}.",
    glue=("e_proj", "h_proj", "enorm", "hnorm"),
    configured=("e_proj", "h_proj"),
    # The last of compress_ratios, which is that of the MTP layer, is 0.
    trunk_alone=("compressor", "indexer"),
)
QWEN = Scheme(
    "mtp.layers.N",
    re.compile(r"mtp\.layers\.(?P<layer>\d+)\."),
    f"{_MODELS}/qwen3_next_mtp.py",
    shared=re.compile(r"mtp\.(?!layers\.|\d+\.)"),
    glue=("fc", "norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"),
    configured=("fc",),
    not_by_modelopt=("fc",),
)
_EXAONE = replace(QWEN, source=f"{_MODELS}/exaone_moe_mtp.py", not_by_modelopt=())
_NEMOTRON = replace(
    QWEN, source=f"{_MODELS}/nemotron_h_mtp.py", glue=(), configured=(), like_trunk=False
)
MIMO = Scheme(
    "model.mtp_layers.N",
    re.compile(r"model\.mtp_layers\.(?P<layer>\d+)\."),
    f"{_MODELS}/mimo_mtp.py",
    runtime="model.layers.{layer}.",
    glue=("token_layernorm", "hidden_layernorm", "input_proj", "final_layernorm"),
)
_INSIDE = Scheme(
    "model.mtp.layers.N",
    re.compile(r"(?:language_model\.)?model\.mtp\.layers\.(?P<layer>\d+)\."),
    f"{_MODELS}/mimo_v2_mtp.py",
    shared=re.compile(r"(?:language_model\.)?model\.mtp\.(?!layers\.)"),
    like_trunk=False,
)
ERNIE = Scheme(
    "model.mtp_block.N",
    re.compile(r"model\.mtp_block\.(?P<layer>\d+)\."),
    f"{_MODELS}/ernie_mtp.py",
    shared=re.compile(r"model\.(?=mtp_(?:emb_norm|hidden_norm|linear_proj)\.\d+\.)"),
    runtime="model.layers.{layer}.",
    home="model.",
    glue=("mtp_emb_norm.0", "mtp_hidden_norm.0", "mtp_linear_proj.0"),
)
_PARSE = Scheme(
    "decoder.extra_heads.N",
    re.compile(r"decoder\.extra_(?:heads|proj)\.(?P<layer>\d+)\."),
    f"{_MODELS}/nemotron_parse3_5_mtp.py",
    like_trunk=False,
)

_NEW = "models"


def _source(name: str, folder: str) -> str:
    return f"{folder}/{name}/__init__.py" if folder == _NEW else f"{folder}/{name}.py"


def _behind(name: str, folder: str = _MODELS) -> Scheme:
    """Return the scheme of a model whose layers vpatch can find, and knows no more about."""
    return replace(DEEPSEEK, source=_source(name, folder), glue=(), like_trunk=False)


def _under_mtp(name: str, folder: str = _MODELS) -> Scheme:
    return replace(
        QWEN, source=_source(name, folder), glue=(), configured=(), not_by_modelopt=(),
        like_trunk=False,
    )  # fmt: skip


_NEXTN = "num_nextn_predict_layers"
FAMILIES = (
    Family(
        DEEPSEEK,
        _NEXTN,
        (
            "DeepseekV3ForCausalLM",
            "DeepseekV32ForCausalLM",
            "GlmMoeDsaForCausalLM",
            "Glm4MoeForCausalLM",
            "Glm4MoeLiteForCausalLM",
            "PanguUltraMoEForCausalLM",
        ),
    ),
    Family(_HY_V3, _NEXTN, ("HYV3ForCausalLM",)),
    Family(_GLM_OCR, _NEXTN, ("GlmOcrForConditionalGeneration",)),
    Family(STEP, _NEXTN, ("Step3p5ForCausalLM",)),
    Family(STEP, _NEXTN, ("Step3p7ForConditionalGeneration",), since="0.23.0"),
    Family(DEEPSEEK_V4, _NEXTN, ("DeepseekV4ForCausalLM",)),
    Family(QWEN, _NEXTN, ("Qwen3NextForCausalLM",), default=1),
    # Spelt in one way, in the other, and in both, from release to release.
    Family(_EXAONE, _NEXTN, ("ExaoneMoEForCausalLM", "ExaoneMoeForCausalLM"), default=1),
    Family(
        QWEN,
        "mtp_num_hidden_layers",
        (
            "Qwen3_5ForConditionalGeneration",
            "Qwen3_5MoeForConditionalGeneration",
        ),
        default=1,
    ),
    Family(
        QWEN,
        "mtp_num_hidden_layers",
        ("Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"),
        since="0.28.0",
        default=1,
    ),
    Family(_NEMOTRON, _NEXTN, ("NemotronHForCausalLM", "NemotronHPuzzleForCausalLM")),
    Family(_NEMOTRON, _NEXTN, ("NemotronH_Super_Omni_Reasoning_V3",)),
    Family(_NEMOTRON, _NEXTN, ("NemotronH_Omni_Reasoning_V3",), since="0.29.0"),
    # Only if config.json sets decoder.causal_vision_prefix.
    Family(_PARSE, _NEXTN, ("RadioMBartPrefixForCausalLM",), since="0.33.0", always=1),
    Family(MIMO, _NEXTN, ("MiMoForCausalLM",)),
    Family(
        _INSIDE,
        _NEXTN,
        ("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM", "MiMoV2OmniForCausalLM"),
        since="0.21.0",
        always=1,
    ),
    Family(_INSIDE, _NEXTN, ("LongcatFlashForCausalLM",), always=1),
    Family(
        _INSIDE, "num_mtp_modules", ("MiniMaxM3SparseForConditionalGeneration",), since="0.24.0"
    ),
    Family(ERNIE, _NEXTN, ("Ernie4_5_MoeForCausalLM",)),
    Family(_behind("bailing_moe_mtp"), _NEXTN, ("BailingMoeV2_5ForCausalLM",), since="0.25.0"),
    Family(
        _behind("bailing_moe_v3_mtp"),
        _NEXTN,
        ("BailingMoeV3ForCausalLM",),
        since="0.28.0",
    ),
    Family(
        _behind("bailing_moe_v3_mtp"),
        _NEXTN,
        ("BailingMoeV3VLForConditionalGeneration",),
        since="0.30.0",
    ),
    Family(_behind("kimi_k3", _NEW), _NEXTN, ("KimiK3ForConditionalGeneration",), since="0.27.0"),
    Family(_behind("hy_v4", _NEW), _NEXTN, ("HYV4ForCausalLM",), since="0.29.0"),
    Family(
        _behind("glm5next", _NEW),
        _NEXTN,
        ("Glm5NextForCausalLM", "Glm5NextForConditionalGeneration"),
        since="0.30.0",
    ),
    Family(
        _behind("step5", _NEW),
        _NEXTN,
        ("Step5ForCausalLM", "Step5ForConditionalGeneration"),
        since="0.33.0",
    ),
    Family(_under_mtp("exaone4_5_mtp"), _NEXTN, ("Exaone4_5_ForConditionalGeneration",), default=1),
    Family(_under_mtp("dots3_note", _NEW), _NEXTN, ("Dots3NoteForCausalLM",), since="0.28.0"),
    Family(
        _under_mtp("qwen3_5_mtp"),
        "mtp_num_hidden_layers",
        ("InternS2PreviewForConditionalGeneration",),
        since="0.22.0",
        default=1,
    ),
    Family(
        _under_mtp("interns2_mobius"),
        "mtp_num_hidden_layers",
        ("InternS2MobiusForConditionalGeneration",),
        since="0.28.0",
    ),
    Family(
        _under_mtp("qwen4_exp", _NEW),
        "mtp_num_hidden_layers",
        ("Qwen4ExpForCausalLM", "Qwen4ExpForConditionalGeneration"),
        since="0.29.0",
        default=1,
    ),
    Family(
        replace(_INSIDE, source="models/inkling/__init__.py"),
        _NEXTN,
        ("InklingForCausalLM", "InklingForConditionalGeneration"),
        since="0.26.0",
        inside="mtp_config",
    ),
)
SCHEMES = (DEEPSEEK_V4, QWEN, MIMO, _INSIDE, ERNIE, DEEPSEEK)
"""What is looked for where the architecture is not known: the most telling names first."""
KEYS = (
    "num_nextn_predict_layers",
    "mtp_num_hidden_layers",
    "n_predict",
    "num_mtp_modules",
    "num_mtp_layers",
)
"""Keys of a config that count MTP layers, in a config of any architecture."""


def family_of(architecture: str | None) -> Family | None:
    return next((f for f in FAMILIES if architecture in f.architectures), None)
