from __future__ import annotations

from dataclasses import replace

import pytest

from tests.helpers import fails
from tests.projects import NAME_PROJ, write_patch
from vpatch.declare.errors import DeclarationError
from vpatch.errors import UsageError
from vpatch.library.catalog import Library, find_library
from vpatch.source.spec import FolderSpec, GitSpec, PypiSpec
from vpatch.workspace.selection import Request, read_recipe, resolve

SHA = "ab" * 32


@pytest.fixture
def library(tmp_path):
    """Two patches for vLLM, one for Ascend's plugin, and recipes."""
    patches = {
        name: write_patch(tmp_path / "patches", name, NAME_PROJ) for name in ("a", "b", "ascend")
    }
    file = patches["ascend"] / "patch.yaml"
    file.write_text(file.read_text().replace("{vllm:", "{vllm-ascend:"))
    recipes = {
        "vllm-0.23": f"vllm: {{source: 0.23.0, sha256: {SHA}}}\npatches: [b]\n",
        "vllm-0.24.0": "vllm: 0.24.0\npatches: [a]\n",
        "series": "vllm: '0.25'\npatches: [b, a]\n",
        "plugins": "vllm: 0.23.0\ntrees: {vllm-ascend: 0.23.0, vllm-metax: ./metax}\n"
        "patches: [ascend, a]\n",
        "local": "vllm: ./src\npatches: [a]\n",
        "url": "vllm: https://host/x.git@v1\npatches: [a]\n",
        "unknown": "vllm: 0.23.0\npatches:\n  - a\n  - c\n",
        "idle": "vllm: 0.23.0\npatches:\n  - a\n  - ascend\n",
    }
    (tmp_path / "recipes" / "metax").mkdir(parents=True)
    (tmp_path / "recipes" / "src").mkdir()
    found = {}
    for name, text in recipes.items():
        found[name] = tmp_path / "recipes" / f"{name}.yaml"
        found[name].write_text(text)
    return Library(patches, found, {}, frozenset(), ())


def summary(jobs):
    return [(f"{j.spec.tree} {j.spec.version}", [p.id for p in j.patches], j.recipe) for j in jobs]


def test_a_version_without_a_recipe_takes_the_library(library):
    jobs = resolve(Request(vllm="0.22"), library)
    assert summary(jobs) == [("vllm 0.22", ["a", "b"], None)]
    assert jobs[0].expected_digest is None


@pytest.mark.parametrize("version", ["0.23", "0.23.0"])
def test_a_version_with_a_recipe(library, version):
    (job,) = resolve(Request(vllm=version), library)
    assert (job.spec, [p.id for p in job.patches]) == (PypiSpec("vllm", "0.23.0"), ["b"])
    assert (job.recipe, job.expected_digest) == ("vllm-0.23", f"sha256:{SHA}")


@pytest.mark.parametrize(
    ("version", "recipe"), [("0.23.1", None), ("0.24.0", "vllm-0.24.0"), ("0.24", None)]
)
def test_a_version_beside_a_recipe(library, version, recipe):
    (job,) = resolve(Request(vllm=version), library)
    assert job.recipe == recipe
    assert job.spec == PypiSpec("vllm", version)


def test_a_version_for_status_means_no_recipe(library):
    jobs = resolve(Request(vllm="0.23"), library, whole_library=True)
    assert summary(jobs) == [("vllm 0.23", ["a", "b"], None)]


def test_a_recipe_keeps_its_order(library):
    assert summary(resolve(Request(recipe="series"), library)) == [
        ("vllm 0.25", ["b", "a"], "series")
    ]


def test_a_recipe_with_trees(library, tmp_path):
    jobs = resolve(Request(recipe="plugins"), library)
    assert [job.spec for job in jobs] == [
        PypiSpec("vllm", "0.23.0"),
        PypiSpec("vllm-ascend", "0.23.0"),
        FolderSpec("vllm-metax", f"{tmp_path}/recipes/./metax".replace("/./", "/")),
    ]
    assert [[p.id for p in job.patches] for job in jobs] == [["a"], ["ascend"], []]


def test_a_recipe_with_a_path_means_one_beside_it(library, tmp_path):
    (job,) = resolve(Request(recipe="local"), library)
    assert job.spec == FolderSpec("vllm", str(tmp_path / "recipes" / "src"))


def test_a_recipe_with_a_url(library):
    (job,) = resolve(Request(recipe="url"), library)
    assert job.spec == GitSpec("vllm", "https://host/x.git", "v1")


def test_further_trees(library):
    jobs = resolve(Request(vllm="0.23", trees=("vllm-ascend==0.23.0",)), library)
    assert summary(jobs) == [
        ("vllm 0.23.0", ["b"], "vllm-0.23"),
        ("vllm-ascend 0.23.0", [], "vllm-0.23"),
    ]
    jobs = resolve(Request(trees=("vllm-ascend==0.23.0",)), library)
    assert summary(jobs) == [("vllm-ascend 0.23.0", ["ascend"], None)]


def test_a_narrowed_choice(library):
    assert summary(resolve(Request(vllm="0.22", patches=("b",)), library)) == [
        ("vllm 0.22", ["b"], None)
    ]
    assert summary(resolve(Request(recipe="series", patches=("a",)), library)) == [
        ("vllm 0.25", ["a"], "series")
    ]
    jobs = resolve(Request(recipe="plugins", patches=("ascend",)), library)
    assert [[p.id for p in job.patches] for job in jobs] == [[], ["ascend"], []]


