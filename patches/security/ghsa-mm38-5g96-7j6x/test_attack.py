"""An image with more pixels than Pillow allows, beside a Nemotron-VL processor."""

from __future__ import annotations

import importlib
from io import BytesIO

import pytest
from PIL import Image

from vllm.multimodal.media import ImageMediaIO

MODULES = [
    importlib.import_module(f"vllm.transformers_utils.processors.{name}")
    for name in ("nemotron_vl", "nano_nemotron_vl")
]
LIMIT = 10


def png(width, height):
    data = BytesIO()
    Image.new("RGB", (width, height)).save(data, "PNG")
    return data.getvalue()


@pytest.fixture(params=MODULES, ids=lambda module: module.__name__)
def imported(request, monkeypatch):
    """Import the module in a process whose limit is small."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", LIMIT)
    return importlib.reload(request.param)


@pytest.mark.usefixtures("imported")
def test_the_import_leaves_the_limit_alone():
    assert Image.MAX_IMAGE_PIXELS == LIMIT


@pytest.mark.usefixtures("imported")
def test_an_image_with_too_many_pixels_is_refused():
    with pytest.raises(Image.DecompressionBombError, match="exceeds limit of 20"):
        ImageMediaIO().load_bytes(png(7, 7))


@pytest.mark.usefixtures("imported")
def test_an_image_within_the_limit_is_read():
    found = ImageMediaIO().load_bytes(png(3, 3))
    assert getattr(found, "media", found).size == (3, 3)
