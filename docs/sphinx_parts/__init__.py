"""Parts of the build of the site: links out of `docs/`, pictures, and pages that are generated from the code."""
