from __future__ import annotations

import base64
import errno
import hashlib
import json
import math
import os
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests
import trustme

from tests.helpers import fails
from tests.index_server import Index, sdist, serve
from vpatch.errors import ExitCode, VpatchError
from vpatch.source import index as index_module
from vpatch.source import network
from vpatch.source.index import choose
from vpatch.source.pip_settings import PipSettings, read_pip_settings
from vpatch.source.release import Release
from vpatch.source.spec import parse_tree
from vpatch.source.wheel.release import official_wheel
from vpatch.util import limited, record_store
from vpatch.util.record_store import RecordStore
from vpatch.util.untrusted import MEGABYTE

VERSIONS = ["0.22.1", "0.23.0rc1", "0.23.0", "0.23.1", "0.23.2", "0.24.0", "0.30.0rc2"]


def listed(*versions, yanked=()):
    return [Release("vllm", v, "", "", None, None, v in yanked) for v in versions]


@pytest.mark.parametrize(
    ("spec", "chosen"),
    [
        ("0.23", "0.23.2"),
        ("0.23.0", "0.23.0"),
        ("0.23.0rc1", "0.23.0rc1"),
        ("0.30.0rc2", "0.30.0rc2"),
        ("latest", "0.24.0"),
        ("0", "0.24.0"),
    ],
)
def test_choice(spec, chosen):
    assert choose(listed(*VERSIONS), spec).version == chosen


@pytest.mark.parametrize("spec", ["0.30", "0.23.9", "0.25", "1"])
def test_no_match_names_the_nearest(spec):
    with fails("source.no-such-release", r"no (final )?release .* of vllm\n.*nearest"):
        choose(listed(*VERSIONS), spec)


def test_the_latest_of_nothing_but_candidates():
    with fails("source.no-such-release", r"final release latest of vllm\n.*: 0\.23\.0rc1$"):
        choose(listed("0.23.0rc1"), "latest")


def test_a_listing_that_cannot_be_kept_is_asked_for_again(index, opening, monkeypatch):
    def refuse(path, _text):
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(record_store, "replace_file", refuse)
    for _ in range(2):
        opening("0.23").close()
    assert index.count("/simple/") == 2


def test_yanked_only_by_its_exact_name():
    found = listed("0.23.0", "0.23.1", yanked=["0.23.1"])
    assert choose(found, "0.23").version == "0.23.0"
    assert choose(found, "latest").version == "0.23.0"
    assert choose(found, "0.23.1").version == "0.23.1"


def test_the_index_says_what_is_yanked(index, opening):
    index.add("0.23.1")
    index.yanked.add("vllm-0.23.1.tar.gz")
    with opening("0.23") as tree:
        assert tree.pin.version == "0.23.0"


def test_tampered_archive_leaves_nothing(index, opening, tmp_path):
    index.digests["vllm-0.23.0.tar.gz"] = "0" * 64
    found = hashlib.sha256(index.archives["vllm-0.23.0.tar.gz"]).hexdigest()
    with fails("source.digest-mismatch") as caught:
        opening()
    assert found in str(caught.value)
    assert "0" * 64 in str(caught.value)
    assert not list((tmp_path / "cache/staging").iterdir())
    assert not (tmp_path / "cache/trees").exists()


def test_truncated_download(index, opening, tmp_path):
    index.answers["/files/"] = "cut"
    with fails("source.download-cut-off"):
        opening()
    assert not list((tmp_path / "cache/staging").iterdir())


def test_no_digest_is_refused_unless_expected(index, opening):
    index.digests["vllm-0.23.0.tar.gz"] = None
    with fails("source.no-digest"):
        opening()
    right = "sha256:" + hashlib.sha256(index.archives["vllm-0.23.0.tar.gz"]).hexdigest()
    with opening(expected_digest=right) as tree:
        assert tree.pin.digest == right


