"""Rewrites of finished graphs: see pipelines.py for their order, base.py for what a pass is."""
