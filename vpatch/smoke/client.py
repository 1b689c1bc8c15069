"""What is asked of an OpenAI-compatible server, and of its counters."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import requests
from prometheus_client.parser import text_string_to_metric_families
from urllib3.exceptions import ReadTimeoutError

from vpatch.smoke.measured import Output, counters_from

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vpatch.smoke.predict import Counters

MODEL = "smoke"
_CONNECT_SECONDS = 10.0
_GENERATED = "vllm:generation_tokens_total"
_BY_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos"


class AnswerError(Exception):
    """The server answered, and not as the API says."""


@dataclass(frozen=True)
class Client:
    """A server on this machine; `patience` is how long it may be silent, in seconds."""

    url: str
    patience: float

    def is_healthy(self) -> bool:
        try:
            return self._get("/health").ok
        except requests.ConnectionError:
            return False

    def models(self) -> list[str]:
        return [model["id"] for model in self._json(self._get("/v1/models"))["data"]]

    def complete(self, prompt: Any, settings: Mapping[str, Any], *, patience: float) -> Output:
        """Ask for a completion in one piece, which takes as long as all of it."""
        body = {"model": MODEL, "prompt": prompt, **settings}
        answer = self._json(self._post("/v1/completions", body, patience))
        return Output(answer["choices"][0]["text"], None, answer["usage"]["completion_tokens"])

    def stream(self, prompt: Any, settings: Mapping[str, Any]) -> Output:
        """Ask for a completion piece by piece: each must come in time."""
        body = {"model": MODEL, "prompt": prompt, **settings}
        return self._streamed("/v1/completions", body, lambda choice: choice["text"])

    def chat(self, text: str, settings: Mapping[str, Any], *, patience: float) -> Output:
        answer = self._json(self._post("/v1/chat/completions", _chat(text, settings), patience))
        message = answer["choices"][0]["message"]
        return Output(message["content"] or "", None, answer["usage"]["completion_tokens"])

    def stream_chat(self, text: str, settings: Mapping[str, Any]) -> Output:
        body = _chat(text, settings)
        return self._streamed(
            "/v1/chat/completions", body, lambda choice: choice["delta"].get("content") or ""
        )

    def counters(self) -> tuple[int, Counters]:
        """Return vLLM's own count of the tokens that it made, and its counters of drafts."""
        found: dict[str, Any] = {}
        generated, positions = 0.0, dict[int, float]()
        for family in text_string_to_metric_families(self._get("/metrics").text):
            for sample in family.samples:
                if sample.name == _GENERATED:
                    generated += sample.value
                elif sample.name == f"{_BY_POSITION}_total":
                    position = int(sample.labels["position"])
                    positions[position] = positions.get(position, 0) + sample.value
                elif sample.name == f"{family.name}_total":
                    found[family.name] = found.get(family.name, 0) + sample.value
        found[_BY_POSITION] = [positions[position] for position in sorted(positions)]
        return int(generated), counters_from(found)

    def _streamed(self, path: str, body: dict[str, Any], text_of: Any) -> Output:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        text, count = "", None
        for piece in self._events(path, body):
            for choice in piece["choices"]:
                text += text_of(choice)
            if piece.get("usage"):
                count = piece["usage"]["completion_tokens"]
        if count is None:
            raise AnswerError(f"{path} streamed no usage, which was asked for")
        return Output(text, None, count)

    def _events(self, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        with self._post(path, body, self.patience, stream=True) as response:
            self._refuse_error(response)
            for line in _lines(response):
                if not line.startswith(b"data: "):
                    continue
                data = line.removeprefix(b"data: ")
                if data == b"[DONE]":
                    return
                piece = json.loads(data)
                if "error" in piece:
                    raise AnswerError(f"{path} broke off: {piece['error']}")
                yield piece
        raise AnswerError(f"{path} ended its stream without [DONE]")

    def _get(self, path: str) -> requests.Response:
        return requests.get(self.url + path, timeout=(_CONNECT_SECONDS, self.patience))

    def _post(
        self, path: str, body: dict[str, Any], patience: float, *, stream: bool = False
    ) -> requests.Response:
        timeout = (_CONNECT_SECONDS, patience)
        return requests.post(self.url + path, json=body, timeout=timeout, stream=stream)

    def _json(self, response: requests.Response) -> Any:
        self._refuse_error(response)
        return response.json()

    @staticmethod
    def _refuse_error(response: requests.Response) -> None:
        if not response.ok:
            raise AnswerError(
                f"{response.request.path_url} answered {response.status_code}: "
                f"{response.text[:300]}"
            )


def _lines(response: requests.Response) -> Iterator[bytes]:
    try:
        yield from response.iter_lines()
    except requests.ConnectionError as error:
        # requests has no time-out of its own for what comes after the head of an answer.
        if error.args and isinstance(error.args[0], ReadTimeoutError):
            raise requests.ReadTimeout(str(error)) from error
        raise


def _chat(text: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], **settings}