def test_404_names_project_index_and_the_nearest(index, opening):
    with fails("source.unknown-project") as caught:
        opening(parse_tree("vlm==0.23.0"))
    text = str(caught.value)
    assert "no index knows the project vlm" in text
    assert index.url in text
    assert "did you mean vllm?" in text


def test_500_after_retries(index, opening, settings):
    index.answers["/simple/"] = 500
    with fails("source.index-unreachable", r"answered 500 .*\n.*index-url.*--offline"):
        opening(settings=replace(settings, retries=2))
    assert index.count("/simple/vllm/") == 3


def test_a_passing_500_is_retried(index, opening, settings, monkeypatch):
    page = index.page
    monkeypatch.setattr(index, "page", lambda project: (index.answers.clear(), page(project))[1])
    index.answers["/simple/"] = 503
    with opening(settings=replace(settings, retries=2)) as tree:
        assert tree.pin.version == "0.23.0"


def test_connection_refused(opening, settings):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/simple"
        with fails("source.index-unreachable", r"(?s)cannot be reached.*refused.*--offline"):
            opening(settings=replace(settings, index_url=url))


def test_an_index_that_hangs(index, opening):
    hanging = index.answers["/simple/"] = threading.Event()
    env = {"PIP_INDEX_URL": index.url, "PIP_TIMEOUT": "0.2", "PIP_RETRIES": "0", "HOME": "/none"}
    settings = read_pip_settings(env, etc=Path("/none"), prefix=Path("/none"))
    with fails("source.index-unreachable", r"did not answer within 0\.2 s"):
        opening(settings=settings)
    hanging.set()


def test_an_archive_that_is_gone(index, opening):
    index.answers["/files/"] = 404
    with fails("source.index-refused", "answered 404"):
        opening()


def test_something_else_answers(index, opening):
    index.archives.clear()
    index.answers["/simple/"] = b"<html>please log in</html>"
    with fails("source.no-such-release", "no source archive"):
        opening()


def test_an_index_of_a_later_kind(index, opening):
    index.answers["/simple/"] = b'<meta name="pypi:repository-version" content="9.0">'
    with fails("source.not-an-index"):
        opening()


@pytest.mark.parametrize(
    ("status", "code"),
    [(403, "refused"), (408, "unreachable"), (429, "unreachable"), (503, "unreachable")],
)
def test_what_may_pass_has_another_code_than_what_will_not(index, opening, status, code):
    index.answers["/simple/"] = status
    with fails(f"source.index-{code}") as caught:
        opening()
    assert caught.value.exit_code == ExitCode.ENVIRONMENT


def test_the_extra_index_fills_in(index, opening, settings):
    with serve(Index()) as other:
        other.add("0.24.0")
        with_extra = replace(settings, extra_index_urls=(other.url,))
        with opening("latest", settings=with_extra) as tree:
            assert tree.pin.version == "0.24.0"
        index.archives.clear()  # a 404 in one index is fine if another knows the project
        with_extra = replace(with_extra, extra_index_urls=(other.url + "/",))
        with opening("0.24", settings=with_extra) as tree:
            assert tree.pin.version == "0.24.0"


def test_a_file_index(tmp_path, opening):
    folder = tmp_path / "idx" / "simple"
    (folder / "vllm").mkdir(parents=True)
    data = sdist()
    (folder / "vllm" / "vllm-0.23.0.tar.gz").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    (folder / "vllm" / "index.html").write_text(
        f'<a href="vllm-0.23.0.tar.gz#sha256={digest}">vllm-0.23.0.tar.gz</a>'
    )
    settings = PipSettings(index_url=folder.as_uri())
    with opening("0.23", settings=settings) as tree:
        assert tree.pin.digest == f"sha256:{digest}"
    with fails("source.unknown-project", "no index knows the project other"):
        opening(parse_tree("other==1.0.0"), settings=settings)


