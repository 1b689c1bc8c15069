from __future__ import annotations

import csv
import io

from tests.commands.bench.records import GPU, MACHINE, point, record, validated
from vpatch.commands.bench.match import joined
from vpatch.commands.bench.report.markdown import csv_of, report_of


def table(text, head):
    """The rows of the Markdown table whose first line has the words of `head`."""
    lines = text.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("|") and head in line)
    names = [cell.strip() for cell in lines[start].strip("|").split("|")]
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows.append(dict(zip(names, cells, strict=True)))
    return rows


def test_what_was_measured():
    text = report_of(validated(record()))
    assert text.startswith("## Benchmark one\n\n- vLLM 0.23.0 with 6 patches (sha256:aaaa")
    assert "on a processor\n" in text
    assert "- 3 repeats, 4 prompts for each of the concurrent requests, temperature 0.0" in text
    assert "- VLLM_CPU_KVCACHE_SPACE=1 --enforce-eager\n" in text
    found = record()
    found["sides"][0]["machine"] = MACHINE | {"gpus": [GPU, GPU]}
    assert "on 2 x NVIDIA H200\n" in report_of(validated(found))


def test_speed_and_what_drafts_did_for_it():
    without, with_two = table(
        report_of(validated(record(ks=(0, 2), concurrency=(4,), accepted=0.5))), "output tok/s"
    )
    assert without["output tok/s"] == "303.1 ± 3.0"
    assert without["speed-up over k=0"] == without["acceptance"] == "-"
    assert with_two["speed-up over k=0"].startswith("1.60x [1.5")
    assert with_two["speed-up over k=0"].endswith(", better")
    assert (with_two["acceptance"], with_two["length"]) == ("0.375", "1.75")
    assert with_two["per position"] == "0.500 0.250"


def test_latencies_have_four_figures():
    row, *_ = table(report_of(validated(record(ks=(0,), concurrency=(1,)))), "TTFT")
    assert row["TTFT mean/p50/p95/p99 (ms)"] == "12.00 / 12.00 / 17.40 / 17.88"
    assert row["E2EL mean/p50/p95/p99 (ms)"].startswith("322.02 / 322.02 / ")
    assert list(row)[-4:] == [f"{n} mean/p50/p95/p99 (ms)" for n in ("TTFT", "TPOT", "ITL", "E2EL")]


def test_sides_and_whether_they_differ():
    text = report_of(validated(record(ks=(0,), concurrency=(1,), sides=(1.0, 1.2))))
    assert "- A: vLLM 0.23.0 with 6 patches" in text
    one, other = table(text, "per position")
    assert (one["side"], other["side"]) == ("A", "B")
    (row,) = table(text, "TTFT mean ")
    assert row["output tok/s"].startswith("1.20x [")
    assert row["output tok/s"].endswith(", better")
    assert row["TTFT mean"].endswith("within the noise")


def test_what_must_be_known_first():
    found = record(ks=(0,), concurrency=(1,))
    found["points"][0]["measured"]["cached_tokens"] = 16 * 24
    said = (
        "- **tiny k = 0, 24/32 at concurrency 1: 33% of the prompts' tokens came from the prefix "
        "cache, and so TTFT is not that of prompts that are new**\n"
    )
    assert said in report_of(validated(found))
    two = [validated(record()), validated(record() | {"name": "two"})]
    found = joined(two, ["flags: x is 1 and 2"])
    assert "- **they differ in flags: x is 1 and 2**\n" in report_of(validated(found))
    assert "**" not in report_of(validated(record()))


def test_noise_is_called_so():
    row = table(
        report_of(validated(record(ks=(0, 1), concurrency=(1,), gain=0.004))), "output tok/s"
    )[1]
    assert row["speed-up over k=0"].endswith("], within the noise")
    row = table(
        report_of(validated(record(ks=(0, 1), concurrency=(1,), repeats=1))), "output tok/s"
    )[1]
    assert row["speed-up over k=0"] == "1.30x, not judged"
    assert row["output tok/s"] == "129.0" or "±" not in row["output tok/s"]


def test_what_is_not_there_is_said():
    points = [point(100.0), point(None, k=1), point(None, k=1, repeat=1)]
    text = report_of(validated(record() | {"points": points}))
    assert text.endswith(
        "### Not measured\n\n- model tiny, in/out 24/32, conc. 1, k 1: "
        "does not start: the server ended with 1 (2 times)\n"
    )
    assert table(text, "TTFT")[1]["ITL mean/p50/p95/p99 (ms)"] == "-"


def test_a_name_with_a_bar_does_not_break_the_table():
    assert r"a\|b" in report_of(validated(record(models=("a|b",))))


def test_csv_has_a_line_for_each_run():
    found = record(ks=(0, 2), concurrency=(1,), sides=(1, 1), accepted=0.5)
    found["points"].append(point(None, k=3))
    rows = list(csv.DictReader(io.StringIO(csv_of(validated(found)))))
    assert len(rows) == 13
    last = rows[-2]
    assert (last["side"], last["k"], last["repeat"]) == ("B", "2", "3")
    assert float(last["ttft_p99_ms"]) == 12 * 1.49
    assert float(last["output_tokens_per_second"]) > 150
    assert (last["drafts"], last["draft_tokens"], last["accepted"]) == ("176", "352", "132")
    assert last["accepted_per_position"] == "88 44"
    assert rows[-1]["fault"] == "does not start: the server ended with 1"
    assert rows[-1]["output_tokens"] == ""
