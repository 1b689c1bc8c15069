"""What goes over the network to a package index: its listings and its archives.

Import this only when something is to be fetched: requests and pypi_simple take 0.2 s to import.
"""

from __future__ import annotations

import hashlib
import logging
import re
import warnings
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import requests
from packaging.utils import canonicalize_name
from pypi_simple import (
    PYPI_SIMPLE_ENDPOINT,
    DistributionPackage,
    NoSuchProjectError,
    PyPISimple,
    UnsupportedContentTypeError,
    UnsupportedRepoVersionError,
)
from requests.auth import AuthBase, HTTPBasicAuth
from urllib3.exceptions import InsecureRequestWarning

from vpatch import __version__
from vpatch.source.local_index import FolderAdapter
from vpatch.source.network_errors import (
    DigestMismatchError,
    InsecureRedirectError,
    cut_off,
    no_answer,
    no_index,
)
from vpatch.source.pip_settings import split_index_url
from vpatch.source.release import Release
from vpatch.util.limited import (
    LONGEST_DOWNLOAD,
    LimitedAdapter,
    PatientRetry,
)
from vpatch.util.run_log import hide, timed
from vpatch.util.untrusted import MEGABYTE
from vpatch.util.urls import redact, split_credentials
from vpatch.util.versions import is_number, read_version

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vpatch.progress import Progress
    from vpatch.source.pip_settings import PipSettings

_log = logging.getLogger(__name__)
CHUNK = 1 << 17
_LONGEST_NAME = 255
_SHA256 = re.compile("[0-9a-f]{64}")
_NOBODY = "https://nobody.invalid/"
# The largest of vLLM has 60 MB.
_LARGEST_ARCHIVE = 2000 * MEGABYTE
_PASSING = (500, 502, 503, 504, 520, 524, 527)
_NOT_AN_INDEX = (
    *(UnsupportedContentTypeError, UnsupportedRepoVersionError),
    *(ValueError, TypeError, LookupError, AttributeError, RecursionError),
)


def index_urls(settings: PipSettings) -> tuple[str, ...]:
    return (settings.index_url or PYPI_SIMPLE_ENDPOINT, *settings.extra_index_urls)


def list_releases(
    project: str, settings: PipSettings, *, wheels: bool = False
) -> list[Release] | None:
    """List the project's source archives, or its wheels; None if no index knows the project.

    If two indexes have the same file, the first one's counts, as with pip's download.

    Raises:
        IndexAccessError: an index cannot be reached, refuses, or is not one.
        UsageError: the address of an index, or of the proxy, cannot be used.
        UnsafeAnswerError: an index sends too much, or leads to a less safe address.
    """
    releases: dict[str, Release] = {}
    known = False
    with open_session(settings) as session:
        for url in index_urls(settings):
            with timed(_log, logging.INFO, f"asking the index {redact(url)} for {project}"):
                packages = _ask(session, url, project, settings)
            known = known or packages is not None
            for package in packages or ():
                release = _release(project, package, wheels=wheels)
                # A listing of another machine names no file of this one.
                if release and _is_file(release.url) <= _is_file(url):
                    releases.setdefault(release.filename, release)
    return list(releases.values()) if known else None


def download(
    release: Release, dest: Path, sha256: str, *, settings: PipSettings, progress: Progress
) -> None:
    """Fetch the archive to `dest`; unless its digest is `sha256`, nothing is left there.

    Raises:
        IndexAccessError: the server cannot be reached, or refuses.
        UsageError: the address of the archive, or of the proxy, cannot be used.
        DownloadError: the download was cut off.
        DigestMismatchError: it is another archive.
        UnsafeAnswerError: it is too large, or the server leads to a less safe address.
    """
    digest = hashlib.sha256()
    received = 0
    task = progress.start(f"Downloading {release.filename}", total=release.size)
    with ExitStack() as undo, open_session(settings) as session:
        undo.enter_context(timed(_log, logging.INFO, f"downloading {redact(release.url)}"))
        undo.callback(task.done)
        removal = undo.enter_context(ExitStack())
        removal.callback(dest.unlink, missing_ok=True)
        try:
            # An archive is compressed already, and only its own length can be checked.
            plain = {"Accept-Encoding": "identity"}
            with (
                session.get(
                    release.url, stream=True, timeout=settings.timeout, headers=plain
                ) as response,
                dest.open("wb") as file,
            ):
                response.raise_for_status()
                # Some servers call the archive's own compression an encoding of their answer.
                getattr(response.raw, "headers", {}).pop("Content-Encoding", None)
                promised = promised_size(response)
                if promised is not None:  # few indexes tell the size in their listing
                    task.resize(promised)
                for chunk in response.iter_content(CHUNK):
                    file.write(chunk)
                    digest.update(chunk)
                    received += len(chunk)
                    task.advance(len(chunk))
        except requests.exceptions.ChunkedEncodingError as error:
            raise cut_off("archive", release.url, received, release.size) from error
        except requests.RequestException as error:
            raise no_answer(release.url, error, settings) from error
        if promised is not None and received != promised:
            raise cut_off("archive", release.url, received, release.size)
        if digest.hexdigest() != sha256:
            raise DigestMismatchError(
                f"the archive's digest is sha256:{digest.hexdigest()}, "
                f"and sha256:{sha256} was expected ({received} bytes received)",
                where=redact(release.url),
                hint="do not use this archive: it was altered on its way, or on the index",
            )
        removal.pop_all()


def promised_size(response: requests.Response) -> int | None:
    """The size that a server says that its answer has."""
    size = response.headers.get("Content-Length", "")
    return int(size) if is_number(size) else None


