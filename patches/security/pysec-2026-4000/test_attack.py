"""A bad word whose token the tokenizer knows, and the model has no logit for."""

from __future__ import annotations

import pytest
from tiny_mtp import VOCABULARY, write_checkpoint
from transformers import AutoTokenizer

from vllm import SamplingParams
from vllm.config import ModelConfig, VllmConfig
from vllm.v1.engine.input_processor import InputProcessor

PLACEHOLDER = "<image_pad>"


@pytest.fixture(scope="module")
def processor(tmp_path_factory):
    folder = str(write_checkpoint(tmp_path_factory.mktemp("model")))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([PLACEHOLDER], special_tokens=True)
    tokenizer.save_pretrained(folder)
    config = ModelConfig(model=folder, tokenizer=folder, dtype="float32")
    return InputProcessor(VllmConfig(model_config=config))


def send(processor, word):
    request = processor.process_inputs(
        "request",
        {"type": "token", "prompt_token_ids": [5]},
        SamplingParams(bad_words=[word], max_tokens=1),
        supported_tasks=("generate",),
    )
    return request.sampling_params.bad_words_token_ids


def test_a_word_without_a_logit_is_refused(processor):
    token_id = processor.tokenizer.convert_tokens_to_ids(PLACEHOLDER)
    assert token_id >= processor.model_config.get_vocab_size()
    with pytest.raises(ValueError, match=f"as bad: .*{token_id}.* <= {VOCABULARY - 1}"):
        send(processor, PLACEHOLDER)


def test_a_word_of_the_vocabulary_is_accepted(processor):
    word = processor.tokenizer.convert_ids_to_tokens(7)
    ids = send(processor, word)
    assert ids
    assert max(max(each) for each in ids) < VOCABULARY
