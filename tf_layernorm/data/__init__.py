"""One module a data set; each ends in a `tf.data.Dataset`."""

from tf_layernorm._lazy import submodules

__all__ = [
    "archives",
    "binarized_mnist",
    "buckets",
    "handwriting",
    "iam_ondb",
    "iam_ondb_files",
    "mnist",
    "pen",
    "pen_lines",
    "unipen",
    "unipen_files",
    "unipen_lines",
]

__getattr__ = submodules(__name__, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
