"""A script cannot leave its sandbox, and what it leaves there is read without trust."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import struct
import subprocess
import sys
import sysconfig
import tempfile
import venv
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.commands.importing import attacks
from tests.documents import ROOT
from tests.helpers import fails, skip_without_bubblewrap, tree_of
from tests.waiting import until
from vpatch.changes.change import FileChange
from vpatch.changes.stack import Stack
from vpatch.commands.importing.sources import script as script_source
from vpatch.commands.importing.sources import script_effect
from vpatch.commands.importing.sources import tree as tree_source
from vpatch.commands.importing.sources.script import DEFAULT_PLACE, from_script
from vpatch.confinement import sandbox, system_calls
from vpatch.errors import ExitCode

FILES = {"vllm/__init__.py": "import torch\n", "vllm/a.py": "f(1)\n", "vllm/a.json": "{}\n"}
ALLOW = 0x7FFF0000
SECRET = "a-secret-of-the-user"  # noqa: S105
CHANGE = "open('vllm/a.py', 'w').write('g(1)\\n')\n"


@pytest.fixture(autouse=True)
def _bubblewrap(monkeypatch, tmp_path):
    skip_without_bubblewrap()
    # The Python of the system starts quickly.
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def run(folder, text, name="fix.py", files=FILES, at=DEFAULT_PLACE):
    script = folder / name
    script.write_text(text)
    tree = tree_of(files)
    (change,) = from_script(script, Stack(tree), at)
    return change


@contextmanager
def outside():
    """What a script must not reach: secrets, sockets, a port and a file in a home folder."""
    with ExitStack() as opened:
        # Not below /tmp, which a script never saw.
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(dir=Path.home())))
        (folder / "file").write_text(SECRET)
        in_folder, abstract = (
            opened.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)
        )
        in_folder.bind(str(folder / "socket"))
        abstract.bind(f"\0{folder.name}")
        port = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        for server in (in_folder, abstract):
            server.listen()
        yield {
            "secret": SECRET,
            "home": str(Path.home()),
            "file": str(folder / "file"),
            "socket": str(folder / "socket"),
            "abstract": folder.name,
            "port": port.getsockname()[1],
            "at": str(DEFAULT_PLACE),
        }


def assert_refused(lines):
    lines = [line for line in lines if line.startswith(("refused: ", "REACHED: "))]
    assert [line for line in lines if line.startswith("REACHED")] == []
    assert len(lines) == len(attacks.ATTEMPTS)


def test_each_attempt_to_leave_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(script_source, "_PRINTED", 1000)
    monkeypatch.setenv("HF_TOKEN", SECRET)
    (tmp_path / "beside").write_text("x")
    with outside() as host:
        change = run(tmp_path, attacks.script(json.dumps(host)) + CHANGE)
    assert_refused(change.printed)


def python_for_all():
    """A Python of this version that each user can run: this one may lie in root's home."""
    here = Path(sys.executable).resolve()
    if all(folder.stat().st_mode & stat.S_IXOTH for folder in here.parents):
        return sys.executable
    major, minor = sys.version_info[:2]
    return shutil.which(f"python{major}.{minor}", path="/usr/bin:/bin") or pytest.skip(
        "no Python of this version is for other users"
    )


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_each_attempt_of_another_user_is_refused():
    """Root runs a script as nobody; each other user runs it as itself, in a user namespace."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        with outside() as host:
            (folder / "fix.py").write_text(attacks.script(json.dumps(host)) + CHANGE)
            folder.chmod(0o755)
            code = f"""
import sys
from pathlib import Path
from tests.commands.importing.test_sandbox import FILES, tree_of, from_script, Stack, DEFAULT_PLACE
from vpatch.commands.importing.sources import script as script_source
script_source._PRINTED = 1000
tree = tree_of(FILES)
(change,) = from_script(Path({str(folder / "fix.py")!r}), Stack(tree), DEFAULT_PLACE)
print("\\n".join(change.printed))
"""
            packages = os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")])
            done = subprocess.run(
                [python_for_all(), "-B", "-c", code],
                cwd=ROOT,
                env={"PATH": "/usr/bin:/bin", "HF_TOKEN": SECRET, "PYTHONPATH": packages},
                user=12345,
                group=12345,
                extra_groups=[],
                capture_output=True,
                text=True,
                check=False,
            )
    finally:
        shutil.rmtree(folder)
    if "Permission denied" in done.stderr and "confined" not in done.stderr:
        pytest.skip("another user cannot read this checkout")
    assert done.returncode == 0, done.stderr
    assert_refused(done.stdout.splitlines())


LEFT = """
import os, socket, time
os.symlink('/etc/passwd', 'vllm/link.py')
os.symlink('/', 'vllm/folder')
os.mkfifo('vllm/pipe.py')
os.makedirs('vllm/closed/inner'); open('vllm/closed/inner/new.py', 'w').write('x = 1\\n')
os.symlink('/etc', 'vllm/closed/inner/link'); os.chmod('vllm/closed/inner', 0o000)
os.chmod('vllm/closed', 0o000)
open('vllm/unreadable.py', 'w').write('y = 1\\n'); os.chmod('vllm/unreadable.py', 0)
for name in ('a.py.bak', 'a.py.orig', 'a.py~', '.a.py.swp', 'a.bak.py', 'a.py.bak-2026', '#a.py#'):
    open('vllm/' + name, 'w').write('f(1)\\n')
