"""A run of order embeddings, what its spaces tell, and features of images."""

import doctest
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image

from tf_layernorm.cli import main
from tf_layernorm.data.captions import load_emoji
from tf_layernorm.experiments import runner
from tf_layernorm.experiments.files import read_json
from tf_layernorm.experiments.order import EXPERIMENT, features, space
from tf_layernorm.experiments.order.space import SPACE, Space, entailments, order_share, rank


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of one curve, its summary and the curve's folder."""
    out = tmp_path_factory.mktemp("run")
    summary = runner.run("order", "smoke", norms=["layer"], out=out, verbose=0)
    return summary, out / "curves" / "packaged-layer-seed1"


@pytest.fixture(scope="module")
def trained(run):
    return Space.load(run[1])


@pytest.fixture(scope="module")
def emoji():
    return load_emoji()


def test_run_reports_the_kept_network(run, trained, emoji):
    summary, folder = run
    (row,) = summary["results"]
    tested = read_json(folder / "test.json")["figures"]
    found = trained.figures(emoji.test, 274)
    for key, value in found.items():
        assert tested[f"test_{key}"] == pytest.approx(value, abs=1e-6)
    for figure in EXPERIMENT.figures:
        assert row[figure.key] == tested[figure.key]
    flagless = trained.figures(emoji.further["flagless"], 231)
    assert tested["test_flagless_image_retrieval_r10"] == flagless["image_retrieval_r10"]
    kept = row["kept"][0]
    rows = [line for line in (folder / "metrics.jsonl").read_text().splitlines() if line]
    assert 1 <= kept <= len(rows) == 2
    assert "not COCO" in summary["data"] and summary["untrained"][0]["norm"] == "layer"


def test_paper_numbers_stand_beside_coco_alone():
    assert set(EXPERIMENT.paper) == {"full-layer", "full-none"}
    assert EXPERIMENT.paper["full-layer"]["test_caption_retrieval_r1"] == 48.5
    assert EXPERIMENT.paper["full-none"]["test_image_retrieval_mean_rank"] == 7.9


def test_space_ranks_ones_own(trained, emoji):
    captions = trained.encode_captions(["red heart", "flag : france", "red heart nonesuch"])
    assert captions.shape == (3, 16)
    np.testing.assert_allclose(np.linalg.norm(captions, axis=1), 1, atol=1e-5)
    images = trained.encode_images(emoji.test.images[:70])
    distances = trained.distances(captions, images)
    excess = np.maximum(0, captions[:, None].astype("float64") - images[None])
    np.testing.assert_allclose(distances, (excess**2).sum(-1), rtol=1e-4, atol=1e-6)
    order = rank(distances)
    assert (np.take_along_axis(distances, order, 1)[:, 1:] >= distances.min(1)[:, None]).all()
    assert order[0, 0] == distances[0].argmin()


def test_space_of_many_captions_is_that_of_each(trained):
    captions = [c for two in load_emoji().test.captions[:40] for c in two]
    together = trained.encode_captions(captions)
    np.testing.assert_allclose(trained.encode_captions(captions[41:42])[0], together[41], atol=1e-5)
    whole = trained.distances(together, together)
    np.testing.assert_allclose(
        trained.distances(together[70:71], together)[0], whole[70], atol=1e-6
    )


def test_space_refuses(trained, tmp_path):
    with pytest.raises(ValueError, match=r"Received: captions=\[\]"):
        trained.encode_captions([])
    with pytest.raises(ValueError, match="Received: ' '"):
        trained.encode_captions(["a", " "])
    with pytest.raises(ValueError, match=r"Received: shape=\(1, 48, 48, 3\)"):
        trained.encode_images(np.zeros((1, 48, 48, 3), np.uint8))
    with pytest.raises(ValueError, match="no best.keras and no space.json. Received: model="):
        Space.load(tmp_path)


def test_space_loads_in_a_process_of_its_own(run):
    """Where nothing has made such a network before, so that Keras might not know its layers."""
    program = f"from tf_layernorm.experiments.order.space import Space; Space.load({str(run[1])!r})"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_vocabulary_is_kept_beside_the_network(run, emoji):
    facts = read_json(run[1] / SPACE)
    assert tuple(facts["words"]) == emoji.vocabulary.words[2:]
    assert (facts["length"], facts["score"]) == (9, "order")


def test_entailments_and_their_share():
    names = ["woman", "woman astronaut", "red heart", "astronaut", "woman woman"]
    assert entailments(names) == [(0, 1), (3, 1), (4, 1)]
    distances = np.zeros((5, 5))
    distances[1, 0], distances[3, 1] = 0.5, 0.2  # in order, not in order; the third is a tie
    assert order_share(distances, entailments(names)) == pytest.approx((1 + 0 + 0.5) / 3)


