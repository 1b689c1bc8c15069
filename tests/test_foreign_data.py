"""Whatever others wrote: each reader gives a value or an error of vpatch, and never a fault.

Good examples are changed in the ways in which data is wrong: other kinds of values, keys that are
gone, deep nesting, long numbers, odd characters, cut off, of another encoding.
"""

from __future__ import annotations

import copy
import gzip
import hashlib
import io
import json
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.commands.audit.cases import advisory
from tests.documents import ROOT
from tests.index_server import sdist
from tests.projects import ENGINE
from vpatch.errors import VpatchError

if TYPE_CHECKING:
    from collections.abc import Callable

DIGITS = "9" * 5000
# In JSON, as some parsers read it, and in text.
ODD: list[Any] = [
    *(None, True, 7, -1, 1e308, 10**30, "", " ", "²", "٣", DIGITS, "\x00", "\ud800", "\u202ex"),
    *(
        "../../etc/passwd",
        "a" * 5000,
        [],
        {},
        [[]],
        [None],
        {"": None},
        {"a": {"a": 1}},
        "-",
        "nan",
    ),
    *("9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "2026-02-30", "@@ -1 +1 @@"),
]
# What json.dumps does not write.
RAW = ["1e999", "NaN", "-Infinity", DIGITS, "[" * 20_000, '{"a":' * 20_000, '"\\ud800"', "'x'", ""]
LINES = ["", "\x00", "²", "- - -", "@@ -1,9 +1,9 @@", "{", "&a [*a]", "!!python/object:os.system x"]
MARK = "\x01raw\x01"


@dataclass(frozen=True)
class Reader:
    """`read` is given a file with a changed example; `errors` are those that it documents."""

    good: Callable[[], bytes]
    read: Callable[[Path], object]
    name: str = "data"
    errors: tuple[type[Exception], ...] = ()
    is_json: bool = True


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    pairs = document.items() if isinstance(document, dict) else ()
    pairs = enumerate(document) if isinstance(document, list) else pairs
    for key, value in pairs:
        found += places(value, (*path, key))
    return found


def put(document: Any, path: tuple[Any, ...], value: Any, how: str) -> Any:
    if not path:
        return value
    document = copy.deepcopy(document)
    inside = document
    for key in path[:-1]:
        inside = inside[key]
    if how == "remove":
        del inside[path[-1]]
    elif how == "rename" and isinstance(inside, dict):
        inside[str(value)] = inside.pop(path[-1])
    elif how == "wrap":
        inside[path[-1]] = [inside[path[-1]]]
    else:
        inside[path[-1]] = value
    return document


def alike(document: Any, path: tuple[Any, ...]) -> list[Any]:
    """Odd values of the kind that is there: they pass where only kinds are looked at."""
    for key in path:
        document = document[key]
    numbers = [0, -1, 10**18, 1e308, 1e-300, float("nan"), float("inf"), -0.5]
    kinds = (int, float) if isinstance(document, (int, float)) else (type(document),)
    return [one for one in [*ODD, *numbers] if isinstance(one, kinds)] or ODD


@st.composite
def changed_json(draw, good):
    document = json.loads(good)
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(places(document)))
        how = draw(st.sampled_from(["put", "alike", "alike", "remove", "rename", "wrap", "raw"]))
        if how == "raw":
            document = put(document, path, MARK, "put")
            raw = draw(st.sampled_from(RAW))
            return json.dumps(document).replace(json.dumps(MARK), raw).encode("utf-8", "replace")
        odd = draw(st.sampled_from(alike(document, path) if how == "alike" else ODD))
        document = put(document, path, odd, how)
    return json.dumps(document).encode()


