"""Recurrent cells and sequence layers with layer normalisation inside the recurrence."""