def test_command_shows_what_finds_what(run, tmp_path, capsys):
    out = tmp_path / "found.png"
    options = ["--model", str(run[1]), "--out", str(out), "--count", "2"]
    assert main(["retrieve", *options, "--captions", "heart", "red heart"]) == 0
    told = capsys.readouterr().out
    assert "are in the right order (chance: 50 %)" in told and "found-order.png" in told
    for path in (out, tmp_path / "found-order.png"):
        assert str(path) in told
        assert np.asarray(Image.open(path).convert("L")).std() > 5


@pytest.mark.parametrize(
    "changes,message",
    [
        (["--count", "0"], "Received: count=0"),
        (["--out", "found.jpg"], "Received: out="),
        (["--model", "nowhere"], "Received: model='nowhere'"),
        (["--data-dir", "coco"], "Received: images=None"),
    ],
)
def test_command_refuses(run, changes, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["retrieve", "--model", str(run[1]), *changes])
    assert message in capsys.readouterr().err


def test_coco_without_a_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="Received: data_dir=None"):
        runner.run("order", "paper", out=tmp_path)


def numbered(height, width):
    """A picture whose red is its row and whose green is its column."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 0], pixels[..., 1] = np.arange(height)[:, None], np.arange(width) % 256
    return Image.fromarray(pixels)


def test_crops_are_corners_centre_and_their_mirrors(tmp_path):
    numbered(256, 256).save(tmp_path / "picture.png")
    cut = features.crops(tmp_path / "picture.png")
    assert cut.shape == (10, 224, 224, 3)
    corners = [(0, 0), (0, 32), (32, 0), (32, 32), (16, 16)]
    assert cut[:5, 0, 0, :2].tolist() == [list(corner) for corner in corners]
    np.testing.assert_array_equal(cut[5:], cut[:5, :, ::-1])


def test_short_side_is_256(tmp_path):
    Image.new("RGB", (100, 50), "red").save(tmp_path / "picture.png")
    assert features.crops(tmp_path / "picture.png").shape == (10, 224, 224, 3)
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(ValueError, match=r"Received: .*text\.png"):
        features.crops(tmp_path / "text.png")


@pytest.fixture
def colours(monkeypatch):
    """In VGG-19's place: the mean of each channel, beside zeros."""
    inputs = keras.Input((224, 224, 3))
    means = keras.layers.GlobalAveragePooling2D()(inputs)
    outputs = keras.ops.pad(means, ((0, 0), (0, features.WIDTH - 3)))
    network = keras.Model(inputs, outputs)
    monkeypatch.setattr(features, "build_network", lambda weights: network)
    return network


def test_features_are_of_norm_1_and_caffes_colours(colours):
    red = np.full((10, 224, 224, 3), (255, 0, 0), np.uint8)
    row = features.features(colours, [red])[0]
    expected = np.array([-103.939, -116.779, 255 - 123.68])  # blue, green, red
    np.testing.assert_allclose(row[:3], expected / np.linalg.norm(expected), rtol=1e-4)
    assert np.linalg.norm(row) == pytest.approx(1, rel=1e-5)


def save_pictures(folder, count):
    for i in range(count):
        Image.new("RGB", (60, 40), (20 * i, 0, 0)).save(folder / f"{i}.png")


def test_features_of_a_folder_go_on_where_they_were(tmp_path, colours, monkeypatch, capsys):
    images, out = tmp_path / "images", tmp_path / "out"
    images.mkdir()
    save_pictures(images, 5)
    whole = features.make_features(images, "weights", tmp_path / "whole", batch_size=2)
    made, calls = features.features, []

    def interrupted(network, crops):
        calls.append(len(crops))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return made(network, crops)

    monkeypatch.setattr(features, "features", interrupted)
    with pytest.raises(KeyboardInterrupt):
        features.make_features(images, "weights", out, batch_size=2)
    assert not (out / "images.npy").exists()
    (path,) = features.make_features(images, "weights", out, batch_size=2)
    assert calls == [2, 2, 2, 1]
    np.testing.assert_array_equal(np.load(path), np.load(whole[0]))
    assert (out / "images.txt").read_text().split() == [f"{i}.png" for i in range(5)]
    assert len(np.unique(np.load(path), axis=0)) == 5


def test_features_refuse(tmp_path):
    with pytest.raises(ValueError, match="missing are all. Received: images="):
        features.make_features(tmp_path, "weights", tmp_path / "out")
    save_pictures(tmp_path, 1)
    with pytest.raises(ValueError, match="Received: weights='nowhere.h5'"):
        features.make_features(tmp_path, "nowhere.h5", Path(tmp_path) / "out")


def test_examples_in_docstrings_run():
    assert doctest.testmod(space).failed == 0
