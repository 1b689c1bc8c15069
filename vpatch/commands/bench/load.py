"""One load on one server: vLLM's own `vllm bench serve`, and the server's counters around it."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import requests

from vpatch.commands.bench.load_result import answers_in, measured_from
from vpatch.engine import PAYLOAD
from vpatch.harness.client import AnswerError
from vpatch.harness.faults import fault
from vpatch.harness.measured import Fault
from vpatch.harness.sandbox import run_in
from vpatch.util.home import expanded

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pydantic import JsonValue

    from vpatch.commands.bench.cells import Load
    from vpatch.commands.bench.load_result import LoadAnswers, LoadResult
    from vpatch.declare.smoke import Sampling
    from vpatch.engine.process import Ended
    from vpatch.harness.client import Client
    from vpatch.harness.sandbox import Sandbox

_SCRIPT = PAYLOAD / "bench_serve.py"
_COUNTED_SECONDS = 10.0


@dataclass(frozen=True)
class Sender:
    """What sends loads: a sandbox with a vLLM, which need not be that of the servers.

    `seconds` is how long a load may take; `flags` are the server's; it must know some of them.
    """

    sandbox: Sandbox
    sampling: Sampling
    environment: Mapping[str, str]
    seconds: float
    flags: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def tokenizer_words(self) -> list[str]:
        mode = self.flags.get("tokenizer-mode")
        words = ["--tokenizer-mode", str(mode)] if mode else []
        return [*words, "--trust-remote-code"] if self.flags.get("trust-remote-code") else words


@dataclass(frozen=True)
class LoadTarget:
    """A server that answers. `served` is what it calls its model."""

    client: Client
    served: str
    tokenizer: str


def send(
    load: Load, target: LoadTarget, sender: Sender, workdir: Path, log: Path, raw: Path
) -> LoadResult | Fault:
    """Send a load, and return what came of it; `raw` gets what vLLM wrote."""
    name = "result.json"
    # Where a load before this one left its own, the end of this one would not be seen.
    (workdir / name).unlink(missing_ok=True)
    words = _words(load, target, sender, workdir, name)
    command: list[str | Path] = [sender.sandbox.python, _SCRIPT, *words]
    try:
        before = target.client.counters()
        ended = run_in(
            sender.sandbox,
            command,
            workdir=workdir,
            log=log,
            # It asks the environment for a proxy, and the server is measured, not what is between.
            extra_env={**sender.environment, "NO_PROXY": "*", "no_proxy": "*"},
            timeout=sender.seconds,
        )
        failure = _failure_of(ended, sender, workdir / name)
        if failure is not None:
            return failure
        result = json.loads((workdir / name).read_text(encoding="utf-8"))
        shutil.copyfile(workdir / name, raw)
        answers = answers_in(result)
        wrong = _wrong(answers, load, sender.sampling)
        if wrong:
            return fault("wrong answer", wrong, log)
        after = target.client.counters_after(before.generated + answers.tokens, _COUNTED_SECONDS)
        generated = after.generated - before.generated
        if generated != answers.tokens:
            return Fault(
                "not alone",
                f"the server made {generated} tokens while {load.prompts} requests got "
                f"{answers.tokens}: it answers somebody else as well, or counts wrongly",
            )
        counters, cached = after.counters - before.counters, after.cached - before.cached
        return measured_from(result, counters, cached)
    except (requests.RequestException, AnswerError) as error:
        return Fault("wrong answer", f"its counters cannot be read: {error}")
    except ValueError as error:
        return fault("wrong answer", f"vllm bench serve wrote what is not known: {error}", log)


def _failure_of(ended: Ended, sender: Sender, file: Path) -> Fault | None:
    """Why vLLM wrote no result, if it did not."""
    if ended.code is None:
        return fault("takes too long", f"not done after {sender.seconds:g} s", ended.log)
    if ended.code != 0 or not file.is_file():
        return fault("crashed", f"vllm bench serve ended with {ended.code}", ended.log)
    return None


def _words(load: Load, target: LoadTarget, sender: Sender, workdir: Path, name: str) -> list[str]:
    shape, sampling = load.shape, sender.sampling
    words = ["--backend", "openai", "--endpoint", "/v1/completions"]
    words += ["--base-url", target.client.url, "--model", target.served]
    words += ["--served-model-name", target.served, "--tokenizer", target.tokenizer]
    words += sender.tokenizer_words
    words += ["--dataset-name", shape.dataset, "--output-len", str(shape.output)]
    if shape.input is not None:
        words += ["--input-len", str(shape.input)]
    if shape.path is not None:
        words += ["--dataset-path", str(expanded(shape.path).resolve())]
    if not shape.chat_template:
        words.append("--skip-chat-template")
    words += ["--num-prompts", str(load.prompts), "--max-concurrency", str(load.concurrency)]
    words += ["--seed", str(load.seed), "--temperature", str(sampling.temperature)]
    if sampling.ignore_eos:
        words.append("--ignore-eos")
    extra_body = sampling.model_dump(by_alias=False, exclude_none=True)
    extra_body = {k: v for k, v in extra_body.items() if k not in {"temperature", "ignore_eos"}}
    if extra_body:
        words += ["--extra-body", json.dumps(extra_body)]
    words += ["--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,95,99"]
    words += ["--ready-check-timeout-sec", "0", "--disable-tqdm"]
    words += ["--save-result", "--save-detailed", "--result-dir", str(workdir)]
    return [*words, "--result-filename", name]


def _wrong(answers: LoadAnswers, load: Load, sampling: Sampling) -> str | None:
    """What makes the figures of a result worth nothing."""
    failures = answers.failures
    missing = load.prompts - answers.completed
    if failures or missing:
        reason = f": {failures[0]}" if failures else ""
        return f"{max(len(failures), missing)} of {load.prompts} requests failed{reason}"
    wanted = load.prompts * load.shape.output
    if sampling.ignore_eos and answers.tokens != wanted:
        return f"{answers.tokens} tokens came, and {wanted} were asked for"
    return None
