"""What people reported in public, line by line, and what `vpatch diagnose` says of it."""

# ruff: noqa: E501 - a line of a log is as long as it is
from __future__ import annotations

import pytest

from vpatch.logs.known_issues import known_issues

VERSIONED = "(EngineCore pid=7) INFO 08-01 10:00:00 [core.py:113] Initializing a V1 LLM engine (v{}) with config: model='{}', speculative_config={}, tokenizer='m', quantization={}, device_config={}\n"
SPEC = "SpeculativeConfig(method='mtp', model='/models/draft', num_spec_tokens={})"
WORKER = "(Worker_TP0 pid=37) ERROR 08-01 10:00:09 [multiproc_executor.py:962] "
TRACEBACK = f"{WORKER}Traceback (most recent call last):\n"


def frame(path, function="load_weights"):
    return f'{WORKER}  File "/usr/local/lib/python3.12/dist-packages/{path}", line 249, in {function}\n'


def started(version="0.24.0", k=1, quantization="None", device="cuda", spec=None):
    speculation = spec or (SPEC.format(k) if k else "None")
    return VERSIONED.format(version, "/models/target", speculation, quantization, device)


def log_of(message, *, before="", path="vllm/v1/worker/gpu_model_runner.py", function="load_model"):
    return f"{before or started()}{TRACEBACK}{frame(path, function)}{WORKER}{message}\n"


def platform(name, version="0.24.0", k=1):
    return f"INFO 08-01 10:00:01 [__init__.py:243] Automatically detected platform {name}.\n{started(version, k)}"


NOT_INITIALIZED = "ValueError: Following weights were not initialized from checkpoint: "
NO_MODULE = "ValueError: There is no module or parameter named "
METRICS = "(APIServer pid=1) INFO 05-06 06:11:{:02} [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 1.03, Accepted throughput: 2.50 tokens/s, Drafted throughput: 365.14 tokens/s, Accepted: {} tokens, Drafted: {} tokens, Per-position acceptance rate: {}, Avg Draft acceptance rate: {}%\n"
WAITS = "(EngineCore_DP{} pid=145{}) INFO 05-28 14:4{}:28 [shm_broadcast.py:681] No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are hanging or doing some time-consuming work (e.g. compilation, weight/kv cache quantization).\n"

