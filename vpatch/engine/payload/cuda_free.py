"""Make a torch that was built for CUDA work without NVIDIA's libraries and without triton.

    PYTHON cuda_free.py

It runs in the Python in which torch was installed without its requirements. PyPI's torch for Linux
links 2.7 GB of NVIDIA's libraries and requires triton (0.6 GB). On a CPU nothing calls them, but
the loader wants to find each function when torch is imported. So one small library takes their
place. Each of its functions returns 1: to NVIDIA's libraries that is an error, as "not
initialised". Only the CUDA runtime (8 MB) stays, because torch asks it how many GPUs there are.

The metadata of the installed packages changes with it: pip then neither installs nor misses what
is left out. A torch that was built for the CPU stays as it is.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import re
import sysconfig
from pathlib import Path

from elf import SharedLibrary, can_stand_in, stand_in

STAND_IN = "libvpatch_cuda_free.so"
# The runtime is asked for GPUs, and a machine's driver (libcuda, libnvidia-*) is not ours to give.
_LIBRARY = re.compile(r"lib(?:cu(?!dart|da\.)|nccl|nv(?!idia))")
_VERSION = re.compile(rf"{_LIBRARY.pattern}|NVSHMEM")
_FUNCTION = re.compile(r"cu[A-Z_a-z]|nccl[A-Z]|nv[a-z]|nvshmem")
_LEFT_OUT = re.compile(r"(?:nvidia-(?!cuda-runtime)|cuda-(?!toolkit)|(?:pytorch-)?triton\b)")
_TOOLKIT = re.compile(r"^cuda-toolkit\[[^\]]*\]")
_REQUIRES = "Requires-Dist: "


def main() -> None:
    site = Path(sysconfig.get_path("platlib"))
    replaced = replace_libraries(site / "torch" / "lib")
    for distribution in importlib.metadata.distributions(path=[str(site)]):
        forget_requirements(distribution)
    print(f"left out: {', '.join(replaced) or 'nothing'}")  # noqa: T201


def replace_libraries(folder: Path) -> list[str]:
    """Put the substitute beside torch's libraries, under each name that it replaces."""
    if not folder.is_dir():
        return []
    libraries = [
        SharedLibrary(file) for file in sorted(folder.glob("*.so")) if not file.is_symlink()
    ]
    libraries = [library for library in libraries if can_stand_in(library.machine)]
    needed = {name for library in libraries for name in library.needed}
    replaced = sorted(name for name in needed if _LIBRARY.match(name))
    if not replaced:
        return []
    functions = {
        (name, version)
        for library in libraries
        for name, version in library.missing()
        if (_VERSION.match(version) if version else _FUNCTION.match(name))
    }
    (folder / STAND_IN).write_bytes(stand_in(STAND_IN, libraries[0].machine, functions))
    for name in replaced:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(STAND_IN)
    return replaced


def forget_requirements(distribution: importlib.metadata.Distribution) -> None:
    """Remove what is left out from the metadata of an installed package."""
    for file in distribution.files or ():
        if file.name == "METADATA" and file.parent.suffix == ".dist-info":
            path = Path(str(distribution.locate_file(file)))
            before = path.read_text(encoding="utf-8")
            after = without_cuda(before)
            if after != before:
                path.write_text(after, encoding="utf-8")
                record(path, str(file))


def without_cuda(metadata: str) -> str:
    """Return metadata that requires nothing of CUDA but its runtime."""
    head, blank, description = metadata.partition("\n\n")
    lines = []
    for line in head.splitlines(keepends=True):
        requirement = line.removeprefix(_REQUIRES)
        if requirement == line or not _LEFT_OUT.match(requirement):
            # A package that requires others of CUDA by its extras: the runtime is one of them.
            reduced = _TOOLKIT.sub("cuda-toolkit[cudart]", requirement)
            lines.append(line if requirement == line else _REQUIRES + reduced)
    return "".join(lines) + blank + description


def record(path: Path, name: str) -> None:
    """Write the new digest of a file to the list of the package's files."""
    content = path.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    listed = path.with_name("RECORD")
    lines = listed.read_text(encoding="utf-8").splitlines()
    entries = [
        f"{name},sha256={digest},{len(content)}" if line.startswith(f"{name},") else line
        for line in lines
    ]
    listed.write_text("".join(f"{line}\n" for line in entries), encoding="utf-8")


if __name__ == "__main__":
    main()
