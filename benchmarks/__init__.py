"""What wfcore costs, beside raw baselines of the same run: `python -m benchmarks`, or `make bench`.

A figure of one machine says little, so every row is measured against the least code that does the same work
(`raw.py`), in turns, and the ratio is what counts. CPU is that of the process with all its threads.
"""
