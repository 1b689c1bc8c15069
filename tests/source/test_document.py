"""A file behind a URL, fetched from a real server by https."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
import trustme

from tests.helpers import fails
from tests.index_server import Index, serve
from tests.waiting import LIMIT
from vpatch.source.document import fetch_document
from vpatch.source.pip_settings import PipSettings

CONTENT = b'{"id": "CVE-2026-1234"}' * 5000
LENGTH = len(CONTENT)


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def server(authority):
    with serve(Index(archives={"all.json": CONTENT}), authority) as served:
        yield served


@pytest.fixture
def trusting(authority, tmp_path, monkeypatch):
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(variable, raising=False)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return PipSettings(cert=str(tmp_path / "ca.pem"), timeout=LIMIT, retries=0)


@pytest.fixture
def fetch(trusting, notes):
    def fetched(url, *, settings=trusting, limit=LENGTH):
        file = io.BytesIO()
        fetch_document(url, file, limit=limit, settings=settings, progress=notes)
        return file.getvalue()

    return fetched


def address(server, path="/all.json"):
    return server.url.removesuffix("/simple") + path


def test_a_file_comes_by_https(server, fetch):
    assert address(server).startswith("https:")
    assert fetch(address(server)) == CONTENT


def test_a_redirect_is_followed(server, fetch):
    server.answers["/latest"] = 302
    server.headers["/latest"] = {"Location": "/all.json"}
    assert fetch(address(server, "/latest")) == CONTENT
    assert server.asked == ["/latest", "/all.json"]


def test_redirects_that_do_not_end(server, fetch):
    server.answers["/round"] = 302
    server.headers["/round"] = {"Location": "/round"}
    with fails("source.url-unreachable", "redirects too often: Exceeded 30 redirects"):
        fetch(address(server, "/round"))


def test_nobody_is_led_to_the_clear(server, fetch):
    with serve(Index(archives={"all.json": CONTENT})) as clear:
        server.answers["/latest"] = 302
        server.headers["/latest"] = {"Location": address(clear)}
        with fails("source.unsafe-answer", r"leads to http://.*, which is less safe"):
            fetch(address(server, "/latest"))
        assert clear.asked == []


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (404, "source.url-refused"),
        (403, "source.url-refused"),
        (429, "source.url-unreachable"),
        (500, "source.url-unreachable"),
        (503, "source.url-unreachable"),
    ],
)
def test_a_server_that_refuses(server, fetch, status, code):
    server.answers["/all.json"] = status
    with fails(code, f"^{address(server)}: the server answered {status} "):
        fetch(address(server))


def test_a_server_that_fails_is_asked_again(server, fetch, trusting):
    server.answers["/all.json"] = 503
    with fails("source.url-unreachable", "the server answered 503"):
        fetch(address(server), settings=replace(trusting, retries=1))
    assert server.count("/all.json") == 2


def test_an_answer_that_is_cut_off(server, fetch):
    server.answers["/all.json"] = "cut"
    with fails("source.download-cut-off", rf"file was cut off: \d+ bytes of {LENGTH} "):
        fetch(address(server))


def test_an_answer_that_is_too_large(server, fetch):
    with fails("source.unsafe-answer", "the answer is larger than"):
        fetch(address(server), limit=LENGTH - 1)


def test_a_certificate_that_nobody_knows(server, fetch, trusting):
    with fails("source.url-unreachable", "certificate verify failed"):
        fetch(address(server), settings=replace(trusting, cert=None))
    assert server.asked == []


def test_nobody_listens(server, fetch):
    url = address(server)
    with serve(Index()) as gone:
        url = address(gone).replace("http:", "https:")
    with fails("source.url-unreachable", "the server cannot be reached"):
        fetch(url)


@pytest.mark.parametrize("url", ["https://", "https://[/x", "https://host:port/x"])
def test_what_is_no_url(fetch, url):
    with fails("source.wrong-url"):
        fetch(url)


def test_the_clear_is_for_hosts_that_pip_trusts(fetch, trusting):
    with serve(Index(archives={"all.json": CONTENT})) as clear:
        with fails("source.insecure-url", "changed on its way"):
            fetch(address(clear))
        assert clear.asked == []
        for settings in (
            replace(trusting, trusted_hosts=("127.0.0.1",)),
            replace(trusting, index_url=clear.url.replace("//", "//user:word@")),
        ):
            assert fetch(address(clear), settings=settings) == CONTENT


def test_credentials_in_the_url_are_sent_and_not_shown(server, fetch, notes):
    url = address(server).replace("//", "//me:hunter2@")
    assert fetch(url) == CONTENT
    assert server.authorized == ["Basic bWU6aHVudGVyMg=="]
    server.answers["/all.json"] = 404
    with fails("source.url-refused") as caught:
        fetch(url + "?token=hunter2")
    assert "hunter2" not in f"{caught.value} {notes.started}"
