"""The normalisations that experiments compare, each with one name and colour in all of them."""

from tf_layernorm.experiments.experiment import Norm

LAYER = Norm("layer", "layer norm", "C0")
BATCH = Norm("batch", "batch norm", "C1")
BATCH_EVERYWHERE = Norm("everywhere", "batch norm everywhere", "C3")
INSTANCE = Norm("instance", "instance norm", "C4")
CHANNEL = Norm("channel", "layer norm over channels", "C9")
RMS = Norm("rms", "RMS norm", "C6")
WEIGHT = Norm("weight", "weight norm", "C8")
ALL = Norm("all", "all normalised", "C2")
NONE = Norm("none", "no norm", "C7")
