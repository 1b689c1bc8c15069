"""What is asked of an OpenAI-compatible server, and of its counters."""

from __future__ import annotations

import json
import ssl
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import requests
from urllib3.exceptions import ReadTimeoutError

from vpatch.harness.measured import CACHED, PREEMPTIONS, Output, counters_from
from vpatch.util.limited import LimitedAdapter
from vpatch.util.untrusted import MEGABYTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prometheus_client.samples import Sample
    from pydantic import JsonValue

    from vpatch.harness.predict import Counters

    _Body = dict[str, JsonValue]
    _TextOf = Callable[[Any], str]

MODEL = "smoke"
_CHAT = "/v1/chat/completions"
# What comes of an answer of another shape than the API's.
_OTHER_SHAPES = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
_CONNECT_SECONDS = 10.0
_POLL_SECONDS = 0.3
# A token takes 300 bytes of a stream, so this is for a million of them.
_LARGEST = 300 * MEGABYTE
_GENERATED = "vllm:generation_tokens_total"
_BY_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos"


class AnswerError(Exception):
    """The server answered, and not as the API says."""


class TooLongError(Exception):
    """The time of the cell ran out, while the server still answered."""


class Tally(NamedTuple):
    """What vLLM itself counts: tokens that it made, drafts, and those of prompts from its cache.

    `preemptions` counts requests that had to wait and begin again.
    """

    generated: int
    counters: Counters
    cached: int
    preemptions: int


@dataclass(frozen=True)
class Client:
    """A server; `patience` is how long it may be silent, in seconds.

    `deadline` is when all must have been answered, by the clock of time.monotonic; `key` is what
    the server wants to see, if it is somebody's.
    """

    url: str
    patience: float
    deadline: float
    key: str | None = field(default=None, repr=False)

    def is_healthy(self) -> bool:
        try:
            return self._get("/health").ok
        except requests.ConnectionError:
            return False

    def models(self) -> list[str]:
        return list(self.roots())

    def roots(self) -> dict[str, str | None]:
        """Return what each model was loaded from, by the name that it is served by."""
        with _refuse_other_shapes("/v1/models"):
            models = self._json(self._get("/v1/models"))["data"]
            return {model["id"]: model.get("root") for model in models}

    def version(self) -> str | None:
        """Return the version of vLLM; None of a server that does not tell."""
        with _refuse_other_shapes("/version"):
            response = self._get("/version")
            return str(response.json()["version"]) if response.ok else None

    def speculative_tokens(self) -> int | None:
        """Return k, for each position of a draft has a counter; None without vLLM's counters."""
        samples = self._samples()
        if not any(sample.name == _GENERATED for sample in samples):
            return None
        name = f"{_BY_POSITION}_total"
        with _refuse_other_shapes("/metrics"):
            return len({sample.labels["position"] for sample in samples if sample.name == name})

    def complete(
        self, prompt: str | Sequence[int], settings: Mapping[str, JsonValue], *, patience: float
    ) -> Output:
        """Ask for a completion in one piece, which takes as long as all of it."""
        body = _completion(prompt, settings)
        return self._whole("/v1/completions", body, lambda choice: choice["text"], patience)

    def stream(self, prompt: str | Sequence[int], settings: Mapping[str, JsonValue]) -> Output:
        """Ask for a completion piece by piece: each must come in time."""
        body = _completion(prompt, settings)
        return self._stream("/v1/completions", body, lambda choice: choice["text"])

    def chat(self, text: str, settings: Mapping[str, JsonValue], *, patience: float) -> Output:
        body = _chat(text, settings)
        return self._whole(_CHAT, body, lambda choice: choice["message"]["content"] or "", patience)

    def stream_chat(self, text: str, settings: Mapping[str, JsonValue]) -> Output:
        body = _chat(text, settings)
        return self._stream(_CHAT, body, lambda choice: choice["delta"].get("content") or "")

    def counters(self) -> Tally:
        with _refuse_other_shapes("/metrics"):
            return self._counters()

    def _counters(self) -> Tally:
        totals = defaultdict[str, float](float)
        generated, positions = 0.0, defaultdict[int, float](float)
        for sample in self._samples():
            name = sample.name.removesuffix("_total")
            if sample.name == _GENERATED:
                generated += sample.value
            elif name == _BY_POSITION and name != sample.name:
                positions[int(sample.labels["position"])] += sample.value
            elif name != sample.name:
                totals[name] += sample.value
        by_position = [positions[position] for position in sorted(positions)]
        counters = counters_from({**totals, _BY_POSITION: by_position})
        return Tally(int(generated), counters, int(totals[CACHED]), int(totals[PREEMPTIONS]))

    def counters_after(self, generated: int, seconds: float) -> Tally:
        """Return `counters` once that many tokens were made, or after so long in any case.

        They follow the answers a little later.
        """
        deadline = time.monotonic() + seconds
        while True:
            tally = self.counters()
            if tally.generated >= generated or time.monotonic() > deadline:
                return tally
            time.sleep(_POLL_SECONDS)

    def _samples(self) -> list[Sample]:
        # Of the extra `engine`; `vpatch evidence` imports this module without it.
        from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

        with _refuse_other_shapes("/metrics"):
            response = self._get("/metrics")
            self._refuse_error(response)
            families = text_string_to_metric_families(response.text)
            return [sample for family in families for sample in family.samples]

    def _whole(self, path: str, body: _Body, text_of: _TextOf, patience: float) -> Output:
        with _refuse_other_shapes(path):
            answer = self._json(self._post(path, body, patience))
            (choice,) = answer["choices"]
            return _output(text_of(choice), choice.get("token_ids"), answer["usage"])

    def _stream(self, path: str, body: _Body, text_of: _TextOf) -> Output:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        text, usage, pieces = "", None, 0
        tokens: list[int] = []
        with _refuse_other_shapes(path):
            for piece in self._events(path, body):
                for choice in piece["choices"]:
                    new = text_of(choice)
                    pieces += bool(new)
                    text += new
                    tokens += choice.get("token_ids") or []
                usage = piece.get("usage") or usage
                if time.monotonic() > self.deadline:
                    raise TooLongError(path)
            if usage is None:
                raise AnswerError(f"{path} streamed no usage, which was asked for")
            output = _output(text, tokens or None, usage)
        return replace(output, pieces=pieces)

    def _events(self, path: str, body: _Body) -> Iterator[Any]:
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
        with self._session() as session:
            return session.get(self.url + path, timeout=(_CONNECT_SECONDS, self.patience))

    def _post(
        self, path: str, body: _Body, patience: float, *, stream: bool = False
    ) -> requests.Response:
        timeout = (_CONNECT_SECONDS, patience)
        with self._session() as session:
            return session.post(self.url + path, json=body, timeout=timeout, stream=stream)

    def _json(self, response: requests.Response) -> Any:
        self._refuse_error(response)
        return response.json()

    def _session(self) -> requests.Session:
        """Without the proxies and passwords of the user's environment."""
        session = requests.Session()
        session.trust_env = False
        # Longer than the deadline, by which a stream ends as one that took too long.
        seconds = max(self.deadline - time.monotonic(), 0.0) + self.patience
        session.mount("http://", LimitedAdapter(streamed=_LARGEST, seconds=seconds))
        session.mount("https://", _AsOpenSSL(streamed=_LARGEST, seconds=seconds))
        if self.key is not None:
            session.headers["Authorization"] = f"Bearer {self.key}"
        return session

    @staticmethod
    def _refuse_error(response: requests.Response) -> None:
        if not response.ok:
            raise AnswerError(
                f"{response.request.path_url} answered {response.status_code}: "
                f"{response.text[:300]}"
            )


