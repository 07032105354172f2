"""One module a data set; each ends in a `tf.data.Dataset`."""

from tf_layernorm._lazy import submodules

__all__ = [
    "archives",
    "binarized_mnist",
    "buckets",
    "captions",
    "cifar10",
    "coco",
    "handwriting",
    "iam_ondb",
    "iam_ondb_files",
    "mnist",
    "order",
    "pen",
    "pen_lines",
    "prepared",
    "sentence_tasks",
    "sentences",
    "unipen",
    "unipen_files",
    "unipen_lines",
    "word_vectors",
    "words",
]

__getattr__ = submodules(__name__, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