# The case, the log, and the known issue that it is.
NAMED = {
    "c01": (
        log_of(
            "KeyError: 'model.layers.43.mtp_block.main_norm.weight'",
            path="vllm/models/deepseek_v4/nvidia/mtp.py",
        ),
        "mtp-loader-meets-dspark",
    ),
    "c02": (
        log_of(
            f"{NOT_INITIALIZED}{{'model.layers.0.self_attn.q_norm.weight', 'model.pre_fc_norm_hidden.weight', 'model.layers.0.post_attention_layernorm.weight', 'model.norm.weight', 'model.layers.0.self_attn.k_norm.weight', 'model.pre_fc_norm_embedding.weight', 'model.layers.0.input_layernorm.weight'}}"
        ),
        "mtp-weights-lost-in-export",
    ),
    "c03": (
        log_of(f"{NOT_INITIALIZED}{{'model.fc.weight', 'model.pre_fc_norm_embedding.weight'}}"),
        "mtp-weights-lost-in-export",
    ),
    "c05": (
        log_of(
            "NotImplementedError: XPU gdn_attention does not yet support 'spec_sequence_masks'.",
            before=platform("xpu", "0.17.0"),
        ),
        "xpu-gdn-spec-masks",
    ),
    "c06": (
        log_of(
            "RuntimeError: causal_conv1d does not support spec-decode and non-spec (prefill + decode) tokens in the same invocation; the spec path and the non-spec path are mutually exclusive",
            before=platform("xpu"),
            path="vllm/_xpu_ops.py",
        ),
        "xpu-causal-conv1d-mixed-batch",
    ),
    "c07": (
        log_of(
            "AttributeError: '_OpNamespace' '_C' object has no attribute 'gptq_marlin_repack'",
            before=platform("xpu", k=0),
        ),
        "marlin-not-in-this-build",
    ),
    "c09": (
        log_of(
            f"{NOT_INITIALIZED}{{'model.layers.78.shared_head.head.weight', 'model.embed_tokens.weight'}}"
        ),
        "mtp-shared-head-not-in-checkpoint",
    ),
    "c10": (
        "(APIServer pid=8919) ValueError: Tokenizer class TokenizersBackend does not exist or is not currently imported.\n",
        "tokenizers-backend",
    ),
    "c14": (
        log_of(
            "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
            before=started("0.20.2", 5),
        ),
        "mtp-illegal-access-on-long-context",
    ),
    "c16": (
        log_of(
            "RuntimeError: Assertion error (/workspace/.deps/deepgemm-src/csrc/apis/attention.hpp:201): context_lens.is_contiguous()",
            before=started("0.20.0", 3),
        ),
        "deepgemm-context-lens-contiguous",
    ),
    "c17": (
        log_of(
            f"{NO_MODULE}'lm_head.input_scale' in Qwen3_5MoeForCausalLM. The available parameters belonging to lm_head (ParallelLMHead) are: {{'lm_head.weight'}}",
            before=started("0.22.0", 0, "modelopt_fp4"),
        ),
        "modelopt-quantised-lm-head",
    ),
    "c18": (
        log_of(
            "AttributeError: '_OpNamespace' '_C' object has no attribute 'rotary_embedding'",
            before=started("0.23.0", 0),
        ),
        "compiled-operator-missing",
    ),
    "c20": (
        log_of(
            f"{NO_MODULE}'fc.weight' in Qwen3_5MultiTokenPredictor. The available parameters belonging to fc (ColumnParallelLinear) are: {{'fc.weight_packed', 'fc.weight_scale', 'fc.weight_shape'}}",
            path="vllm/model_executor/models/utils.py",
        ),
        "qwen-mtp-fc-not-quantised",
    ),
    "c22": (
        log_of(
            f"{NO_MODULE}'language_model' in Qwen3_5MoeMTP.",
            path="vllm/model_executor/models/qwen3_5_mtp.py",
        ),
        "qwen-mtp-language-model-prefix",
    ),
    "c25": (
        "(APIServer pid=1) OSError: bartowski/Phi-3.5-mini-instruct-GGUF does not appear to have a file named config.json. Checkout 'https://huggingface.co/bartowski/Phi-3.5-mini-instruct-GGUF/tree/main' for available files.\n",
        "gguf-without-config",
    ),
    "c26": (
        log_of(f"{NOT_INITIALIZED}{{'model.pre_fc_norm_hidden.weight'}}"),
        "mtp-weights-lost-in-export",
    ),
    "c27": (
        log_of(
            "AttributeError: 'EagleProposer' object has no attribute 'positions'",
            before=started("0.15.1", 3),
        ),
        "eagle-proposer-without-positions",
    ),
    "c29": (
        log_of(
            "ValueError: Failed to find a kernel that can implement the WNA16 linear layer. Reasons:"
        ),
        "wna16-no-kernel",
    ),
    "c30": (
        log_of(
            "ValueError(\"type fp8e4nv not supported in this architecture. The supported fp8 dtypes are ('fp8e4b15', 'fp8e5')\")"
        ),
        "fp8e4nv-needs-newer-gpu",
    ),
    "c31": (
        log_of("KeyError: 'mtp.0.head.weight'", path="vllm_ascend/quantization/utils.py"),
        "ascend-mtp-head-not-described",
    ),
    "c35": (
        log_of(
            "ValueError: Unsupported attention metadata type for speculative decoding with num_speculative_tokens > 1: <class 'vllm.v1.attention.backends.mla.common.MLACommonMetadata'>.",
            before=platform("rocm", k=2),
        ),
        "rocm-spec-decode-metadata-type",
    ),
    # vllm-project/vllm#28199: built from source, and torch is not the cause.
    "a kernel that was not built": (
        "ImportError: /root/vllm/vllm/_C.abi3.so: undefined symbol: _Z20cutlass_moe_mm_sm100RN2at6TensorERKS0_S3_S3_S3_S3_S3_S3_S3_S3_bb\n",
        "vllm-built-without-its-own-kernel",
    ),
    # vllm-project/vllm#48848, as torch.compile says it.
    "an assistant that is compiled": (
        log_of(
            "RuntimeError: a and b must have same reduction dim, but got [s47, 3840] X [5632, 1024]."
        ),
        "gemma-assistant-reduction-dim-compiled",
    ),
    # vllm-project/vllm#48816
    "GPTQ experts of an MTP head": (
        log_of(
            "AttributeError: 'RoutedExperts' object has no attribute 'w2_weight'. Did you mean: 'w2_qweight'?",
            before=started("0.25.1", 3, "gptq_marlin"),
            path="vllm/model_executor/models/qwen3_5_mtp.py",
            function="load_weights",
        ),
        "qwen-mtp-experts-not-gptq",
    ),
    # vllm-project/vllm#39475
    "moe_wna16 experts of an MTP head": (
        log_of(
            "KeyError: 'layers.0.mlp.experts.w2_weight'",
            before=started("0.25.1", 3, "moe_wna16"),
            path="vllm/model_executor/models/qwen3_5_mtp.py",
            function="load_weights",
        ),
        "mtp-experts-without-plain-weight",
    ),
    # vllm-project/vllm#46480
    "pages of a draft": (
        log_of(
            "    assert new_spec.page_size_bytes == max_page_size",
            before=started("0.20.1", 8),
            path="vllm/v1/core/kv_cache_utils.py",
            function="unify_kv_cache_spec_page_size",
        ),
        "unified-pages-of-another-size",
    ),
    # vllm-project/tpu-inference#223, and the spelling of 0.33.0.
    "a short KV cache": (
        log_of(
            "ValueError: To serve at least one request with the model's max seq len (131072), (16.0 GiB KV cache is needed, which is larger than the available KV cache memory (0.71 GiB)."
        ),
        "kv-cache-too-small-for-a-request",
    ),
    # vllm-project/vllm#9280
    "a whole tensor in an adapter": (
        log_of("ValueError: base_model.model.lm_head.weight is unsupported LoRA weight"),
        "lora-weight-not-supported",
    ),
    # vllm-project/vllm#36217: pydantic has the reason in a line of its own.
    "a model that transformers does not know": (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n  Value error, The checkpoint you are trying to load has model type `qwen3_5` but Transformers does not recognize this architecture.\n",
        "transformers-without-the-model",
    ),
}
# What metrics and repeated messages show.
OBSERVED = {
    "c11": ("".join(WAITS.format(n % 2, n % 2, n) for n in range(4)), "waiting"),
    "c12": (
        "".join(METRICS.format(n, 1, 500, "0.008, 0.000, 0.000, 0.000", 0.2) for n in range(9)),
        "acceptance",
    ),
    "c33": (
        "".join(METRICS.format(n, 0, 500, "0.000, 0.000", 0.0) for n in range(9)),
        "acceptance",
    ),
}
# Not known, but where to go on is.
INSPECTED = {
    "c23": (
        log_of(
            "KeyError: 'model.layers.61.shared_head.head.weight_scale'",
            path="vllm/model_executor/models/deepseek_mtp.py",
            function="load_weights",
        ),
        "vpatch checkpoint inspect /models/draft",
    ),
    "module": (
        log_of(
            f"{NO_MODULE}'experts.weight_blob' in SomeNewMTP.",
            path="vllm/model_executor/models/utils.py",
        ),
        "vpatch checkpoint inspect /models/draft",
    ),
    "sizes": (
        log_of(
            "RuntimeError: The size of tensor a (1024) must match the size of tensor b (2048) at non-singleton dimension 1",
            path="vllm/model_executor/models/some_mtp.py",
            function="load_weights",
        ),
        "vpatch checkpoint inspect /models/draft",
    ),
}
FALSE = {
    "InternLM2 on the CPU": log_of(
        "IndexError: index out of range in self",
        before=started("0.23.0+cpu", 0, device="cpu"),
        path="vllm/model_executor/layers/vocab_parallel_embedding.py",
        function="forward",
    ),
    "another embedding": log_of(
        "IndexError: index out of range in self",
        before=started("0.23.0", 0),
        path="torch/nn/functional.py",
        function="embedding",
    ),
    "CUDA without speculation": log_of(
        "RuntimeError: expected scalar type Float but found Double",
        before=started("0.23.0", 0),
        path="vllm/v1/sample/sampler.py",
    ),
    "CUDA with speculation": log_of(
        "RuntimeError: expected scalar type Float but found Double",
        before=started("0.23.0", 2),
        path="vllm/v1/sample/rejection_sampler.py",
    ),
    "the CPU without speculation": log_of(
        "RuntimeError: expected scalar type Float but found Double",
        before=started("0.23.0", 0, device="cpu"),
        path="vllm/v1/sample/rejection_sampler.py",
    ),
    "no traceback": f"{started('0.23.0', 2, device='cpu')}RuntimeError: expected scalar type Float but found Double\n",
    "an answer of 400": '(APIServer pid=1) ERROR 08-01 10:00:00 [serving.py:30] VLLMValidationError: Maximum file size exceeded\n(APIServer pid=1) INFO:     10.0.0.1:99 - "POST /v1/audio/transcriptions HTTP/1.1" 400 Bad Request\n',
    "a refused template": "(APIServer pid=1) ValueError: Refused request with untrusted chat template.\n",
    "a large image": log_of(
        "PIL.Image.DecompressionBombError: Image size (400000000 pixels) exceeds limit of 178956970 pixels",
        path="vllm/model_executor/models/qwen2_vl.py",
    ),
    "an illegal access without speculation": log_of(
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        before=started("0.23.0", 0),
    ),
    "XPU's message on CUDA": log_of(
        "NotImplementedError: XPU gdn_attention does not yet support 'spec_sequence_masks'.",
        before=platform("cuda"),
    ),
    # ROCm: the GPU has FP8, of another kind.
    "FP8 of ROCm": log_of(
        """ValueError("type fp8e4nv not supported in this architecture. The supported fp8 dtypes are ('fp8e5', 'fp8e5b16', 'fp8e4b8')")""",
        before=platform("rocm"),
        path="triton/language/semantic.py",
    ),
    "nvcc for another compiler": log_of(
        "RuntimeError: Could not find nvcc, please install the CUDA toolkit",
        path="tilelang/env.py",
    ),
    "an argument that 0.21 knows": log_of(
        "TypeError: f() got an unexpected keyword argument 'SYNTHETIC_MODE'",
        before=started("0.25.1", 2, device="cpu"),
    ),
    "an argument of a kernel on CUDA": log_of(
        "TypeError: f() got an unexpected keyword argument 'SYNTHETIC_MODE'",
        before=started("0.20.0", 2),
    ),
    "kernels that 0.33 cannot inspect either": log_of(
        "RuntimeError: Cannot inspect kernel parameters for function f",
        before=started("0.33.0", 2, device="cpu"),
    ),
}


