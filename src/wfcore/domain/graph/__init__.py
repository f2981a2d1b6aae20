"""Workflow graphs: their structure, the data of their nodes, and the rules that they must satisfy."""
