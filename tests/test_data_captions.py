"""Captions: the emoji of the package, COCO in both layouts, and what is refused."""

import json

import numpy as np
import pytest

from tf_layernorm.data import coco
from tf_layernorm.data.captions import Pairs, group_of, load_emoji
from tf_layernorm.data.coco import image_files, load_coco


@pytest.fixture(scope="module")
def emoji():
    return load_emoji()


def parts(data):
    return data.train, data.validation, data.test


def test_emoji_are_all_there(emoji):
    images = np.concatenate([part.images for part in parts(emoji)])
    assert images.shape == (1846, 24, 24, 3) and images.dtype == np.uint8
    assert len(np.unique(images.reshape(1846, -1), axis=0)) > 1830
    captions = [c for part in parts(emoji) for c in part.captions]
    assert all(len(two) == 2 for two in captions) and len({name for name, _ in captions}) > 1840
    assert not any("skin tone" in name for name, _ in captions)
    assert max(len(caption.split()) for two in captions for caption in two) == 17


def test_variants_of_an_emoji_are_in_one_part(emoji):
    groups = [{group_of(name) for name, _ in part.captions} for part in parts(emoji)]
    assert not (groups[0] & groups[1] or groups[0] & groups[2] or groups[1] & groups[2])
    assert sum(map(len, groups)) == 1693
    assert emoji.cases == {"train": 1299, "validation": 273, "test": 274}
    again, other = load_emoji(), load_emoji(seed=1)
    assert again.test.captions == emoji.test.captions != other.test.captions


def test_vocabulary_knows_the_training_captions_alone(emoji):
    words = {w for two in emoji.train.captions for caption in two for w in caption.split()}
    assert set(emoji.vocabulary.words[2:]) == words and len(emoji.vocabulary) == 2166
    unseen = {w for two in emoji.test.captions for caption in two for w in caption.split()} - words
    assert len(unseen) > 100


def test_further_test_has_no_flags(emoji):
    assert len(emoji.further["flagless"]) == 231 and emoji.fold is None
    assert not any(name.startswith("flag :") for name, _ in emoji.further["flagless"].captions)


@pytest.mark.parametrize(
    "count,captions,message",
    [
        (2, [["a"]], "2 images, captions for 1"),
        (2, [["a", "b"], ["a"]], "1 captions of image 1"),
        (1, [[]], "0 captions of image 0"),
        (1, [["a", " "]], "' ' of image 0"),
    ],
    ids=["rows", "fewer", "none", "empty"],
)
def test_pairs_refuse(count, captions, message):
    with pytest.raises(ValueError, match=f"Received: {message}"):
        Pairs(np.zeros((count, 3)), captions)


COUNTS = {"train": 3, "val": 2, "test": 2}


def features(count, start=0):
    """Features whose first column is the image's number."""
    return np.repeat(np.arange(start, start + count, dtype=np.float32)[:, None], 6, 1)


@pytest.fixture
def authors(tmp_path):
    """The authors' layout: captions tell the image's number too."""
    (tmp_path / "images" / "10crop").mkdir(parents=True)
    for split, count in COUNTS.items():
        lines = [f"{split} image {i} caption {k}\n" for i in range(count) for k in range(5)]
        (tmp_path / f"{split}.txt").write_text("".join(lines))
        np.save(tmp_path / "images" / "10crop" / f"{split}.npy", features(count))
    return tmp_path


@pytest.fixture
def karpathy(tmp_path):
    """Karpathy's: six captions each; a `restval` image stands in the middle of the list."""
    splits = ["val", "train", "restval", "train", "test", "val", "test"]
    images = [
        {
            "split": split,
            "filepath": "val2014",
            "filename": f"{i}.jpg",
            "sentences": [{"tokens": ["image", str(i), str(k)]} for k in range(6)],
        }
        for i, split in enumerate(splits)
    ]
    (tmp_path / coco.JSON).write_text(json.dumps({"images": images}))
    for split, count in COUNTS.items():
        np.save(tmp_path / f"{split}.npy", features(count))
    return tmp_path


def test_coco_of_the_authors(authors, monkeypatch):
    monkeypatch.setattr(coco, "VALIDATION", 1)
    data = load_coco(authors, width=6)
    assert data.cases == {"train": 3, "validation": 1, "test": 2} and data.fold == 1000
    assert isinstance(data.train.images, np.memmap)
    for part in parts(data):
        for row, captions in zip(part.images, part.captions):
            assert all(f"image {int(row[0])} caption {k}" in c for k, c in enumerate(captions))
    # The second image of `val` is not validated with, and so "1" is known from `train` alone.
    assert "val" in data.vocabulary and "test" not in data.vocabulary
    assert data.further["whole"] is data.test


def test_coco_of_karpathy_has_restval_behind_train(karpathy):
    data = load_coco(karpathy, width=6)
    numbers = [[c[0].split()[1] for c in part.captions] for part in parts(data)]
    assert numbers == [["1", "3", "2"], ["0", "5"], ["4", "6"]]
    assert all(len(captions) == 5 for captions in data.train.captions)
    assert image_files(karpathy)["train"] == [f"val2014/{i}.jpg" for i in (1, 3, 2)]


def broken(folder, what):
    if what == "empty":
        (folder / "train.txt").unlink()
    elif what == "caption":
        text = (folder / "val.txt").read_text().replace("val image 1 caption 3", " ")
        (folder / "val.txt").write_text(text)
    elif what == "lines":
        text = (folder / "test.txt").read_text()
        (folder / "test.txt").write_text(text + "one more\n")
    else:
        path = folder / "images" / "10crop" / "train.npy"
        arrays = {"rows": features(4), "width": features(3)[:, :5], "dtype": features(3) > 0}
        if what in arrays:
            np.save(path, arrays[what])
        else:
            path.write_bytes(b"no array")
    return folder


@pytest.mark.parametrize(
    "what,message",
    [
        ("empty", "Received: data_dir="),
        ("caption", "Received: ' ' of image 1"),
        ("lines", "Received: 11 lines"),
        ("rows", "Received: 4 images, captions for 3"),
        ("width", r"Received: shape=\(3, 5\)"),
        ("dtype", "dtype=bool"),
        ("file", r"Received: .*train\.npy"),
    ],
)
def test_coco_refuses(authors, what, message):
    with pytest.raises(ValueError, match=message):
        load_coco(broken(authors, what), width=6)


def test_coco_refuses_an_image_with_four_captions(karpathy):
    content = json.loads((karpathy / coco.JSON).read_text())
    del content["images"][3]["sentences"][4:]
    (karpathy / coco.JSON).write_text(json.dumps(content))
    with pytest.raises(ValueError, match="Received: 4 captions of '3.jpg'"):
        load_coco(karpathy, width=6)