def diagnosed(empty, text, *args, code=1):
    (empty.folder / "engine.log").write_text(text)
    return empty.run("diagnose", "engine.log", "--offline", "--json", *args, code=code).json


@pytest.mark.parametrize("case", NAMED)
def test_a_report_is_named(empty, case):
    text, issue = NAMED[case]
    result = diagnosed(empty, text)
    assert issue in [one["issue"] for one in result["known_issues"]]
    assert result["found"] == []


@pytest.mark.parametrize("case", OBSERVED)
def test_what_a_report_shows(empty, case):
    text, kind = OBSERVED[case]
    (seen,) = diagnosed(empty, text)["observations"]
    assert (seen["kind"], seen["line"]) == (kind, 1)
    assert "the cause is not known from this alone" in seen["next"]
    assert "{" not in seen["next"]


@pytest.mark.parametrize("case", INSPECTED)
def test_where_to_go_on(empty, case):
    text, command = INSPECTED[case]
    result = diagnosed(empty, text, code=0)
    assert result["known_issues"] == []
    assert result["next"] == command
    out = empty.run("diagnose", "engine.log", "--offline").out
    assert f"  next: {command}\n" in out
    assert "  vLLM: 0.24.0\n  platform: cuda\n  model: /models/target\n" in out


@pytest.mark.parametrize("case", FALSE)
def test_what_is_no_symptom_is_not_named(empty, case):
    result = diagnosed(empty, FALSE[case], code=0)
    assert (result["found"], result["known_issues"], result["explained"]) == ([], [], [])