class _AsOpenSSL(LimitedAdapter):
    """Verifies TLS as vLLM's sender does: by OpenSSL's defaults, SSL_CERT_FILE and _DIR."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs, ssl_context=ssl.create_default_context())

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """Leave it to the context; requests would add authorities of its own."""


def _lines(response: requests.Response) -> Iterator[bytes]:
    try:
        yield from response.iter_lines()
    except requests.ConnectionError as error:
        # requests has no time-out of its own for what comes after the head of an answer.
        if error.args and isinstance(error.args[0], ReadTimeoutError):
            raise requests.ReadTimeout(str(error)) from error
        raise


@contextmanager
def _refuse_other_shapes(path: str) -> Iterator[None]:
    """Whatever is wrong with the shape of an answer is the server's fault."""
    try:
        yield
    except requests.RequestException:
        raise  # some of them are ValueErrors as well
    except _OTHER_SHAPES as error:
        name = type(error).__name__
        raise AnswerError(f"{path} answered what is not understood: {name}: {error}") from error


def _output(text: str, tokens: list[int] | None, usage: Mapping[str, int]) -> Output:
    return Output(text, None if tokens is None else tuple(tokens), usage["completion_tokens"])


def _completion(prompt: str | Sequence[int], settings: Mapping[str, JsonValue]) -> _Body:
    listed: JsonValue = prompt if isinstance(prompt, str) else [*prompt]
    return {"model": MODEL, "prompt": listed, "return_token_ids": True, **settings}


def _chat(text: str, settings: Mapping[str, JsonValue]) -> _Body:
    message: JsonValue = {"role": "user", "content": text}
    return {"model": MODEL, "messages": [message], "return_token_ids": True, **settings}
