"""Files that are there as a whole or not at all, whoever else writes into the folder."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Lets `write` make a file under another name, and then puts it in its place at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"unfinished-{os.getpid()}-{path.name}")
    try:
        write(unfinished)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Writes JSON, whole."""
    text = json.dumps(value, indent=1) + "\n"
    write_whole(path, lambda unfinished: unfinished.write_text(text))


def read_json(path: Path) -> Any:
    """What a JSON file holds, or `None` if there is no such file."""
    return json.loads(path.read_text()) if path.exists() else None
