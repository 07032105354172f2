"""What a measurement depends on besides the program: machine, versions, date."""

import datetime
import os
import platform
from importlib.metadata import version
from typing import Any


def environment() -> dict[str, Any]:
    """For the JSON of a benchmark: `machine`, `versions`, `date`."""
    names = ("tensorflow", "keras", "numpy")
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {name: version(name) for name in names},
        "date": datetime.date.today().isoformat(),
    }
