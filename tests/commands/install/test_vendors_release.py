"""A vendor's build of vLLM 0.23.0: the archive's files, as installed, and three of them changed."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from tests.environments import bare_environment
from tests.helpers import fails
from tests.projects import snapshot, write_tree
from vpatch.commands.install.usecase import install, uninstall
from vpatch.commands.install.verify_env import verify_env
from vpatch.source.spec import PypiSpec
from vpatch.workspace.context import Context
from vpatch.workspace.selection import Request

pytestmark = pytest.mark.slow

CONFLICT, NEW, KNOWN = (
    "mtp-proj-prefix",
    "cpu-spec-decode-fp64-gumbel",
    "gdn-gates-of-spec-tokens",
)
LOCAL = "0.23.0+amzn2023"
# The place of a patch, the header of a function that another one edits, and neither.
MTP, UTILS, ENVS = (
    "vllm/models/deepseek_v4/nvidia/mtp.py",
    "vllm/utils/cpu_triton_utils.py",
    "vllm/envs.py",
)
EDITS = {
    MTP: (b"self.e_proj = ReplicatedLinear(", b"self.vendor_proj = VendorLinear("),
    UTILS: (b"    NO_DRAFT_PROBS=False,\n", b"    NO_DRAFT_PROBS=False,\n    VENDOR=None,\n"),
    ENVS: (b"import os\n", b"import os\n\nVENDOR = True\n"),
}


@contextmanager
def vendors_build(folder):
    with Context(folder=folder) as context:
        made = bare_environment(folder / "env")
        with context.tree(PypiSpec("vllm", "0.23.0")) as tree:
            paths = [path for path in tree.paths() if path.startswith("vllm/")]
            files = {path: tree.read(path) for path in paths}
        for path, (before, after) in EDITS.items():
            assert before in files[path]
            files[path] = files[path].replace(before, after)
        files["vllm/_version.py"] = b"__version__ = version = '0.23.0+amzn2023'\n"
        write_tree(made.site, files)
        made.distribution("vllm", LOCAL, files)
        yield context, made


def test_a_vendors_release_is_patched_and_given_back_to_the_byte(tmp_path):
    with vendors_build(tmp_path) as (context, made):
        before, python = snapshot(made.site), str(made.python)
        with fails("checkout.patch-stops", f"{CONFLICT} is conflict: .*expected 1 for"):
            install(context, Request(patches=(CONFLICT, NEW, KNOWN)), python)
        with fails("checkout.patch-stops", f"{NEW} is needed.*new shape: differs from 0.23.0"):
            install(context, Request(patches=(NEW, KNOWN), strict=True), python)
        assert snapshot(made.site) == before
        done = install(context, Request(patches=(NEW, KNOWN)), python)
        source = done.lock.source
        assert (source.kind, source.version, done.outcome) == ("environment", LOCAL, "installed")
        assert {patch.id for patch in done.lock.patches} == {NEW, KNOWN}
        there = verify_env(context, python).vllm
        assert (there.state, there.is_clean) == ("installed", True)
        # What a patch touches is compared with what the patches make of the vendor's file.
        assert there.other_files == tuple(sorted([MTP, ENVS]))
        uninstall(python)
        assert snapshot(made.site) == before
        there = verify_env(context, python).vllm
        assert (there.state, there.is_clean) == ("build", False)
        assert there.other_files == tuple(sorted(EDITS))
        assert there.explained == {}
