from __future__ import annotations

import json
from datetime import UTC, datetime
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from tests.commands.audit.cases import advisory
from tests.helpers import fails
from vpatch.library import advisories
from vpatch.library.advisories import (
    Advisories,
    parse_advisories,
    read_advisories,
    shipped_advisories,
    with_newer,
)

NOW = datetime(2026, 11, 23, tzinfo=UTC)


def with_events(*events, **affected):
    found = {"package": {"ecosystem": "PyPI", "name": "vLLM"}, **affected}
    if events:
        found["ranges"] = [{"type": "ECOSYSTEM", "events": list(events)}]
    return advisory(affected=[found])


@pytest.mark.parametrize(
    ("events", "inside", "outside"),
    [
        ([{"introduced": "0"}, {"fixed": "0.24.0"}], ["0.1", "0.23.0"], ["0.24.0", "0.24.1"]),
        ([{"fixed": "0.24.0"}, {"introduced": "0.22.0"}], ["0.22.0", "0.23"], ["0.21.9", "0.24"]),
        ([{"introduced": "0.3"}], ["0.3.0", "9.0"], ["0.2"]),
        ([{"introduced": "0"}, {"last_affected": "0.23.0"}], ["0.23.0"], ["0.23.1"]),
        (
            [
                {"introduced": "0"},
                {"fixed": "0.10"},
                {"introduced": "0.20"},
                {"fixed": "0.22.1"},
            ],
            ["0.9", "0.20.0", "0.22.0"],
            ["0.10", "0.19", "0.22.1"],
        ),
        # A release candidate comes before its release.
        ([{"introduced": "0"}, {"fixed": "0.24.0"}], ["0.24.0rc1"], []),
    ],
)
def test_a_range_covers_releases(events, inside, outside):
    found = with_events(*events)
    assert [version for version in inside if not found.covers(version)] == []
    assert [version for version in outside if found.covers(version)] == []


def test_listed_versions_are_covered_too():
    found = with_events(versions=["0.22.0", "not a version"])
    assert found.covers("0.22")
    assert not found.covers("0.22.1")


def test_the_range_of_another_package_says_nothing():
    events = [{"introduced": "0"}]
    other = {"package": {"ecosystem": "PyPI", "name": "vllm-x"}}
    other["ranges"] = [{"type": "ECOSYSTEM", "events": events}]
    assert not advisory(affected=[other]).covers("0.23.0")


@pytest.mark.parametrize(
    ("said", "severity"),
    [
        ("HIGH", "high"),
        ("MEDIUM", "moderate"),
        ("Critical", "critical"),
        ("9.8", None),
        (None, None),
    ],
)
def test_severity(said, severity):
    assert advisory(database_specific={"severity": said}).severity == severity


def old():
    return Advisories((advisory("CVE-2026-1", aliases=["GHSA-aaaa-bbbb-cccc"]),), NOW)


def test_a_newer_advisory_takes_the_place_of_a_shipped_one():
    newer = advisory("GHSA-aaaa-bbbb-cccc", modified="2026-11-01T00:00:00Z", summary="More.")
    (found,) = with_newer(old(), [newer]).all
    assert (found.summary, found.names) == ("More.", {"CVE-2026-1", "GHSA-aaaa-bbbb-cccc"})
    older = advisory("CVE-2026-1", modified="2020-01-01T00:00:00Z", summary="Less.")
    (found,) = with_newer(old(), [older]).all
    assert found.summary == "A request without a key gets an answer."


def test_what_vpatch_says_of_an_advisory_outlives_a_newer_text():
    shipped = advisory(database_specific={"vpatch": {"not_carried": "It is compiled."}})
    newer = advisory(modified="2026-11-01T00:00:00Z", database_specific={"severity": "LOW"})
    (found,) = with_newer(Advisories((shipped,), NOW), [newer]).all
    assert (found.not_carried, found.severity) == ("It is compiled.", "low")


