from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import vpatch
from tests.helpers import fails
from tests.index_server import FILES, sdist
from tests.waiting import LIMIT
from vpatch.git import command
from vpatch.git.errors import GitError, GitMissingError
from vpatch.source.cache import Cache, default_cache_folder
from vpatch.source.resolve import open_tree
from vpatch.source.spec import PypiSpec, parse_vllm
from vpatch.util.filelock import try_lock

OPEN = """
import sys
from vpatch.source import cache, pip_settings, resolve, spec
from vpatch.progress import Silent
class Tell(Silent):
    def start(self, what, *, total=None, unit="bytes"):
        print(what, flush=True)
        return self
    def note(self, message):
        print("note", message, flush=True)
with resolve.open_tree(
    spec.parse_vllm("0.23.0"), cache=cache.Cache(cache.default_cache_folder()),
    settings=pip_settings.PipSettings(index_url=sys.argv[1]), offline=False, progress=Tell(),
) as tree:
    tree.base_repository(Tell())
    print("open", len(tree.paths()), flush=True)
    if "hold" in sys.argv:
        sys.stdin.readline()
"""


def process(index, *args):
    env = {**os.environ, "PYTHONPATH": str(Path(vpatch.__file__).parents[1])}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": env}
    return subprocess.Popen([sys.executable, "-c", OPEN, index.url, *args], **pipes)


def only_entry(cache):
    (entry,) = (cache.folder / "trees").iterdir()
    return entry


def test_a_tree(opening, notes):
    with opening() as tree:
        assert tree.paths() == sorted(FILES)
        assert {path: tree.read(path) for path in tree.paths()} == FILES
        assert set(tree.package_files) == {"vllm/__init__.py", "vllm/models/llama.py"}
        assert tree.pin.label == "vllm-0.23.0"
        assert tree.records["tools/run.sh"].mode == 0o100755
        assert tree.carried == frozenset()
    opening().close()
    assert len(notes.downloads) == 1


def test_an_exact_version_in_the_cache_needs_no_network(index, opening):
    opening("0.23.0").close()
    asked = len(index.asked)
    opening("0.23.0").close()
    opening("0.23.0", offline=True).close()
    assert len(index.asked) == asked


def test_offline_without_an_entry(opening, cache, notes):
    opening("0.23").close()
    cache.clear(["vllm-0.23.0"], notes)
    with fails("source.not-in-cache", "--offline"):
        opening("0.23", offline=True)


@pytest.mark.parametrize(
    ("carried", "ids"),
    [(b'{"patches": [{"id": "a"}, {"id": "b"}]}', {"a", "b"}), (b'{"patches": []}', set())],
)
def test_carried_patches(index, opening, carried, ids):
    index.add(data=sdist(files=FILES | {"vpatch.lock": carried}))
    with opening() as tree:
        assert tree.carried == ids


def test_a_lock_that_says_nothing_is_an_error(index, opening):
    index.add(data=sdist(files=FILES | {"vpatch.lock": b"{"}))
    with fails("source.unreadable-lock"):
        opening()


def test_packages_where_none_is_named_as_the_distribution(index, opening):
    files = {"PKG-INFO": b"Name: acme\n", "a/__init__.py": b"", "a/b.py": b"", "docs/c.py": b""}
    index.add(data=sdist("1.0", files), version="1.0", name="acme")
    with opening(PypiSpec("acme", "1.0")) as tree:
        assert set(tree.package_files) == {"a/__init__.py", "a/b.py"}


def truncate(path):
    path.write_bytes(path.read_bytes()[:-4])


def flip(path):
    data = path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])


DAMAGES = [
    ("files/vllm/models/llama.py", truncate),
    ("files/vllm/models/llama.py", Path.unlink),
    ("files/vllm/data.json", truncate),
    ("files/vllm/data.json", Path.unlink),
    ("manifest.json", truncate),
    ("manifest.json", Path.unlink),
    ("seal.json", truncate),
]


@pytest.mark.parametrize(("path", "damage"), DAMAGES)
def test_a_damaged_entry_is_fetched_anew(opening, cache, notes, path, damage):
    opening().close()
    damage(only_entry(cache) / path)
    with opening() as tree:
        assert {path: tree.read(path) for path in tree.paths()} == FILES
    assert path.removeprefix("files/") in notes.notes[-1]
    assert len(notes.downloads) == 2