def test_a_file_index_with_a_space_in_its_name(tmp_path, opening):
    project = tmp_path / "my index" / "vllm"
    project.mkdir(parents=True)
    data = sdist()
    (project / "vllm-0.23.0.tar.gz").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    (project / "index.html").write_text(
        f'<a href="vllm-0.23.0.tar.gz#sha256={digest}">vllm-0.23.0.tar.gz</a>'
    )
    with opening("0.23", settings=PipSettings(index_url=project.parent.as_uri())) as tree:
        assert tree.pin.digest == f"sha256:{digest}"


def test_a_file_index_that_cannot_be_read(tmp_path, opening):
    (tmp_path / "vllm" / "index.html").mkdir(parents=True)
    settings = PipSettings(index_url=tmp_path.as_uri())
    with fails("source.index-unreachable", r"the index cannot be reached: .*Is a directory"):
        opening("0.23", settings=settings)


def test_a_file_index_that_is_a_pipe(tmp_path, opening):
    (tmp_path / "vllm").mkdir()
    os.mkfifo(tmp_path / "vllm" / "index.html")
    with fails("source.index-unreachable", "is not a regular file"):
        opening("0.23", settings=PipSettings(index_url=tmp_path.as_uri()))


def test_a_file_index_of_another_machine(opening):
    settings = PipSettings(index_url="file://elsewhere/simple")
    with fails("source.wrong-url", r"file://elsewhere/simple/vllm/ names another"):
        opening("0.23", settings=settings)


WRONG = ("nonsense", "ftp://x/y", "http://", "http://localhost:99999/simple", "http://a..b/simple")


@pytest.mark.parametrize("url", [*WRONG, "https://[bad/simple", "http://localhost:x/simple"])
def test_an_address_of_an_index_that_is_none(opening, settings, url):
    with fails("source.wrong-url", "index-url") as caught:
        opening(settings=replace(settings, index_url=url))
    assert (caught.value.where, caught.value.exit_code) == (url, ExitCode.USAGE)
    with fails("source.wrong-url"):
        opening(
            parse_tree("vllm-ascend==0.23.0"), settings=replace(settings, extra_index_urls=(url,))
        )


@pytest.mark.parametrize("proxy", ["nonsense://x", "http://", "http://h:99999", "https://[bad"])
def test_an_address_of_a_proxy_that_is_none(opening, settings, proxy):
    with fails("source.wrong-url", "proxy") as caught:
        opening(settings=replace(settings, proxy=proxy))
    assert caught.value.exit_code == ExitCode.USAGE


def test_a_proxy_that_needs_another_package(opening, settings):
    with fails("source.index-unreachable", "SOCKS") as caught:
        opening(settings=replace(settings, proxy="socks5://127.0.0.1:9"))
    assert caught.value.exit_code == ExitCode.ENVIRONMENT


