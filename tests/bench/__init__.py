"""Benchmarks that users can run (``make bench``): ratios against plain FFmpeg and plain copies, in one run."""
