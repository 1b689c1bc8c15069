"""vpatch smoke on a real vLLM: before and after, and faults that are planted in it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from ruamel.yaml import YAML

from tests.documents import shown
from tests.waiting import LIMIT, until
from vpatch.engine.environment import managed_folders
from vpatch.library.catalog import installed
from vpatch.source.cache import default_cache_folder

PLANTED = """
id: planted
title: "[Misc] Plant faults"
why: A test of what finds them.
symptoms: [none]
needed-in: {vllm: ">=0.23.0,<0.24"}
concerns: {text: "class GPUModelRunner"}
remove-when: never
edits:
  - add-file: vllm/planted.py
    from: planted.py
  - insert: |
      from vllm.planted import planted
      planted()
    before: "if self.execute_model_state is not None: ..."
    within: GPUModelRunner.execute_model
"""
SWITCHED_OFF = """
id: switched-off
title: "[Misc] Switch speculation off"
why: A test of what finds it.
symptoms: [none]
needed-in: {vllm: ">=0.23.0,<0.24"}
concerns: {text: "def create_speculative_config"}
remove-when: never
edits:
  - insert: return None
    at-start-of: "def create_speculative_config(...): ..."
"""
EDGES = """
id: edges
title: "[Misc] Plant faults at the edges of speculative decoding"
why: A test of what finds them.
symptoms: [none]
needed-in: {vllm: ">=0.23.0,<0.24"}
concerns: {text: "class GPUModelRunner"}
remove-when: never
edits:
  - add-file: vllm/edges.py
    from: edges.py
  - insert: |
      from vllm.edges import planted
      planted(self)
    before: "if self.execute_model_state is not None: ..."
  - insert: |
      from vllm.edges import FAULT
      enable_caching = enable_caching and FAULT != "no cache"
    before: self.enable_caching = enable_caching
    within: KVCacheManager.__init__
  - insert: |
      from vllm.edges import FAULT
      prefix = "" if FAULT == "no prefix" else prefix
    before: self.token_layernorm = RMSNorm(...)
    files: vllm/model_executor/models/mimo_mtp.py
"""
RECIPE = """
vllm: 0.23.0
patches: [cpu-spec-decode-fp64-gumbel, PATCH]
smoke:
  models: {tiny: {synthetic: MODEL}}
  prompts: {words: PROMPTS}
  defaults:
    prompts: words
    flags: {enforce-eager: true, max-model-len: 512, max-num-seqs: 8}
    environment: {VLLM_CPU_KVCACHE_SPACE: "1", TORCHDYNAMO_DISABLE: "1"ENVIRONMENT}
    timeouts: {start: 300, token: 15, cell: 600, stop: 60}
  cells:
    - {model: tiny, CELLS}
"""
ALONE = ', VLLM_ENABLE_V1_MULTIPROCESSING: "0"'

# The project's recipe and patches are what a real engine runs here.
OPTIONS = ("--vllm", "0.23", "--engine", "cpu", "--trust")

pytestmark = pytest.mark.usefixtures("cpu_engine")


def started(rooms):
    """The processes that a run of vpatch with these rooms started, and that live."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            ours = environment.get("TMPDIR", "").startswith(str(rooms))
            if ours and "VPATCH_RUN" in environment and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.cmdline())
        except (psutil.Error, OSError):
            continue
    return found


def installed_files():
    """What an engine's installed vLLM is made of, but for compiled files."""
    (folder,) = (f for f in managed_folders(default_cache_folder()) if "cpu-0.23.0-" in f.name)
    (package,) = folder.glob("lib/python3*/site-packages/vllm")
    files = (path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def orphaned_memory():
    """Files in shared memory that no process has; other tests run engines at the same time.

    By inode: glibc makes a semaphore under another name than it has in the end.
    """
    device = os.stat("/dev/shm").st_dev  # noqa: PTH116, S108
    held = f"{os.major(device):02x}:{os.minor(device):02x}"
    with os.scandir("/dev/shm") as there:  # noqa: S108
        found = {entry.inode(): entry.name for entry in there}
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            lines = maps.read_text().splitlines()
        except OSError:
            continue  # it ended, or is not ours to look at
        for line in lines:
            _, _, _, where, inode, *_ = line.split()
            if where == held:
                found.pop(int(inode), None)
    return set(found.values())


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path, monkeypatch):
    """After each of these no process, no temporary file, and an engine as it was before."""
    rooms = tmp_path / "rooms"
    rooms.mkdir()
    monkeypatch.setenv("TMPDIR", str(rooms))
    before, orphans = installed_files(), orphaned_memory()
    yield
    assert started(rooms) == []
    assert list(rooms.iterdir()) == []
    assert installed_files() == before
    # What another engine gives back as it ends, it has no more, and it is there for a moment.
    until(lambda: not orphaned_memory() - orphans)


