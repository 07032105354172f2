"""What the paper compares layer normalisation with."""