def test_named_patches_mean_no_recipe_but_what_they_require(library):
    file = library.patches["a"] / "patch.yaml"
    file.write_text(file.read_text() + "requires: [b]\n")
    assert summary(resolve(Request(vllm="0.23", patches=("a",)), library)) == [
        ("vllm 0.23", ["a", "b"], None)
    ]


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (Request(), "cli.missing-option", "which vLLM"),
        (Request(vllm="0.23", recipe="series"), "cli.conflicting-options", "both name a vLLM"),
        (Request(recipe="none"), None, "there is no recipe 'none'"),
        (Request(vllm="0.22", patches=("c",)), None, "there is no patch 'c'"),
        (
            Request(recipe="vllm-0.23", patches=("a",)),
            "library.not-in-recipe",
            "vllm-0.23 does not",
        ),
        (Request(vllm="0.22", patches=("ascend",)), "library.wrong-tree", "ascend is not for any"),
        (Request(vllm="nonsense"), None, "neither a version"),
        (Request(trees=("vllm-ascend",)), None, "a tree and a source"),
    ],
)
def test_requests_that_are_wrong(library, request_, code, message):
    with pytest.raises(UsageError, match=message) as caught:
        resolve(request_, library)
    assert code in {None, caught.value.code}


@pytest.mark.parametrize(
    ("name", "code"),
    [("unknown", "library.no-such-patch"), ("idle", "library.wrong-tree")],
)
def test_recipes_that_are_wrong(library, name, code):
    with fails(code) as caught:
        resolve(Request(recipe=name), library)
    assert caught.value.where == f"{library.recipes[name]}:4"
    assert caught.value.hint


def test_a_recipe_with_a_misspelt_patch_names_the_nearest(library):
    file = library.patches["ascend"].parents[1] / "recipes" / "misspelt.yaml"
    file.write_text("vllm: 0.23.0\npatches: [ascent]\n")
    with pytest.raises(DeclarationError) as caught:
        read_recipe(file, library)
    assert caught.value.hint == "did you mean 'ascend'?"


def test_what_is_on_request_is_taken_by_name_alone(library):
    file = library.patches["b"] / "patch.yaml"
    file.write_text(file.read_text() + "on-request: it is not for everybody\n")
    (job,) = resolve(Request(vllm="0.22"), library)
    assert [p.id for p in job.patches] == ["a"]
    assert [p.id for p in job.left_out] == ["b"]
    assert summary(resolve(Request(vllm="0.22", patches=("b",)), library))[0][1] == ["b"]
    assert summary(resolve(Request(vllm="0.23"), library))[0][1] == ["b"]
    (job,) = resolve(Request(vllm="0.22"), library, whole_library=True)
    assert [p.id for p in job.patches] == ["a", "b"]
    assert job.left_out == ()


def test_what_requires_something_on_request_is_on_request_as_well(library):
    for name, more in (("a", "requires: [b]\n"), ("b", "on-request: it is slow\n")):
        file = library.patches[name] / "patch.yaml"
        file.write_text(file.read_text() + more)
    (job,) = resolve(Request(vllm="0.22"), library)
    assert (job.patches, [p.id for p in job.left_out]) == ((), ["b", "a"])
    assert summary(resolve(Request(vllm="0.22", patches=("a",)), library))[0][1] == ["a", "b"]


def test_a_patch_of_another_tree_names_its_trees(library):
    with pytest.raises(UsageError) as caught:
        resolve(Request(vllm="0.22", patches=("ascend",)), library)
    assert caught.value.hint == (
        "name vllm-ascend (--tree vllm-ascend==VERSION), or correct needed-in of ascend"
    )


@pytest.fixture
def with_backports(library, tmp_path):
    """The same library with a backport, which requires a patch that no recipe has."""
    write_patch(tmp_path / "patches", "base", NAME_PROJ)
    more = "requires: [base]\nresolves: [{id: CVE-2026-1234}]\n"
    write_patch(tmp_path / "patches" / "security", "fix", NAME_PROJ, more=more)
    found = find_library(tmp_path, [tmp_path / "patches"])
    ours = {name: path for name, path in found.patches.items() if tmp_path in path.parents}
    return replace(library, patches=ours, security=frozenset({"fix"}))


@pytest.mark.parametrize(
    ("request_", "ids"),
    [
        (Request(vllm="0.22"), ["a", "b", "base"]),
        (Request(vllm="0.22", security="all"), ["a", "b", "base", "fix"]),
        (Request(vllm="0.22", patches=("a",), security="all"), ["a", "fix", "base"]),
        (Request(vllm="0.22", patches=("fix",)), ["fix", "base"]),
        (Request(recipe="vllm-0.23"), ["b"]),
        (Request(recipe="vllm-0.23", security="all"), ["b", "fix", "base"]),
    ],
)
def test_a_backport_is_for_those_who_ask(with_backports, request_, ids):
    (job,) = resolve(request_, with_backports)
    assert [patch.id for patch in job.patches] == ids


@pytest.mark.parametrize(
    ("patches", "ids"), [("", ["fix", "base"]), ("patches: [a, fix]", ["a", "fix", "base"])]
)
def test_a_recipe_asks_for_backports(with_backports, tmp_path, patches, ids):
    path = tmp_path / "recipes" / "secure.yaml"
    path.write_text(f"vllm: 0.23.0\nsecurity: all\n{patches}\n")
    (job,) = resolve(Request(recipe=str(path)), with_backports)
    assert [patch.id for patch in job.patches] == ids


def test_a_library_without_backports(library):
    with fails("library.no-security-patches"):
        resolve(Request(vllm="0.22", security="all"), library)


def test_a_recipe_with_nothing_to_apply(library, tmp_path):
    path = tmp_path / "empty.yaml"
    path.write_text("vllm: 0.23.0\n")
    with pytest.raises(DeclarationError, match="at least one patch, or security: all"):
        resolve(Request(recipe=str(path)), library)
