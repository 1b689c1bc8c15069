from __future__ import annotations

import pytest

from tests.helpers import fails
from tests.image.locks import lock_of_files
from vpatch.image.mode import choose_mode, is_laid_over, is_shipped, to_build

PYTHON = "vllm/layer.py"


@pytest.mark.parametrize(
    ("path", "shipped", "laid_over"),
    [
        (PYTHON, True, True),
        ("vllm/models/deepseek_v4/nvidia/mtp.py", True, True),
        ("vllm/model_executor/layers/fused_moe/configs/E=8.json", True, False),
        ("csrc/attention.cu", True, False),
        ("cmake/external_projects/deepgemm.cmake", True, False),
        ("setup.py", True, False),
        ("requirements/common.txt", True, False),
        ("tests/v1/test_mtp.py", False, False),
        ("docs/index.md", False, False),
        ("examples/tool_chat_template.jinja", True, False),
        ("benchmarks/serve.py", True, False),
        ("README.md", False, False),
        (".github/workflows/ci.yml", False, False),
    ],
)
def test_what_becomes_of_a_file(path, shipped, laid_over):
    assert is_shipped(path) is shipped
    assert is_laid_over(path) is laid_over


@pytest.mark.parametrize(
    ("paths", "asked", "has_base", "has_gpu", "chosen"),
    [
        ([PYTHON], None, False, False, "cpu"),
        ([PYTHON], None, False, True, "overlay"),
        ([PYTHON], None, True, False, "overlay"),
        ([PYTHON], "cpu", True, True, "cpu"),
        ([PYTHON], "source", False, False, "source"),
        ([PYTHON, "tests/test_layer.py"], None, False, False, "cpu"),
        ([PYTHON, "csrc/a.cu"], None, True, True, "source"),
        ([], None, False, False, "cpu"),
    ],
)
def test_the_least_that_carries_the_patches(paths, asked, has_base, has_gpu, chosen):
    lock = lock_of_files({"one": paths})
    assert choose_mode(lock, asked=asked, has_base=has_base, has_gpu=has_gpu) == chosen


@pytest.mark.parametrize("mode", ["overlay", "cpu"])
def test_a_mode_that_cannot_carry_a_patch(mode):
    lock = lock_of_files({"one": [PYTHON], "two": ["csrc/a.cu", "setup.py"]})
    assert to_build(lock) == ["csrc/a.cu", "setup.py"]
    with fails("image.wrong-mode") as caught:
        choose_mode(lock, asked=mode, has_base=True, has_gpu=True)
    assert caught.value.what == (
        f"an image in the mode {mode} cannot carry files that need a build: csrc/a.cu, setup.py"
    )
    assert caught.value.where == "two"
    assert caught.value.hint == "use --mode source, or leave out these patches"
