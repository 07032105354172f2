"""Recurrent models for where there is no Keras: one step at a time, and LiteRT."""

from tf_layernorm.export.files import export_litert, export_onnx, export_step
from tf_layernorm.export.step import StepModel, step_model

__all__ = ["StepModel", "export_litert", "export_onnx", "export_step", "step_model"]