def test_most_cases_are_named():
    assert len({case for case in {**NAMED, **OBSERVED, **INSPECTED} if case.startswith("c")}) == 25
    assert {issue for _, issue in NAMED.values()} <= {issue.id for issue in known_issues()}


def test_a_release_that_has_the_fix_has_another_cause(empty):
    before = started("0.22.0", 3)
    message = "RuntimeError: Assertion error (attention.hpp:201): context_lens.is_contiguous()"
    (one,) = diagnosed(empty, log_of(message, before=before))["known_issues"]
    assert one["certainty"] == "not the cause"
    assert (
        one["says"] == "vLLM 0.22.0 has the fix in its code, so the message has another cause here"
    )
    (one,) = diagnosed(empty, log_of(message, before=started("0.20.0", 3)))["known_issues"]
    assert one["certainty"] == "sure"
    assert "vLLM 0.20.0 does not have the fix; these have it: >=0.22.0" in one["says"]
    (one,) = diagnosed(empty, f"{message}\n")["known_issues"]
    assert one["certainty"] == "one cause among others"
    assert "Whether this vLLM has the fix is not known; releases with it: >=0.22.0" in one["says"]


def test_what_is_said_of_a_release_names_those_that_were_read(empty):
    message = f"{NOT_INITIALIZED}{{'model.layers.16.mtp_block.post_self_attn_layernorm.weight'}}"
    span = "!=0.26.*,!=0.27.*,!=0.28.*,!=0.29.* (of 0.20.0 to 0.33.0)"
    says = {
        "0.20.0": "vLLM 0.20.0 does not have the defect in its code, so",
        "0.28.0": f"vLLM 0.28.0 has the defect; these do not have it: {span}",
        "0.45.0": f"Whether this vLLM has the defect is not known; releases without it: {span}",
    }
    for version, text in says.items():
        (one,) = diagnosed(empty, log_of(message, before=started(version)))["known_issues"]
        assert text in one["says"]


