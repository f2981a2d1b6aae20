"""For those who embed wfcore or write an adapter: contract suites of the ports, strategies, builders and fakes."""
