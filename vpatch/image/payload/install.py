"""Lay the files of locks over an image's packages, and verify all of it.

    python3 install.py FOLDER

It runs in an image, where vpatch is not, as the last step of its build. FOLDER has manifest.json;
build/epoch, the time that all files get; and the patched files below build/files/. trees/NAME has
the same of each tree beside vLLM that the manifest names, but the time. installed.json is left in
each: the package's folder, and the modules that the base cannot import either. It ends with 1, and
says what is wrong, where the image is not what the manifests were made for.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from vpatch.image.payload import verify
else:
    import verify


# How many modules are named in a line.
_SHOWN = 3


class LaidTree:
    """A tree of the image: its folder with the manifest, and the package that it is laid over."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        text = (folder / "manifest.json").read_text(encoding="utf-8")
        self.manifest: verify.Manifest = json.loads(text)
        name = verify.package_of(self.manifest)
        package = verify.locate(name)
        if package is None:
            sys.exit(f"{sys.executable} of this image has no package {name}: name another base")
        self.package = package
        # The files lie there already, as vLLM was built from the patched tree.
        self.is_built = self.manifest["mode"] == "source"

    @property
    def packages(self) -> Path:
        """The folder that the package lies in."""
        return self.package.parent

    @property
    def files(self) -> list[Path]:
        """The patched files, where they are installed."""
        return [self.packages / entry["path"] for entry in self.manifest["files"]]


def main(folder: Path) -> None:
    first = LaidTree(folder)
    beside = first.manifest.get("trees", [])
    trees = [first, *(LaidTree(folder / "trees" / name) for name in beside)]
    for tree in trees:
        refuse(tree, "after" if tree.is_built else "before")
    backup = Path(tempfile.mkdtemp())
    for tree in trees:
        for entry in tree.manifest["files"]:
            if not tree.is_built:
                replace(tree.folder / "build" / "files", tree.packages, entry["path"], backup)
            forget_bytecode(tree.packages / entry["path"])
    # All are laid first: the patches of one tree may need those of another.
    answers = [verify.verify(tree.manifest) for tree in trees]
    laid = [(tree, one) for tree, one in zip(trees, answers, strict=True) if not tree.is_built]
    broken = {module: why for _, one in laid for module, why in one["imports"].items()}
    old = not_importable_before([tree for tree, _ in laid], backup, broken)
    problems = [problem for one in answers for problem in problems_of(one, old)]
    if problems:
        sys.exit("the image is not what the lock says:\n" + "\n".join(problems))
    for tree, one in zip(trees, answers, strict=True):
        unknown = {module: old[module] for module in one["imports"]}
        installed = {"package": str(tree.package), "not-importable": unknown}
        text = json.dumps(installed, indent=1) + "\n"
        (tree.folder / "installed.json").write_text(text, encoding="utf-8")
        report(tree.manifest, one, unknown)
    shutil.rmtree(backup)
    epoch = int((folder / "build" / "epoch").read_text(encoding="ascii"))
    for tree in trees:
        give_time(tree, epoch)


def problems_of(answer: verify.ImageAnswer, old: dict[str, str]) -> list[str]:
    """Say what is wrong with a tree, but for modules that the base cannot import either."""
    problems = [f"{one['path']}: {one['what']}" for one in answer["problems"]]
    problems += [f"{m} does not import: {e}" for m, e in answer["imports"].items() if m not in old]
    return problems + [
        f"{patch}: {text}"
        for patch, effect in answer["probes"].items()
        for text in effect["problems"]
    ]


def give_time(tree: LaidTree, epoch: int) -> None:
    """Give all that was written one time, so that two builds make the same layer."""
    folder, package = tree.folder, tree.package
    written = {folder, *folder.iterdir(), Path(tempfile.gettempdir())}
    for file in tree.files:
        above = [one for one in file.parents if one == package or package in one.parents]
        written |= {file, file.parent / "__pycache__", *verify.bytecode_of(file), *above}
    for path in written:
        if path.exists():
            os.utime(path, (epoch, epoch))


def refuse(tree: LaidTree, state: Literal["before", "after"]) -> None:
    """End where the image's package is not the one that the patches were made for."""
    problems = []
    other = verify.other_release(tree.manifest, tree.package)
    if other:
        problems.append(f"it {other}")
    for entry in tree.manifest["files"]:
        digest = verify.digest_of(tree.packages / entry["path"])
        if digest != entry[state]:
            problems.append(f"{entry['path']} is {digest}, and was locked as {entry[state]}")
    if problems:
        name = tree.manifest.get("tree", "vLLM")
        sys.exit(
            f"the {name} in {tree.package} is not the one that was locked:\n" + "\n".join(problems)
        )


def replace(source: Path, packages: Path, path: str, backup: Path) -> None:
    target = packages / path
    if target.exists():
        (backup / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(target, backup / path)
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
    trees: list[LaidTree], backup: Path, imports: dict[str, str]
) -> dict[str, str]:
    """Return those modules that the base cannot import either: a build has no GPU, for instance."""
    if not imports:
        return {}
    patched = {}
    for tree in trees:
        for entry in tree.manifest["files"]:
            file, before = tree.packages / entry["path"], backup / entry["path"]
            patched[file] = file.read_bytes()
            if before.exists():
                shutil.copyfile(before, file)
            else:
                file.unlink()
    unpatched, _ = verify.ask_live({"modules": list(imports), "probes": {}})
    for file, content in patched.items():
        file.write_bytes(content)
    # The same reason, and not merely a reason.
    return {module: why for module, why in imports.items() if unpatched.get(module) == why}


def report(manifest: verify.Manifest, answer: verify.ImageAnswer, old: dict[str, str]) -> None:
    """Write what was verified, a line each, and below it the names that could not be asked."""
    number = len(manifest["files"])
    lines = [f"{number} file{'' if number == 1 else 's'} as locked, in {answer['package']}"]
    modules: dict[str, list[str]] = {}
    for module, why in old.items():
        modules.setdefault(why, []).append(module)
    lines += [_not_importable(names, why) for why, names in modules.items()]
    details = []
    for patch, effect in answer["probes"].items():
        count, others = effect["held"], effect["unknown"]
        unasked = [text for text in others if text.endswith(verify.NOT_IMPORTED)]
        if count or not unasked:
            lines.append(
                f"{patch}: {count} name{'' if count == 1 else 's'} found to be the patched code"
            )
        if unasked:
            names, theirs = (
                ("name", "its module") if len(unasked) == 1 else ("names", "the modules")
            )
            lines.append(f"{patch}: {len(unasked)} {names} not asked: {theirs} cannot be imported")
        lines += [f"{patch}: not asked: {text}" for text in others if text not in unasked]
        details += [f"{patch}: not asked: {text}" for text in unasked]
    text = "".join(f"verified: {line}\n" for line in lines)
    sys.stdout.write(text + "".join(f"{line}\n" for line in details))


def _not_importable(modules: list[str], why: str) -> str:
    """Say which modules have one reason."""
    shown = ", ".join(modules[:_SHOWN])
    if len(modules) == 1:
        return f"{shown} is not importable here, nor was it in the base: {why}"
    rest = f" and {len(modules) - _SHOWN} more" if len(modules) > _SHOWN else ""
    return (
        f"{len(modules)} modules are not importable here, nor were they in the base: {why} "
        f"({shown}{rest})"
    )


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))  # as in verify.main
    main(Path(sys.argv[1]))
