"""Data: task sources, teachers, verification by the executor, selection, decontamination, and the data set."""
