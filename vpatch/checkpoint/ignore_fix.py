"""Lists of modules that are not quantised, written so that they hit the same in vLLM as on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vpatch.checkpoint.folder import CONFIG, read_json
from vpatch.checkpoint.switching import announce, changing, switch
from vpatch.checkpoint.writing import as_json, back_up, holder_of, place_of_copy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vpatch.checkpoint.ignore import JudgedList


def fix_lists(folder: Path, judged: Sequence[JudgedList]) -> Path | None:
    """Write better entries into config.json; return the copy of it from before.

    None is returned, and nothing written, where no entry has a better one.

    Raises:
        CheckpointError: the file cannot be written, or another vpatch is writing to the folder.
    """
    with changing(folder):
        if not any(entry.better for one in judged for entry in one.entries):
            return None
        config = read_json(folder / CONFIG)
        for one in judged:
            better = {entry.entry: entry.better for entry in one.entries if entry.better}
            holder, key = holder_of(config, one.ignored.way), one.ignored.way[-1]
            holder[key] = _replace_entries(holder[key], better)
        announce(folder, [place_of_copy(folder / CONFIG).name])
        backup = back_up(folder / CONFIG)
        switch(folder, {CONFIG: as_json(folder / CONFIG, config)}, ())
    return backup


def _replace_entries(entries: Any, better: dict[str, tuple[str, ...]]) -> Any:
    """Return a list, or gptq's table, with entries replaced in place, and no entry twice."""
    if isinstance(entries, dict):
        return {new: value for key, value in entries.items() for new in better.get(key, (key,))}
    corrected: list[Any] = []
    for entry in entries:
        for new in better.get(entry, (entry,)) if isinstance(entry, str) else (entry,):
            if new not in corrected:
                corrected.append(new)
    return corrected
