"""Environments as users have them: a Python with a small vLLM in its site-packages."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.projects import FILES, VERSION, snapshot, write_tree

_VLLM = {path: data for path, data in FILES.items() if path.startswith("vllm/")} | {
    "vllm/_version.py": f"__version__ = version = '{VERSION}'\n".encode(),
    "vllm/_C.abi3.so": b"\x7fELF compiled",
    "vllm/configs/sizes.json": b"{}",
    # What a server is, for a test: a word that a patch changes, and where it was read.
    "vllm/entrypoints/__init__.py": b"",
    "vllm/entrypoints/main.py": b"""
import sys
from pathlib import Path

import vllm.engine


def main():
    word = Path(vllm.engine.__file__).read_text().partition('mode="')[2].partition('"')[0]
    print(word, *sys.argv[1:])
""",
}
SCRIPT = """
import sys
from vllm.entrypoints.main import main
sys.exit(main())
"""


@dataclass
class Environment:
    """A virtual environment, made by hand in a few milliseconds; it has no pip."""

    folder: Path

    @property
    def bin(self):
        return self.folder / "bin"

    @property
    def python(self):
        return self.bin / "python"

    @property
    def site(self):
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.folder / "lib" / version / "site-packages"

    @property
    def variables(self):
        """What activates it."""
        return {"PATH": os.pathsep.join([str(self.bin), os.environ["PATH"]])}

    def state(self):
        return snapshot(self.folder)

    def script(self, name, first=None, code=SCRIPT):
        path = self.bin / name
        path.write_text(f"{first or f'#!{self.python}'}{code}")
        path.chmod(0o755)
        return path

    def distribution(self, name, version, files=(), more=None):
        """Write what pip leaves of a distribution beside its files."""
        info = f"{name.replace('-', '_')}-{version}.dist-info"
        beside = {
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            **{f"{info}/{path}": text for path, text in (more or {}).items()},
        }
        rows = [*map(self._row, files), *(f"{path},,\n" for path in beside)]
        beside[f"{info}/RECORD"] = "".join(rows)
        return write_tree(self.site, {path: text.encode() for path, text in beside.items()}) / info

    def _row(self, path):
        """A line of RECORD; what is not there has no digest."""
        place = self.site / path
        path = f'"{path}"' if "," in path else path
        if not place.is_file():
            return f"{path},,\n"
        content = place.read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        return f"{path},sha256={digest},{len(content)}\n"


def bare_environment(folder):
    made = Environment(folder)
    made.bin.mkdir(parents=True)
    base = Path(sys.base_prefix) / "bin" / made.site.parent.name
    for name in ("python", "python3"):
        (made.bin / name).symlink_to(base)
    (folder / "pyvenv.cfg").write_text(
        f"home = {base.parent}\ninclude-system-site-packages = false\n"
    )
    made.site.mkdir(parents=True)
    return made


def environment_with_vllm(folder, files=None, name="vllm", version=VERSION):
    """An environment with the small vLLM, and the program `vllm`."""
    made = bare_environment(folder)
    content = _VLLM | (files or {})
    write_tree(made.site, content)
    made.distribution(name, version, content)
    made.script("vllm")
    return made
