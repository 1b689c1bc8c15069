"""What bases outside vLLM have themselves, as far as that is known. None of them is imported."""

from __future__ import annotations

import abc
import enum

_PLAIN = frozenset(dir(abc.ABC))
# By the last part of a base's name. Those that are not named may have anything.
CLOSED = {
    **dict.fromkeys(["ABC", "Generic", "Protocol", "object", "ABCMeta"], _PLAIN),
    **dict.fromkeys(
        ["Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"], frozenset(dir(enum.IntFlag))
    ),
    "str": frozenset(dir(str)),
    "int": frozenset(dir(int)),
    "Exception": frozenset(dir(Exception)),
    "NamedTuple": frozenset([*dir(tuple), "_asdict", "_replace", "_fields", "_make"]),
    "TypedDict": frozenset(dir(dict)),
}
_TORCH_MODULE = frozenset(
    [
        *("T_destination", "add_module", "apply", "bfloat16", "buffers", "call_super_init"),
        *("children", "compile", "cpu", "cuda", "double", "dump_patches", "eval", "extra_repr"),
        *("float", "forward", "get_buffer", "get_extra_state", "get_parameter", "get_submodule"),
        *("half", "ipu", "load_state_dict", "modules", "mtia", "named_buffers", "named_children"),
        *("named_modules", "named_parameters", "parameters", "register_backward_hook"),
        *("register_buffer", "register_forward_hook", "register_forward_pre_hook"),
        *("register_full_backward_hook", "register_full_backward_pre_hook", "register_module"),
        *("register_load_state_dict_post_hook", "register_load_state_dict_pre_hook"),
        *("register_parameter", "register_state_dict_post_hook", "requires_grad_"),
        *("register_state_dict_pre_hook", "set_extra_state", "set_submodule", "share_memory"),
        *("state_dict", "to", "to_empty", "train", "training", "type", "xpu", "zero_grad"),
        *("_apply", "_backward_hooks", "_backward_pre_hooks", "_buffers", "_call_impl"),
        *("_compiled_call_impl", "_forward_hooks", "_forward_hooks_always_called"),
        *("_forward_hooks_with_kwargs", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"),
        *("_get_backward_hooks", "_get_backward_pre_hooks", "_get_name"),
        *("_is_full_backward_hook", "_load_from_state_dict", "_load_state_dict_post_hooks"),
        *("_load_state_dict_pre_hooks", "_maybe_warn_non_full_backward_hook", "_modules"),
        *("_named_members", "_non_persistent_buffers_set", "_parameters"),
        *("_register_load_state_dict_pre_hook", "_register_state_dict_hook"),
        *("_replicate_for_data_parallel", "_save_to_state_dict", "_slow_forward"),
        *("_state_dict_hooks", "_state_dict_pre_hooks", "_version", "_wrapped_call_impl"),
    ]
)
_PYDANTIC_MODEL = frozenset(
    [
        *("construct", "copy", "dict", "from_orm", "json", "parse_file", "parse_obj"),
        *("parse_raw", "schema", "schema_json", "update_forward_refs", "validate"),
    ]
)
_OF_PYDANTIC = ("_", "model_")


def may_have(base: str, name: str) -> bool:
    """Whether a base outside vLLM may have a name of its own."""
    first, last = base.partition(".")[0], base.rpartition(".")[2]
    if last in CLOSED:
        return name in CLOSED[last]
    if last == "Module" and first in {"torch", "nn"}:
        return name in _TORCH_MODULE
    if last == "BaseModel" and first == "pydantic":
        return name in _PYDANTIC_MODEL or name.startswith(_OF_PYDANTIC)
    return True
