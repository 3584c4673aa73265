"""Each peer beside ours, in one run: `python -m benchmarks [name …]`."""