def _ask(
    session: requests.Session, url: str, project: str, settings: PipSettings
) -> list[DistributionPackage] | None:
    address, _ = split_index_url(url)
    # Not as a context manager: that would close the session, which serves the other indexes too.
    client = PyPISimple(address, session=session)
    try:
        return client.get_project_page(project, timeout=settings.timeout).packages
    except NoSuchProjectError:
        return None
    except requests.exceptions.JSONDecodeError as error:
        raise no_index(address, error) from error
    except requests.RequestException as error:
        raise no_answer(address, error, settings) from error
    except _NOT_AN_INDEX as error:
        raise no_index(address, error) from error


def _release(project: str, package: DistributionPackage, *, wheels: bool) -> Release | None:
    kind, ending = ("wheel", ".whl") if wheels else ("sdist", ".tar.gz")
    if package.package_type != kind or not package.filename.endswith(ending):
        return None
    if package.version is None or canonicalize_name(package.project or "") != project:
        return None
    version = read_version(package.version)
    # The tags of a long name can be millions, and no file system takes it.
    if version is None or len(package.filename) > _LONGEST_NAME or "/" in package.filename:
        return None
    url, _ = split_credentials(package.url)
    # The cache has folders of this name.
    digest = package.digests.get("sha256", "").lower()
    sha256 = digest if _SHA256.fullmatch(digest) else None
    return Release(
        project, str(version), package.filename, url, sha256, package.size, package.is_yanked
    )


@contextmanager
def open_session(settings: PipSettings) -> Iterator[requests.Session]:
    retry = PatientRetry(
        total=settings.retries,
        backoff_factor=0.25,
        status_forcelist=_PASSING,
        raise_on_status=False,
    )
    with _Session() as session:
        session.headers["User-Agent"] = f"vpatch/{__version__}"
        session.auth = _IndexCredentials(settings)
        session.verify = settings.cert or True
        session.cert = settings.client_cert
        if settings.proxy:
            session.proxies = {"http": settings.proxy, "https": settings.proxy}
        trusted = [f"https://{host}{end}" for host in settings.trusted_hosts for end in "/:"]
        adapters = dict.fromkeys(("https://", "http://"), LimitedAdapter)
        for prefix, kind in {**adapters, **dict.fromkeys(trusted, _TrustingAdapter)}.items():
            adapter = kind(
                max_retries=retry,
                streamed=_LARGEST_ARCHIVE,
                streamed_seconds=LONGEST_DOWNLOAD,
            )
            session.mount(prefix, adapter)
        # Only for who names such an index: no remote one may send us to local files.
        if any(_is_file(url) for url in index_urls(settings)):
            session.mount("file://", FolderAdapter())
        yield session


class _Session(requests.Session):
    """Follows no answer by TLS to one without, and none to a file of this machine.

    Its own proxies win over those of the environment, as with pip.
    """

    def merge_environment_settings(self, url: Any, proxies: Any, *args: Any) -> Any:
        return super().merge_environment_settings(url, {**self.proxies, **(proxies or {})}, *args)

    def rebuild_auth(self, prepared_request: Any, response: requests.Response) -> None:
        """Leave the credentials out where an answer leads to another host.

        That host gets what it would have got if it were asked first.
        """
        headers, url = prepared_request.headers, str(prepared_request.url)
        if self.should_strip_auth(str(response.request.url), url):  # type: ignore[no-untyped-call]
            headers.pop("Authorization", None)
        if "Authorization" not in headers and isinstance(self.auth, AuthBase):
            self.auth(prepared_request)

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        try:
            target = super().get_redirect_target(resp)
            leads = urljoin(resp.url, target) if target is not None else ""
        except ValueError as error:
            resp.close()
            raise requests.exceptions.InvalidURL(
                f"the answer leads to what is no address: {error}", response=resp
            ) from error
        if target is not None:
            safe = ("https:",) if resp.url.startswith("https:") else ("https:", "http:")
            if not leads.lower().startswith(safe):
                resp.close()
                raise InsecureRedirectError(
                    f"the answer leads to {redact(leads)}, which is less safe", response=resp
                )
        return target


class _IndexCredentials(AuthBase):
    """The credentials in an index's URL, for that host alone; else what netrc has.

    What netrc has goes nowhere in the clear, but to a host that an index by http is on. Its default
    is for the hosts of indexes: any other host may be one that only a project, or a listing, names.
    """

    def __init__(self, settings: PipSettings) -> None:
        self._known = {}
        self._indexes = set()
        for url in index_urls(settings):
            address, credentials = split_index_url(url)
            self._indexes.add(_host(address))
            if credentials:
                self._known[_host(address)] = credentials

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        url = request.url or ""
        login = self._known.get(_host(url))
        if login is None and (url.startswith("https:") or _host(url) in self._indexes):
            login = requests.utils.get_netrc_auth(url)
            if _host(url) not in self._indexes and login == requests.utils.get_netrc_auth(_NOBODY):
                login = None
        hide((login[1] or login[0]) if login else None)
        return HTTPBasicAuth(*login)(request) if login else request


class _TrustingAdapter(LimitedAdapter):
    """For pip's trusted-host: no check of the certificate."""

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override] # requests calls it by keyword
        with warnings.catch_warnings():
            # Its user knows: that is what the setting is for.
            warnings.simplefilter("ignore", InsecureRequestWarning)
            return super().send(request, **(options | {"verify": False}))


def _is_file(url: str) -> bool:
    return url.lower().startswith("file:")


def _host(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc
