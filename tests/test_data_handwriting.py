"""Lines of handwriting: synthetic and UNIPEN's, what is done to them, and the batches."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from tf_layernorm.data import handwriting, pen_lines, unipen_lines
from tf_layernorm.data.handwriting import batches, load, steps_per_epoch
from tf_layernorm.data.pen import ALPHABET, Line, cut, encode, split_by_writer, standardise


@pytest.fixture(scope="module")
def data():
    return load(synthetic_lines=60, max_length=150)


def line_of(steps, text="a", writer="w", first=0.0):
    """A line whose y offsets number its points."""
    offsets = np.column_stack([np.full(steps + 1, first), np.arange(steps + 1)])
    return Line(offsets.astype("float32"), np.arange(steps + 1) == steps, text, writer)


def lines_equal(one, other):
    return all(
        np.array_equal(a.offsets, b.offsets)
        and np.array_equal(a.end_of_stroke, b.end_of_stroke)
        and (a.text, a.writer) == (b.text, b.writer)
        for a, b in zip(one, other)
    )


def test_synthetic_lines_depend_on_the_seed_alone():
    first = pen_lines.draw_lines(6, seed=4)
    assert lines_equal(first, pen_lines.draw_lines(6, seed=4))
    assert not lines_equal(first, pen_lines.draw_lines(6, seed=5))


def test_synthetic_lines_are_strokes_from_left_to_right():
    lines = pen_lines.draw_lines(20)
    for line in lines:
        assert line.offsets.dtype == np.float32 and line.offsets.shape[1] == 2
        assert line.end_of_stroke.shape == line.offsets.shape[:1]
        assert not line.offsets[0].any() and line.end_of_stroke[-1]
        assert 1 <= len(line.text) <= 40 and line.text == line.text.strip()
        width = line.offsets[:, 0].sum()
        assert width > 2 * len(line.text) * np.abs(np.median(line.offsets[:, 1]))
        lifted = np.append(False, line.end_of_stroke[:-1])
        # With the pen down, a step is far shorter than a letter is wide.
        assert np.abs(line.offsets[~lifted]).max() < 150
    lengths = [len(line.offsets) / len(line.text) for line in lines]
    assert 12 < np.median(lengths) < 40  # points a character; real lines have 19 to 24


def test_synthetic_writers_differ():
    rng = np.random.default_rng(0)
    writers = [pen_lines.Writer.random(str(i), rng) for i in range(12)]
    assert {writer.font for writer in writers} == {"futural", "scripts"}
    heights, points = zip(
        *(
            (np.ptp(line.offsets[:, 1].cumsum()), len(line.offsets))
            for line in (pen_lines.write("hello", writer, rng) for writer in writers)
        )
    )
    assert max(heights) > 1.5 * min(heights) and max(points) > 1.5 * min(points)


@pytest.mark.parametrize("text", ["", "  ", "naïve"])
def test_synthetic_lines_refuse_what_fonts_lack(text):
    writer = pen_lines.Writer.random("a", np.random.default_rng(0))
    with pytest.raises(ValueError, match="Received: text="):
        pen_lines.write(text, writer, np.random.default_rng(0))


def test_dots_and_bars_are_drawn_last():
    def strokes(text, font):
        rng = np.random.default_rng(0)
        writer = replace(pen_lines.Writer.random("a", rng), font=font, slant=0.0)
        line = pen_lines.write(text, writer, rng)
        places = np.cumsum(line.offsets, axis=0)
        return np.split(places, np.flatnonzero(line.end_of_stroke)[:-1] + 1)

    for text, font in (("in", "futural"), ("in", "scripts")):
        parts = strokes(text, font)
        # Printed: stem, dot, then n in two strokes; joined: both letters in one stroke, then dot.
        dot = 1
        assert len(parts) == (4 if font == "futural" else 2)
        assert parts[dot][:, 1].min() > parts[0][:, 1].max()


def test_synthetic_source_says_so(data):
    assert data.source.startswith("synthetic lines, which nobody wrote")


def test_parts_share_no_writer(data):
    train, validation = ({line.writer for line in part} for part in (data.train, data.validation))
    assert len(train) == 18 and len(validation) == 2 and not train & validation


def test_split_by_writer_holds_out_a_share_of_the_lines():
    lines = [
        line_of(1, writer=w) for w, count in enumerate((40, 5, 3, 3, 49)) for _ in range(count)
    ]
    lines = [replace(line, writer=str(line.writer)) for line in lines]
    for seed in range(5):
        train, validation = split_by_writer(lines, seed)
        assert len(train) + len(validation) == 100
        assert {line.writer for line in validation} in ({"1", "2"}, {"1", "3"}, {"2", "3"})
        assert lines_equal(validation, split_by_writer(lines, seed)[1])
    with pytest.raises(ValueError, match="Too few writers"):
        split_by_writer(lines[:40], 0)


def test_alphabet_has_graves_57_symbols():
    assert len(ALPHABET) == len(set(ALPHABET)) == 57
    assert all(letter in ALPHABET for letter in "azAZ .,")


def test_encode_maps_what_is_unknown_to_symbol_0():
    text = "It, is 7é;"
    codes = encode(text)
    assert codes.dtype == np.int32
    assert "".join(ALPHABET[code] for code in codes) == text.translate(
        {ord(character): ALPHABET[0] for character in "7é;"}
    )


def test_cut_keeps_the_beginning_and_the_text_of_it():
    line = line_of(99, "x" * 60)
    short = cut(line, 49)
    assert len(short.offsets) == len(short.end_of_stroke) == 50
    np.testing.assert_array_equal(short.offsets, line.offsets[:50])
    assert 30 < len(short.text) < 45
    assert cut(line, 99) is line


def test_statistics_standardise_the_training_lines(data):
    rows = np.concatenate([standardise(line, data.mean, data.std)[1:] for line in data.train])
    np.testing.assert_allclose(rows[:, :2].mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(rows[:, :2].std(0), 1, atol=1e-5)
    kept = json.loads(json.dumps(data.statistics()))
    first = standardise(data.validation[0], kept["mean"], kept["std"])
    assert first.dtype == np.float32 and not first[0, :2].any()
    back = first[1:, :2] * data.std + data.mean
    np.testing.assert_allclose(back, data.validation[0].offsets[1:], atol=1e-3)
    assert kept["alphabet"] == list(ALPHABET) and kept["source"] == data.source


def test_nats_per_point_lead_back_to_the_tablets_units(data):
    raw = data.train[0].offsets[1:].astype("float64")
    standard = (raw - data.mean) / data.std
    density = scipy.stats.norm(0.3, 2.0)
    nll = -density.logpdf(standard).sum()
    in_units = -scipy.stats.norm(data.mean + 0.3 * data.std, 2.0 * data.std).logpdf(raw).sum()
    shifted = nll + len(raw) * data.statistics()["nats_per_point"]
    np.testing.assert_allclose(shifted, in_units, rtol=1e-6)


def test_outliers_and_short_lines_are_counted_and_told():
    far = line_of(500)
    far.offsets[7, 0] = 1e4
    lines = [far, line_of(0), line_of(600)]
    data = handwriting.prepare("lines", lines, [line_of(5)], {"odd": 3}, 500)
    assert [len(line.offsets) for line in data.train] == [501, 501]
    assert data.counts["odd"] == 3
    assert data.counts["lines cut to 500 steps"] == 1
    assert data.counts["lines of one point left out"] == 1
    assert data.counts["training offsets beyond 20 std, kept"] == 1
    assert data.counts["largest training offset in std"] == pytest.approx(1000**0.5, abs=0.1)
    for name in data.counts:
        assert (name in data.source) == bool(data.counts[name])


ODD = [line_of(n, "ab"[: n % 2 + 1], first=n) for n in (3, 9, 4, 1, 10, 5, 6, 2)]
UNIT = (np.zeros(2), np.ones(2))


def seen(dataset, count):
    """Which of ODD's lines are in each batch, by the number of their steps."""
    return [mask.sum(1).tolist() for mask in (x["mask"].numpy() for x, _ in dataset.take(count))]


