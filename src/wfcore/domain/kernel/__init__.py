"""What every other package of the domain uses: errors, ids, URLs, the JSON type."""