def test_an_advisory_that_was_withdrawn():
    gone = advisory("CVE-2026-1", modified="2026-11-01T00:00:00Z", withdrawn="2026-11-01T00:00:00Z")
    assert with_newer(old(), [gone]).all == ()


GHSA = "GHSA-aaaa-bbbb-cccc"
LATER = "2026-11-01T00:00:00Z"


def of_another_package(name):
    other = advisory(name).model_dump(mode="json")
    other["affected"] = [{"package": {"ecosystem": "PyPI", "name": "torch"}}]
    return other


@pytest.mark.parametrize(
    ("new", "ids", "note"),
    [
        # A withdrawn one, which names the others.
        (
            [
                advisory(
                    "X-1", modified=LATER, withdrawn=LATER, aliases=["CVE-2026-1", "CVE-2026-2"]
                )
            ],
            ["CVE-2026-1", "CVE-2026-2"],
            "X-1 was withdrawn on 2026-11-01; the audit has CVE-2026-1, CVE-2026-2",
        ),
        (
            [advisory(GHSA, modified=LATER, withdrawn=LATER)],
            ["CVE-2026-1", "CVE-2026-2"],
            f"{GHSA} was withdrawn on 2026-11-01; the audit has CVE-2026-1, which counts",
        ),
        # `withdrawn` of an alias that a file adds before.
        (
            [
                advisory("X-1", modified=LATER, aliases=["CVE-2026-1"]),
                advisory("X-1", modified="2026-11-02T00:00:00Z", withdrawn=LATER),
            ],
            ["CVE-2026-1", "CVE-2026-2"],
            "the audit has CVE-2026-1",
        ),
        # Its own id.
        (
            [advisory("CVE-2026-1", modified=LATER, withdrawn=LATER, aliases=["CVE-2026-2"])],
            ["CVE-2026-2"],
            "CVE-2026-1 was withdrawn on 2026-11-01: the audit leaves it out",
        ),
        # An old record, and one of the future.
        (
            [advisory("CVE-2026-1", modified="2020-01-01T00:00:00Z", withdrawn=LATER)],
            ["CVE-2026-1", "CVE-2026-2"],
            "it counts still",
        ),
        (
            [advisory("CVE-2026-1", modified=LATER, withdrawn="2999-01-01T00:00:00Z")],
            ["CVE-2026-1", "CVE-2026-2"],
            "a newer text than vpatch's own counts for CVE-2026-1",
        ),
        # Two of one id at one time: what is not withdrawn counts.
        (
            [
                advisory("CVE-2026-1", modified=LATER, withdrawn=LATER),
                advisory("CVE-2026-1", modified=LATER),
            ],
            ["CVE-2026-1", "CVE-2026-2"],
            "it counts still",
        ),
        # One that is not withdrawn swallows nobody either.
        (
            [advisory("X-1", modified=LATER, fixed="0.1", aliases=["CVE-2026-1", "CVE-2026-2"])],
            ["CVE-2026-1", "CVE-2026-2", "X-1"],
            "",
        ),
        # Aliases in a circle, and of what is not there.
        (
            [
                advisory("X-1", modified=LATER, aliases=["X-2"]),
                advisory("X-2", modified=LATER, aliases=["X-3"]),
                advisory("X-3", modified=LATER, aliases=["X-1", "none"]),
            ],
            ["CVE-2026-1", "CVE-2026-2", "X-1"],
            "",
        ),
        # `related` and `upstream` are no aliases.
        (
            [advisory("X-1", modified=LATER, withdrawn=LATER, related=["CVE-2026-1"])],
            ["CVE-2026-1", "CVE-2026-2"],
            "X-1 was withdrawn on 2026-11-01: the audit leaves it out",
        ),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_no_advisory_takes_out_another_one(new, ids, note, turned):
    shipped = Advisories((*old().all, advisory("CVE-2026-2")), NOW)
    found = with_newer(shipped, new[::-1] if turned else new)
    assert [one.id for one in found.all] == ids
    assert all(one.covers("0.23.0") for one in found.all if one.id.startswith("CVE"))
    assert all(one.severity == "high" for one in found.all)
    assert note in "; ".join(found.notes)


def test_an_alias_makes_no_advisory_smaller():
    low = {"severity": "LOW", "vpatch": {"not_carried": "It is harmless."}}
    new = advisory("X-1", fixed="0.1", aliases=["CVE-2026-1"], database_specific=low)
    for modified in ("2020-01-01T00:00:00Z", LATER):
        newer = new.model_copy(update={"modified": datetime.fromisoformat(modified)})
        (found,) = with_newer(old(), [newer]).all
        assert (found.id, found.severity, found.not_carried) == ("CVE-2026-1", "high", None)
        assert found.covers("0.23.0")
        assert found.names == {"CVE-2026-1", GHSA, "X-1"}


def test_ranges_of_commits_say_nothing_of_versions():
    commits = {"type": "GIT", "events": [{"introduced": "0"}]}
    vllm = {"package": {"ecosystem": "PyPI", "name": "vllm"}, "ranges": [commits]}
    assert advisory(affected=[vllm]).covers("0.23.0") is None


def test_an_advisory_of_another_package_withdraws_nothing(tmp_path):
    gone = of_another_package("CVE-2026-1") | {"modified": LATER, "withdrawn": LATER}
    (tmp_path / "one.json").write_text(json.dumps([gone, row(name="CVE-2026-3")]))
    found = with_newer(old(), read_advisories(tmp_path))
    assert [one.id for one in found.all] == ["CVE-2026-1", "CVE-2026-3"]


@pytest.mark.parametrize("name", ["CVE-2026-²", "CVE-2026-" + "1" * 50, "CVE--", "٣-٤"])
def test_odd_ids_have_a_place(name):
    assert [one.id for one in with_newer(old(), [advisory(name)]).all].count(name) == 1


def test_order_and_age():
    names = ("CVE-2026-12491", "CVE-2026-9540", "GHSA-aaaa-bbbb-cccc")
    found = with_newer(Advisories((), NOW), [advisory(name) for name in names])
    assert [one.id for one in found.all] == ["CVE-2026-9540", "CVE-2026-12491", names[2]]
    assert found.age(NOW) == 53


def row(**keys):
    return advisory(**keys).model_dump(mode="json")


@pytest.mark.parametrize(
    "document",
    [row(), [row(), row(name="CVE-2026-2")], {"vulns": [row()], "next_page_token": ""}],
)
def test_what_databases_export(tmp_path, document):
    file = tmp_path / "found.json"
    file.write_text(json.dumps(document))
    assert read_advisories(file)[0].id == "CVE-2026-1234"
    assert read_advisories(tmp_path)[0].id == "CVE-2026-1234"


def test_other_packages_are_left_out(tmp_path):
    other = row(name="CVE-2026-2")
    other["affected"][0]["package"]["name"] = "torch"
    (tmp_path / "one.json").write_text(json.dumps(row()))
    (tmp_path / "two.json").write_text(json.dumps(other))
    assert [one.id for one in read_advisories(tmp_path)] == ["CVE-2026-1234"]
    with fails("security.no-advisories", "no advisory about vllm"):
        read_advisories(tmp_path / "two.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not json", "is not JSON"),
        (b"[" * 100_000, "is not JSON: it is nested too deeply"),
        (b"{}", "the key 'id' is missing"),
        (json.dumps(row() | {"modified": "now"}).encode(), "modified"),
        (
            json.dumps(row()).replace('"0.24.0"', '"newest"').encode(),
            "'newest' is not a version",
        ),
        (
            json.dumps(row()).replace('"0.24.0"', f'"{"9" * 5000}"').encode(),
            "is not a version",
        ),
        (
            json.dumps(row()).replace('{"fixed": "0.24.0"}', "{}").encode(),
            "an event says nothing",
        ),
        (json.dumps(row() | {"id": "CVE-" + "1" * 5000}).encode(), "id"),
        (json.dumps(row() | {"id": 1e999}).encode(), "id"),
        (json.dumps(row() | {"modified": "9" * 5000}).encode(), "modified"),
    ],
)
def test_a_wrong_advisory(content, message):
    with fails("security.wrong-advisory", message) as caught:
        parse_advisories(content, "a.json")
    assert "https://api.osv.dev/v1/vulns/ID" in caught.value.hint


