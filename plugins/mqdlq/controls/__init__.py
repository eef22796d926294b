"""What holds a message back, or changes it on its way: one folder for each control."""