@pytest.mark.parametrize(("path", "damage"), DAMAGES[:-1])
def test_a_damaged_entry_offline(opening, cache, path, damage):
    opening().close()
    damage(only_entry(cache) / path)
    with fails("source.damaged-cache-entry", path.removeprefix("files/")) as caught:
        opening(offline=True)
    assert "without --offline" in str(caught.value)


@pytest.mark.parametrize("path", ["vllm/data.json", "vllm/models/llama.py"])
def test_a_damage_found_late_is_remembered(opening, cache, notes, path):
    opening().close()
    flip(only_entry(cache) / "files" / path)
    with opening() as tree:
        with fails("source.damaged-cache-entry", re.escape(path)) as caught:
            tree.read(path)
        assert "run the command again" in str(caught.value)
        with fails("source.damaged-cache-entry", re.escape(path)):
            tree.base_repository(notes)
    with opening() as tree:
        assert tree.read(path) == FILES[path]
    assert len(notes.downloads) == 2


def test_a_file_is_read_when_it_is_asked_for(opening, cache):
    opening().close()
    flip(only_entry(cache) / "files/vllm/models/llama.py")
    with opening() as tree:
        files = tree.package_files
        assert files["vllm/__init__.py"] == FILES["vllm/__init__.py"]
        (tree.files / "vllm/__init__.py").unlink()
        assert files["vllm/__init__.py"] == FILES["vllm/__init__.py"]
        assert "vllm/models/llama.py" in files
        assert files.get("vllm/nothing.py") is None
        with fails("source.damaged-cache-entry", r"llama\.py"):
            files.get("vllm/models/llama.py")


def test_a_base_repository_cut_off_is_made_anew(opening, notes):
    with opening() as tree:
        repository, commit = tree.base_repository(notes)
        (pack,) = repository.glob("objects/pack/*.pack")
        pack.chmod(0o644)
        truncate(pack)
        assert tree.base_repository(notes) == (repository, commit)
        assert "made again" in notes.notes[-1]
        assert tree.base_repository(notes) == (repository, commit)
        assert len(notes.notes) == 1


MOMENTS = [
    ("Downloading", 0.0),
    ("Unpacking", 0.0),
    ("Unpacking", 0.02),
    ("Unpacking", 0.05),
    ("Making", 0.0),
]


@pytest.mark.slow
def test_kill_at_any_moment(index, opening, cache, notes):
    files = FILES | {f"vllm/f{number}.py": b"z = 3\n" * 200 for number in range(400)}
    index.add(data=sdist(files=files))
    for mark, delay in MOMENTS:
        with process(index) as child:
            assert any(line.startswith(mark) for line in iter(child.stdout.readline, ""))
            time.sleep(delay)
            child.send_signal(signal.SIGKILL)
        for entry in (cache.folder / "trees").glob("*"):
            assert (entry / "seal.json").exists()
    assert notes.notes == []
    with opening() as tree:
        assert {path: tree.read(path) for path in tree.paths()} == files
        repository, commit = tree.base_repository(notes)
        assert not (repository.parent / "repo.git.part").exists()
        assert len(commit) == 40
    assert not list((cache.folder / "staging").iterdir())


def test_leftovers_of_a_killed_process_go(opening, cache):
    opening().close()
    name = only_entry(cache).name
    only_entry(cache).rename(cache.folder / "staging" / name)
    (cache.folder / "staging" / name / "files" / "extra").write_text("half")
    with opening() as tree:
        assert "extra" not in tree.paths()
    assert not list((cache.folder / "staging").iterdir())


def test_two_at_once_download_once(index):
    served = index.answers["/files/"] = threading.Event()
    with process(index) as one:
        assert one.stdout.readline().startswith("Downloading")
        with process(index) as two:
            first = two.stdout.readline()
            served.set()
            assert first.startswith("note waiting for another vpatch process")
            told = [one.communicate()[0], two.communicate()[0]]
    assert all(f"open {len(FILES)}" in text for text in told)
    assert index.count("/files/") == 1


def test_a_half_made_base_repository_goes(opening, cache, notes):
    with opening() as tree:
        left = only_entry(cache) / "repo.git.part" / "objects" / "pack" / "tmp_pack_x"
        left.parent.mkdir(parents=True)
        left.write_text("half")
        repository, _ = tree.base_repository(notes)
        assert not list(repository.rglob("tmp_pack_x"))


def test_clear_leaves_what_is_in_use(index, cache, notes):
    with process(index, "hold") as child:
        assert any(line.startswith("open") for line in iter(child.stdout.readline, ""))
        cache.clear(None, notes)
        assert "in use" in notes.notes[-1]
        assert [entry.label for entry in cache.list()] == ["vllm-0.23.0"]
        child.kill()
    assert cache.clear(None, notes) > 0
    assert cache.list() == ()


