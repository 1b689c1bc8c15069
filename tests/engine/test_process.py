from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.helpers import fails
from tests.waiting import until
from vpatch.engine import family
from vpatch.engine.process import Child, run, started
from vpatch.errors import ExitCode


def python(tmp_path, code, timeout=500.0, **options):
    command = [sys.executable, "-c", code]
    return run(command, cwd=tmp_path, log=tmp_path / "log", timeout=timeout, **options)


def alive(pid):
    """Whether a process still runs; one that ended may be there until somebody asks for its end."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def gone(pid):
    return until(lambda: not alive(pid))


def test_a_process_and_what_it_prints(tmp_path):
    code = "import os, sys; print(os.getcwd()); print('no', file=sys.stderr); sys.exit(3)"
    ended = python(tmp_path, code)
    assert ended.code == 3
    assert sorted(ended.log.read_text().split()) == sorted(["no", str(tmp_path)])


def test_the_ending_is_the_last_lines(tmp_path):
    ended = python(tmp_path, "for n in range(100): print(n)")
    assert ended.ending.splitlines() == [str(n) for n in range(70, 100)]


def test_the_environment_is_what_was_given(tmp_path, monkeypatch):
    monkeypatch.setenv("OURS", "1")
    code = "import os; print(os.environ.get('OURS'), os.environ.get('THEIRS'))"
    assert python(tmp_path, code).ending == "1 None"
    assert python(tmp_path, code, environment={"THEIRS": "2"}).ending == "None 2"


CHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
"""


def printed(tmp_path):
    return until(lambda: (tmp_path / "log").read_text().endswith("\n"))


@pytest.fixture
def short_of_time(tmp_path, monkeypatch):
    """Run a process for 500 s, of which hardly any is left when it has printed a line."""
    wait = subprocess.Popen.wait

    def wait_briefly(process, timeout=None):
        if timeout is None:  # at last, for a process that was killed
            return wait(process)
        assert timeout == 500
        printed(tmp_path)
        return wait(process, 0.01)

    monkeypatch.setattr("subprocess.Popen.wait", wait_briefly)


@pytest.mark.parametrize(("after", "code"), [("", 0), ("import os; os.abort()", -6)])
def test_what_it_started_ends_with_it(tmp_path, after, code):
    ended = python(tmp_path, CHILD + after)
    assert ended.code == code
    assert gone(int(ended.log.read_text().split()[0]))


@pytest.mark.usefixtures("short_of_time")
def test_what_it_started_ends_when_time_runs_out(tmp_path):
    ended = python(tmp_path, CHILD + "time.sleep(600)")
    assert ended.code is None
    assert gone(int(ended.log.read_text().split()[0]))


APART = """
import subprocess, sys, time
child = subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
)
print(child.pid, flush=True)
"""


def test_what_it_started_in_a_session_of_its_own_ends_with_it(tmp_path):
    ended = python(tmp_path, APART)
    assert ended.code == 0
    assert gone(int(ended.log.read_text().split()[0]))


def test_who_is_there_and_what_they_hold(tmp_path):
    code = APART + "held = b'x' * 200_000_000; print('held', flush=True); time.sleep(600)"
    log = tmp_path / "log"
    with started([sys.executable, "-c", code], cwd=tmp_path, log=log) as child:
        until(lambda: "held" in log.read_text())
        pids = {member.pid for member in child.family.alive()}
        assert pids == {child.process.pid, int(log.read_text().split()[0])}
        assert 200e6 < child.memory() < 300e6
        assert child.kill() == 1
        assert child.family.alive() == []
    assert child.process.returncode == -9


SHARED = """
import time
from multiprocessing import shared_memory
memory = shared_memory.SharedMemory(create=True, size=1000)
print(memory.name, flush=True)
time.sleep(600)
"""


@pytest.mark.usefixtures("short_of_time")
def test_shared_memory_of_what_is_killed_is_removed(tmp_path):
    ended = python(tmp_path, SHARED)
    assert ended.code is None
    (name,) = [line for line in ended.log.read_text().split() if line.startswith("psm_")]
    assert not Path("/dev/shm", name).exists()  # noqa: S108


# What vLLM does to the name of its processes, and so to what /proc tells of their environment.
TITLED = '''
import subprocess, sys
code = """
import setproctitle, time
setproctitle.setproctitle("VLLM::Worker" * 40)
print("it has its title", flush=True)
time.sleep(600)
"""
child = subprocess.Popen(
    [sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE
)
child.stdout.readline()
print(child.pid, flush=True)
'''


def test_a_process_that_has_another_title_ends_with_it(tmp_path):
    ended = python(tmp_path, TITLED)
    assert ended.code == 0
    assert gone(int(ended.log.read_text().split()[0]))


def test_another_run_is_not_touched(tmp_path):
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with started(command, cwd=tmp_path, log=tmp_path / "log") as child:
        python(tmp_path, "")
        assert child.process.poll() is None


def test_what_it_started_ends_on_an_interrupt(tmp_path, monkeypatch):
    def interrupt(_process, _timeout):
        printed(tmp_path)
        raise KeyboardInterrupt

    monkeypatch.setattr("subprocess.Popen.wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        python(tmp_path, CHILD + "time.sleep(600)")
    monkeypatch.undo()
    assert gone(int((tmp_path / "log").read_text().split()[0]))


def test_a_command_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        run([tmp_path / "none"], cwd=tmp_path, log=tmp_path / "log", timeout=1)
    assert os.listdir(tmp_path) == ["log"]  # noqa: PTH208


def test_a_process_that_cannot_be_killed(tmp_path, monkeypatch):
    """As one that waits for a driver."""
    stuck = SimpleNamespace(pid=7, cmdline=list, kill=lambda: None)
    monkeypatch.setattr(family, "_KILL_SECONDS", 0.0)
    monkeypatch.setattr(family.ProcessFamily, "alive", lambda _: [stuck])
    with fails("engine.process-does-not-end", "killed: 7") as caught:
        Child(SimpleNamespace(pid=1), tmp_path / "log", "mark").kill()
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