def zipped(path, files):
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def test_a_zip_of_all_packages(tmp_path):
    """As osv.dev exports them. Nobody reads the files that name other packages."""
    files = {
        "GHSA-aaaa-bbbb-cccc.json": '{"affected": [{"package": {"name": "torch"}}]}',
        "PYSEC-2026-1.json": json.dumps(row(name="CVE-2026-2"), indent=2),
        "CVE-2026-1234.json": json.dumps(row()),
        "README.md": '"name": "vllm"',
    }
    found = read_advisories(zipped(tmp_path / "all.zip", files))
    assert [one.id for one in found] == ["CVE-2026-2", "CVE-2026-1234"]


def test_a_zip_without_vllm(tmp_path):
    file = zipped(tmp_path / "all.zip", {"a.json": "{}"})
    with fails("security.no-advisories", "^https://here: has no advisory about vllm"):
        read_advisories(file, "https://here")


def test_a_zip_names_its_wrong_file(tmp_path):
    file = zipped(tmp_path / "all.zip", {"a.json": '{"name": "vllm"}'})
    with fails("security.wrong-advisory", "^https://here: a.json: is not an advisory"):
        read_advisories(file, "https://here")


def test_a_damaged_zip(tmp_path):
    file = zipped(tmp_path / "all.zip", {"a.json": json.dumps(row()) * 100})
    content = bytearray(file.read_bytes())
    content[60:80] = bytes(20)
    file.write_bytes(content)
    with fails("security.wrong-advisory", "is a zip that cannot be read"):
        read_advisories(file)


