"""How people name a source, on the command line and in a recipe."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from vpatch.errors import UsageError
from vpatch.source.index import parse_version
from vpatch.util.home import expanded
from vpatch.util.untrusted import is_path
from vpatch.util.urls import redact

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
    """`url` is a remote's URL or the path of a local repository, relative to `root`."""

    tree: str
    url: str
    ref: str
    root: Path = Path()

    @property
    def remote(self) -> str:
        """The URL, or the path as seen from the current folder."""
        return _from_here(self.root, self.url) if (self.root / self.url).is_dir() else self.url


@dataclass(frozen=True)
class FolderSpec:
    """`path` is relative to `root`, the project's folder as seen from the current one.

    So a lock says the same wherever in the project the command was run.
    """

    tree: str
    path: str
    root: Path = Path()

    @property
    def place(self) -> str:
        """The path as seen from the current folder."""
        return _from_here(self.root, self.path)


def _from_here(root: Path, path: str) -> str:
    if root == Path() or path.startswith("~"):
        return path
    return os.path.normpath(root / path)


TreeSpec = PypiSpec | GitSpec | FolderSpec


def parse_vllm(text: str, root: Path = Path()) -> TreeSpec:
    """Read what `--vllm` takes; a path is relative to the current folder, and `root` too."""
    version = parse_version(text)
    if version:
        return PypiSpec("vllm", version)
    return _place("vllm", text, _VLLM_EXAMPLES, root)


def parse_tree(text: str, root: Path = Path()) -> TreeSpec:
    name, equals, rest = text.partition("=")
    if not equals or not _NAME.fullmatch(name.strip()) or not rest:
        raise _wrong(text, "it does not name a tree and a source", _TREE_EXAMPLES)
    tree = canonicalize_name(name.strip())
    if not rest.startswith("="):
        return _place(tree, rest, _TREE_EXAMPLES, root)
    version = parse_version(rest[1:].strip())
    if not version:
        raise _wrong(text, f"{rest[1:]!r} is not a version", _TREE_EXAMPLES)
    return PypiSpec(tree, version)


def _place(tree: str, text: str, examples: str, root: Path) -> TreeSpec:
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
        return _local(tree, url, examples, root)
    if not ref:
        raise _wrong(text, "a git URL needs a tag or a commit", examples)
    return GitSpec(tree, address, ref)


_SHOWN = 60


def _local(tree: str, text: str, examples: str, root: Path) -> TreeSpec:
    if not is_path(text):
        raise _wrong(text[:_SHOWN], "it is not a path", examples)
    if expanded(text).is_dir():
        if "/" in text or text.startswith((".", "~")):
            return FolderSpec(tree, _from_root(text, root), root)
        raise _wrong(text, f"a folder is written as ./{text}", examples)
    path, ref = _split_ref(text)
    if ref and expanded(path).is_dir():
        # As given where possible: it is shown, and told apart by this, as the origin.
        url = str(expanded(path)) if path[0] == "~" else _from_root(path, root)
        return GitSpec(tree, url, ref, root)
    reason = "there is no such folder" if "/" in text else "it is neither a version nor a path"
    raise _wrong(text, reason, examples)


def _from_root(text: str, root: Path) -> str:
    if root == Path() or text[0] in "~/":
        return text
    path = os.path.relpath(text, root)
    return path if path.startswith("..") else f"./{path}"


def _split_ref(text: str) -> tuple[str, str]:
    before, at, ref = text.rpartition("@")
    return (before, ref) if at else (text, "")


def _wrong(text: str, reason: str, examples: str) -> UsageError:
    hint = f"write for instance {examples}"
    return UsageError(f"{redact(text)!r}: {reason}", hint=hint, code="source.wrong-spec")