def test_credentials_are_sent_and_never_told(index, opening, settings, tmp_path):
    url = index.url.replace("://", "://bob:hunter2@")
    secret = replace(settings, index_url=url)
    index.answers["/files/"] = 403
    with fails("source.index-refused", "answered 403") as caught:
        opening(settings=secret)
    wanted = "Basic " + base64.b64encode(b"bob:hunter2").decode()
    assert set(index.authorized) == {wanted}
    index.answers["/simple/"] = 500
    told = [str(caught.value)]
    for spec in ("vlm==1.0.0", "vllm==9.9.9"):
        with pytest.raises(VpatchError) as caught:
            opening(parse_tree(spec), settings=secret)
        told.append(str(caught.value))
    written = [p.read_bytes() for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    assert written
    assert "hunter2" not in "".join(told)
    assert b"hunter2" not in b"".join(written)


def test_credentials_stay_with_their_host(index, opening, settings):
    with serve(Index()) as other:
        url = index.url.replace("://", "://bob:hunter2@")
        with opening(settings=replace(settings, index_url=url, extra_index_urls=(other.url,))):
            pass
        assert other.authorized == [None]


def stored_listing(tmp_path):
    """The list of releases that is kept: its store, its key, and what it says."""
    (kept,) = (tmp_path / "cache/index").iterdir()
    store = RecordStore(kept.parent)
    return store, kept.stem, store.get(kept.stem, dict)


def ask_later(tmp_path, seconds):
    store, key, content = stored_listing(tmp_path)
    store.put(key, content | {"asked": content["asked"] + seconds})


def test_a_listing_is_asked_for_once_in_ten_minutes(index, opening, tmp_path):
    for _ in range(2):
        opening("0.23").close()
    assert index.count("/simple/") == 1
    ask_later(tmp_path, -601)
    opening("0.23").close()
    assert index.count("/simple/") == 2


def test_a_half_written_listing_is_asked_for_again(index, opening, tmp_path):
    opening("0.23").close()
    (kept,) = (tmp_path / "cache/index").iterdir()
    kept.write_bytes(kept.read_bytes()[:50])
    opening("0.23").close()
    assert index.count("/simple/") == 2


def test_offline_takes_the_listing_of_any_age_and_says_so(index, opening, notes, tmp_path):
    with fails("source.not-in-cache"):
        opening("0.23", offline=True)
    opening("0.23").close()
    ask_later(tmp_path, -3 * 86400)
    opening("0.23", offline=True).close()
    assert "3 days old" in notes.notes[-1]
    assert index.count("/simple/") == 1


@pytest.mark.parametrize("ahead", [3 * 86400, 9e300])
def test_a_listing_of_a_clock_that_was_wrong(opening, notes, tmp_path, ahead):
    opening("0.23").close()
    ask_later(tmp_path, ahead)
    opening("0.23", offline=True).close()
    assert "is dated in the future" in notes.notes[-1]


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf])
def test_a_listing_of_no_time_is_damaged(opening, tmp_path, seconds):
    opening("0.23").close()
    ask_later(tmp_path, seconds)
    with fails("source.not-in-cache"):
        opening("0.23", offline=True)


def test_no_index_setting(opening, settings):
    with fails("source.index-forbidden", "no-index"):
        opening(settings=replace(settings, no_index=True))


def test_the_warm_path_does_not_import_the_network(opening, tmp_path):
    opening("0.23").close()
    code = """
import os, sys
from pathlib import Path
from vpatch.progress import Silent
from vpatch.source import cache, pip_settings, resolve, spec
settings = pip_settings.PipSettings(index_url=sys.argv[1])
store = cache.Cache(cache.default_cache_folder())
for name in ("0.23", "0.23.0"):
    resolve.open_tree(spec.parse_vllm(name), cache=store, settings=settings, offline=False,
                      progress=Silent()).close()
print([name for name in ("requests", "pypi_simple") if name in sys.modules])
"""
    url = stored_listing(tmp_path)[2]["releases"][0]["url"].partition("/files")[0] + "/simple"
    run = subprocess.run(
        [sys.executable, "-c", code, url],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(index_module.__file__).parents[2])},
    )
    assert run.stdout == "[]\n"


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip"])
def test_an_archive_is_not_unpacked_on_its_way(index, opening, encoding):
    """Some servers call the compression of a .tar.gz itself a Content-Encoding."""
    index.headers["/files/"] = {"Content-Encoding": encoding}
    with opening() as tree:
        assert tree.pin.version == "0.23.0"


def test_an_answer_that_calls_itself_json(index, opening):
    index.headers["/simple/"] = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
    with fails("source.not-an-index", "the response is not from a package index"):
        opening()


def test_files_that_are_no_source_archive_of_the_project(index, opening):
    others = [
        "vllm-0.24.0-cp312-cp312-manylinux1_x86_64.whl",
        "vllm-0.24.0.zip",
        "vllm-next.tar.gz",
        "vllm_ascend-0.24.0.tar.gz",
        "vllm.tar.gz",
    ]
    links = [f'<a href="../../files/{name}#sha256={"0" * 64}">{name}</a>' for name in others]
    index.answers["/simple/"] = index.page("vllm") + "\n".join(links).encode()
    with opening("latest") as tree:
        assert tree.pin.version == "0.23.0"


