"""`vpatch audit --update`: newer advisories in the user's folder, and hostile exports."""

from __future__ import annotations

import json
import stat
from zipfile import ZipFile, ZipInfo

import pytest

from tests.commands.audit.cases import advisory
from tests.helpers import fails
from tests.projects import VERSION
from vpatch.commands.audit.newer import newer_advisories, newer_file, take_newer
from vpatch.library import advisories
from vpatch.util.digest import digest_of

NEW = "CVE-2026-4242"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def refused(run):
    (error,) = run.json_errors
    return error


def export(path, *rows, **files):
    with ZipFile(path, "w") as archive:
        for row in rows:
            document = row.model_dump(mode="json", by_alias=True)
            archive.writestr(f"{row.id}.json", json.dumps(document))
        for name, content in files.items():
            archive.writestr(f"{name}.json", content)
    return path.name


def new(modified="2026-12-01T00:00:00Z", fixed="0.60.0"):
    return advisory(NEW, modified=modified, fixed=fixed)


def test_what_update_takes_counts_from_then_on(empty):
    name = export(empty.folder / "all.zip", new())
    run = empty.run("audit", "--update", "--advisories", name)
    digest = digest_of((empty.folder / "all.zip").read_bytes())
    (line,) = [" ".join(run.out.split())]
    assert "the newest of 2026-12-01, 0 days ago: a selection from public copies, and" in line
    assert f"{name}, taken 0 days ago ({digest[:19]}); others may exist" in line
    result = empty.run("audit", "--vllm", VERSION, "--json").json
    assert NEW in [one["id"] for one in result["trees"][0]["advisories"]]
    assert result["newer"]["digest"] == digest
    assert result["newer"]["newest"] == "2026-12-01T00:00:00Z"
    # The next one replaces all of it.
    empty.run("audit", "--update", "--advisories", export(empty.folder / "b.zip", later()))
    result = empty.run("audit", "--vllm", VERSION, "--json").json
    assert NEW not in [one["id"] for one in result["trees"][0]["advisories"]]


def later():
    return advisory("CVE-2026-4243", modified="2026-12-02T00:00:00Z", fixed="0.60.0")


def test_without_it_the_last_line_does_not_sound_complete(empty):
    run = empty.run("audit", "--vllm", VERSION)
    last = " ".join(run.out.split())
    assert "public copies; vpatch audit --update takes osv.dev's" in last
    assert empty.run("audit", "--vllm", VERSION, "--json").json["newer"] is None


def test_update_and_audit_at_once(empty):
    name = export(empty.folder / "all.zip", new())
    run = empty.run("audit", "--update", "--advisories", name, "--vllm", VERSION, "--json")
    assert NEW in [one["id"] for one in run.json["trees"][0]["advisories"]]


def test_an_older_export_replaces_nothing(empty):
    empty.run("audit", "--update", "--advisories", export(empty.folder / "a.zip", new()))
    before = newer_file().read_bytes()
    old = export(empty.folder / "old.zip", new("2026-11-30T00:00:00Z"))
    run = empty.run("audit", "--update", "--advisories", old, "--json", code=2)
    assert refused(run)["code"] == "security.older-update"
    assert str(newer_file()) in refused(run)["hint"]
    assert newer_file().read_bytes() == before


def linked(path):
    with ZipFile(path, "w") as archive:
        link = ZipInfo("a.json")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    return path.name


def named(name):
    def write(path):
        with ZipFile(path, "w") as archive:
            archive.writestr(name, "{}")
        return path.name

    return write


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("write", "code", "message"),
    [
        (
            lambda path: export(path, a="not JSON, github.com/vllm-project/vllm"),
            "wrong",
            "a.json: is not JSON",
        ),
        (lambda path: export(path, a='[{"name": "vllm"}]'), "wrong", "a.json: is not an advisory"),
        (lambda path: export(path, a='{"id": "x"}'), "no", "has no advisory about vllm"),
        (lambda path: export(path, a=" " * 20_000), "wrong", "a.json: unpacks to too much"),
        (lambda path: export(path, **{str(n): "" for n in range(9)}), "wrong", "has 9 files"),
        (named("../a.json"), "wrong", r"\.\./a.json: leads out of the zip"),
        (named("/etc/a.json"), "wrong", "/etc/a.json: leads out of the zip"),
        (named("a/../../b.txt"), "wrong", "b.txt: leads out of the zip"),
        (named("a\x1b[2J.json"), "wrong", r"\[2J.json: leads out of the zip"),
        (linked, "wrong", "a.json: is a link"),
        (lambda path: path.write_bytes(b"PK\x03\x04 and more") and path.name, "wrong", "not JSON"),
        (lambda path: path.write_bytes(b" " * 20_000) and path.name, "wrong", "is larger than"),
        (lambda path: path.mkdir() or path.name, "no", "is a folder"),
        (lambda path: path.name, "no", "there is no such file"),
    ],
)
def test_a_hostile_export_is_refused_by_name(tmp_path, monkeypatch, write, code, message):
    monkeypatch.setattr(advisories, "_LARGEST", 10_000)
    monkeypatch.setattr(advisories, "_MOST_FILES", 8)
    write(tmp_path / "all.zip")
    # Only a URL needs a context.
    with fails(f"security.{code}-advisor{'ies' if code == 'no' else 'y'}", message) as caught:
        take_newer(None, str(tmp_path / "all.zip"))
    assert caught.value.where.startswith(str(tmp_path / "all.zip"))
    assert not newer_file().exists()


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("content", ["", "[]", '{"schema_version": 2}', "{" * 5000])
def test_a_damaged_file_is_named(content):
    newer_file().parent.mkdir(parents=True)
    newer_file().write_text(content)
    with fails("security.damaged-update") as caught:
        newer_advisories()
    assert caught.value.where == str(newer_file())


def test_what_has_no_effect_is_refused(empty):
    run = empty.run("audit", "--update", "--format", "openvex", "--json", code=2)
    assert refused(run)["code"] == "cli.conflicting-options"
    run = empty.run("audit", "--update", "--format", "openvex", code=2)
    assert "--format openvex has no effect" in run.err
    run = empty.run("audit", "--update", "--offline", "--json", code=2)
    assert refused(run)["code"] == "security.offline-advisories"
