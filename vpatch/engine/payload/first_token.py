"""Import vLLM and its server, and generate one token, to see that an engine works.

    PYTHON first_token.py FOLDER

It runs inside an engine's Python, where vpatch is not. FOLDER is empty, and gets a model of a few
kilobytes without weights. Where something fails, the last line says which package failed, as JSON
behind `vpatch:`.
"""

from __future__ import annotations

import faulthandler
import importlib.metadata
import json
import sys
import sysconfig
import traceback
from pathlib import Path

_CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "hidden_act": "silu",
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 0,
    "eos_token_id": 1,
}


def main() -> None:
    folder = Path(sys.argv[1])
    (folder / "config.json").write_text(json.dumps(_CONFIG), encoding="utf-8")
    faulthandler.enable()
    doing = "vLLM cannot be imported"
    try:
        import vllm
        import vllm.entrypoints.openai.api_server

        doing = "vLLM generates no token"
        llm = vllm.LLM(
            model=str(folder),
            load_format="dummy",
            skip_tokenizer_init=True,
            enforce_eager=True,
            max_model_len=64,
            max_num_seqs=1,
        )
        sampling = vllm.SamplingParams(temperature=0, max_tokens=1, detokenize=False)
        (answer,) = llm.generate([{"prompt_token_ids": [5, 17]}], sampling, use_tqdm=False)
        report: dict[str, object] = {"tokens": len(answer.outputs[0].token_ids)}
    except BaseException as error:  # noqa: BLE001 - whatever it is, the package is named
        traceback.print_exc()
        report = {"doing": doing, "package": culprit(error), "error": in_one_line(error)}
    print("\nvpatch:" + json.dumps(report), flush=True)  # noqa: T201


def culprit(error: BaseException) -> str | None:
    """Return the installed package in whose code the first of a chain of errors was raised."""
    while (earlier := error.__cause__ or error.__context__) is not None:
        error = earlier
    if isinstance(error, ModuleNotFoundError) and error.name:
        return error.name.partition(".")[0]
    site = Path(sysconfig.get_path("purelib"))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_relative_to(site):
            module = file.relative_to(site).parts[0].removesuffix(".py")
            return distribution_of(module)
    return None


def distribution_of(module: str) -> str:
    names = importlib.metadata.packages_distributions().get(module, [module])
    try:
        return f"{names[0]} {importlib.metadata.version(names[0])}"
    except importlib.metadata.PackageNotFoundError:
        return module


def in_one_line(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip().partition("\n")[0]


if __name__ == "__main__":
    main()
