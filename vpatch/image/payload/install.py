"""Lay the files of a lock over an image's vLLM, and verify all of it.

    python3 install.py FOLDER

It runs in an image, where vpatch is not, as the last step of its build. FOLDER has manifest.json;
build/epoch, the time that all files get; and the patched files below build/files/. installed.json
is left there: the package's folder, and the modules that the base cannot import either. It ends
with 1, and says what is wrong, where the image is not what the manifest was made for.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import verify


def main(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    package = verify.locate()
    if package is None:
        sys.exit(f"{sys.executable} of this image has no package vllm: name another base")
    # The files lie there already, as vLLM was built from the patched tree.
    built = manifest["mode"] == "source"
    refuse(manifest, package, "after" if built else "before")
    kept = Path(tempfile.mkdtemp())
    for entry in manifest["files"]:
        if not built:
            replace(folder / "build" / "files", package.parent, entry["path"], kept)
        forget_bytecode(package.parent / entry["path"])
    found = verify.verify(manifest)
    old = {} if built else not_importable_before(manifest, package.parent, kept, found["imports"])
    problems = [f"{one['path']}: {one['what']}" for one in found["problems"]]
    problems += [f"{m} does not import: {e}" for m, e in found["imports"].items() if m not in old]
    problems += [
        f"{patch}: {text}"
        for patch, effect in found["probes"].items()
        for text in effect["problems"]
    ]
    if problems:
        sys.exit("the image is not what the lock says:\n" + "\n".join(problems))
    installed = {"package": str(package), "not-importable": old}
    (folder / "installed.json").write_text(json.dumps(installed, indent=1) + "\n", encoding="utf-8")
    report(manifest, found, old)
    shutil.rmtree(kept)
    give_time(folder, package, [package.parent / entry["path"] for entry in manifest["files"]])


def give_time(folder: Path, package: Path, files: list[Path]) -> None:
    """Give all that was written one time, so that two builds make the same layer."""
    epoch = int((folder / "build" / "epoch").read_text(encoding="ascii"))
    written = {folder, *folder.iterdir(), Path(tempfile.gettempdir())}
    for file in files:
        above = [one for one in file.parents if one == package or package in one.parents]
        written |= {file, file.parent / "__pycache__", *verify.bytecode_of(file), *above}
    for path in written:
        if path.exists():
            os.utime(path, (epoch, epoch))


def refuse(manifest: dict[str, Any], package: Path, state: str) -> None:
    """End where the image's vLLM is not the one that the patches were made for."""
    problems = []
    version = verify.version_of(package)
    if version != manifest["vllm"]:
        problems.append(f"it has vLLM {version}, and the lock is of {manifest['vllm']}")
    for entry in manifest["files"]:
        found = verify.digest_of(package.parent / entry["path"])
        if found != entry[state]:
            problems.append(f"{entry['path']} is {found}, and was locked as {entry[state]}")
    if problems:
        sys.exit(f"the vLLM in {package} is not the one that was locked:\n" + "\n".join(problems))


def replace(source: Path, packages: Path, path: str, kept: Path) -> None:
    target = packages / path
    if target.exists():
        (kept / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(target, kept / path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside it and then renamed: an installed file may be a link into a cache that others share.
    fresh = target.with_name(f".{target.name}.vpatch")
    shutil.copyfile(source / path, fresh)
    fresh.chmod(0o644)
    os.replace(fresh, target)  # noqa: PTH105


def forget_bytecode(file: Path) -> None:
    """Empty what was compiled of a file, and Python takes the source.

    From outside, nobody can tell what bytecode does. To remove a file of the base would leave a
    mark in the layer, with the time of the build.
    """
    for compiled in verify.bytecode_of(file):
        compiled.write_bytes(b"")


def not_importable_before(
    manifest: dict[str, Any], packages: Path, kept: Path, imports: dict[str, str]
) -> dict[str, str]:
    """Return those modules that the base cannot import either: a build has no GPU, for instance."""
    if not imports:
        return {}
    paths = [entry["path"] for entry in manifest["files"]]
    patched = {path: (packages / path).read_bytes() for path in paths}
    for path in paths:
        if (kept / path).exists():
            shutil.copyfile(kept / path, packages / path)
        else:
            (packages / path).unlink()
    before = verify.ask_live({"modules": list(imports), "probes": {}})["imports"]
    for path, content in patched.items():
        (packages / path).write_bytes(content)
    # The same reason, and not merely a reason.
    return {module: why for module, why in imports.items() if before.get(module) == why}


def report(manifest: dict[str, Any], found: dict[str, Any], old: dict[str, str]) -> None:
    lines = [f"{len(manifest['files'])} files as locked, in {found['package']}"]
    for module, why in old.items():
        lines.append(f"{module} is not importable here, nor was it in the base: {why}")
    for patch, effect in found["probes"].items():
        count = effect["held"]
        lines.append(
            f"{patch}: {count} name{'' if count == 1 else 's'} found to be the patched code"
        )
        lines += [f"{patch}: not asked: {text}" for text in effect["unknown"]]
    sys.stdout.write("".join(f"verified: {line}\n" for line in lines))


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))  # as in verify.main
    main(Path(sys.argv[1]))
