"""The command `tf-layernorm`."""

import argparse
import logging
from collections.abc import Sequence


def build_parser() -> argparse.ArgumentParser:
    """The command line, described to `argparse`."""
    parser = argparse.ArgumentParser(
        prog="tf-layernorm", description="Layer Normalization: experiments and analysis."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser(
        "run",
        help="run an experiment of the paper, or go on with it",
        description="Runs an experiment of the paper. Interrupted (Ctrl-C), the same command "
        "resumes it; finished, the same command prints its table again.",
    )
    run.add_argument(
        "name", help="the experiment: mnist (section 6.6), draw (6.4), handwriting (6.5)"
    )
    run.add_argument(
        "--preset", default="small", help="paper, small (default), smoke; handwriting: pens"
    )
    run.add_argument(
        "--norm",
        metavar="NAME,...",
        type=lambda names: names.split(","),
        help="some of mnist's layer,batch,none (default: all) or draw's layer,none,all, where all "
        "normalises everything in the LSTMs (default: layer,none)",
    )
    run.add_argument("--seeds", type=int, metavar="N", help="number of seeds")
    run.add_argument("--epochs", type=int, metavar="N", help="only the first N epochs")
    run.add_argument(
        "--curves",
        default="*",
        metavar="PATTERN",
        help="only the curves of such a name, as 'batch4-*': several commands may fill one folder",
    )
    run.add_argument("--data-dir", metavar="DIR", help="raw files of the full data; only read")
    run.add_argument("--download", action="store_true", help="allow a download of the full data")
    run.add_argument("--out", metavar="DIR", help="default: runs/NAME-PRESET")
    run.add_argument(
        "--strategy",
        help="mirrored: split each batch over all local GPUs (or logical CPUs); tpu: the same on a "
        "TPU, which nobody has tried yet (default: one device)",
    )
    draw = commands.add_parser(
        "draw",
        help="draw digits with a network of `run draw`, and show how it draws",
        description="Draws digits with a trained DRAW network into a .png; beside it go a picture "
        "of the canvas after each glimpse, with the window it is drawn in, and the same as a .gif.",
    )
    draw.add_argument("--model", required=True, metavar="DIR", help="folder of one curve of a run")
    draw.add_argument("--out", default="digits.png", metavar="PNG", help="default: digits.png")
    draw.add_argument("--count", type=int, default=64, metavar="N", help="digits (default: 64)")
    draw.add_argument("--seed", type=int, default=1, metavar="N", help="of the noise (default: 1)")
    write = commands.add_parser(
        "write",
        help="write a text by hand with a network of `run handwriting`",
        description="Writes a text with a trained network, several times, into a picture.",
    )
    write.add_argument("text", help="what to write")
    write.add_argument("--model", required=True, metavar="DIR", help="folder of one curve of a run")
    write.add_argument(
        "--bias",
        type=float,
        default=0.5,
        help="0: as various as the network is; the larger, the more regular (default: 0.5)",
    )
    write.add_argument("--seed", type=int, default=1, metavar="N", help="(default: 1)")
    write.add_argument("--count", type=int, default=3, metavar="N", help="lines (default: 3)")
    write.add_argument(
        "--prime",
        metavar="NPZ",
        help="go on in the style of this line: an .npz file of `offsets` (T, 2), y upwards, "
        "`end_of_stroke` (T,) and `text`",
    )
    write.add_argument("--out", default="page.png", metavar="PNG", help="default: page.png")
    commands.add_parser(
        "table1",
        help="compute Table 1 of the paper: what each normalisation is invariant to",
        description="Computes Table 1 of the paper, in float64 with an epsilon of 0.",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status.

    Args:
        arguments: The arguments after `tf-layernorm`. Defaults to those of the process.
    """
    parser = build_parser()
    options = vars(parser.parse_args(arguments))
    command = options.pop("command")
    # A new model a curve is traced anew, which TensorFlow takes for a mistake.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    if command == "table1":
        from tf_layernorm.analysis import table1

        print(table1())
        return 0
    try:
        # Here, since they import matplotlib's and the data sets' libraries, which are an extra.
        if command == "draw":
            from tf_layernorm.experiments import draw_pictures

            paths = draw_pictures.draw(options.pop("model"), options.pop("out"), **options)
            print("\n".join(map(str, paths)))
            return 0
        if command == "write":
            from tf_layernorm.experiments.writing import write_page

            print(write_page(**options))
            return 0
        from tf_layernorm.experiments import runner

        runner.run(options.pop("name"), norms=options.pop("norm"), **options)
    except ValueError as error:
        parser.exit(2, f"tf-layernorm: {error}\n")
    except FloatingPointError as error:
        parser.exit(1, f"tf-layernorm: {error}. The model before that epoch is kept.\n")
    except KeyboardInterrupt:
        parser.exit(130, "\nInterrupted. The same command goes on from the last whole epoch.\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
