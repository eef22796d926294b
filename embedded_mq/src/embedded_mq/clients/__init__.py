"""Python modules that replace the C extensions of `ibmmq` and `pymqi`."""
