"""What is known of the contents of files: answers to questions, by the digests of the contents.

An answer holds for every release and every path that has a file of the same content. Answers are
kept in a database, for later runs and other processes. Each is checked when it is read. A damaged
database begins anew. Where none can be written, answers last for one run.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
import time
import weakref
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from vpatch.util.untrusted import MEGABYTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

_log = logging.getLogger(__name__)
LARGEST = 200 * MEGABYTE
_DAY = 86_400
# Several processes write, each for some milliseconds at the end of a release.
_SECONDS = 30.0
_CHECK = 8
# Raise it when the table changes, or the form of what is in it.
_FORMAT = 1
_TABLE = """
create table if not exists answers (
    key blob primary key, answer blob not null, used integer not null
) without rowid
"""


class Answers:
    """Answers that are kept in `file`; without one, they last as long as this object.

    `code` is a digest of all that decides an answer, besides the question and the contents. Use it
    in one process: another one makes its own for the same file.
    """

    def __init__(self, file: Path | None = None, code: str = "") -> None:
        self._file = file
        self._code = code
        self._known: dict[bytes, Any] = {}
        self._new: dict[bytes, bytes] = {}
        self._used: set[bytes] = set()
        self._connection: sqlite3.Connection | None = None

    def ask(self, question: str, contents: Iterable[bytes], find: Callable[[], Any]) -> Any:
        """Return the answer for some contents, given by their digests; find it if nobody has.

        What `find` returns is what JSON has. If it raises an error, nothing is kept.
        """
        key = self._key(question, contents)
        if not self._is_known(key):
            text = json.dumps(find())
            self._new[key] = text.encode()
            # Found or kept, it has gone through JSON, so the two cannot differ.
            self._known[key] = json.loads(text)
        return self._known[key]

    def recall(self, question: str, contents: Iterable[bytes]) -> Any | None:
        """Return the answer that somebody found before; None where nobody has."""
        key = self._key(question, contents)
        return self._known[key] if self._is_known(key) else None

    def _key(self, question: str, contents: Iterable[bytes]) -> bytes:
        parts = [self._code.encode(), question.encode(), *contents]
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()

    def _is_known(self, key: bytes) -> bool:
        if key not in self._known:
            answer = self._read(key)
            if answer is None:
                return False
            self._known[key] = json.loads(answer)
        return True

    def save(self) -> None:
        """Keep what was found since the last time."""
        if not self._new and not self._used:
            return
        now = int(time.time())
        with self._usable() as database:
            if database is not None:
                new = self._new.items()
                rows = [(key, _check(key, answer) + answer, now) for key, answer in new]
                with database:
                    database.executemany("insert or replace into answers values (?, ?, ?)", rows)
                    used = [(now, key) for key in self._used]
                    database.executemany("update answers set used = ? where key = ?", used)
                    _make_room(database)
        self._new.clear()
        self._used.clear()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read(self, key: bytes) -> bytes | None:
        with self._usable() as database:
            if database is None:
                return None
            query = "select answer, used from answers where key = ?"
            row: tuple[Any, Any] | None = database.execute(query, (key,)).fetchone()
            if row is not None:
                sealed, used = row
                if not isinstance(sealed, bytes) or not isinstance(used, int):
                    return None  # somebody else's
                check, answer = sealed[:_CHECK], sealed[_CHECK:]
                if check != _check(key, answer):
                    return None  # damaged: it is found anew, and written over
                if used < time.time() - _DAY:
                    self._used.add(key)
                return answer
        return None

    @contextmanager
    def _usable(self) -> Iterator[sqlite3.Connection | None]:
        """The database; None where there is none. Without it, everything is only found anew."""
        with self._failing():
            self._open()
        with self._failing():
            yield self._connection

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Give the database up where it cannot be used, and remove it where it is damaged."""
        try:
            yield
        except sqlite3.OperationalError as error:
            _log.info("%s cannot be used, so answers are not kept: %s", self._file, error)
            self._give_up()
        except sqlite3.DatabaseError as error:
            _log.info("%s is damaged and begins anew: %s", self._file, error)
            file = self._file
            self._give_up()
            if file is not None:
                with suppress(OSError):
                    file.unlink(missing_ok=True)

    def _open(self) -> None:
        if self._connection is None and self._file is not None:
            try:
                self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise sqlite3.OperationalError(str(error)) from error
            # One thread uses it. Another one may close it, where nobody did so before.
            self._connection = sqlite3.connect(
                self._file, timeout=_SECONDS, check_same_thread=False
            )
            weakref.finalize(self, self._connection.close)
            # After a loss of power it may be damaged, and then begins anew.
            self._connection.execute("pragma synchronous = off")
            self._connection.execute(_TABLE)

    def _give_up(self) -> None:
        with suppress(sqlite3.Error):
            self.close()
        self._connection = self._file = None


def answers_file(folder: Path) -> Path:
    """Where answers of this form are kept."""
    return folder / f"answers-{_FORMAT}.db"


def _check(key: bytes, answer: bytes) -> bytes:
    return hashlib.sha256(key + answer).digest()[:_CHECK]


def _make_room(database: sqlite3.Connection) -> None:
    """Remove the half that was not used for longest, if all is too large."""
    size, pages, free = (
        database.execute(f"pragma {name}").fetchone()[0]
        for name in ("page_size", "page_count", "freelist_count")
    )
    if (pages - free) * size > LARGEST:
        database.execute(
            "delete from answers where key in (select key from answers order by used "
            "limit (select count(*) / 2 from answers))"
        )
