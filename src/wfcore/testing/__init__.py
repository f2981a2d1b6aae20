"""For those who embed wfcore or write an adapter: one contract suite for each port."""