@st.composite
def changed_text(draw, good):
    """Also of packed and of binary data."""
    lines = good.split(b"\n")
    place = draw(st.integers(0, len(lines) - 1))
    how = draw(st.sampled_from(["cut", "drop", "twice", "line", "digits", "bytes", "end", "utf16"]))
    match how:
        case "cut":
            return good[: draw(st.integers(0, len(good)))]
        case "drop":
            del lines[place]
        case "twice":
            lines.insert(place, lines[place])
        case "line":
            odd = draw(st.sampled_from([*LINES, *RAW]))
            lines.insert(place, odd.encode("utf-8", "replace"))
        case "digits":
            digit = draw(st.sampled_from([DIGITS.encode(), "²".encode(), b"-1", b"1e999"]))
            lines[place] = bytes(lines[place]).translate(None, b"012345678") + digit
        case "bytes":
            data = bytearray(good or b"x")
            for _ in range(draw(st.integers(1, 8))):
                data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
            return bytes(data)
        case "end":
            value = str(draw(st.sampled_from(ODD))).encode("utf-8", "surrogatepass")
            lines[place] = lines[place].rpartition(b":")[0] + b": " + value
        case "utf16":
            codec = draw(st.sampled_from(["utf-16", "utf-8-sig", "utf-32"]))
            return good.decode("latin-1").encode(codec)
    return b"\n".join(lines)


def check(reader: Reader, content: bytes | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, reader.name)
        file.parent.mkdir(exist_ok=True)
        if content is None:
            file.mkdir()
        else:
            file.write_bytes(content)
        with suppress(VpatchError, *reader.errors):
            reader.read(file)


def whole(reader: Reader, examples: int) -> None:
    good = reader.good()
    check(reader, good)
    kinds = st.one_of(changed_json(good), changed_text(good)) if reader.is_json else None

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(changed_text(good) if kinds is None else kinds)
    def run(content):
        check(reader, content)

    run()
    for content in (b"", b"\x00", b"\xef\xbb\xbf", None):
        check(reader, content)


def dumped(document: Any) -> Callable[[], bytes]:
    return lambda: json.dumps(document).encode()


# --- the readers ------------------------------------------------------------------------------


def _advisories(file):
    from vpatch.library.advisories import read_advisories, shipped_advisories, with_newer

    merged = with_newer(shipped_advisories(), read_advisories(file))
    return [one.covers("0.23.0") for one in merged.all]


@cache
def _lock():
    pin = {"tree": "vllm", "kind": "pypi", "version": "0.50.0", "digest": "sha256:0"}
    file = {"path": "vllm/engine.py", "before": None, "after": "sha256:0"}
    patch = {"id": "a", "digest": "sha256:0", "variant": None, "commit": "1", "files": [file]}
    return {
        "lock_version": 1,
        "recipe": None,
        "source": pin | {"origin": "vllm-0.50.0.tar.gz", "ref": None},
        "base": "1" * 40,
        "head": "2" * 40,
        "patches": [patch],
        "skipped": [{"id": "b", "state": "absent"}],
        "files": [file],
        "image": {
            "mode": "overlay",
            "base": "b",
            "pinned": "p",
            "pip": [{"name": "a", "version": "1"}],
        },
    }


def _read_lock(file):
    from vpatch.checkout.lockfile import read_lock
    from vpatch.commands.install.wheels.names import patched_version, release_of

    lock = read_lock(file)
    return release_of(lock), patched_version("0.50.0", lock)


def _journal(file):
    from vpatch.commands.install.journal import ASIDE, recover

    info = file.parent / "site" / "info"
    (info / ASIDE).mkdir(parents=True)
    file.rename(info / ASIDE / "journal.json")
    recover(info.parent, info)


def _shapes(file):
    from vpatch.library.shapes import read_shapes

    return read_shapes(file.parent)


def _bench_record(file):
    from vpatch.commands.bench.record import read_record
    from vpatch.commands.bench.summary import rows_of, speed_ups

    return [str(one) for one in speed_ups(rows_of(read_record(file)))]


def _bench_example():
    from tests.commands.bench.records import record

    return json.dumps(record(ks=(0, 1), concurrency=(1,), repeats=2)).encode()


def _checkpoint(file):
    from vpatch.checkpoint import report
    from vpatch.checkpoint.findings import findings_of
    from vpatch.checkpoint.inspection import inspect
    from vpatch.checkpoint.needs import needs_of
    from vpatch.checkpoint.opening import open_files
    from vpatch.checkpoint.tokenizer import tokenizer_of

    files = open_files(file.parent)
    found = inspect(files)
    tokenizer = tokenizer_of(files, None)
    needs = [(need, ()) for need in needs_of(found, None)]
    list(report.inspection_lines(found, tokenizer, needs))
    return findings_of(found, tokenizer, None)


