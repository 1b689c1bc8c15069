"""What is said of the mode of an image before anything is built; no Docker is asked."""

from __future__ import annotations

import pytest

from tests.projects import VERSION
from vpatch.cli import build_image_command
from vpatch.smoke.machine import this_machine

DRY = ("build-image", "--vllm", VERSION, "--dry-run")
NOTE = "note: the image is an overlay, so python:3.12 must have vLLM 0.50.0; --mode cpu installs"


@pytest.fixture
def gpus(monkeypatch):
    """Make the machine one with or without GPUs."""

    def having(*names):
        machine = this_machine()
        object.__setattr__(machine, "gpus", names)
        monkeypatch.setattr(build_image_command, "this_machine", lambda: machine)

    return having


def test_a_base_on_a_machine_without_a_gpu(project, gpus):
    gpus()
    assert NOTE in project.run(*DRY, "--base", "python:3.12").err


@pytest.mark.parametrize("options", [("--mode", "overlay"), ("--mode", "cpu")])
def test_a_mode_that_was_asked_for_needs_no_word(project, gpus, options):
    gpus()
    assert "note: the image" not in project.run(*DRY, "--base", "python:3.12", *options).err


def test_a_base_on_a_machine_with_a_gpu(project, gpus):
    gpus("NVIDIA H200")
    assert "note: the image" not in project.run(*DRY, "--base", "python:3.12").err
