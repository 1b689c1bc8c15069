"""Whether every module that the library's patches change imports as it did, in a real CPU engine.

    python benchmarks/engine_imports.py [VERSION ...]

For each release, all patches that it needs are applied at once, backports of security fixes too.
Each changed module is imported in the engine that `vpatch engine` makes, as the release has it and
as the patches make it. A module that fails has to fail with the same error both times. The program
prints a row for each release, and the modules that fail, and ends with 1 where a patch changes it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RELEASES = ("0.20.0", "0.23.0", "0.28.0", "0.32.0")
VPATCH = [sys.executable, "-m", "vpatch"]
_IMPORTS = """
import importlib, json, sys
errors = {}
for name in json.loads(sys.argv[1]):
    try:
        importlib.import_module(name)
    except BaseException as error:
        errors[name] = f"{type(error).__name__}: {error}"
print("RESULT " + json.dumps(errors))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("versions", nargs="*", metavar="VERSION", default=RELEASES)
    versions = parser.parse_args().versions
    print("| release | files | modules | import | fail as before | fail otherwise |")
    print("|---|---|---|---|---|---|")
    details, worse = [], 0
    for version in versions:
        with tempfile.TemporaryDirectory() as folder:
            before, after, count = imports_of(version, Path(folder))
        modules = sorted(before)
        failing = [name for name in modules if before[name] or after[name]]
        other = [name for name in failing if before[name] != after[name]]
        worse += len(other)
        imported, same = len(modules) - len(failing), len(failing) - len(other)
        print(f"| {version} | {count} | {len(modules)} | {imported} | {same} | {len(other)} |")
        for name in failing:
            details.append(f"{version} {name}: {before[name] or 'imports'}")
            if name in other:
                details.append(f"  patched: {after[name] or 'imports'}")
    print("\n".join(["", *details]))
    return 1 if worse else 0


def imports_of(version: str, folder: Path) -> tuple[dict[str, str], dict[str, str], int]:
    """Return the error of each changed module, empty for none: pristine, and patched."""
    checkout = folder / "checkout"
    _run([*VPATCH, "apply", "--checkout", str(checkout), "--vllm", version, "--security", "all"])
    base = _git(checkout, "rev-list", "--max-parents=0", "HEAD").split()[0]
    files = _git(checkout, "diff", "--name-only", base, "HEAD", "--", "vllm").split("\n")
    files = [path for path in files if path]
    # A module that a patch adds has nothing to be compared with.
    there = set(_git(checkout, "ls-tree", "-r", "--name-only", base, "--", "vllm").split("\n"))
    modules = sorted(module_of(path) for path in files if path.endswith(".py") and path in there)
    made = _run([*VPATCH, "engine", "--vllm", version, "--json"])
    python = Path(json.loads(made)["result"]["python"])
    (package,) = python.parents[1].glob("lib/python3*/site-packages/vllm")
    results = []
    for commit in (base, "HEAD"):
        site = folder / "site"
        # Links cost no space; a file that is written is unlinked first.
        shutil.copytree(package, site / "vllm", copy_function=_link)
        for path in files:
            target = site / path
            target.unlink(missing_ok=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            shown = subprocess.run(
                ["git", "-C", str(checkout), "show", f"{commit}:{path}"],
                check=False,
                capture_output=True,
            )
            if shown.returncode == 0:
                target.write_bytes(shown.stdout)
        results.append(_errors(python, site, modules))
        shutil.rmtree(site)
    before, after = results
    return before, after, len(files)


def module_of(path: str) -> str:
    """Return the name of the module that a file is."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _link(source: str, target: str) -> None:
    Path(target).hardlink_to(Path(source).resolve())


def _errors(python: Path, site: Path, modules: list[str]) -> dict[str, str]:
    done = subprocess.run(
        [str(python), "-B", "-c", _IMPORTS, json.dumps(modules)],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(site), "HOME": str(site)},
        check=False,
        capture_output=True,
        text=True,
    )
    line = next((x for x in done.stdout.splitlines() if x.startswith("RESULT ")), None)
    if line is None:
        raise RuntimeError(f"the imports ended with {done.returncode}: {done.stderr[-500:]}")
    errors: dict[str, str] = json.loads(line.removeprefix("RESULT "))
    # The place of the copy is not part of an error.
    return {name: errors.get(name, "").replace(str(site), "SITE") for name in modules}


def _run(command: list[str]) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-800:]}")
    return done.stdout


def _git(repository: Path, *args: str) -> str:
    return _run(["git", "-C", str(repository), *args])


if __name__ == "__main__":
    sys.exit(main())
