"""Pictures with captions: the emoji that come with the package, and the form of all such data."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np

from tf_layernorm.data.words import Vocabulary

EMOJI = "emoji.npz"
PARTS = (0.7, 0.15, 0.15)  # of the groups of emoji, to train, validate and test on
PERSONS = {"man": "person", "woman": "person", "men": "people", "women": "people"}
HAIR = re.compile(r": (blond hair|red hair|curly hair|white hair|bald|beard)$")


@dataclass(frozen=True)
class Pairs:
    """Images and their captions, equally many of each image.

    Attributes:
        images: `(N, ...)`: features, or pixels as uint8. May lie in a memory-mapped file.
        captions: N sequences of K captions: words parted by spaces.

    Raises:
        ValueError: If the numbers of images and captions differ, an image has no caption or fewer
            than another, or a caption has no word.
    """

    images: np.ndarray
    captions: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        if len(self.images) != len(self.captions):
            raise ValueError(
                "There must be captions for each image. Received: "
                f"{len(self.images):,} images, captions for {len(self.captions):,}"
            )
        for i, captions in enumerate(self.captions):
            if len(captions) != self.captions_per_image or not captions:
                raise ValueError(
                    f"Each image must have equally many captions, {self.captions_per_image or 1} "
                    f"as the first. Received: {len(captions)} captions of image {i}"
                )
            for caption in captions:
                if not caption.split():
                    raise ValueError(
                        f"A caption must have a word. Received: {caption!r} of image {i}"
                    )

    def __len__(self) -> int:
        return len(self.captions)

    @property
    def captions_per_image(self) -> int:
        """K."""
        return len(self.captions[0]) if self.captions else 0

    def __getitem__(self, chosen: slice | np.ndarray) -> "Pairs":
        """Some of the images, with their captions."""
        numbers = np.arange(len(self))[chosen].tolist()
        return Pairs(self.images[chosen], [self.captions[i] for i in numbers])


@dataclass(frozen=True)
class Captioned:
    """Images with captions in three parts.

    Attributes:
        train: The pairs to train on.
        validation: Those by which a model is chosen.
        test: Those to test on.
        vocabulary: The words that have a vector.
        source: What the data is and where it came from, for people.
        fold: Images of `test` that are ranked together, for means over such folds; `None`: all.
        further: Other tests, by name, each ranked as a whole.
    """

    train: Pairs
    validation: Pairs
    test: Pairs
    vocabulary: Vocabulary
    source: str
    fold: int | None
    further: Mapping[str, Pairs]

    @property
    def cases(self) -> dict[str, int]:
        """The number of images of each part."""
        return {name: len(getattr(self, name)) for name in ("train", "validation", "test")}


def split_words(text: str) -> list[str]:
    """The words and signs of a text, in small letters.

    >>> from tf_layernorm.data.captions import split_words
    >>> split_words("flag: Côte d’Ivoire")
    ['flag', ':', 'côte', 'd', '’', 'ivoire']
    """
    return re.findall(r"\w+|[^\w\s]", text.lower())


def group_of(name: str) -> str:
    """What an emoji's name has in common with those of its variants of sex and hair.

    >>> from tf_layernorm.data.captions import group_of
    >>> group_of("woman: red hair"), group_of("men wrestling")
    ('person', 'people wrestling')
    """
    return " ".join(PERSONS.get(word, word) for word in split_words(HAIR.sub("", name)))


def load_emoji(seed: int = 0) -> Captioned:
    """The 1,846 emoji that come with the package: pictures on white, and two captions each.

    The first caption is the name ("woman astronaut"), the second the keywords ("astronaut rocket
    space woman"). Variants of one name, such as man and woman, are near copies as pictures. They
    make a group, and each group goes to one part of the data, in an order given by `seed`.

    Args:
        seed: Of the split. Defaults to 0.

    Returns:
        The pairs, images uint8 `(N, 24, 24, 3)`; `further` is the test without flags, which nobody
        can tell who has not seen them.

    References:
        Pictures: [Noto Color Emoji](https://github.com/googlefonts/noto-emoji), SIL OFL 1.1. Names:
        [Unicode CLDR](https://cldr.unicode.org), Unicode-DFS-2016. Both licences are in
        `emoji.LICENSE.txt` beside the file.
    """
    path = resources.files("tf_layernorm.data") / EMOJI
    with path.open("rb") as file, np.load(file) as archive:
        images, names, keywords = (archive[key] for key in ("images", "caption", "keywords"))
    captions = [
        [" ".join(split_words(text)) for text in (name, words.replace(" | ", " "))]
        for name, words in zip(names.tolist(), keywords.tolist())
    ]
    groups = [group_of(name) for name in names.tolist()]
    order = np.random.default_rng(seed).permutation(sorted(set(groups))).tolist()
    borders = np.rint(np.cumsum(PARTS[:2]) * len(order)).astype(int)
    part_of = {group: int(np.searchsorted(borders, i, "right")) for i, group in enumerate(order)}
    parts = np.array([part_of[group] for group in groups])
    everything = Pairs(images, captions)
    train, validation, test = (everything[np.flatnonzero(parts == part)] for part in range(3))
    flagless = np.array([not names[0].startswith("flag :") for names in test.captions])
    return Captioned(
        train,
        validation,
        test,
        Vocabulary.of_sentences(c.split() for captions in train.captions for c in captions),
        f"{len(images):,} emoji with their English names and keywords; not COCO",
        fold=None,
        further={"flagless": test[np.flatnonzero(flagless)]},
    )
