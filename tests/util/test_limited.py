"""Servers whose answers never end: each read has a limit of size and one of time."""

from __future__ import annotations

import gzip
import io
from contextlib import contextmanager

import pytest
import requests

from tests.helpers import fails
from tests.raw_server import dripping, for_ever, head, sending
from vpatch.errors import VpatchError
from vpatch.github.client import GitHub
from vpatch.progress import Silent
from vpatch.source import network
from vpatch.source.document import fetch_document
from vpatch.source.network import download, list_releases
from vpatch.source.pip_settings import PipSettings
from vpatch.source.release import Release
from vpatch.util import limited
from vpatch.util.limited import LimitedAdapter, PatientRetry, TooLargeError, TooSlowError

LIMIT = 100_000
SPACE = b" " * 1000
CHUNK = b"3e8\r\n" + SPACE + b"\r\n"
BOMB = gzip.compress(bytes(LIMIT + 1))
CHUNKED = {"Transfer_Encoding": "chunked"}

# Each is an answer to a request, and the error of `LimitedAdapter`.
LARGE = {
    "without an end": [head(), *for_ever(SPACE)],
    "206 without an end": [head("206 Partial Content"), *for_ever(SPACE)],
    "a wrong Content-Range": [
        head("206 Partial Content", Content_Range="bytes 0-0/1"),
        *for_ever(SPACE),
    ],
    "chunked, without an end": [head(**CHUNKED), *for_ever(CHUNK)],
    "one chunk without an end": [head(**CHUNKED), b"fffffff\r\n", *for_ever(SPACE)],
    "a length that is too large": [head(Content_Length=10**12), *for_ever(SPACE)],
    "two lengths": [head(Content_Length=7, **CHUNKED), *for_ever(CHUNK)],
    "packed": [head(Content_Encoding="gzip"), BOMB],
    "packed twice": [head(Content_Encoding="gzip, gzip"), gzip.compress(BOMB)],
    "an error without an end": [head("404 Not Found"), *for_ever(SPACE)],
    "a redirection with too much": [
        head("302 Found", Location="/end", Content_Length=10**9),
        *for_ever(SPACE),
    ],
}
SLOW = {
    "the head": dripping(head() + SPACE),
    "the status": dripping(b"HTTP/1.1 200 " + SPACE),
    "the body": [head(), *dripping(SPACE)],
    "a body with a length": [head(Content_Length=1000), *dripping(SPACE)],
    "chunks": [head(**CHUNKED), *dripping(b"1\r\n \r\n" * 200)],
    "the length of a chunk": [head(**CHUNKED), *dripping(b"0" * 999)],
    "later, and later": dripping(head("100 Continue") * 20),
    "packed": [head(Content_Encoding="gzip"), *dripping(gzip.compress(SPACE, 0))],
}


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(limited, "_LARGEST_REDIRECTION", LIMIT)


def get(answers, *, stream=False, **limits):
    with sending(answers) as port, requests.Session() as session:
        session.trust_env = False
        session.mount("http://", LimitedAdapter(**limits))
        with session.get(f"http://127.0.0.1:{port}/", stream=stream, timeout=5) as response:
            return b"".join(response.iter_content(1000))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", LARGE)
def test_an_answer_that_is_too_large(name, stream):
    with pytest.raises((TooLargeError, requests.exceptions.InvalidHeader)):
        get(lambda _: LARGE[name], limit=LIMIT, stream=stream)


@pytest.mark.parametrize("name", SLOW)
def test_an_answer_that_is_too_slow(name):
    pieces = list(SLOW[name])
    with pytest.raises(TooSlowError, match=r"the answer takes longer than 0.2 s"):
        get(lambda _: pieces, seconds=0.2)


def test_an_answer_within_its_limits():
    assert get(lambda _: [head(Content_Length=1000), SPACE], limit=1000) == SPACE
    assert get(lambda _: [head(Content_Length=1000), SPACE], limit=1000, seconds=60) == SPACE


def test_a_head_that_is_too_large():
    answer = [head(**{f"X-{n}": "y" * 9000 for n in range(200)})]
    with pytest.raises(requests.ConnectionError, match="more than 100 headers"):
        get(lambda _: answer)


@pytest.mark.parametrize(
    ("asked", "waited"),
    [("7", 7), ("86400", 30), ("9" * 5000, None), ("²", None), ("Fri, 31 Dec 9999", None)],
)
def test_a_server_that_asks_for_patience(asked, waited):
    answer = type("Answer", (), {"headers": {"Retry-After": asked}})()
    assert PatientRetry(3).get_retry_after(answer) == waited


@contextmanager
def fails_with(*codes):
    with pytest.raises(VpatchError) as caught:
        yield
    assert caught.value.code in codes


ADDRESSES = ["http://[", "http://[::1", b"http://\xff\xfe", "http://" + "a" * 300 + ".b", "//\x00"]


def located(address):
    text = address.encode() if isinstance(address, str) else address
    return [b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + text + b"\r\n\r\n"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_redirections_to_what_is_no_address(address, tmp_path):
    """In each way by which vpatch reads from a server."""
    with sending(lambda _: located(address)) as port:
        url = f"http://127.0.0.1:{port}/simple"
        settings = PipSettings(
            index_url=url, timeout=5.0, retries=0, trusted_hosts=(f"127.0.0.1:{port}",)
        )
        codes = "source.wrong-url", "source.index-unreachable", "source.not-an-index"
        with fails_with(*codes):
            list_releases("vllm", settings)
        release = Release("vllm", "0.23.0", "a.tar.gz", f"{url}/a.tar.gz", "0" * 64, None, False)
        with fails_with(*codes):
            download(release, tmp_path / "a", "0" * 64, settings=settings, progress=Silent())
        with fails_with("source.wrong-url", "source.url-unreachable"):
            fetch_document(url, io.BytesIO(), limit=9, settings=settings, progress=Silent())


@pytest.fixture
def slow(monkeypatch):
    """Limits of time that a test can wait for."""
    monkeypatch.setattr(network, "LONGEST_DOWNLOAD", 0.2)
    monkeypatch.setattr(limited.LimitedAdapter.__init__, "__kwdefaults__", {
        **limited.LimitedAdapter.__init__.__kwdefaults__, "seconds": 0.2,
    })  # fmt: skip


@pytest.mark.usefixtures("slow")
def test_all_readers_have_limits_of_time(tmp_path, monkeypatch):
    pieces = [head(Content_Type="text/html"), *dripping(SPACE)]
    with sending(lambda _: pieces) as port:
        url = f"http://127.0.0.1:{port}"
        settings = PipSettings(index_url=url, timeout=5.0, retries=0)
        with fails("source.index-unreachable", "is too slow: the answer takes longer than 0.2 s"):
            list_releases("vllm", settings)
        release = Release("vllm", "0.23.0", "a.tar.gz", f"{url}/a.tar.gz", "0" * 64, None, False)
        with fails("source.index-unreachable", "is too slow"):
            download(release, tmp_path / "a", "0" * 64, settings=settings, progress=Silent())
        assert not (tmp_path / "a").exists()
        with fails("source.url-unreachable", "the server is too slow"):
            fetch_document(url, io.BytesIO(), limit=9000, settings=settings, progress=Silent())
        monkeypatch.setenv("GH_TOKEN", "")
        with fails("github.unreachable", "GitHub did not answer in time"):
            GitHub(url).tags("vllm-project/vllm")