HEADER = {
    "__metadata__": {"format": "pt"},
    "a.weight": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]},
}
CONFIG = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "num_hidden_layers": 2,
    "num_nextn_predict_layers": 1,
    "quantization_config": {
        "quant_method": "fp8",
        "ignore": ["lm_head"],
        "weight_block_size": [128, 128],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4}}},
    },
}
INDEX = {"metadata": {"total_size": 8}, "weight_map": {"a.weight": "model.safetensors"}}


def _safetensors(text: bytes) -> bytes:
    return len(text).to_bytes(8, "little") + text + bytes(8)


def _header(file):
    file.write_bytes(_safetensors(file.read_bytes()))
    return _checkpoint(file)


def _beside(file):
    good = _safetensors(json.dumps(HEADER).encode())
    (file.parent / "model.safetensors").write_bytes(good)
    return _checkpoint(file)


def _diff(file):
    from vpatch.commands.importing.sources.source import from_diffs

    return from_diffs(file)


def _declared_diff(file):
    from vpatch.codemods.diff import parse_diff

    return parse_diff(file)


DIFF = f"""\
From 1234567890abcdef1234567890abcdef12345678 Mon Sep 17 00:00:00 2001
From: A <a@b.c>
Date: Mon, 9 Nov 2026 10:00:00 +0000
Subject: [PATCH] Go slow

diff --git a/{ENGINE} b/{ENGINE}
index 1111111..2222222 100644
--- a/{ENGINE}
+++ b/{ENGINE}
@@ -1,2 +1,2 @@ def start():
 def start(config):
-    return launch(config, mode="fast")
+    return launch(config, mode="slow")
--{" "}
2.43.0
"""


def _patch(file):
    from vpatch.library.loading import load_patch
    from vpatch.trust.decision import EVERYTHING

    place = file.parent / "slow"
    place.mkdir()
    file.rename(place / "patch.yaml")
    return load_patch(place, EVERYTHING).variants


PATCH = """\
id: slow
title: Go slow
why: It is too fast.
symptoms: [fast]
needed-in: {vllm: ">=0.20,<1"}
concerns: {text: def start}
edits:
  - find: 'launch($_, mode="fast")'
    rewrite: 'launch($_, mode="slow")'
  - insert: "x = 1"
    after: "import os"
    files: [vllm/engine.py]
    expect: {at-least: 1}
upstream:
  - {ref: vllm-project/vllm#12, is: issue, relation: related, state: open}
remove-when: never
"""
RECIPE = """\
vllm: {source: "0.23.0", sha256: "%s"}
patches: [a, b]
smoke:
  models: {a: {checkpoint: x/y}}
  cells: [{model: a, k: [0, 1]}]
bench:
  models: {given: {checkpoint: acme/small}}
  shapes: [{input: 8, output: 4}]
  cells: [{model: given, k: [0]}]
matrix: {vllm: ["0.23.0", "0.24.0"]}
""" % ("0" * 64)


def _recipe(file):
    from vpatch.library.recipe import Recipes

    return Recipes(None).selection(file)


def _target(file):
    from vpatch.declare.target import Target
    from vpatch.declare.yamlfile import read_yaml

    return read_yaml(file, Target)


def _settings(file):
    from vpatch.declare.project_settings import read_settings

    return read_settings(file.parent)


def _record(file):
    from vpatch.source.wheel.record import parse_record

    return [row.sha256 for row in parse_record(file.read_bytes(), "RECORD").values()]


def _metadata(file):
    from vpatch.commands.install.metadata import with_version
    from vpatch.source.wheel.names import parse_wheel_name

    name = parse_wheel_name("vllm-0.50.0-py3-none-any.whl")
    return with_version(file.read_bytes(), name, "0.50.0+vpatch.1", "METADATA")


def _wheel(file):
    from vpatch.source.wheel.archive import WheelArchive

    with WheelArchive(file) as archive:
        return [b"".join(archive.unpacked(one)) for one in archive.members.values()]


@cache
def _wheel_example() -> bytes:
    data = io.BytesIO()
    with ZipFile(data, "w") as archive:
        archive.writestr("vllm/__init__.py", "x = 1\n" * 100)
        archive.writestr("vllm-0.50.0.dist-info/RECORD", "vllm/__init__.py,,\n")
    return data.getvalue()


def _sdist(file):
    from vpatch.progress import Silent
    from vpatch.source.archive import read_archive

    return list(read_archive(file, file.name, Silent()))


