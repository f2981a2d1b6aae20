"""Rules about runs, checked on a graph before it runs, and the policies of an organization, which are made of them."""
