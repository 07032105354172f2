"""Starts `tf-layernorm`: it lies outside the package, whose import takes TensorFlow's seconds."""

import importlib.util
import sys


def main() -> int:
    """Runs the command line; returns the exit status."""
    spec = importlib.util.find_spec("tf_layernorm")
    assert spec is not None and spec.loader is not None
    # The package as it is before its `__init__`: modules can be imported from it, and those that
    # read the command line need no TensorFlow.
    package = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = package
    execute = spec.loader.exec_module

    from tf_layernorm import cli

    return cli.main(before=lambda: execute(package))


if __name__ == "__main__":
    raise SystemExit(main())
