"""Criteo-shaped data: the columns, a generator with planted effects, and input pipelines for TFRecords, TSV and CSV."""
