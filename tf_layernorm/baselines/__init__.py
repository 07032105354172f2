"""What the paper compares layer normalisation with."""

from tf_layernorm.baselines.batch_norm import BatchNorm
from tf_layernorm.baselines.rms_norm import RMSNorm
from tf_layernorm.baselines.weight_norm import WeightNorm

__all__ = ["BatchNorm", "RMSNorm", "WeightNorm"]
