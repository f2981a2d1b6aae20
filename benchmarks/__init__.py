"""The cost of wfcore, against raw code that does the same work: `python -m benchmarks`, or `make bench`.

An absolute figure depends on the machine, so every row is measured against the least code for the same work
(`raw.py`), alternating; the ratio counts. CPU time is that of the process with all its threads.
"""
