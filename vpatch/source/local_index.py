"""A package index in a folder of this machine, which pip's settings name by a file: URL."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import requests
from requests.adapters import BaseAdapter


class FolderAdapter(BaseAdapter):
    """Answers requests with files, and for a folder with its index.html, as pip does."""

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override] # requests calls it by keyword
        """Open the file that a URL names.

        Raises:
            requests.RequestException: the URL names another machine, or the file cannot be read.
        """
        response = requests.Response()
        response.request = request
        response.url = request.url or ""
        parts = urlsplit(response.url)
        if parts.netloc not in {"", "localhost"}:
            raise requests.exceptions.InvalidURL(f"{response.url} names another machine")
        path = Path(url2pathname(parts.path))
        if "\0" in str(path):
            raise requests.exceptions.InvalidURL("a name with NUL is that of no file")
        path = path / "index.html" if parts.path.endswith("/") else path
        # To open a pipe would wait for somebody who writes.
        if path.exists() and not path.is_file() and not path.is_dir():
            raise requests.ConnectionError(f"{path} is not a regular file", request=request)
        try:
            file = path.open("rb")
        except (FileNotFoundError, NotADirectoryError):
            response.status_code = HTTPStatus.NOT_FOUND
            response.reason = HTTPStatus.NOT_FOUND.phrase
            return response
        except OSError as error:
            raise requests.ConnectionError(error, request=request) from error
        response.status_code = HTTPStatus.OK
        response.raw = file
        # requests calls it when a response is closed that was read to its end.
        file.release_conn = file.close  # type: ignore[attr-defined]
        if not options.get("stream"):
            with response:  # nobody else would close the file
                _ = response.content
        return response

    def close(self) -> None:
        """Do nothing: each response closes its own file."""