def _tar(file):
    file.write_bytes(gzip.compress(file.read_bytes()))
    return _sdist(file)


def _log(file):
    from vpatch.logs.vllm_format import printed_version, read_pieces, release_of, split_prefix

    with file.open("rb") as stream:
        for _, text in read_pieces(stream):
            split_prefix(text)
            if version := printed_version(text):
                release_of(version)


LOG = (
    b"INFO 11-09 10:00:00 [core.py:58] Initializing a V1 LLM engine (v0.23.0+cpu) with\nError: x\n"
)


def _pip(file):
    from vpatch.source.pip_settings import read_pip_settings

    return read_pip_settings({"PIP_CONFIG_FILE": str(file), "HOME": str(file.parent)})


PIP = b"[global]\nindex-url = https://a:b@c.d/simple\ntimeout = 15\nretries = 3\ntrusted-host = x\n"


def _kept(kind):
    """A record of the cache, or of a claim; each reader returns None for what is damaged."""

    def read(file):
        from vpatch.evidence import claim
        from vpatch.github import threads
        from vpatch.source import entry, index
        from vpatch.trust import store

        match kind:
            case "index":
                return _from_store(file, index._listing)
            case "pin":
                return entry.read_pin(file.parent)
            case "trust":
                return store._load(file)
            case "claim":
                return claim._read(file.read_text(errors="replace"))
            case "thread":
                return _from_store(file, threads._answer)

    return read


def _from_store(file, read):
    """Read the file as a record whose digest is right."""
    from vpatch.util.record_store import RecordStore

    store = RecordStore(file.parent)
    if file.is_file():
        text = file.read_bytes()
        store.file("known").write_bytes(f"{hashlib.sha256(text).hexdigest()}\n".encode() + text)
    return store.get("known", read)


RELEASE = {
    "project": "vllm",
    "version": "0.23.0",
    "filename": "vllm-0.23.0.tar.gz",
    "url": "https://a.b/c",
    "sha256": None,
    "size": 7,
    "yanked": False,
}
PIN = {"tree": "vllm", "kind": "pypi", "version": "1", "digest": "d", "origin": "o", "ref": None}
HOLDER = {"host": "h", "boot": "b", "processes": "p", "pid": 1, "since": "s"}
TRUST = {"kind": "path", "name": "n", "digest": "d", "since": "s"}
THREAD = {
    "repository": "a/b",
    "number": 1,
    "kind": "issue",
    "state": "open",
    "title": "t",
    "author": "a",
    "url": "u",
    "merged_as": None,
}


def _direct_url(file):
    from vpatch.engine.distributions import Distribution

    return Distribution(file.parent, "vllm", "0.50.0", b"").is_editable


def _overlay(file):
    from vpatch.commands.install.overlay import read_manifest

    return read_manifest(file.parent / "packages" / "vllm")


OVERLAY = {
    "contents": {"engine.py": "sha256:0", "a": "link b"},
    "vllm": "0.50.0",
    "source": {"digest": "sha256:1"},
    "patches": [{"id": "a", "digest": "sha256:2"}],
    "files": [{"path": "vllm/engine.py", "before": None, "after": "sha256:0"}],
    "beside": {"vllm-0.50.0.dist-info/METADATA": "sha256:3"},
}


def _stored(file):
    from vpatch.cluster.storage import STORED, Storage

    return Storage(f"file://{file.parent}").take({STORED: file.read_bytes()})


def _evidence(file):
    from vpatch.evidence.store import read_evidence, tampered

    return tampered(read_evidence(file.parent))


def _statement(file):
    from vpatch.evidence.records import upgraded
    from vpatch.evidence.store import read_evidence, tampered, write_evidence

    changed = file.read_bytes()
    write_evidence(file.parent, upgraded(json.loads(_evidence_example())))
    file.write_bytes(changed)
    return tampered(read_evidence(file.parent))