open('vllm/a.py.rej', 'w').write('@@ -1 +1 @@\\n')
open('vllm/a.older.py', 'w').write('z = 1\\n')
open('vllm/binary.bin', 'wb').write(b'\\0')
open(b'vllm/\\xff.py', 'w').write('z\\n')
open('vllm/new\\n\\x1b[31m.py', 'w').write('z\\n')
os.makedirs('vllm-0.1.dist-info'); os.mkfifo('vllm-0.1.dist-info/RECORD')
os.makedirs('tests'); open('tests/t.py', 'w').write('x\\n')
os.chmod('vllm/a.json', 0o755)
os.chmod('.', 0)
print('done \\x1b]0;owned\\x07 \\u202e', flush=True)
print('an error', file=__import__('sys').stderr)
"""


def test_what_a_script_leaves_is_read_without_trust(tmp_path):
    change = run(tmp_path, CHANGE + LEFT)
    assert {file.path: file.after for file in change.files} == {
        "vllm/a.py": b"g(1)\n",
        "vllm/a.older.py": b"z = 1\n",
        "vllm/closed/inner/new.py": b"x = 1\n",
        "vllm/unreadable.py": b"y = 1\n",
    }
    assert {one.path: one.why for one in change.aside} == {
        "vllm/link.py": "it is a symbolic link",
        "vllm/folder": "it is a symbolic link",
        "vllm/closed/inner/link": "it is a symbolic link",
        "vllm/pipe.py": "it is a pipe",
        "vllm-0.1.dist-info/RECORD": "it is a pipe",
        **{
            f"vllm/{name}": "a backup"
            for name in (
                "a.py.bak", "a.py.orig", "a.py~", ".a.py.swp", "a.bak.py", "a.py.bak-2026", "#a.py#"
            )
        },
        "vllm/a.py.rej": "hunks that did not apply",
        "vllm/binary.bin": "it is not text",
        "vllm/\\udcff.py": "its name is not UTF-8",
        "vllm/new\\n\\x1b[31m.py": "no file of a patch can have this name",
        "tests/t.py": "it is a test",
    }  # fmt: skip
    harmless = {"a backup", "it is a test", "a build makes it"}
    assert all(left.lost == (left.why not in harmless) for left in change.aside)
    assert change.doubts == ("vllm/a.json is executable now, which a patch cannot say",)
    assert change.notes == (
        "vllm/a.older.py is a new file",
        "vllm/closed/inner/new.py is a new file",
        "vllm/unreadable.py is a new file",
    )
    assert change.printed == ("done \\x1b]0;owned\\x07 \\u202e", "an error")
    assert not list(tmp_path.glob("vpatch-*"))


DEEP = """
for _ in range(2100):
    os.mkdir('d'); os.chdir('d')
"""
FORK = """
import os, subprocess, sys, time
if os.fork() == 0:
    os.setsid(); null = os.open('/dev/null', 2); os.dup2(null, 1); os.dup2(null, 2)
    os.execvp('sleep', ['sleep', MARK])
