"""What the text around a diff says: a title, a reason, and threads upstream."""

from __future__ import annotations

import re
from dataclasses import replace
from email import message_from_string
from email.header import decode_header, make_header

from vpatch.changes.change import Message

_UPSTREAM = "vllm-project/vllm"
_TAGS = re.compile(r"^\s*\[[^\]]*PATCH[^\]]*\]\s*", re.IGNORECASE)
_COMMIT = re.compile(r"^commit [0-9a-f]{7,64}\b")
_HEAD = re.compile(
    r"^(From|Subject|Date|Author|AuthorDate|Commit|CommitDate|Merge|Message-I[dD]): ?"
)
# What diff and Subversion write above a diff.
_TOOL = re.compile(r"^(diff -|Index: |Only in |={20})")
# What git keeps in the last paragraph of a message, such as Signed-off-by.
_TRAILER = re.compile(r"[A-Z][A-Za-z]*(-[A-Za-z]+)+: \S|Cc: \S")
# What vpatch writes into its own commits.
_MADE = re.compile(r"^Vpatch-Id: ([a-z0-9]+(?:-[a-z0-9]+)*)$", re.MULTILINE)
_URL = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+)/(?:pull|issues)/(\d+)")
_REF = re.compile(r"(?<![\w/.-])([\w.-]+/[\w.-]+)#(\d+)\b")
_OWN = re.compile(
    r"(?:\(#(\d+)\)\s*$|\b(?:fix(?:es)?|closes?|resolves?|see):? #(\d+)\b)", re.IGNORECASE
)
_WORD = re.compile(r"[a-z0-9]+")
_AUTHOR = re.compile(r"^(?:From|Author): .*<([^<>\s]+)>\s*$", re.MULTILINE)
_WORDS = 6
# It is the name of a folder.
_LONGEST_ID = 80


def read_message(text: str) -> Message:
    """Read the prose in front of a diff: a mail's head, a commit, or comments.

    Any other text makes a title and a body too. An empty text makes an empty message.
    """
    author = _AUTHOR.search(text)
    message = _read_text(text)
    return replace(message, author=author[1]) if author else message


def _read_text(text: str) -> Message:
    lines = text.replace("\r\n", "\n").split("\n")
    text = "\n".join(line for line in lines if not _TOOL.match(line)).strip("\n")
    if not text:
        return Message()
    if text.startswith("From ") or re.match(r"^(From|Subject): ", text):
        return _of_mail(text)
    lines = text.split("\n")
    if _COMMIT.match(lines[0]):
        body = [line.removeprefix("    ") for line in lines]
        return commit_message("\n".join(line for line in body[1:] if not _HEAD.match(line)))
    return commit_message("\n".join(re.sub(r"^\s*#+ ?", "", line) for line in lines))


def _of_mail(text: str) -> Message:
    if text.startswith("From ") and "\n" in text:
        text = text.partition("\n")[2]
    mail = message_from_string(text)
    subject = str(make_header(decode_header(str(mail.get("Subject", "")))))
    subject = _TAGS.sub("", re.sub(r"\s*\n\s*", " ", subject))
    encoded = mail.get("Content-Transfer-Encoding") is not None
    payload = mail.get_payload(decode=True) if encoded else mail.get_payload()
    body = payload.decode(errors="replace") if isinstance(payload, bytes) else str(payload)
    # Below three dashes is what a mail says beside the message.
    body = re.split(r"^---\s*$", body, maxsplit=1, flags=re.MULTILINE)[0]
    return commit_message(f"{subject}\n\n{body}")


def commit_message(text: str) -> Message:
    """Read the message of a commit: its first line is the title."""
    title, _, rest = text.strip().partition("\n")
    body = "\n".join(line.rstrip() for line in rest.strip().split("\n"))
    threads = _threads(f"{title}\n{body}")
    above, _, last = body.rpartition("\n\n")
    if all(_TRAILER.match(line) for line in last.split("\n")):
        body = above
    mark = _MADE.search(last)
    return Message(_printable(title), _printable(body.strip()), threads, mark[1] if mark else None)


def _threads(text: str) -> tuple[str, ...]:
    threads = [f"{repository}#{number}" for repository, number in _URL.findall(text)]
    threads += [f"{repository}#{number}" for repository, number in _REF.findall(text)]
    for line in text.split("\n"):
        threads += [f"{_UPSTREAM}#{one or other}" for one, other in _OWN.findall(line)]
    return tuple(dict.fromkeys(threads))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text).strip()


def id_of(title: str, fallback: str) -> str:
    """Make an id of a title, without its tags; or of a file's name."""
    for text in (re.sub(r"\[[^\]]*\]|\(#\d+\)", " ", title), re.sub(r"^\d+-", "", fallback)):
        words = _WORD.findall(text.lower().replace("'", ""))[:_WORDS]
        if words:
            return "-".join(words)[:_LONGEST_ID].strip("-")
    return "imported"
