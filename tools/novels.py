"""Makes `tf_layernorm/data/novels.tar.xz`: six novels of Jane Austen, one sentence a line.

    python tools/novels.py FOLDER

FOLDER holds the novels as the R package janeaustenr 1.0.0 has them, lines of at most 76 characters
with a blank line between paragraphs: emma.txt, mansfieldpark.txt and so on. Words and signs are
parted by spaces, in lower case; a blank line stands between two chapters.
"""

import argparse
import io
import re
import tarfile
from pathlib import Path

from tf_layernorm.data.sentences import tokenize

OUT = Path(__file__).parents[1] / "tf_layernorm/data/novels.tar.xz"
HEADING = re.compile(r"(chapter|volume) [\divxlc]+\.?|the end|finis", re.IGNORECASE)
END = re.compile(r"""(?<=[.!?])(["')]*)\s+(?=["'(]*[A-Z])|(?<=[.!?])(["')]*)--(?=["'(]*[A-Z])""")
ABBREVIATION = re.compile(r"\b(Mr|Mrs|Dr|Messrs|St|Esq|Capt|Col|Adm|[A-Z])\.$")


def sentences(paragraph: str) -> list[str]:
    """A paragraph's sentences."""
    found, start = [], 0
    for match in END.finditer(paragraph):
        if not ABBREVIATION.search(paragraph[start : match.start()]):
            found.append(paragraph[start : match.start()] + (match[1] or match[2] or ""))
            start = match.end()
    return [*found, paragraph[start:]]


def novel(text: str) -> str:
    """A novel, one tokenised sentence a line, a blank line between chapters."""
    lines: list[str] = []
    # What comes before the first chapter is the title.
    body = text.replace("_", "")
    for paragraph in re.split(r"\n\s*\n", body[HEADING.search(body).start() :]):
        words = " ".join(paragraph.split())
        if HEADING.fullmatch(words):
            if lines and lines[-1]:
                lines.append("")
        else:
            tokens = map(tokenize, sentences(words))
            lines += [" ".join(sentence) for sentence in tokens if sentence]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    with tarfile.open(OUT, "w:xz", preset=9) as archive:
        for path in sorted(parser.parse_args().folder.glob("*.txt")):
            content = novel(path.read_text()).encode()
            info = tarfile.TarInfo(path.name)  # without owner and time, so that it is always equal
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
            print(path.name, len(content.splitlines()), "lines")


if __name__ == "__main__":
    main()