@cache
def _evidence_example() -> bytes:
    return json.dumps(
        {
            "schema_version": 2,
            "kind": "smoke",
            "vpatch": "0.1.0",
            "name": "one",
            "made": "2026-11-09T10:00:00+00:00",
            "digest": "sha256:0",
            "asked": {},
            "subject": [{"pin": PIN, "patches": [], "files": []}],
            "engine": {"kind": "cpu", "vllm": "0.50.0"},
            "machine": {"processor": "x", "cores": 1, "memory": 1, "gpus": []},
            "result": "passed",
            "models": {"a": {"model": "m", "digest": "sha256:1"}},
            "plan": {},
            "imports": {"before": [], "after": []},
            "cells": [
                {
                    "phase": "after",
                    "cell": "c",
                    "verdict": "pass",
                    "checks": [{"name": "n", "verdict": "pass", "figure": "1", "reason": ""}],
                    "k": 0,
                    "model": "a",
                    "mode": "eager",
                    "rounds": [{"log": "logs/a.log", "load_seconds": 1.5, "tokens_per_second": 2}],
                }
            ],
            "symptoms": [],
        }
    ).encode()


@cache
def _statement_example() -> bytes:
    from vpatch.evidence.records import upgraded
    from vpatch.evidence.store import STATEMENT, write_evidence

    with tempfile.TemporaryDirectory() as folder:
        write_evidence(Path(folder), upgraded(json.loads(_evidence_example())))
        return Path(folder, STATEMENT).read_bytes()


def _server(use):
    """What a server answers, without a connection."""

    def read(file):
        from requests import Response

        from vpatch.harness.client import AnswerError, Client

        response = Response()
        response.status_code, response._content = 200, file.read_bytes()
        told = type("Told", (Client,), {"_get": lambda *_: response, "_post": lambda *_: response})
        with suppress(AnswerError):
            use(told("http://127.0.0.1:1", 1.0, 0.0))

    return read


METRICS = b"""\
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{a="b"} 5.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 3.0
"""
COMPLETION = {
    "choices": [{"text": "x", "token_ids": [1]}],
    "usage": {"completion_tokens": 1},
}


def _module(file):
    from vpatch.codemods.nesting import NestedTooDeeplyError
    from vpatch.deriving.source_code import SourceCode
    from vpatch.planning.view import parse

    with suppress(SyntaxError, ValueError, NestedTooDeeplyError):
        SourceCode(file.read_bytes())
    return parse("vllm/engine.py", file.read_bytes())


