"""The repositories of the storage port: what one organization keeps."""
