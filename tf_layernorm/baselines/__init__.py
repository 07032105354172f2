"""What the paper compares layer normalisation with."""

from tf_layernorm.baselines.batch_norm import BatchNorm

__all__ = ["BatchNorm"]
