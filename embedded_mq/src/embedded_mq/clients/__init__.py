"""What stands in for the C extensions of `ibmmq` and `pymqi`."""