MODULE = (
    b"import os\n\n\ndef start(config=1, *, mode='fast'):\n    return launch(config, mode=mode)\n"
)
READERS = {
    "advisories": Reader(dumped([advisory().model_dump(mode="json")] * 2), _advisories, "a.json"),
    "lock": Reader(lambda: json.dumps(_lock()).encode(), _read_lock),
    "journal": Reader(
        dumped([{"put": "a", "from": "0"}, {"remove": "b"}, {"remove-folder": "c"}]),
        _journal,
        errors=(ValueError, OSError),
    ),
    "shapes": Reader(
        dumped(
            {
                "schema_version": 1,
                "patch_digest": "d",
                "shapes": {
                    "vllm": [
                        {
                            "releases": ["0.23.0"],
                            "state": "needed",
                            "variant": None,
                            "definitions": {"a.py::f": "d"},
                        }
                    ]
                },
            }
        ),
        _shapes,
        "shapes.json",
    ),
    "evidence": Reader(_evidence_example, _evidence, "results.json"),
    "statement": Reader(_statement_example, _statement, "statement.json", errors=(OSError,)),
    "bench": Reader(_bench_example, _bench_record),
    "header": Reader(dumped(HEADER), _header, "model.safetensors", errors=(OSError,)),
    "config": Reader(dumped(CONFIG), _beside, "config.json"),
    "modelopt": Reader(
        dumped({"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}),
        _beside,
        "hf_quant_config.json",
    ),
    "tokenizer": Reader(
        dumped({"chat_template": "x", "tokenizer_class": "A", "auto_map": {"a": ["b"]}}),
        _beside,
        "tokenizer_config.json",
    ),
    "index of shards": Reader(dumped(INDEX), _beside, "model.safetensors.index.json"),
    "diff": Reader(DIFF.encode, _diff, "a.diff", is_json=False),
    "declared diff": Reader(DIFF.encode, _declared_diff, "a.diff", is_json=False),
    "series": Reader(
        lambda: b"a.patch\nb.patch # x\n", lambda f: _diff(f.parent), "series", is_json=False
    ),
    "patch": Reader(PATCH.encode, _patch, is_json=False),
    "recipe": Reader(RECIPE.encode, _recipe, "a.yaml", is_json=False),
    "target": Reader((ROOT / "targets" / "vllm.yaml").read_bytes, _target, "a.yaml", is_json=False),
    "settings": Reader(
        lambda: b"patches = ['a']\nrecipes = ['b']\n", _settings, "vpatch.toml", is_json=False
    ),
    "RECORD": Reader(
        lambda: b"a,sha256=AAAA,3\nRECORD,,\n", _record, errors=(OSError,), is_json=False
    ),
    "METADATA": Reader(
        lambda: b"Metadata-Version: 2.1\nName: vllm\nVersion: 0.50.0\n\nText\n",
        _metadata,
        errors=(OSError,),
        is_json=False,
    ),
    "wheel": Reader(_wheel_example, _wheel, "vllm-0.50.0-py3-none-any.whl", is_json=False),
    "archive": Reader(cache(sdist), _sdist, errors=(OSError,), is_json=False),
    "tar": Reader(cache(lambda: gzip.decompress(sdist())), _tar, errors=(OSError,), is_json=False),
    "log": Reader(lambda: LOG, _log, errors=(OSError,), is_json=False),
    "pip.conf": Reader(lambda: PIP, _pip, is_json=False),
    "kept index": Reader(dumped({"asked": 1.5, "releases": [RELEASE]}), _kept("index")),
    "kept pin": Reader(dumped({"manifest": "m", "pin": PIN}), _kept("pin"), "seal.json"),
    "trust": Reader(dumped(TRUST), _kept("trust")),
    "claim": Reader(dumped(HOLDER), _kept("claim"), errors=(OSError,)),
    "thread": Reader(
        dumped({"asked": "2026-01-01T00:00:00+00:00", "thread": THREAD, "release": None}),
        _kept("thread"),
    ),
    "direct_url": Reader(
        dumped({"dir_info": {"editable": True}}),
        _direct_url,
        "vllm-0.50.0.dist-info/direct_url.json",
    ),
    "overlay": Reader(dumped(OVERLAY), _overlay, "overlay.json"),
    "stored": Reader(dumped({"a/b": {"place": "x/1", "digest": "d"}}), _stored, errors=(OSError,)),
    "metrics": Reader(
        lambda: METRICS,
        _server(lambda one: (one.counters(), one.speculative_tokens())),
        errors=(OSError,),
        is_json=False,
    ),
    "models": Reader(
        dumped({"data": [{"id": "a", "root": "b"}]}),
        _server(lambda one: one.roots()),
        errors=(OSError,),
    ),
    "completion": Reader(
        dumped(COMPLETION),
        _server(lambda one: one.complete("x", {}, patience=1.0)),
        errors=(OSError,),
    ),
    "module": Reader(lambda: MODULE, _module, errors=(OSError,), is_json=False),
}


@pytest.mark.parametrize("name", READERS)
def test_a_few_changes(name):
    whole(READERS[name], 4)


@pytest.mark.parametrize("made", ["yesterday", "0001-01-01T00:00:00+23:59", "9" * 5000, "²", ""])
def test_a_record_of_no_time(made, tmp_path):
    file = tmp_path / "data"
    file.write_text(json.dumps(json.loads(_bench_example()) | {"made": made}))
    with pytest.raises(VpatchError, match="the record is not complete: made"):
        _bench_record(file)


@pytest.mark.parametrize("made", ["yesterday", "0001-01-01T00:00:00+23:59", "2026-03", ""])
def test_evidence_of_no_time_proves_nothing(made):
    from vpatch.commands.upstream.proof import Judge

    judge = type("Judge", (), {"now": datetime.now(UTC), "days": 30})()
    assert "does not say when" in Judge._too_old(judge, SimpleNamespace(made=made))


@pytest.mark.parametrize("version", ["9" * 5000, "²", "1.2.x"])
def test_a_source_whose_metadata_has_no_version(version):
    from vpatch.source.entry import version_in

    tree = SimpleNamespace(
        pin=SimpleNamespace(tree="vllm"),
        records={"PKG-INFO"},
        read=lambda _: f"Version: {version}".encode(),
    )
    assert version_in(tree) is None


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("name", READERS)
def test_many_changes(name):
    whole(READERS[name], int(os.environ.get("VPATCH_TEST_EXAMPLES", "1500")))
