"""The fused recurrence: forward and analytic backward pass, each one program for XLA."""
