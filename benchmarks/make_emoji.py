"""Makes `tf_layernorm/data/emoji.npz` of larger pictures: `python make_emoji.py PAIRS.npz`.

The file given has the arrays `images`, uint8 (N, 48, 48, 3) on white, drawn with Noto Color Emoji,
and `caption`, `keywords` and `codepoint`, of CLDR. Emoji with a skin tone are left out, since they
are near copies of those without; 2 by 2 pixels become one.
"""

import sys
from pathlib import Path

import numpy as np

OUT = Path(__file__).parents[1] / "tf_layernorm" / "data" / "emoji.npz"


def main() -> None:
    with np.load(sys.argv[1]) as pairs:
        kept = np.char.find(pairs["caption"], "skin tone") < 0
        images = pairs["images"][kept].reshape(-1, 24, 2, 24, 2, 3).mean((2, 4))
        texts = {name: pairs[name][kept] for name in ("caption", "keywords", "codepoint")}
    np.savez_compressed(OUT, images=np.rint(images).astype(np.uint8), **texts)
    print(f"{OUT}: {len(images):,} emoji, {OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