def vpatch(folder, *args, **options):
    command = [sys.executable, "-m", "vpatch", *map(str, args)]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def smoke(folder, *args, code=0):
    with vpatch(folder, "smoke", *OPTIONS, *args, "--json") as process:
        out, err = process.communicate()
    assert process.returncode == code, out + err
    return json.loads(out)["result"]["record"]


@pytest.fixture
def project(tmp_path):
    """A folder with patches that plant faults, and a recipe that takes one."""
    folder = tmp_path / "project"
    for name, declared in (("planted", PLANTED), ("switched-off", SWITCHED_OFF)):
        (folder / "patches" / name).mkdir(parents=True)
        (folder / "patches" / name / "patch.yaml").write_text(declared)
    code = Path(__file__).with_name("planted.py").read_text()
    (folder / "patches" / "planted" / "planted.py").write_text(code)
    (folder / "recipes").mkdir()

    def write(cells, fault="", patch="planted", model="all", prompts='["<003><009>"]'):
        environment = f", PLANTED: {fault}" if fault else ""
        if "offline" in cells:
            environment += ALONE
        text = RECIPE.replace("PATCH", patch).replace("MODEL", model).replace("CELLS", cells)
        text = text.replace("PROMPTS", prompts).replace("ENVIRONMENT", environment)
        (folder / "recipes" / "vllm-0.23.yaml").write_text(text)

    def run(cells, *args, code=1, **choices):
        write(cells, **choices)
        return smoke(folder, "--name", "one", *args, code=code)

    run.folder, run.write = folder, write
    return run


def checks(cell):
    return {check["name"]: (check["verdict"], check["figure"]) for check in cell["checks"]}


def counters(cell, name):
    (round_,) = cell["rounds"]
    found = round_["passes"][name]["counters"]
    return [found["drafts"], found["draft_tokens"], found["accepted"], found["per_position"]]


def reason(cell, name):
    (found,) = (check for check in cell["checks"] if check["name"] == name)
    assert found["verdict"] == "fail"
    return found["reason"]


# Three prompts of 32 tokens: after its first token, a request makes k + 1 a step, or one.
ALL = {1: [48, 48, 48, [48]], 2: [33, 66, 66, [33, 33]], 3: [24, 72, 72, [24, 24, 24]]}
NONE = {3: [93, 279, 0, [0, 0, 0]]}
P5A = "_sample_recovered_tokens_kernel_impl() got an unexpected keyword argument 'USE_FP64_GUMBEL'"


def masked(text):
    # vLLM says of a worker that failed that it died, or not, as it goes.
    return re.sub(r"\d+\.\d s|evidence/\S+|a worker died: ", "...", text).replace("(...", "(")


def test_before_and_after(tmp_path):
    with vpatch(tmp_path, "smoke", "--vllm", "0.23", "--engine", "cpu", "--before") as process:
        out, err = process.communicate()
    assert process.returncode == 0, out + err
    assert masked(out) == masked(shown("smoke"))
    (file,) = tmp_path.glob("evidence/vllm-0.23-cpu-*/results.json")
    record = json.loads(file.read_text())
    assert record["result"] == "passed"
    cells = {(c["phase"], c["model"], c["mode"], c["k"]): c for c in record["cells"]}
    before = {key[1:]: cell for key, cell in cells.items() if key[0] == "before"}
    after = {key[1:]: cell for key, cell in cells.items() if key[0] == "after"}
    for (_, _, k), cell in before.items():
        if k == 0:
            assert cell["verdict"] == "pass"
        elif cell["verdict"] == "fail":
            assert P5A in reason(cell, "runs")
        else:
            assert cell["checks"][0]["reason"] == "k=1 did not even start"
    ran = {key for key, cell in before.items() if cell["verdict"] != "not run"}
    assert ran == {
        ("all-accepted", "offline", 0),
        ("all-accepted", "offline", 1),
        ("all-accepted", "server", 1),
        ("none-accepted", "offline", 3),
        ("none-accepted", "server", 3),
    }
    assert before.keys() == after.keys()
    main = {"offline": "prompts", "server": "several at once"}
    for model, expected in (("all-accepted", ALL), ("none-accepted", NONE)):
        for k, numbers in expected.items():
            for mode, name in main.items():
                assert counters(after[model, mode, k], name) == numbers
                assert checks(after[model, mode, k])["as arithmetic predicts"][0] == "pass"
    assert {cell["verdict"] for cell in after.values()} == {"pass"}
    cured = {(s["phase"], s["patch"], s["symptom"]) for s in record["symptoms"]}
    assert cured == {("before", "cpu-spec-decode-fp64-gumbel", P5A)}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        # Two tokens a step, one draft of which was right.
        ("first", [16, 48, 16, [16, 0, 0]]),
        # From 16 on, drafts after tokens 6 and 7 of each eight are wrong: 30, 79, 86, 135, 142,
        # 191, 198 and 247 lie on the way, in 32 tokens, and each ends a step.
        ("most", [12, 36, 19, [8, 7, 4]]),
    ],
)
def test_counters_of_a_mix(project, model, expected):
    record = project("k: [3], modes: [offline]", model=model, code=0)
    (cell,) = record["cells"]
    assert counters(cell, "prompts") == expected
    assert checks(cell)["as arithmetic predicts"][0] == "pass"


