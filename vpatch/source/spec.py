"""How people name a source, on the command line and in a recipe."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from vpatch.errors import UsageError
from vpatch.source.index import parse_version
from vpatch.source.urls import redact

_VLLM_EXAMPLES = "0.23, 0.23.0, latest, ./vllm, ./vllm@v0.23.0 or https://HOST/vllm.git@v0.23.0"
_TREE_EXAMPLES = "vllm-ascend==0.23.0, vllm_metax=./vllm-metax or vllm_metax=https://HOST/X.git@REF"
_SCP = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?!//)")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass(frozen=True)
class PypiSpec:
    """`version` is an exact one, a series such as 0.23, or "latest"."""

    tree: str
    version: str


@dataclass(frozen=True)
class GitSpec:
    """`url` is a remote's URL or the path of a local repository."""

    tree: str
    url: str
    ref: str


@dataclass(frozen=True)
class FolderSpec:
    tree: str
    path: str


TreeSpec = PypiSpec | GitSpec | FolderSpec


def parse_vllm(text: str) -> TreeSpec:
    version = parse_version(text)
    if version:
        return PypiSpec("vllm", version)
    return _place("vllm", text, _VLLM_EXAMPLES)


def parse_tree(text: str) -> TreeSpec:
    name, equals, rest = text.partition("=")
    if not equals or not _NAME.fullmatch(name.strip()) or not rest:
        raise _wrong(text, "it names no tree and source", _TREE_EXAMPLES)
    tree = canonicalize_name(name.strip())
    if not rest.startswith("="):
        return _place(tree, rest, _TREE_EXAMPLES)
    version = parse_version(rest[1:].strip())
    if not version:
        raise _wrong(text, f"{rest[1:]!r} is no version", _TREE_EXAMPLES)
    return PypiSpec(tree, version)


def _place(tree: str, text: str, examples: str) -> TreeSpec:
    url = text.removeprefix("git+")
    scheme, marker, rest = url.partition("://")
    scp = None if marker else _SCP.match(url)
    if marker:
        host, _, path = rest.partition("/")
        before, ref = _split_ref(path)
        address = f"{scheme}://{host}/{before}"
    elif scp:
        before, ref = _split_ref(url[scp.end() :])
        address = scp[0] + before
    else:
        return _local(tree, url, examples)
    if not ref:
        raise _wrong(text, "a git URL needs a tag or a commit", examples)
    return GitSpec(tree, address, ref)


def _local(tree: str, text: str, examples: str) -> TreeSpec:
    if Path(text).expanduser().is_dir():
        if "/" in text or text.startswith((".", "~")):
            return FolderSpec(tree, text)
        raise _wrong(text, f"a folder is written as ./{text}", examples)
    path, ref = _split_ref(text)
    if ref and Path(path).expanduser().is_dir():
        # As given where possible: it is shown, and told apart by this, as the origin.
        return GitSpec(tree, str(Path(path).expanduser()) if path[0] == "~" else path, ref)
    reason = "there is no such folder" if "/" in text else "it is neither a version nor a place"
    raise _wrong(text, reason, examples)


def _split_ref(text: str) -> tuple[str, str]:
    before, at, ref = text.rpartition("@")
    return (before, ref) if at else (text, "")


def _wrong(text: str, reason: str, examples: str) -> UsageError:
    return UsageError(f"{redact(text)!r}: {reason}", todo=f"write for instance {examples}")
