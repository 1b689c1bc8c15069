"""What a build found below the patches, for the lock: the package vllm and what was installed."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vpatch.commits import digest_of
from vpatch.docker.container import Room
from vpatch.errors import VpatchError
from vpatch.foreign import parse_json
from vpatch.image import INSIDE, package
from vpatch.lock import LockedImage, LockedPackage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vpatch.docker.engine import Docker

_FOLDER = "vpatch-find"
_SECONDS = 300.0
_SHOWN = 20
_WITH_VLLM = "name a --base with vLLM, or use --mode cpu to install its CPU build on this one"
# Where the cpu build leaves what it installed.
_INSTALLED = "/opt/vllm/installed"


def recorded(docker: Docker, below: str, image: LockedImage) -> tuple[LockedImage, str]:
    """Return `image` with what is in the image below the patches, and the list of the package.

    Raises:
        VpatchError: it has no vLLM, or not the one that was locked.
    """
    words = ["python3", "-B", f"/{_FOLDER}/verify.py", "--locate", f"/{_FOLDER}/result"]
    with docker.container(below, words, Room(user="0")) as container:
        container.put({f"{_FOLDER}/verify.py": (INSIDE / "verify.py").read_bytes()}, "/")
        container.start()
        code = container.wait(_SECONDS)
        answer = container.read(f"/{_FOLDER}/result") if code == 0 else None
        if answer is None:
            lines = container.logs().decode(errors="replace").splitlines()[-_SHOWN:]
            raise VpatchError(
                "\n".join([f"its python3 ended with {code}:", *lines]),
                where=image.base,
                todo="name a --base in which python3 runs",
            )
        folder = parse_json(answer)
        if folder is None:
            raise VpatchError(
                "python3 of this image has no package vllm",
                where=image.base,
                todo=_WITH_VLLM if image.mode == "overlay" else "name another --base",
            )
        digests = container.digests(folder)
        if digests is None:
            raise VpatchError("the folder of vllm cannot be read", where=f"{image.base}:{folder}")
        is_cpu = image.mode == "cpu"
        apt = _of_apt(container.read(f"{_INSTALLED}/apt.txt")) if is_cpu else ()
        pip = _of_pip(container.read(f"{_INSTALLED}/pip.json")) if is_cpu else ()
    text = package.list_text(of_mode(image, digests))
    contents = digest_of(text.encode())
    if image.mode != "source" and image.contents not in (None, contents):
        raise VpatchError(
            f"the package vllm that was locked is {image.contents}, and this one is {contents}",
            where=image.base,
            todo="use --repin to lock what is there now",
        )
    found = {"package": folder, "contents": contents, "apt": apt, "pip": pip}
    return image.model_copy(update=found), text


def of_mode(image: LockedImage | None, digests: Mapping[str, str]) -> Mapping[str, str]:
    """Return those files of a package that each build of a lock makes the same.

    A compiler makes other libraries each time.
    """
    if image is None or image.mode != "source":
        return digests
    return {path: d for path, d in digests.items() if PurePosixPath(path).suffix in (".py", ".pyc")}


def _of_apt(text: bytes | None) -> tuple[LockedPackage, ...]:
    lines = [line.partition("=") for line in (text or b"").decode().splitlines()]
    return tuple(LockedPackage(name=name, version=version) for name, _, version in lines)


def _of_pip(text: bytes | None) -> tuple[LockedPackage, ...]:
    found = [LockedPackage(**one) for one in parse_json(text or b"[]")]
    return tuple(sorted(found, key=lambda one: one.name.lower()))
