"""Parse the text of a rules table: lines, entries, tokens, parameters, values, rules."""
