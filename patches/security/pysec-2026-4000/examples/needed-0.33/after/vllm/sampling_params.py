import msgspec
import vllm.envs as envs
from vllm.config import ModelConfig, SpeculativeConfig, StructuredOutputsConfig
from vllm.exceptions import VLLMValidationError
from vllm.tokenizers import TokenizerLike
from vllm.v1.serial_utils import PydanticMsgspecMixin


class SamplingParams(
    PydanticMsgspecMixin,
    msgspec.Struct,
    omit_defaults=True,  # type: ignore[call-arg]
    # required for @cached_property.
    dict=True,
):  # type: ignore[call-arg]
    def update_from_tokenizer(
        self, tokenizer: TokenizerLike, model_config: ModelConfig | None = None
    ) -> None:
        if not self.bad_words:
            return
        self._bad_words_token_ids = []
        max_num_bad_words = envs.VLLM_MAX_NUM_BAD_WORDS
        for bad_word in self.bad_words:
            # To prohibit words both at the beginning
            # and in the middle of text
            # (related to add_prefix_space tokenizer parameter)
            for add_prefix_space in [False, True]:
                prefix = " " if add_prefix_space else ""
                prompt = prefix + bad_word.lstrip()
                prompt_token_ids = tokenizer.encode(
                    text=prompt, add_special_tokens=False
                )

                if not prompt_token_ids:
                    if not add_prefix_space:
                        raise VLLMValidationError(
                            "bad_words entries must tokenize to at least one token.",
                            parameter="bad_words",
                            value=self.bad_words,
                        )
                    # The unprefixed form is still enforceable when only the
                    # optional space-prefixed form tokenizes to nothing.
                    continue

                # If no space at the beginning
                # or if prefix space produces a new word token
                if (not add_prefix_space) or (
                    add_prefix_space
                    and prompt_token_ids[0] != self._bad_words_token_ids[-1][0]
                    and len(prompt_token_ids) == len(self._bad_words_token_ids[-1])
                ):
                    self._bad_words_token_ids.append(prompt_token_ids)
                    if len(self._bad_words_token_ids) > max_num_bad_words:
                        raise VLLMValidationError(
                            f"Too many bad words after tokenization: "
                            f"{len(self._bad_words_token_ids)}. "
                            f"The max number is {max_num_bad_words}.",
                            parameter="bad_words",
                            value=self.bad_words,
                        )

        # A tokenizer may know ids that have no logit, such as placeholders.
        max_token_id = tokenizer.max_token_id
        if model_config is not None:
            max_token_id = min(max_token_id, model_config.get_vocab_size() - 1)
        invalid_token_ids = [
            token_id
            for bad_words_token_ids in self._bad_words_token_ids
            for token_id in bad_words_token_ids
            if token_id < 0 or token_id > max_token_id
        ]
        if len(invalid_token_ids) > 0:
            raise VLLMValidationError(
                f"The model vocabulary size is {max_token_id + 1},"
                f" but the following tokens"
                f" were specified as bad: {invalid_token_ids}."
                f" All token id values should be integers satisfying:"
                f" 0 <= token_id <= {max_token_id}.",
                parameter="bad_words",
                value=self.bad_words,
            )

    def _validate_stop_token_ids(self, model_config: ModelConfig) -> None:
        """Validate stop_token_ids are within vocabulary range."""
        if not self.stop_token_ids:
            return

        # stop_token_ids are used as column indices into the logits tensor,
        # whose width is the model's vocab size (LogitsProcessor is built from
        # config.vocab_size, InputBatch.vocab_size comes from
        # model_config.get_vocab_size()), so use the same bound here — like
        # _validate_logit_bias, which indexes the same tensor.
        vocab_size = model_config.get_vocab_size()
        invalid_token_ids = [
            token_id
            for token_id in self.stop_token_ids
            if token_id < 0 or token_id >= vocab_size
        ]

        if invalid_token_ids:
            raise VLLMValidationError(
                f"token_id(s) {invalid_token_ids} in stop_token_ids contain "
                f"out-of-vocab token ids. Vocabulary size: {vocab_size}",
                parameter="stop_token_ids",
                value=invalid_token_ids,
            )
