"""`vpatch audit --format vex-repository`: what the specification of VEX repositories asks for."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from typing import Annotated, Literal

import pytest
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from tests.commands.audit.cases import CURED, ELSEWHERE, HOLE, ID, advisory, fix, plan_of
from tests.commands.audit.cases import recorded as record
from tests.commands.audit.openvex_model import Document
from tests.helpers import fails
from tests.projects import SLOW_MODE, VERSION, write_patch
from vpatch.checkout.lockfile import LockFile
from vpatch.commands.audit.judge import judge
from vpatch.commands.audit.result import AuditedTree, AuditResult
from vpatch.commands.audit.vex_repository import write_feed
from vpatch.commands.install.wheels.names import patched_version
from vpatch.library.advisories import Advisories

FORM = "vex-repository"
URL = "https://example.com/vex"
WHEEL = "0.23.0+vpatch.0123456789ab"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Location(Strict):
    url: Annotated[str, StringConstraints(pattern=r"^https://\S+\.tar\.gz$")]


class Versions(Strict):
    spec_version: Literal["0.1"]
    locations: Annotated[list[Location], Field(min_length=1)]
    update_interval: Annotated[str, StringConstraints(pattern=r"^[0-9]+([hm])$")]


class Manifest(Strict):
    """vex-repository.schema.json of aquasecurity/vex-repo-spec."""

    name: str
    description: str
    versions: Annotated[list[Versions], Field(min_length=1)]


class Package(Strict):
    # The pattern of index.schema.json refuses each package URL without a namespace, also the
    # specification's own example pkg:npm/lodash. This is what its text asks for.
    id: Annotated[str, StringConstraints(pattern=r"^pkg:[a-zA-Z+.-]+(/[^@?#]+)+$")]
    location: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_/.-]+\.json$")]
    format: Literal["openvex", "csaf"] = "openvex"


class Index(Strict):
    """index.schema.json of aquasecurity/vex-repo-spec."""

    updated_at: AwareDatetime
    packages: Annotated[list[Package], Field(min_length=1)]


@pytest.fixture
def patch(tmp_path):
    return record(fix(tmp_path / "library"))


def audited(patch, code, version, *, names=(), applied=None, kind="pypi", **keys):
    plan = plan_of([patch], code, version=version, **keys)
    plan = replace(plan, pin=replace(plan.pin, kind=kind))
    tree = AuditedTree(f"vllm {version}", plan, distributions=names, applied=applied)
    return replace(tree, findings=judge([advisory()], plan))


def result(*trees):
    return AuditResult(Advisories((advisory(),), advisory().modified), trees)


def statements(folder):
    """What the feed says of each package URL, in one word."""
    document = Document.model_validate_json((folder / "pkg/pypi/vllm/vex.json").read_text())
    return {product.id: one.status for one in document.statements for product in one.products}


def test_the_files_are_those_of_the_specification(patch, tmp_path):
    folder = tmp_path / "feed"
    trees = (
        audited(patch, HOLE, "0.23.0"),
        audited(patch, CURED, "0.24.0"),
        audited(patch, ELSEWHERE, "0.25.0", released=True),
    )
    write_feed(result(*trees), folder, f"{URL}/")
    assert statements(folder) == {
        "pkg:pypi/vllm@0.23.0": "affected",
        "pkg:pypi/vllm@0.24.0": "fixed",
        "pkg:pypi/vllm@0.25.0": "not_affected",
    }
    index = Index.model_validate_json((folder / "index.json").read_text())
    assert [(one.id, one.location) for one in index.packages] == [
        ("pkg:pypi/vllm", "pkg/pypi/vllm/vex.json")
    ]
    for name in ("vex-repository.json", ".well-known/vex-repository.json"):
        manifest = Manifest.model_validate_json((folder / name).read_text())
        assert manifest.versions[0].locations[0].url == f"{URL}/vex.tar.gz"
    with tarfile.open(folder / "vex.tar.gz") as tar:
        packed = {one.name: tar.extractfile(one).read() for one in tar.getmembers()}
    assert packed == {
        name: (folder / name).read_bytes() for name in ("index.json", "pkg/pypi/vllm/vex.json")
    }


def test_a_second_run_adds_a_wheel_and_keeps_the_rest(patch, tmp_path):
    folder = tmp_path / "feed"
    write_feed(result(audited(patch, HOLE, "0.23.0")), folder, URL)
    names = (("vllm", WHEEL), ("vllm", WHEEL.replace("+", "+cpu.")))
    applied = plan_of([patch], HOLE)
    wheel = audited(patch, CURED, "0.23.0", names=names, applied=applied, carried={"fix"})
    write_feed(result(wheel), folder, None)
    assert statements(folder) == {
        "pkg:pypi/vllm@0.23.0": "affected",
        "pkg:pypi/vllm@0.23.0%2Bvpatch.0123456789ab": "fixed",
        "pkg:pypi/vllm@0.23.0%2Bcpu.vpatch.0123456789ab": "fixed",
    }
    diff = folder / "diffs" / WHEEL / "fix.diff"
    assert "-    return allow(key, strict=False)\n+    return allow(key, strict=True)\n" in (
        diff.read_text()
    )
    page = (folder / "index.html").read_text()
    assert f'<a href="diffs/{WHEEL}/fix.diff">diff</a>' in page
    assert f"<td>{ID}</td><td>fix</td>" in page
    # The URL of the first run stays; the same run again changes nothing but the time.
    assert (folder / "vex-repository.json").exists()
    before = json.loads((folder / "products.json").read_text())
    write_feed(result(wheel), folder, None)
    after = json.loads((folder / "products.json").read_text())
    assert after["products"] == before["products"]
    # A diff that no fix has is not published.
    (diff.parent / "other.diff").write_text("x")
    write_feed(result(audited(patch, HOLE, "0.22.0")), folder, None)
    assert diff.exists()
    assert [path.name for path in diff.parent.iterdir()] == ["fix.diff"]


def test_without_a_url_there_is_no_manifest(patch, tmp_path):
    write_feed(result(audited(patch, HOLE, "0.23.0")), tmp_path / "feed", None)
    assert not (tmp_path / "feed" / "vex-repository.json").exists()


def test_the_same_at_the_same_time_gives_the_same_bytes(patch, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")
    for name in ("one", "two"):
        write_feed(result(audited(patch, HOLE, "0.23.0")), tmp_path / name, URL)
    one, two = (
        {path.name: path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file()}
        for name in ("one", "two")
    )
    assert one == two


@pytest.mark.parametrize("keys", [{"kind": "folder"}, {"applied": "it"}, {"carried": "fix"}])
def test_code_without_a_name_of_its_own_is_not_published(patch, tmp_path, keys):
    """To a scanner, a patched checkout is the release."""
    if keys.get("applied"):
        keys = {"applied": plan_of([patch], HOLE)}
    tree = audited(patch, CURED, "0.23.0", **{k: v for k, v in keys.items() if k != "carried"})
    if keys.get("carried"):
        tree = replace(tree, carried=(patch,))
    with fails("security.not-for-a-feed"):
        write_feed(result(tree), tmp_path / "feed", URL)
    assert not (tmp_path / "feed").exists()


@pytest.mark.parametrize("name", ["notes.txt", "products.json"])
def test_a_folder_with_other_things_stays(patch, tmp_path, name):
    folder = tmp_path / "feed"
    folder.mkdir()
    (folder / name).write_text("mine")
    with fails("security.not-a-feed"):
        write_feed(result(audited(patch, HOLE, "0.23.0")), folder, URL)
    assert (folder / name).read_text() == "mine"


def test_an_empty_folder_is_used(patch, tmp_path):
    (tmp_path / "feed").mkdir()
    write_feed(result(audited(patch, HOLE, "0.23.0")), tmp_path / "feed", URL)
    assert (tmp_path / "feed" / "index.json").exists()


def test_text_of_others_is_no_html(patch, tmp_path):
    tree = replace(audited(patch, HOLE, "0.23.0"), subject="<script>alert(1)</script>")
    write_feed(result(tree), tmp_path / "feed", URL)
    assert "<script>" not in (tmp_path / "feed" / "index.html").read_text()


def test_the_command_names_a_wheel_as_vpatch_wheel_does(empty):
    """`audit` may not import what makes wheels, so that it has the rule twice."""
    write_patch(empty.patches, "slow", SLOW_MODE, concerns="text: def start")
    (empty.folder / "recipes").mkdir(exist_ok=True)
    recipe = f"vllm: {VERSION}\npatches: [slow]\n"
    (empty.folder / "recipes" / "pinned.yaml").write_text(recipe)
    empty.run("audit", "--recipe", "pinned", "--format", FORM, "--output-dir", "feed", code=None)
    products = json.loads((empty.folder / "feed" / "products.json").read_text())["products"]
    empty.run("apply", "--recipe", "pinned")
    (path,) = (empty.folder / ".vpatch").glob("*/vpatch.lock")
    lock = LockFile.model_validate_json(path.read_text())
    wanted = {patched_version(version, lock) for version in (VERSION, f"{VERSION}+cpu")}
    assert {one["purl"].partition("@")[2].replace("%2B", "+") for one in products} == wanted


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--format", "vex-repository"), "name it with --output-dir DIR"),
        (("--output-dir", "feed"), "--output-dir has an effect only with"),
        (("--url", URL), "--url has an effect only with"),
        (
            ("--format", "vex-repository", "--output-dir", "feed", "--url", "http://a"),
            "give one with https://",
        ),
    ],
)
def test_options_of_the_feed(empty, args, message):
    assert message in empty.run("audit", "--vllm", VERSION, *args, code=2).err
