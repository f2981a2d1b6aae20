"""Workflows and skills: lifecycle, access, ownership, supervision."""
