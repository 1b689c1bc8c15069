"""Ends with 0 if the server of this container answers, or if nothing here serves a model."""

from __future__ import annotations

import ssl
import sys
import urllib.request
from pathlib import Path

_SECONDS = 8


def commands() -> list[list[str]]:
    command_lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command_lines.append(file.read_bytes().decode(errors="replace").split("\0")[:-1])
        except OSError:
            continue  # it ended, or it is another user's
    return command_lines


def option(words: list[str], name: str) -> str | None:
    """Return the value of an option; "" for one that stands alone."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == name:
            return following
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None


def main() -> int:
    servers = [
        words
        for words in commands()
        if words[2:3] == ["serve"] or "vllm.entrypoints.openai.api_server" in words
    ]
    if not servers:
        return 0
    words = servers[0]
    if option(words, "--uds") is not None:
        return 0
    scheme = "http" if option(words, "--ssl-certfile") is None else "https"
    url = f"{scheme}://127.0.0.1:{option(words, '--port') or 8000}/health"
    context = ssl.create_default_context()
    # The certificate is for the name by which others know the server.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    handler = urllib.request.HTTPSHandler(context=context)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), handler)
    try:
        with opener.open(url, timeout=_SECONDS):
            return 0
    except OSError as error:
        sys.stdout.write(f"{url}: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
