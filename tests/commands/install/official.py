"""A small official wheel of the small vLLM, with all that a real one has."""

from __future__ import annotations

import base64
import hashlib
import zipfile

from tests.projects import FILES, VERSION

COMPILED = bytes(range(256)) * 5000
ENTRY_POINTS = b"[console_scripts]\nvllm = vllm.main:main\n"
LICENSE = b"Apache License\n"
MAIN = b"""import sys
from importlib.metadata import version


def main():
    sys.stdout.write(version("vllm") + "\\n")
"""


def digest(content):
    found = hashlib.sha256(content).digest()
    return "sha256=" + base64.urlsafe_b64encode(found).rstrip(b"=").decode()


def record_of(content, record):
    lines = [f"{path},{digest(data)},{len(data)}\n" for path, data in content.items()]
    return "".join([*lines, f"{record},,\n"]).encode()


def contents(name="vllm", version=VERSION, files=None, requires=()):
    """The members of the wheel but RECORD, and the folder of its metadata."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    package = {path: data for path, data in FILES.items() if path.startswith("vllm/")}
    public = version.partition("+")[0]
    metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nLicense-File: LICENSE\n"
    metadata += "".join(f"Requires-Dist: {text}\n" for text in requires)
    return {
        **package,
        "vllm/_version.py": f"__version__ = version = '{public}'\n".encode(),
        "vllm/main.py": MAIN,
        "vllm/_C.abi3.so": COMPILED,
        **(files or {}),
        f"{info}/licenses/LICENSE": LICENSE,
        f"{info}/METADATA": f"{metadata}\nVersion: of the description\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: false\n"
        b"Tag: py3-none-any\n",
        f"{info}/entry_points.txt": ENTRY_POINTS,
    }, info


def write(folder, name="vllm", version=VERSION, tags="py3-none-any", **more):
    """Write the wheel, and return its path."""
    content, info = contents(name, version, **more)
    record = f"{info}/RECORD"
    path = folder / f"{name.replace('-', '_')}-{version}-{tags}.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in {**content, record: record_of(content, record)}.items():
            info_of = zipfile.ZipInfo(member, (2026, 6, 13, 9, 38, 44))
            info_of.external_attr = (0o100755 if member.endswith(".so") else 0o100644) << 16
            archive.writestr(info_of, data, zipfile.ZIP_DEFLATED)
    return path


def members(path):
    """What a wheel holds, in its order."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {info.filename: archive.read(info) for info in archive.infolist()}


def rewritten(path, change):
    """Write a wheel again, with its members as `change` leaves them; its RECORD stays."""
    content = members(path)
    change(content)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return path
