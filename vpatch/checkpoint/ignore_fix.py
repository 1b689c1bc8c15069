"""Lists of modules that are not quantised, written so that they hit the same in vLLM as on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vpatch.checkpoint.folder import read_json
from vpatch.checkpoint.switching import announce, changing, switch
from vpatch.checkpoint.writing import as_json, back_up, holder_of, place_of_copy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vpatch.checkpoint.ignore import JudgedList


def fix_lists(folder: Path, judged: Sequence[JudgedList]) -> Path | None:
    """Write better entries into the file of the lists; return the copy of it from before.

    None is returned, and nothing written, where no entry has a better one.

    Raises:
        CheckpointError: the file cannot be written, or another vpatch is writing to the folder.
    """
    with changing(folder):
        wrong = [one for one in judged if any(entry.better for entry in one.entries)]
        if not wrong:
            return None
        # All lists of a config are in one file.
        file = wrong[0].ignored.file
        config = read_json(folder / file)
        for one in wrong:
            better = {entry.entry: entry.better for entry in one.entries if entry.better}
            holder, key = holder_of(config, one.ignored.keys), one.ignored.keys[-1]
            holder[key] = _replace_entries(holder[key], better)
        announce(folder, [place_of_copy(folder / file).name])
        backup = back_up(folder / file)
        switch(folder, {file: as_json(folder / file, config)}, ())
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
