"""The paper's experiments, one module each, with one runner and one report."""