def test_speculation_that_is_dropped_on_the_way(project):
    record = project("k: [2], modes: [offline]", patch="switched-off")
    (cell,) = record["cells"]
    assert "k=2 was asked for, and the engine has switched it off" in reason(cell, "speculation")


def test_a_prompt_that_loops_and_an_overlay_that_is_tampered_with(project):
    record = project(
        "k: [0], modes: [offline], long-tokens: 64", fault="tamper", prompts='["<250><251>"]'
    )
    (cell,) = record["cells"]
    assert "is there 16 times" in reason(cell, "no loop")
    assert "tampered with: vllm/planted.py: the patched file is" in reason(cell, "runs")


@pytest.mark.parametrize(
    ("fault", "said"),
    [("kill", "crashed: the server ended with"), ("hang", "hangs: no token in time")],
)
def test_a_worker_that_is_killed_or_hangs(project, fault, said):
    record = project("k: [2], modes: [server]", fault=fault)
    (cell,) = record["cells"]
    assert reason(cell, "runs").startswith(said)
    (round_,) = cell["rounds"]
    if fault == "hang":
        assert "planted: it hangs" in "\n".join(round_["fault"]["ending"])
    else:
        assert "a worker died" in round_["fault"]["cause"]


def test_a_port_that_is_in_use(project):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        record = project("k: [2], modes: [server]", "--port", port)
    assert f"port {port} is in use" in reason(record["cells"][0], "runs")


def test_ctrl_c(project, tmp_path):
    project.write("k: [2], modes: [server]")
    with vpatch(project.folder, "smoke", *OPTIONS, "--name", "one") as process:
        # The server, its engine, and the engine's worker.
        until(lambda: len(started(tmp_path / "rooms")) >= 3, process=process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert err.endswith("interrupted; nothing was left half done\n")
    assert list((project.folder / "evidence").iterdir()) == []
    assert os.listdir(tmp_path / "rooms") == []  # noqa: PTH208


def test_the_plan_of_edges_finds_the_faults_that_it_is_for(project):
    """A cell of each row of the library's plan, with the fault that this row is for."""
    folder = project.folder
    (folder / "patches" / "edges").mkdir()
    (folder / "patches" / "edges" / "patch.yaml").write_text(EDGES)
    code = Path(__file__).with_name("edges.py").read_text()
    (folder / "patches" / "edges" / "edges.py").write_text(code)
    recipe = YAML(typ="safe").load(installed("recipes") / "mtp-edges.yaml")
    mixed, cached, limit, quantised = recipe["smoke"]["cells"]
    faults = {
        "late": (mixed, 3, {"as arithmetic predicts", "late-acceptance >= 0.9"}),
        "mixed": (mixed, 4, {"as arithmetic predicts"}),
        "resumed": (mixed, 2, {"as arithmetic predicts", "late-acceptance >= 0.9"}),
        "no cache": (cached, 3, {"cached-tokens >= 128"}),
        "limit": (limit, 4, {"runs"}),
        "no prefix": (quantised, 3, {"runs"}),
    }
    recipe["patches"] = ["cpu-spec-decode-fp64-gumbel", "edges"]
    recipe["smoke"]["cells"] = [
        {**row, "k": [k], "environment": {"PLANTED": fault}}
        for fault, (row, k, _) in faults.items()
    ]
    # JSON is YAML.
    (folder / "recipes" / "vllm-0.23.yaml").write_text(json.dumps(recipe))
    record = smoke(folder, "--name", "one", code=1)
    failed = {
        cell["environment"]["PLANTED"]: {
            check["name"] for check in cell["checks"] if check["verdict"] == "fail"
        }
        for cell in record["cells"]
    }
    for fault, (_, _, names) in faults.items():
        assert failed[fault] >= names, fault
        # What a crash takes along was not seen.
        assert failed[fault] == names or names == {"runs"}, fault