@pytest.mark.parametrize("version", ["0.20.0", "0.33.0", "0.45.0"])
def test_an_issue_whose_code_nobody_read_is_not_sure(empty, version):
    message = "RuntimeError: NVFP4 weight_scale for layer 'lm_head' was never loaded (still NaN)"
    (one,) = diagnosed(empty, log_of(message, before=started(version)))["known_issues"]
    assert one["certainty"] == "reported"
    assert one["says"].endswith(f"; whether vLLM {version} has it was not read from its code")
    (one,) = diagnosed(empty, f"{message}\n")["known_issues"]
    assert one["certainty"] == "reported"
    assert one["says"].endswith("; whether this vLLM has it was not read from its code")


def test_an_issue_that_no_release_fixes_is_sure_where_the_code_was_read(empty):
    message = "KeyError: 'model.layers.43.mtp_block.main_norm.weight'"
    for version, certainty in {"0.24.0": "sure", "0.45.0": "reported"}.items():
        (one,) = diagnosed(empty, log_of(message, before=started(version)))["known_issues"]
        assert one["certainty"] == certainty


def test_a_warning_is_not_sure(empty):
    message = "Model does not support EAGLE3 interface but aux_hidden_state_outputs was requested"
    warning = f"{started()}WARNING 08-01 10:00:05 [x.py:1] {message}\n"
    (one,) = diagnosed(empty, warning)["known_issues"]
    assert one["certainty"] == "one cause among others"
    assert one["says"].endswith(". The log has it in warnings alone")
    (one,) = diagnosed(empty, warning + log_of(f"RuntimeError: {message}"))["known_issues"]
    assert one["certainty"] == "sure"
    assert one["says"].endswith(". vLLM 0.24.0 has this message in its code")


def test_what_is_said_of_a_message_that_vllm_refuses_with(empty):
    message = "NotImplementedError: DFlash does not yet support mixed sliding/full attention via layer_types; see"
    span = "!=0.25.* (of 0.20.0 to 0.33.0)"
    says = {
        "0.25.1": f"vLLM 0.25.1 has this message in its code; these do not have it: {span}",
        "0.26.0": "vLLM 0.26.0 does not have this message in its code, so another vLLM or a plugin wrote it",
        "0.45.0": f"Whether this vLLM has this message in its code is not known; releases without it: {span}",
    }
    for version, text in says.items():
        (one,) = diagnosed(empty, log_of(message, before=started(version)))["known_issues"]
        assert text in one["says"]


def test_the_reason_of_a_validation_error_is_shown(empty):
    head = "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
    reason = "Model architectures ['DFlashDraftModel'] are not supported for now."
    text = f"{started('0.22.0')}{head}  Value error, {reason} [type=value_error]\n"
    facts = diagnosed(empty, text, code=0)["facts"]
    for name in ("first_error", "last_error"):
        assert facts[name]["kind"] == "ValidationError"
        assert facts[name]["message"].startswith(reason)
    out = empty.run("diagnose", "engine.log", "--offline").out
    assert "last error" not in out