def test_list_and_clear(index, opening, cache, notes):
    index.add("0.24.0")
    opening("0.23.0").close()
    opening("0.24.0").close()
    entries = cache.list()
    assert [entry.label for entry in entries] == ["vllm-0.23.0", "vllm-0.24.0"]
    assert entries[0].size > sum(map(len, FILES.values()))
    assert entries[0].digest.startswith("sha256:")
    with fails("source.unknown-cache-entry", r"vllm-0\.23\.9\n.*vllm-0\.23\.0"):
        cache.clear(["vllm-0.23.9"], notes)
    assert cache.clear(["vllm-0.23.0"], notes) == entries[0].size
    assert [entry.label for entry in cache.list()] == ["vllm-0.24.0"]
    assert not list((cache.folder / "staging").iterdir())


def test_what_was_never_finished_is_not_listed_and_is_cleared(cache, notes):
    for part in ("trees/unsealed", "staging/half"):
        (cache.folder / part).mkdir(parents=True)
        (cache.folder / part / "file").write_bytes(b"123")
    assert cache.list() == ()
    assert cache.clear(None, notes) == 6
    assert not list(cache.folder.glob("[ts]*/*"))


def test_a_file_that_goes_while_the_tree_is_open(opening):
    with opening() as tree:
        (tree.files / "vllm/data.json").unlink()
        with fails("source.damaged-cache-entry", r"data\.json cannot be read"):
            tree.read("vllm/data.json")


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "source.unwritable-cache"),
        (GitError("git", 128, "fatal: write error", hint=""), "source.unwritable-cache"),
        (GitError("git", 128, "fatal: Invalid path 'x'", hint=""), "source.unsafe-path"),
        (GitMissingError("git", None, "not found", hint=""), "git.missing"),
    ],
)
def test_a_base_repository_that_cannot_be_made(opening, notes, monkeypatch, fault, code):
    def fail(*_):
        raise fault

    with opening() as tree:
        monkeypatch.setattr(command, "create_base_repository", fail)
        with fails(code):
            tree.base_repository(notes)
        monkeypatch.undo()
        assert sorted(path.name for path in tree.folder.glob("repo*")) == ["repo.lock"]


def test_a_cache_that_cannot_be_written(settings, notes):
    # Not even root may create a folder there, whose permissions bind nobody else.
    cache = Cache(Path("/proc/vpatch"))
    with fails("source.unwritable-cache", "VPATCH_CACHE_DIR"):
        open_tree(
            parse_vllm("0.23.0"), cache=cache, settings=settings, offline=False, progress=notes
        )


def test_a_cache_in_the_way_of_a_file(opening, cache):
    cache.folder.mkdir()
    (cache.folder / "locks").write_text("")
    with fails("source.unwritable-cache", "VPATCH_CACHE_DIR"):
        opening()


def test_the_folder_is_named_by_the_environment(monkeypatch, tmp_path):
    assert default_cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("VPATCH_CACHE_DIR")
    assert default_cache_folder() == tmp_path / "home/.cache/vpatch"
    assert Cache(default_cache_folder()).list() == ()


def test_locks(tmp_path):
    path = tmp_path / "lock"
    with try_lock(path, exclusive=False), try_lock(path, exclusive=False):
        assert try_lock(path, exclusive=True) is None
    with try_lock(path, exclusive=True):
        assert try_lock(path, exclusive=False) is None
    try_lock(path, exclusive=True).release()


def test_a_second_opener_waits_for_the_first(index, opening, notes):
    index.answers["/files/"] = 0.2
    trees = []
    threads = [threading.Thread(target=lambda: trees.append(opening())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [tree.pin.version for tree in trees] == ["0.23.0", "0.23.0"]
    assert len(notes.downloads) == 1
    for tree in trees:
        tree.close()


def test_nobody_waits_until_the_first_has_used_what_it_made(opening, monkeypatch):
    """The first comes between the second's looks at the cache and its turn to make the entry."""
    first, load, looks = opening(), Cache._load, []

    def late(cache, name, progress):
        looks.append(name)
        return None if len(looks) <= 2 else load(cache, name, progress)

    monkeypatch.setattr(Cache, "_load", late)
    second = threading.Thread(target=lambda: opening().close(), daemon=True)
    second.start()
    second.join(timeout=LIMIT)
    waits = second.is_alive()
    first.close()
    second.join()
    assert not waits
    assert len(looks) == 3
