"""Use cases on organizations, members, groups, tokens and usage."""
