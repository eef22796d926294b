"""A linter of prose that runs offline, by the rules in `styles`, which Vale reads, too."""
