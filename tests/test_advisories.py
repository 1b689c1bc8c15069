"""The advisories of vLLM in `advisories/` are OSV records: one file each, and no id twice.

The models have the part of the OSV schema 1.7.3 that the files use. They refuse everything else.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Annotated, Literal

import pytest
from packaging.version import Version
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from vpatch.library.catalog import installed

FOLDER = installed("advisories")
FILES = sorted(FOLDER.iterdir())
KEYS = [
    "schema_version",
    "id",
    "modified",
    "aliases",
    "summary",
    "severity",
    "affected",
    "references",
    "database_specific",
]

GHSA = r"GHSA(-[23456789cfghjmpqrvwx]{4}){3}"
Id = Annotated[
    str, StringConstraints(pattern=rf"^(CVE-\d{{4}}-\d{{4,}}|PYSEC-\d{{4}}-\d+|{GHSA})$")
]
Sentence = Annotated[str, StringConstraints(pattern=r"^\w[^\n]*\w\.$")]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Package(Strict):
    ecosystem: Literal["PyPI"]
    name: Literal["vllm"]
    purl: Literal["pkg:pypi/vllm"]


class Event(Strict):
    introduced: str | None = None
    fixed: str | None = None

    @model_validator(mode="after")
    def one_version(self):
        (kind,) = self.model_fields_set
        Version(getattr(self, kind))
        return self


class Range(Strict):
    type: Literal["ECOSYSTEM"]
    events: Annotated[list[Event], Field(min_length=1, max_length=2)]

    @model_validator(mode="after")
    def from_old_to_new(self):
        first, *rest = self.events
        assert first.introduced is not None
        for event in rest:
            assert event.fixed is not None
            assert Version(first.introduced) < Version(event.fixed)
        return self


class Affected(Strict):
    package: Package
    ranges: Annotated[list[Range], Field(min_length=1)]


class Reference(Strict):
    type: Literal["FIX", "ADVISORY"]
    url: Annotated[str, StringConstraints(pattern=r"^https://github\.com/\S+$")]


class Rating(Strict):
    type: Literal["CVSS_V3", "CVSS_V4"]
    score: Annotated[str, StringConstraints(pattern=r"^CVSS:(3\.1|4\.0)(/[A-Z]+:[A-Z])+$")]


Text = Annotated[str, StringConstraints(min_length=8, pattern=r"^[^\n]+$")]
Path = Annotated[str, StringConstraints(pattern=r"^(vllm|csrc|rust)/[\w./-]+\.(py|cuh?|rs|toml)$")]
Final = Annotated[str, StringConstraints(pattern=r"^0\.\d+\.\d+$")]


class Sign(Strict):
    files: Annotated[list[Path], Field(min_length=1)]
    defect: Text | None = None
    fix: Text | None = None
    first: Final
    last: Final | None = None
    fixed: Final | None = None
    read: Final

    @model_validator(mode="after")
    def in_order(self):
        if self.defect is None:
            assert self.fix is self.last is self.fixed is None
            return self
        order = [one for one in (self.first, self.last, self.fixed, self.read) if one]
        assert self.last
        assert order == sorted(order, key=Version)
        return self


class Vpatch(Strict):
    not_carried: Sentence
    sign: Sign | None = None


class Specific(Strict):
    severity: Literal["CRITICAL", "HIGH", "MODERATE", "LOW"] | None = None
    source: Annotated[str, StringConstraints(min_length=10)]
    as_of: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d$")]
    vpatch: Vpatch | None = None


class Advisory(Strict):
    schema_version: Literal["1.7.3"]
    id: Id
    modified: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
    aliases: Annotated[list[Id], Field(min_length=1)] | None = None
    summary: Sentence
    severity: Annotated[list[Rating], Field(min_length=1)] | None = None
    affected: Annotated[list[Affected], Field(min_length=1)]
    references: Annotated[list[Reference], Field(min_length=1)] | None = None
    database_specific: Specific


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_there_are_advisories():
    assert len(FILES) > 30


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_an_osv_record(path):
    record = read(path)
    assert list(record) == [key for key in KEYS if key in record]
    advisory = Advisory.model_validate(record)
    assert path.name == f"{advisory.id}.json"
    assert datetime.fromisoformat(advisory.modified) <= datetime.now(UTC)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_written_in_one_way(path):
    text = json.dumps(read(path), indent=2, ensure_ascii=False) + "\n"
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_main_id_is_the_cve_then_the_ghsa(path):
    record = read(path)
    aliases = record.get("aliases", [])
    order = ("CVE-", "GHSA-", "PYSEC-")
    ranks = [
        next(rank for rank, prefix in enumerate(order) if one.startswith(prefix))
        for one in (record["id"], *aliases)
    ]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_advisory_without_a_fix_says_why_it_is_not_carried(path):
    record = Advisory.model_validate(read(path))
    fixed = any(event.fixed for one in record.affected for r in one.ranges for event in r.events)
    assert fixed or record.database_specific.vpatch


def test_no_id_is_there_twice():
    ids = Counter(
        one for path in FILES for one in (read(path)["id"], *read(path).get("aliases", []))
    )
    assert [one for one, times in ids.items() if times > 1] == []
