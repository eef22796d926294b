"""Rules tables of a handler: the text, the findings, and the use of each rule."""
