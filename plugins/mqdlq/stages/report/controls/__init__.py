"""Report what the controls and the repair of a run did."""