@pytest.mark.parametrize("other", ["HTTP_PROXY", "http_proxy", "no_proxy"])
def test_pip_s_proxy_wins_over_those_of_the_environment(
    index, opening, settings, monkeypatch, other
):
    monkeypatch.setenv(other, "*" if other == "no_proxy" else "http://127.0.0.1:9")
    proxy = index.url.removesuffix("/simple")
    through = replace(settings, index_url="http://index.invalid/simple", proxy=proxy)
    with opening(settings=through) as tree:
        assert tree.pin.version == "0.23.0"
    assert {path.partition("/simple")[0].partition("/files")[0] for path in index.asked} == {
        "http://index.invalid"
    }


def test_a_trusted_host_needs_no_known_certificate(opening, settings):
    with leading("http://127.0.0.1:9/", trustme.CA()) as url:
        host = url.removeprefix("https://").partition("/")[0]
        known = replace(settings, index_url=url)
        with fails("source.index-unreachable", "certificate verify failed"):
            opening(settings=known)
        for trusted in (host, host.partition(":")[0]):
            # It answers, and what it answers is refused.
            with fails("source.unsafe-answer", "which is less safe"):
                opening(settings=replace(known, trusted_hosts=(trusted,)))


def test_an_index_whose_answer_does_not_end(index, opening, monkeypatch):
    monkeypatch.setattr(limited, "LARGEST_ANSWER", 3 * MEGABYTE)
    index.answers["/simple/"] = b"<a>" * MEGABYTE + b"<a>"
    with fails("source.unsafe-answer", "the answer is larger than 3 MB"):
        opening()


def test_an_archive_that_does_not_end(index, opening, tmp_path, monkeypatch):
    monkeypatch.setattr(network, "_LARGEST_ARCHIVE", MEGABYTE)
    index.answers["/files/"] = b"x" * (2 * MEGABYTE)
    with fails("source.unsafe-answer", "the answer is larger than 1 MB"):
        opening()
    assert not list((tmp_path / "cache/staging").iterdir())


def test_a_length_of_thousands_of_digits():
    response = requests.Response()
    for text in ("9" * 5000, "-1", "\u00b2", "x"):
        response.headers["Content-Length"] = text
        assert network.promised_size(response) is None
    response.headers["Content-Length"] = "12"
    assert network.promised_size(response) == 12


