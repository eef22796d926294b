"""The test suites of other projects, run over embedded queue managers."""