def test_batches_hold_points_targets_and_characters():
    for inputs, target in batches(ODD, *UNIT, batch_size=3, lengths=(5, 10)):
        points, mask = inputs["points"].numpy(), inputs["mask"].numpy()
        assert points.shape == target.shape == (*mask.shape, 3) and mask.shape[1] in (5, 10)
        for row, wanted, kept, letters in zip(points, target.numpy(), mask, inputs["characters"]):
            steps = kept.sum()
            assert mask.shape[1] == (5 if steps <= 5 else 10)
            np.testing.assert_array_equal(kept, np.arange(len(kept)) < steps)
            line = next(line for line in ODD if len(line.offsets) == steps + 1)
            whole = standardise(line, *UNIT)
            np.testing.assert_array_equal(row[:steps], whole[:-1])
            np.testing.assert_array_equal(wanted[:steps], whole[1:])
            assert not row[steps:].any() and not wanted[steps:].any()
            one_hot = np.zeros((2, 57))
            one_hot[range(len(line.text)), encode(line.text)] = 1
            np.testing.assert_array_equal(letters, one_hot)


def test_batches_without_a_seed_show_every_line_once():
    batch_sizes = seen(batches(ODD, *UNIT, batch_size=3, lengths=(5, 10)), 99)
    assert sorted(sum(batch_sizes, [])) == [1, 2, 3, 4, 5, 6, 9, 10]


