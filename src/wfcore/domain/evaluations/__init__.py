"""Evaluations of skills: cases with checks, what a run of a case leaves behind, and verdicts."""
