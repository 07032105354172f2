"""Section 5 of the paper, computed.

* 5.1: `table1`, `epsilon_changes`, `negative_scale`; `invariance_report` for any Keras layer.
* 5.2.1: `fisher`, `kl`, `kl_ratios`.
* 5.2.2: `fisher_kronecker` (12), `fisher_blocks` (13), `chi` (14), `layer_norm_block_errors`;
  `scaling_ratios` and `radial_gradients`, and `early_stopping`, for the implicit reduction of the
  learning rate; `gain_metric` (32)-(35), `exact_gain_metric` and `gain_metric_growth`.
"""

from tf_layernorm.analysis import early_stopping
from tf_layernorm.analysis.gain import exact_gain_metric, gain_metric, gain_metric_growth
from tf_layernorm.analysis.geometry import (
    chi,
    fisher_blocks,
    kl_ratios,
    layer_norm_block_errors,
    radial_gradients,
    random_glm,
    scaling_ratios,
)
from tf_layernorm.analysis.glm import GLM, fisher, fisher_kronecker, jacobian, kl
from tf_layernorm.analysis.invariance import Table1, epsilon_changes, negative_scale, table1
from tf_layernorm.analysis.norms import normalized, statistics
from tf_layernorm.analysis.report import invariance_report
from tf_layernorm.analysis.transformations import Invariances

__all__ = [
    "GLM",
    "Invariances",
    "Table1",
    "chi",
    "early_stopping",
    "epsilon_changes",
    "exact_gain_metric",
    "fisher",
    "fisher_blocks",
    "fisher_kronecker",
    "gain_metric",
    "gain_metric_growth",
    "invariance_report",
    "jacobian",
    "kl",
    "kl_ratios",
    "layer_norm_block_errors",
    "negative_scale",
    "normalized",
    "radial_gradients",
    "random_glm",
    "scaling_ratios",
    "statistics",
    "table1",
]
