"""The contract kit: suites that a plug-in's own tests subclass. Needs pytest."""
