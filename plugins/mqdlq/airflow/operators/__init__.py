"""One operator for each task of a run; each calls a stage and passes ids on."""