@pytest.mark.parametrize("name", ["RuntimeError: Could not load libtorchcodec. Likely causes:"])
def test_a_codec_is_not_said_to_be_on_a_cpu(empty, name):
    (one,) = diagnosed(empty, f"{name}\n")["explained"]
    assert "FFmpeg" in one["meaning"]
    assert "CPU" not in one["meaning"]


def test_a_general_message_is_one_cause_among_others(empty):
    text = log_of(
        "RuntimeError: expected scalar type Float but found Double",
        before=started("0.23.0", 2, device="cpu"),
        path="vllm/v1/sample/rejection_sampler.py",
        function="sample_recovered_tokens",
    )
    (one,) = diagnosed(empty, text)["found"]
    assert one["patch"] == "cpu-spec-decode-fp64-gumbel"
    assert one["certainty"] != "sure"


ROCM_BACKEND = "INFO 08-01 10:00:01 [rocm.py:713] Using ROCM_ATTN backend out of potential backends: ['ROCM_ATTN', 'TRITON_ATTN'].\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (started("0.28.0"), "cuda"),
        (started("0.28.0+rocm711"), "rocm"),
        (started("0.28.0") + ROCM_BACKEND, "rocm"),
    ],
)
def test_the_device_of_rocm_is_called_cuda(empty, text, name):
    assert diagnosed(empty, text, code=0)["facts"]["platform"] == name


CUDA_LIBRARY = (
    "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory\n"
)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (
            f"{platform('cuda')}[pip3] nvidia-nccl-cu12==2.27.5\n[pip3] nvidia-nccl-cu13==2.28.9\n{CUDA_LIBRARY}",
            "CUDA versions are mixed: what is loaded here was built for CUDA 12, and the log also names packages or libraries of CUDA 13",
        ),
        (
            f"{platform('cuda')}{CUDA_LIBRARY}",
            "a package was built for CUDA 12, and its runtime library is not found",
        ),
        (
            f"{started('0.23.0+cpu', 0, device='cpu')}{CUDA_LIBRARY}",
            "a package was built for CUDA 12, and this is a CPU",
        ),
        (
            CUDA_LIBRARY,
            "a package was built for CUDA 12, whose runtime is not there: this is no CUDA environment, or one of another CUDA version. The log does not say which",
        ),
        (
            "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory\n",
            "libcuda.so.1 is a part of the GPU driver, and the loader finds none here",
        ),
    ],
)
def test_a_library_that_is_missing(empty, text, meaning):
    (one,) = diagnosed(empty, text)["explained"]
    assert one["meaning"] == meaning


DETAILS = "(APIServer pid=1) DEBUG 08-01 10:00:05 [request_logger.py:50] Request chatcmpl-1 details: prompt: {!r}, prompt_token_ids: None, prompt_embeds shape: None.\n"
ANSWER = "(APIServer pid=1) INFO 08-01 10:00:06 [request_logger.py:93] Generated response chatcmpl-1 (streaming complete): output: {!r}, finish_reason: stop\n"
BODY = "(APIServer pid=1) ERROR 08-01 10:00:06 [request_logger.py:99] Request chatcmpl-1 JSON body: {!r}\n"
GUMBEL = "TypeError: _sample_recovered_tokens_kernel_impl() got an unexpected keyword argument 'USE_FP64_GUMBEL'"


@pytest.mark.parametrize("quoted", [DETAILS, ANSWER, BODY])
def test_what_a_client_quotes_is_no_symptom_and_no_fact(empty, quoted):
    texts = [
        GUMBEL,
        "KeyError: 'model.layers.43.mtp_block.main_norm.weight'",
        "libcuda.so.1: cannot open shared object file",
        "torch for cu118, Automatically detected platform rocm.",
        started("0.19.0", 2, "fp8", "cpu"),
        METRICS.format(1, 1, 500, "0.008", 0.2),
    ]
    text = started("0.23.0", 0)
    plain = diagnosed(empty, text, code=0)
    result = diagnosed(empty, text + "".join(map(quoted.format, texts)), code=0)
    for key in ("found", "known_issues", "explained", "observations", "facts"):
        assert result[key] == plain[key]
