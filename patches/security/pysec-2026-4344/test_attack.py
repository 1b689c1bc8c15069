"""A chat template that never ends, and requests behind it."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
from tiny_mtp import write_checkpoint
from transformers import AutoTokenizer

from vllm.config import ModelConfig, VllmConfig
from vllm.renderers import ChatParams, hf

EVIL = "{{ never_ends }}"


@pytest.fixture
def renderer(tmp_path, monkeypatch):
    """Make a renderer in which one template holds its thread until the test ends."""
    end = threading.Event()
    own = hf.safe_apply_chat_template

    def held(*arguments, **keywords):
        if keywords.get("chat_template") == EVIL:
            end.wait()
        return own(*arguments, **keywords)

    monkeypatch.setattr(hf, "safe_apply_chat_template", held)
    folder = str(write_checkpoint(tmp_path))
    config = ModelConfig(model=folder, tokenizer=folder, dtype="float32")
    yield hf.HfRenderer(
        VllmConfig(model_config=config), AutoTokenizer.from_pretrained(folder)
    )
    end.set()


async def render(renderer, text, template=None):
    _, prompt = await renderer.render_messages_async(
        [{"role": "user", "content": text}],
        ChatParams(
            chat_template=template,
            chat_template_kwargs={"tokenize": False},
        ),
    )
    return prompt["prompt"]


def test_a_template_that_never_ends_does_not_hold_the_others_up(renderer):
    async def attack():
        evil = asyncio.create_task(render(renderer, "<001>", EVIL))
        # Without a limit, nothing but this one ends it. It is no part of the measure.
        with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
            await asyncio.wait_for(evil, 20)
        try:
            return await asyncio.wait_for(render(renderer, "<002>"), 20)
        except TimeoutError:
            return "the others wait for it"

    assert asyncio.run(attack()) == "<002>"


def test_another_template_is_rendered(renderer):
    found = render(renderer, "<003>", "{{ messages[0]['content'] }}!")
    assert asyncio.run(found) == "<003>!"