def test_batches_order_depends_on_seed_and_epoch_alone():
    options = {"batch_size": 2, "lengths": (5, 10)}
    steps = steps_per_epoch(ODD, **options)
    assert steps == 3  # of five short and three long lines, whole batches only
    whole = seen(batches(ODD, *UNIT, seed=1, **options), 3 * steps)
    epochs = [whole[i : i + steps] for i in range(0, 3 * steps, steps)]
    assert len({str(epoch) for epoch in epochs}) > 1
    for epoch in epochs:
        lines = sum(epoch, [])
        assert len(set(lines)) == len(lines) == 6
        assert all(len(batch) == 2 and (max(batch) <= 5 or min(batch) > 5) for batch in epoch)
    later = batches(ODD, *UNIT, seed=1, first_epoch=2, **options)
    assert seen(later, steps) == epochs[2]
    assert seen(batches(ODD, *UNIT, seed=2, **options), steps) != epochs[0]


def test_batches_of_one_length_have_a_static_shape():
    inputs, target = batches(ODD, *UNIT, batch_size=4, lengths=(10,), seed=0).element_spec
    assert target.shape == inputs["points"].shape == (4, 10, 3)
    assert inputs["mask"].shape == (4, 10) and inputs["characters"].shape == (4, 2, 57)


def test_batches_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match=r"Received: batch_size=9, lengths=\(10,\)"):
        batches(ODD, *UNIT, batch_size=9, lengths=(10,), seed=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="longer than the last"):
        list(batches(ODD, *UNIT, batch_size=2, lengths=(9,)))


def write_unipen(folder, **changes):
    """Eleven writers' lines in the layout of UNIPEN's file, the first of 200 points a second."""
    lines = [line_of(9, 'say \\"a\\"', f"site/{i}", first=2) for i in range(11)]
    end = np.concatenate([np.isin(np.arange(10), (3, 5, 9)) for _ in lines])
    arrays = {
        "dxdy": np.concatenate([line.offsets for line in lines]).astype("int16"),
        "end_of_stroke": np.packbits(end),
        "offsets": np.arange(0, 111, 10, dtype="int32"),
        "text": np.array([line.text for line in lines]),
        "writer": np.array([line.writer for line in lines]),
        "hz": np.array([200] + [100] * 10, "int16"),
    } | changes
    np.savez(folder / "unipen_lines.npz", **{k: v for k, v in arrays.items() if v is not None})
    return folder


def test_unipen_lines_keep_the_ends_of_strokes_at_100_points_a_second(tmp_path):
    _, (thin, *rest), counts = unipen_lines.read(write_unipen(tmp_path))
    assert [len(line.offsets) for line in rest] == [10] * 10
    # Strokes of points 0-3, 4-5, 6-9.
    positions = np.cumsum(rest[0].offsets, axis=0)[[0, 2, 3, 4, 5, 6, 8, 9]]
    np.testing.assert_array_equal(np.cumsum(thin.offsets, axis=0), positions - positions[0])
    np.testing.assert_array_equal(np.flatnonzero(thin.end_of_stroke), [2, 4, 7])
    assert thin.text == 'say "a"'
    assert sorted(counts.values()) == [1, 11]


def test_unipen_lines_are_split_by_writer(tmp_path):
    data = load(write_unipen(tmp_path))
    assert len(data.train) == 10 and len(data.validation) == 1
    assert data.source.startswith("UNIPEN") and "not IAM-OnDB" in data.source


@pytest.mark.parametrize(
    "changes", [{"hz": None}, {"dxdy": np.zeros((9, 2))}, {"text": np.array([{}])}], ids=str
)
def test_unipen_file_of_another_layout_is_refused(tmp_path, changes):
    with pytest.raises(ValueError, match="Received: '.*unipen_lines.npz'"):
        load(write_unipen(tmp_path, **changes))


def test_damaged_unipen_file_is_refused(tmp_path):
    path = write_unipen(tmp_path) / "unipen_lines.npz"
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], b"", content[:400] + b"!" + content[401:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="Received: '.*unipen_lines.npz'"):
            load(tmp_path)


@pytest.mark.parametrize("name", [".", "absent"])
def test_a_folder_without_pen_data_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"(?s)unipen_lines.npz.*lineStrokes-all.*Received: data"):
        load(tmp_path / name)


def test_real_unipen_lines():
    root = os.environ.get("TF_LAYERNORM_DATA")
    if root is None:
        pytest.skip("needs unipen_lines.npz in the folder handwriting under $TF_LAYERNORM_DATA")
    data = load(Path(root) / "handwriting", max_length=None)
    assert len(data.train) + len(data.validation) == 1582
    writers = [{line.writer for line in part} for part in (data.train, data.validation)]
    assert not writers[0] & writers[1] and len(writers[0] | writers[1]) == 82
    assert 0.08 < len(data.validation) / 1582 <= 0.1
    assert all(line.end_of_stroke[-1] for line in data.train)
    assert data.counts[unipen_lines.THINNED] == 156 and data.counts[unipen_lines.MENDED] == 154
    lengths = [len(line.offsets) - 1 for line in data.train + data.validation]
    assert sum(length <= 500 for length in lengths) == 180
