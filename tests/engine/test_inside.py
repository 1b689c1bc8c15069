"""What installs vLLM's CPU build, piece by piece."""

from __future__ import annotations

import ctypes
import json
import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from vpatch.engine import PAYLOAD

sys.path.insert(0, str(PAYLOAD))  # as these modules find each other
from cuda_free import without_cuda
from elf import AARCH64, X86_64, SharedLibrary, can_stand_in, stand_in

HERE = {"x86_64": X86_64, "aarch64": AARCH64}.get(platform.machine())
FUNCTIONS = {
    ("cublasCreate_v2", "libcublas.so.13"),
    ("cudnnGetVersion", "libcudnn.so.9"),
    ("ncclCommInitRank", None),
}


@pytest.mark.skipif(HERE is None, reason="a machine for which nothing stands in")
def test_a_library_that_stands_in_is_loaded_and_its_functions_return_1(tmp_path):
    file = tmp_path / "libx.so"
    file.write_bytes(stand_in("libx.so", HERE, FUNCTIONS))
    loaded = ctypes.CDLL(str(file))
    assert loaded.cublasCreate_v2() == loaded.cudnnGetVersion() == loaded.ncclCommInitRank() == 1
    with pytest.raises(AttributeError):
        loaded.cublasDestroy_v2  # noqa: B018
    versioned = ctypes.CDLL(None).dlvsym
    versioned.restype, versioned.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_void_p, *[ctypes.c_char_p] * 2],
    )
    handle = loaded._handle
    assert versioned(handle, b"cublasCreate_v2", b"libcublas.so.13")
    assert not versioned(handle, b"cublasCreate_v2", b"libcudnn.so.9")


def test_what_a_library_needs_is_read():
    # It is found without being imported, and some Pythons have their own modules built in.
    library = SharedLibrary(Path(find_spec("pydantic_core._pydantic_core").origin))
    assert can_stand_in(library.machine)
    assert "libc.so.6" in library.needed
    missing = dict(library.missing())
    assert missing["memcpy"].startswith("GLIBC_2.")
    assert missing["PyFloat_FromDouble"] is None


def test_metadata_without_cuda():
    before = """Metadata-Version: 2.1
Name: torch
Requires-Dist: filelock
Requires-Dist: cuda-toolkit[cublas,cudart,nvtx]==13.0.2; platform_system == "Linux"
Requires-Dist: cuda-bindings<14,>=13.0.3; platform_system == "Linux"
Requires-Dist: nvidia-cudnn-cu13==9.19.0.56; platform_system == "Linux"
Requires-Dist: nvidia-cuda-runtime-cu12==12.8.90; platform_system == "Linux"
Requires-Dist: triton==3.6.0; platform_system == "Linux"
Requires-Dist: tritonclient
Requires-Dist: numpy

Requires-Dist: triton, says the description
"""
    lines = before.splitlines()
    assert without_cuda(before).splitlines() == [
        *lines[:3],
        'Requires-Dist: cuda-toolkit[cudart]==13.0.2; platform_system == "Linux"',
        lines[6],
        *lines[8:],
    ]


@pytest.mark.parametrize(
    ("files", "package", "doing"),
    [
        ({"vllm/__init__.py": "import nowhere"}, "nowhere", "vLLM cannot be imported"),
        ({"vllm/__init__.py": "raise OSError('x')"}, None, "vLLM cannot be imported"),
        ({"vllm/__init__.py": "import pytest\npytest.fail('x')"}, "pytest ", "vLLM cannot"),
        (
            {"vllm/__init__.py": "import pytest\ndef LLM(**_):\n  try: pytest.fail('x')\n"
             "  except BaseException as error: raise RuntimeError('y') from error"},
            "pytest ",
            "vLLM generates no token",
        ),
    ],
)  # fmt: skip
def test_the_package_that_fails_is_named(tmp_path, files, package, doing):
    files |= {f"vllm/{name}__init__.py": "" for name in ("entrypoints/", "entrypoints/openai/")}
    files |= {"vllm/entrypoints/openai/api_server.py": ""}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "model").mkdir()
    run = subprocess.run(
        [sys.executable, PAYLOAD / "first_token.py", tmp_path / "model"],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(run.stdout.splitlines()[-1].removeprefix("vpatch:"))
    assert found["doing"].startswith(doing)
    if package is None:
        assert found["package"] is None
    else:
        assert found["package"].startswith(package)