@pytest.mark.parametrize("limit", ["_LARGEST", "_LARGEST_ZIP"])
def test_a_zip_that_unpacks_to_too_much(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(advisories, limit, 10_000)
    file = zipped(tmp_path / "all.zip", {"a.json": " " * 10_001})
    with fails("security.wrong-advisory", "a.json: unpacks to too much"):
        read_advisories(file)


def test_a_file_that_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(advisories, "_LARGEST", 10)
    (tmp_path / "found.json").write_text(json.dumps(row()))
    with fails("security.wrong-advisory", "cannot be read: is larger than 10 bytes"):
        read_advisories(tmp_path / "found.json")


def test_no_such_file(tmp_path):
    with fails("security.no-advisories"):
        read_advisories(tmp_path / "none")


def test_the_shipped_advisories():
    found = shipped_advisories()
    ids = [one.id for one in found.all]
    assert len(ids) == len(set(ids)) > 35
    assert {"CVE-2026-48746", "CVE-2026-54235"} <= set(ids)
    assert all(one.summary for one in found.all)


def git_only(name="CVE-2026-7", **keys):
    """As osv.dev makes a record of a CVE that names no package."""
    commits = {
        "type": "GIT",
        "repo": "https://github.com/vllm-project/vllm",
        "events": [{"introduced": "0"}],
    }
    return advisory(name, affected=[{"ranges": [commits], **keys}])


def test_a_record_of_commits_alone_is_about_vllm(tmp_path):
    row = git_only().model_dump(mode="json", by_alias=True)
    found = read_advisories(zipped(tmp_path / "all.zip", {"a.json": json.dumps(row)}))
    assert [one.id for one in found] == ["CVE-2026-7"]
    row["affected"][0]["ranges"][0]["repo"] = "https://github.com/other/vllm"
    (tmp_path / "other.json").write_text(json.dumps(row))
    with fails("security.no-advisories"):
        read_advisories(tmp_path / "other.json")


@pytest.mark.parametrize(
    ("repository", "is_ours"),
    [
        ("http://github.com/vllm-project/vllm", True),
        ("https://www.github.com/vllm-project/vllm.git", True),
        ("git+https://github.com/vllm-project/vllm", True),
        ("git@github.com:vllm-project/vllm.git", True),
        ("ssh://git@github.com/vllm-project/vllm.git", True),
        ("https://GitHub.com/vLLM-project/vLLM/", True),
        ("https://github.com/vllm-project/vllm-omni", False),
        ("git@github.com:vllm-project/vllm-ascend.git", False),
        ("https://example.com/github.com/vllm-project/vllm", False),
    ],
)
def test_each_form_of_the_repository_counts(tmp_path, repository, is_ours):
    """A form that nobody expected would leave the record out, without a word."""
    row = git_only().model_dump(mode="json", by_alias=True)
    row["affected"][0]["ranges"][0]["repo"] = repository
    rows = {
        "a.json": json.dumps(row),
        "b.json": git_only("CVE-2026-8").model_dump_json(by_alias=True),
    }
    ids = {one.id for one in read_advisories(zipped(tmp_path / "all.zip", rows))}
    assert ids == ({"CVE-2026-7", "CVE-2026-8"} if is_ours else {"CVE-2026-8"})


def test_tags_are_releases():
    tagged = git_only(versions=["v0.22.0", "v0.23.0", "v0.9.0.1rc1"])
    assert [tagged.covers(one) for one in ("0.23.0", "0.22.1")] == [True, False]
    # The record is older than the release, and the range of commits has no end.
    assert tagged.covers("0.24.0") is None
    assert git_only().covers("0.24.0") is None


def test_a_range_of_commits_that_ends_leaves_later_releases_out():
    tagged = git_only(versions=["v0.22.0"])
    events = [{"introduced": "0"}, {"fixed": "0" * 40}]
    ranges = tagged.affected[0].ranges[0].model_copy(update={"events": tuple(events)})
    (affected,) = tagged.affected
    ended = affected.model_copy(update={"ranges": (ranges,)})
    assert tagged.model_copy(update={"affected": (ended,)}).covers("0.24.0") is False


def test_the_aliases_that_vpatch_ships_join_two_records_of_one_hole():
    shipped = shipped_advisories()
    ghsa = advisory("GHSA-48jh-3gj7-fg8v", modified="2999-01-01T00:00:00Z")
    pysec = advisory("PYSEC-2026-3933", modified="2999-01-01T00:00:00Z")
    joined = with_newer(shipped, [ghsa, pysec])
    assert len(joined.all) == len(shipped.all)
    (same,) = [one for one in joined.all if one.id == "CVE-2026-73556"]
    assert {ghsa.id, pysec.id} < same.names
    assert same.sign is not None


def test_another_database_has_no_say_in_signs():
    sign = {"files": ["vllm/a.py"], "first": "0.1.0", "read": "9.0.0"}
    new = advisory("CVE-2026-7", database_specific={"vpatch": {"sign": sign}})
    (one,) = with_newer(Advisories((), NOW), [new]).all
    assert one.sign is None


@pytest.mark.parametrize(
    ("word", "vectors", "severity"),
    [
        (None, ["CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:L/I:N/A:N"], "moderate"),
        ("LOW", ["CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"], "low"),
        (
            None,
            [
                "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:L/I:N/A:N",
                "CVSS:4.0/AV:N/AC:L/AT:N/PR:N/UI:N/VC:N/VI:N/VA:H/SC:N/SI:N/SA:N",
            ],
            "high",
        ),
        (None, ["CVSS:9.9/AV:N"], None),
    ],
)
def test_a_vector_is_a_severity(word, vectors, severity):
    ratings = [{"type": "CVSS_V3", "score": one} for one in vectors]
    one = advisory(severity=ratings, database_specific={"severity": word})
    assert one.severity == severity
    (joined,) = with_newer(Advisories((one,), NOW), [advisory("X", aliases=[one.id])]).all
    assert joined.severity == "high"