@contextmanager
def leading(to, authority=None):
    """A server that sends everybody elsewhere, by https with an authority."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(302)
            self.send_header("Location", to)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if authority is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http{'s' if authority else ''}://127.0.0.1:{server.server_port}/simple"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_nobody_is_led_from_tls_to_the_clear(index, opening, settings, tmp_path, monkeypatch):
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(variable, raising=False)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    trusting = replace(settings, cert=str(tmp_path / "ca.pem"))
    with leading(f"{index.url}/vllm/", authority) as url:
        with fails("source.unsafe-answer", r"leads to http://.*, which is less safe"):
            opening(settings=replace(trusting, index_url=url))
        assert index.asked == []
    with (
        leading(f"{index.url}/vllm/") as url,
        opening(settings=replace(trusting, index_url=url)) as tree,
    ):
        assert tree.pin.version == "0.23.0"


def test_nobody_is_led_to_a_file_of_this_machine(opening, settings, tmp_path):
    (tmp_path / "vllm").mkdir()
    folder = tmp_path.as_uri()
    with (
        leading(f"{folder}/vllm/") as url,
        fails("source.unsafe-answer", r"leads to file:.*, which is less safe"),
    ):
        opening(settings=replace(settings, index_url=url, extra_index_urls=(folder,)))


def test_what_netrc_has_is_not_sent_in_the_clear(settings, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine a login me password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for index_url, url, sent in (
        ("https://a/simple", "https://a/x", True),
        ("https://a/simple", "http://a/x", False),
        ("https://b/simple", "https://a/x", True),
        ("http://a/simple", "http://a/x", True),
    ):
        credentials = network._IndexCredentials(replace(settings, index_url=index_url))
        request = requests.Request("GET", url).prepare()
        assert ("Authorization" in credentials(request).headers) == sent


def test_the_default_of_netrc_is_for_indexes_alone(settings, tmp_path, monkeypatch):
    """A listing or a project may name any host."""
    (tmp_path / "netrc").write_text("machine a login me password 1\ndefault login x password 2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    credentials = network._IndexCredentials(replace(settings, index_url="https://b/simple"))
    for url, sent in (("https://a/x", True), ("https://b/x", True), ("https://evil/x", False)):
        request = requests.Request("GET", url).prepare()
        assert ("Authorization" in credentials(request).headers) == sent


def test_no_redirection_takes_what_netrc_has_into_the_clear(index, settings, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine localhost login me password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with (
        leading(index.url.replace("127.0.0.1", "localhost")) as url,
        network.open_session(replace(settings, index_url=url)) as session,
    ):
        session.get(url)
    assert index.authorized == [None]


def listing(*files):
    return json.dumps({"meta": {"api-version": "1.0"}, "name": "vllm", "files": files}).encode()


def serving(index, **changed):
    """Let an index list one archive, with other facts of it."""
    name = "vllm-0.23.0.tar.gz"
    digest = hashlib.sha256(index.archives[name]).hexdigest()
    url = index.url.removesuffix("/simple")
    file = {"filename": name, "url": f"{url}/files/{name}", "hashes": {"sha256": digest}}
    index.answers["/simple/"] = listing(file | changed)
    index.headers["/simple/"] = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
    return digest


def test_a_listing_of_another_machine_names_no_file_of_this_one(index, opening, settings, tmp_path):
    """Also where the user has an index of files beside it."""
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm/index.html").write_text("")
    serving(index, url=(tmp_path / "secret").as_uri())
    with fails("source.no-such-release"):
        opening(settings=replace(settings, extra_index_urls=(tmp_path.as_uri(),)))


def test_a_digest_in_capitals_is_the_same(index, opening):
    digest = hashlib.sha256(index.archives["vllm-0.23.0.tar.gz"]).hexdigest()
    serving(index, hashes={"sha256": digest.upper()})
    with opening() as tree:
        assert tree.pin.digest == f"sha256:{digest}"


WHEEL = "vllm-0.23.0-cp38-abi3-manylinux1_x86_64.whl"


@pytest.mark.parametrize("digest", ["../../../outside", "", "0" * 63, "0" * 65])
def test_a_digest_that_is_none_leads_nowhere(index, settings, cache, tmp_path, notes, digest):
    """The cache has a folder of its name."""
    serving(index, filename=WHEEL, hashes={"sha256": digest})
    before = {path for path in tmp_path.rglob("*") if "cache" not in path.parts}
    with fails("source.no-digest"):
        official_wheel(
            *("vllm", "0.23.0"),
            cache=cache,
            settings=settings,
            offline=False,
            progress=notes,
            option="--wheel FILE",
        )
    assert {path for path in tmp_path.rglob("*") if "cache" not in path.parts} == before


@pytest.mark.parametrize("name", ["vllm-0.23.0-{0}-{0}-{0}.whl", "vllm-0.23.0-{0}.tar.gz"])
def test_a_name_that_no_file_has(index, settings, name):
    """Of three times 300 tags come 27 million."""
    name = name.format(".".join(["py3"] * 300))
    serving(index, filename=name)
    assert network.list_releases("vllm", settings, wheels=name.endswith(".whl")) == []


def test_a_file_index_with_nul(settings):
    with (
        network.open_session(replace(settings, index_url="file:///x")) as session,
        pytest.raises(requests.exceptions.InvalidURL),
    ):
        session.get("file:///%00")
