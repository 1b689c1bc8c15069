"""What a release has of names that only the run of vLLM looks up: models and arguments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vpatch.commands.compat.code.codebase import IsGone, IsHere
from vpatch.commands.compat.judgement.fact import Fact
from vpatch.commands.compat.surface.items import Ref

if TYPE_CHECKING:
    from vpatch.commands.compat.judgement.release import JudgedRelease
    from vpatch.commands.compat.surface.items import Item

_REGISTRY = "vllm/model_executor/models/registry.py"
# Their fields become arguments of `vllm serve`.
_ARGUMENTS = (
    "vllm.engine.arg_utils.AsyncEngineArgs",
    "vllm.engine.arg_utils.EngineArgs",
    "vllm.entrypoints.openai.cli_args.FrontendArgs",
)


def model_fact(release: JudgedRelease, item: Item) -> Fact:
    """Return what a release has of the architecture that the target registers a model for."""
    if item.own_name and release.is_own_name(item.own_name):
        answer = release.code.find(item.own_name)
        if isinstance(answer, IsGone):
            return Fact("gone", f"the class that it registers is not there: {answer.why}")
    model = _registered(release, item.name)
    if model is None:
        return Fact("here", "vLLM has no model of this name")
    return Fact("here", f"it takes the place of vLLM's {model[0]}", model[1], body=model[0])


def argument_fact(release: JudgedRelease, item: Item) -> Fact:
    """Return whether `vllm serve` takes an argument, or has one that the target adds."""
    has_it = _has_argument(release, item.name)
    if item.mode == "set" and has_it is not None:
        text = f"vLLM has {item.name} itself, and a parser refuses a second one"
        return Fact("here", what="unchecked", problems=(text,) if has_it else ())
    if has_it is None:
        return Fact("unknown", f"vLLM's code has the word {item.name}, and no argument of it")
    if has_it:
        return Fact("here")
    return Fact("gone", f"no code of vLLM has the word {item.name.removeprefix('--')}")


def _registered(release: JudgedRelease, architecture: str) -> tuple[str, str] | None:
    """Return the class that vLLM registers for an architecture, and the place where it does."""
    text = release.files.get(_REGISTRY, b"").decode(errors="replace")
    match = re.search(
        rf"[\"']{re.escape(architecture)}[\"']\s*:\s*\(\s*[\"']([\w.]+)[\"'],\s*[\"'](\w+)[\"']",
        text,
    )
    if match is None:
        return None
    return f"{match[1]}.{match[2]}", f"{_REGISTRY}:{text.count(chr(10), 0, match.start()) + 1}"


def _has_argument(release: JudgedRelease, flag: str) -> bool | None:
    """Return whether `vllm serve` takes an argument; None if the code does not tell."""
    words = [flag.removeprefix("--").replace("-", "_")]
    words += [words[0].removeprefix("no_")] if words[0].startswith("no_") else []
    for word in words:
        if release.has_text(f'"--{word.replace("_", "-")}"'):
            return True
        answers = (release.evaluate(Ref((f"{one}.{word}",))).answer for one in _ARGUMENTS)
        if any(isinstance(one, IsHere) for one in answers):
            return True
    texts = [*words, *(word.replace("_", "-") for word in words)]
    return None if any(map(release.has_text, texts)) else False