"""


@pytest.mark.parametrize(
    ("text", "limits", "says"),
    [
        ("while True: pass", {"SECONDS": 1}, "ran for more than 1 s"),
        (
            "os.close(1); os.close(2)\nwhile True: time.sleep(9)",
            {"SECONDS": 1},
            "ran for more than 1 s",
        ),
        (
            "import signal\nfor n in {*range(1, 32)} - {9, 19}: signal.signal(n, 1)\nwhile 1: pass",
            {"SECONDS": 1},
            "ran for more than 1 s",
        ),
        ("while True: print('x' * 9999)", {}, "printed more than 1048576 bytes"),
        ("open('vllm/x', 'wb').write(b'x' * 9000)", {"LARGEST_CHANGED": 8000}, "more than 8000"),
        ("open('vllm/x', 'wb').truncate(60 << 20)", {}, "a file of more than 16777216 bytes: x"),
        ("for n in range(99): open(str(n), 'w')", {"MOST_FILES": 50}, "more than 50 files"),
        ("for n in range(99): open(str(n), 'w')", {"MOST_NEW": 98}, "left 99 new files"),
        ("open('x', 'w').write('x' * 99)", {"LARGEST_CHANGE": 98}, "changed more than 98 bytes"),
        pytest.param(DEEP, {}, "nested too deeply", marks=pytest.mark.slow),
        ("time.sleep(9)", {"MOST_MEMORY": -(1 << 40)}, "MB of free memory"),
        (
            "open('y', 'wb').write(b'x' * 9000); time.sleep(9)",
            {"MOST_WRITTEN": -(1 << 40)},
            "MB of free disk",
        ),
    ],
)
def test_a_script_that_takes_too_much_is_refused(tmp_path, monkeypatch, text, limits, says):
    for name, limit in limits.items():
        monkeypatch.setattr(script_effect if hasattr(script_effect, name) else sandbox, name, limit)
    mark = f"{os.getpid()}77777"
    with fails("importing.script-limit", says):
        run(tmp_path, f"MARK = {mark!r}\n{FORK}{text}\n")
    # The kernel ends the processes of a sandbox once its first one is dead.
    until(lambda: not left_of(tmp_path, mark))


def left_of(folder, mark):
    """What there is still of a script: its files, and its processes."""
    processes = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            processes += [path] if mark.encode() in path.read_bytes() else []
    return [*folder.glob("vpatch-*"), *processes]


@pytest.mark.parametrize(
    ("without", "more", "says"),
    [
        ("--unshare-net", [], "share the namespace net"),
        ("--unshare-pid", [], "share the namespace pid"),
        ("--unshare-ipc", [], "share the namespace ipc"),
        ("", ["--bind", "/usr/share", "/usr/share"], "/usr/share could be written"),
        ("", ["--proc", "/proc"], "/proc could be written"),
        ("", ["--dir", "/run/x"], "/run would be there"),
        ("", ["--bind", "/media", "/srv"], "/srv could be written; /srv would be there"),
    ],
)
def test_a_sandbox_that_does_not_confine_runs_nothing(tmp_path, monkeypatch, without, more, says):
    """The probe asks for itself what bubblewrap has made of the options."""
    isolation, mounts = sandbox._isolation(), sandbox.mounts
    less = [word for word in isolation if word != without]
    monkeypatch.setattr(sandbox, "_isolation", lambda: less)
    monkeypatch.setattr(sandbox, "mounts", lambda *given: [*mounts(*given), *more])
    with fails("importing.no-sandbox", f"would not be confined: .*{says}") as caught:
        run(tmp_path, "raise SystemExit('it ran')")
    assert "it ran" not in str(caught.value)
    assert caught.value.exit_code is ExitCode.ENVIRONMENT


def test_a_filter_that_lets_sockets_through_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "system_call_filter", lambda: struct.pack("=HBBI", 6, 0, 0, ALLOW))
    with fails("importing.no-sandbox", "it could open Unix sockets"):
        run(tmp_path, "raise SystemExit('it ran')")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_root_runs_no_script_as_root(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "_as_nobody", list)
    with fails("importing.no-sandbox", "it would run as root; it would have capabilities"):
        run(tmp_path, "raise SystemExit('it ran')")


@pytest.mark.parametrize("missing", ["setpriv", "bwrap"])
def test_without_its_programs_a_script_does_not_run(tmp_path, monkeypatch, missing):
    if missing == "setpriv" and os.geteuid() != 0:
        pytest.skip("only root needs it")
    which = shutil.which
    monkeypatch.setattr(
        sandbox.shutil, "which", lambda name: None if name == missing else which(name)
    )
    with fails("importing.no-sandbox", f"{missing}.* is not installed") as caught:
        run(tmp_path, CHANGE)
    assert "--from-tree" in str(caught.value)


def test_on_a_machine_without_a_filter_a_script_does_not_run(tmp_path, monkeypatch):
    monkeypatch.setattr(system_calls.platform, "machine", lambda: "riscv64")
    with fails("importing.no-sandbox", "no filter of system calls"):
        run(tmp_path, CHANGE)


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (
            "import shutil; shutil.rmtree('vllm'); os.symlink('/etc', 'vllm')",
            "missing-files",
            "a.json",
        ),
        ("os.remove('vllm/a.json')", "missing-files", "vllm/a.json"),
        ("os.rename('vllm/a.py', 'vllm/b.py')", "missing-files", "vllm/a.py"),
        ("os.remove('vllm/a.py'); os.symlink('a.json', 'vllm/a.py')", "missing-files", "vllm/a.py"),
        ("open('vllm/a.py.rej', 'w')", "nothing-left", "a.py.rej: hunks that did not apply"),
        ("os.kill(os.getpid(), 11)", "script-failed", "ended by a signal: Segmentation fault"),
        ("print('bwrap: no namespaces'); sys.exit(1)", "script-failed", "ended with 1"),
        ("sys.exit(255)", "script-failed", "ended with 255"),
    ],
)
def test_what_cannot_be_imported_is_an_error(tmp_path, text, code, says):
    with fails(f"importing.{code}", says):
        run(tmp_path, f"import os, sys\n{text}\n")


def test_a_pipe_is_no_script(tmp_path):
    os.mkfifo(tmp_path / "fix.py")
    tree = tree_of(FILES)
    with fails("importing.unreadable", "not a regular file"):
        from_script(tmp_path / "fix.py", Stack(tree), DEFAULT_PLACE)


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("/usr", "hides /usr"),
        ("/etc", "hides /etc/"),
        ("/proc/1", "hides /proc"),
        ("/dev/pts", "hides /dev"),
        ("/vpatch-sandbox/script", "hides /vpatch-sandbox"),
        ("/opt/../usr", "has .. in it"),
    ],
)
def test_the_copy_hides_nothing_that_a_script_needs(tmp_path, place, says):
    with fails("cli.bad-value", says):
        run(tmp_path, CHANGE, at=Path(place))


STUB = """
import importlib.util, pathlib, vllm
assert vllm.__file__ == importlib.util.find_spec('vllm').origin
assert open(vllm.__file__).read() == 'import torch\\n'
names = sorted(name for name in vars(vllm) if not name.startswith('__'))
file = pathlib.Path(vllm.__file__).parent / 'a.py'
file.write_text(f'{vllm.__version__} {names} {file}')
"""


@pytest.mark.parametrize("place", [str(DEFAULT_PLACE), "/usr/lib/python3/dist-packages", "/lib/x"])
def test_a_stub_of_vllm_names_the_copy(tmp_path, place):
    change = run(tmp_path, STUB, at=Path(place))
    (file,) = change.files
    assert file.after.decode() == f"0.23.0 [] {place}/vllm/a.py"


@pytest.mark.parametrize("first", ["#!/usr/bin/env python3", "#!/usr/bin/python3 -I"])
def test_a_program_gets_the_python_that_it_names(tmp_path, first):
    (tmp_path / "fix").touch(mode=0o755)
    change = run(tmp_path, f"{first}\nimport sys\n{CHANGE}print(sys.executable)\n", "fix")
    assert change.printed == ("/usr/bin/python3",)


def test_a_program_whose_first_line_names_nothing_cannot_start(tmp_path):
    (tmp_path / "fix").touch(mode=0o755)
    with fails("importing.script-failed", "cannot be started: .*No such file"):
        run(tmp_path, f"#!{tmp_path}/nothing\n", "fix")


def test_a_python_in_a_home_folder_is_shown_without_the_rest(tmp_path, monkeypatch):
    """The prefix of an environment may be a folder with files of its user."""
    prefix = tmp_path / "home"
    venv.create(prefix, symlinks=True)
    (prefix / "secret").write_text(SECRET)
    monkeypatch.setenv("PATH", f"{prefix}/bin:/usr/bin:/bin")
    text = f"import os, sys\nprint(sys.prefix, sorted(os.listdir({str(prefix)!r})))\n{CHANGE}"
    (line,) = run(tmp_path, text).printed
    assert line.startswith(f"{prefix} ['bin', 'lib'")
    assert "secret" not in line


def test_too_many_new_lines_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tree_source, "MOST_LINES", 50)
    text = "open('vllm/a.py', 'a').write(''.join(f'y{n} = {n}\\n' for n in range(51)))\n"
    with fails("importing.too-large", "51 lines are new .* takes 50"):
        run(tmp_path, text)


LINES = [b"x = %d" % n for n in range(40)]


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (
            [line.replace(b"x", b"y") if n % 2 else line for n, line in enumerate(LINES)],
            "20 places",
        ),
        ([line for line in LINES for _ in range(2)], "40 places"),
        (LINES[::2], "20 places"),
        ([*LINES, *LINES, *LINES], "80 lines"),
    ],
)
def test_too_many_changes_are_refused(monkeypatch, after, says):
    monkeypatch.setattr(tree_source, "MOST_LINES", 50)
    monkeypatch.setattr(tree_source, "MOST_PLACES", 19)
    files = [FileChange("vllm/a.py", b"\n".join(LINES), b"\n".join(after))]
    with fails("importing.too-large", says):
        tree_source.refuse_large(files, "fix.py")
    monkeypatch.undo()
    tree_source.refuse_large(files, "fix.py")
