"""Conflicts that are planted: a release with one change as upstream makes them.

Each change is made to upstream's files and to the patched ones, so that what the patch is to make
of the planted release is known. It goes into a folder, which is the new release.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carrying.case import Case, decision_on, made_by
from vpatch.source.spec import parse_vllm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from vpatch.workspace.context import Context

Texts = dict[str, str]
INPUT = "vllm/v1/engine/input_processor.py"
SAMPLING = "vllm/sampling_params.py"
RESPONSES = "vllm/entrypoints/openai/responses/serving.py"
API = "vllm/entrypoints/serve/utils/api_utils.py"
SERVER = "vllm/entrypoints/serve/utils/server_utils.py"
OLD_SERVER = "vllm/entrypoints/openai/server_utils.py"
OV2 = "vllm/model_executor/models/llava_onevision2.py"


@dataclass(frozen=True)
class Plant:
    """A change of upstream. `paths` are the files that it reads, besides those of the patch."""

    what: str
    patch: str
    release: str
    change: Callable[[Texts], None]
    paths: tuple[str, ...] = ()


def swap(files: Texts, path: str, *pairs: tuple[str, str]) -> None:
    """Replace texts of a file; of several pairs with the same aim, one may have no place."""
    before = files[path]
    for old, new in pairs:
        files[path] = files[path].replace(old, new)
    if files[path] == before:
        raise ValueError(f"nothing to change in {path}")


def cut(files: Texts, path: str, begin: str, end: str) -> str:
    """Take the lines from one text up to another one out of a file."""
    text = files[path]
    first = text.index(begin)
    last = text.index(end, first + len(begin))
    files[path] = text[:first] + text[last:]
    return text[first:last]


def shifted(text: str, by: int) -> str:
    return re.sub(r"^(?=.)", " " * by, text, flags=re.MULTILINE)


# --- the changes -------------------------------------------------------------------------------


def _renamed_variable(files: Texts) -> None:
    text = files[INPUT]
    first = text.index("    def _validate_model_input(")
    last = text.index("    def _validate_model_inputs(")
    own = re.sub(r"\bprompt_ids\b", "input_ids", text[first:last])
    files[INPUT] = text[:first] + own + text[last:]


def _moved_to_another_class(files: Texts) -> None:
    own = cut(files, INPUT, "    def _validate_model_input(", "    def _validate_model_inputs(")
    head = "class PromptValidator:\n    def __init__(self, owner: Any) -> None:\n"
    fields = ("model_config", "mm_encoder_cache_size", "skip_prompt_length_check")
    head += "".join(f"        self.{one} = owner.{one}\n" for one in fields) + "\n"
    swap(files, INPUT, ("\nclass InputProcessor:", f"\n{head}{own}\nclass InputProcessor:"))
    swap(files, INPUT, ("self._validate_model_input(", "self.validator._validate_model_input("))


def _partly_indented(files: Texts) -> None:
    block = cut(files, SAMPLING, "        if len(invalid_token_ids) > 0:", "    @cached_property")
    new = "        with self._tokenizer_checks():\n" + shifted(block.rstrip("\n"), 4) + "\n\n"
    swap(
        files,
        SAMPLING,
        (
            "    @cached_property\n    def sampling_type",
            new + "    @cached_property\n    def sampling_type",
        ),
    )


# What follows the message in the handler; other handlers have the first two lines of it.
_AFTER_MESSAGE = """\
    err = ErrorResponse(
        error=ErrorInfo(
            message=sanitize_message(message),
            type=HTTPStatus.BAD_REQUEST.phrase,
            code=HTTPStatus.BAD_REQUEST,
            param=param,
"""


def _split_function(files: Texts) -> None:
    begins = ("    exc_str = str(exc)", "    # Build the message from exc.errors()")
    begin = next(one for one in begins if one in files[SERVER])
    block = cut(files, SERVER, begin, _AFTER_MESSAGE)
    call = "    message = _validation_message(exc, errors)\n"
    swap(files, SERVER, (_AFTER_MESSAGE, call + _AFTER_MESSAGE))
    helper = (
        f"def _validation_message(exc, errors) -> str:\n{block.rstrip()}\n    return message\n\n\n"
    )
    head = "async def validation_exception_handler("
    swap(files, SERVER, (head, helper + head))


_WITH_CONFIG = "self, tokenizer: TokenizerLike, model_config: ModelConfig | None = None"


def _argument_at_the_call(files: Texts) -> None:
    swap(
        files,
        INPUT,
        (
            "update_from_tokenizer(self.tokenizer)",
            "update_from_tokenizer(self.tokenizer, strict=True)",
        ),
        (
            "update_from_tokenizer(self.tokenizer, self.model_config)",
            "update_from_tokenizer(self.tokenizer, self.model_config, strict=True)",
        ),
    )
    swap(
        files,
        SAMPLING,
        (
            "self, tokenizer: TokenizerLike)",
            "self, tokenizer: TokenizerLike, *, strict: bool = False)",
        ),
        (
            _WITH_CONFIG + "\n",
            _WITH_CONFIG + ", *, strict: bool = False\n",
        ),
    )


def _import_in_two(files: Texts) -> None:
    swap(
        files,
        OLD_SERVER,
        (
            "from starlette.datastructures import URL, Headers, MutableHeaders\n",
            "from starlette.datastructures import URL, Headers, MutableHeaders, State\n",
        ),
        (
            "from starlette.datastructures import Headers, MutableHeaders\n",
            "from starlette.datastructures import Headers, MutableHeaders, State\n",
        ),
    )


def _keyword_at_the_call(files: Texts) -> None:
    old = 're.sub(r" at 0x[0-9a-f]+>", ">", message)'
    swap(files, API, (old, old[:-1] + ", count=8)"))


def _decorator_and_parameter(files: Texts) -> None:
    head = "    def update_from_tokenizer("
    swap(
        files,
        SAMPLING,
        (f"{head}self, tokenizer: ", f"{head}self, *, tokenizer: "),
        (f"{head}\n        self, tokenizer: ", f"{head}\n        self, *, tokenizer: "),
    )
    swap(files, SAMPLING, (head, f"    @traced\n{head}"))
    traced = "def traced(function):\n    return function\n"
    swap(files, SAMPLING, ("\nclass SamplingParams(", f"\n{traced}\n\nclass SamplingParams("))


def _neighbour_gone(files: Texts) -> None:
    text = files[RESPONSES]
    first = text.index("    async def _generate_with_builtin_tools(")
    last = text.find("\n    async def ", first + 1)
    own = text[first:last]
    own = own.replace("        max_model_len = self.model_config.max_model_len\n", "", 1)
    own = re.sub(r"(?<!\.)\bmax_model_len\b(?!=)", "self.model_config.max_model_len", own)
    files[RESPONSES] = text[:first] + own + text[last:]


def _renamed_class(files: Texts) -> None:
    for path in files:
        files[path] = re.sub(r"\bServingScores\b", "ScoringHandler", files[path])


def _moved_file(files: Texts) -> None:
    files["vllm/entrypoints/serve/http_middleware.py"] = files.pop(OLD_SERVER)
    for path in files:
        files[path] = files[path].replace(
            "vllm.entrypoints.openai.server_utils", "vllm.entrypoints.serve.http_middleware"
        )


def _one_place_less(files: Texts) -> None:
    swap(
        files,
        OV2,
        (
            "    video_processor_cls = get_class_from_dynamic_module(",
            "    video_processor_cls = load_class(",
        ),
    )


PLANTS = (
    Plant("a variable is renamed", "cve-2026-93592", "0.26.0", _renamed_variable),
    Plant("a method moves to another class", "cve-2026-93592", "0.26.0", _moved_to_another_class),
    Plant("a part is indented under with", "pysec-2026-4000", "0.28.0", _partly_indented),
    Plant("a function is split", "cve-2026-73555", "0.25.0", _split_function),
    Plant(
        "a call and its signature have one more", "pysec-2026-4000", "0.28.0", _argument_at_the_call
    ),
    Plant("an import has one name more", "cve-2026-48746", "0.21.0", _import_in_two),
    Plant("a keyword at the same call", "cve-2026-73555", "0.25.0", _keyword_at_the_call),
    Plant(
        "a decorator, and a parameter by name",
        "pysec-2026-4000",
        "0.28.0",
        _decorator_and_parameter,
    ),
    Plant("the statement beside it is gone", "cve-2026-105752", "0.26.0", _neighbour_gone),
    Plant("a class is renamed", "cve-2026-105755", "0.27.0", _renamed_class),
    Plant("a file has another name and folder", "cve-2026-48746", "0.21.0", _moved_file),
    Plant("one of two places is another call", "cve-2026-90553", "0.27.0", _one_place_less),
)


def planted_cases(context: Context, asked: Sequence[str], room: Path) -> Iterator[Case]:
    """Each planted change, written to a folder of its own."""
    for number, plant in enumerate(PLANTS):
        if asked and plant.patch not in asked:
            continue
        kept = made_by(decision_on(context, plant.patch, plant.release)) or {}
        folder = room / f"vllm-{number}"
        with context.tree(parse_vllm(plant.release)) as tree:
            pristine = {path: tree.read(path) for path in tree.paths()}
        changed = _changed(plant, pristine, {})
        wanted = _changed(plant, pristine, kept)
        wanted = {path: text for path, text in wanted.items() if text != changed.get(path)}
        for path, text in changed.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(text)
        yield Case(
            "planted",
            plant.patch,
            plant.release,
            str(folder),
            lambda _: None,
            wanted,
            kept,
            plant.what,
        )


def _changed(plant: Plant, pristine: dict[str, bytes], kept: dict[str, bytes]) -> dict[str, bytes]:
    """All files with the change in them; `kept` is what the patch makes of some."""
    files = {**pristine, **kept}
    texts = {
        path: text.decode()
        for path, text in files.items()
        if path.startswith("vllm/") and path.endswith(".py")
    }
    before = dict(texts)
    plant.change(texts)
    new = {path: text.encode() for path, text in texts.items() if before.get(path) != text}
    rest = {path: text for path, text in files.items() if path not in before or path in texts}
    return {**rest, **new, **_newer(plant, files)}


def _newer(plant: Plant, files: dict[str, bytes]) -> dict[str, bytes]:
    """The file with the version, which is a later one."""
    head, _, last = plant.release.rpartition(".")
    version = f"{head}.{int(last) + 1}"
    listed = ("vllm/_version.py", "PKG-INFO")
    return {
        path: files[path].replace(plant.release.encode(), version.encode())
        for path in listed
        if path in files
    }
