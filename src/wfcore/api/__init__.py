"""The wire: the shape of every request body and response, one declaration each (interface, Resources and Endpoints)."""
