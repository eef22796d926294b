"""Controls hold messages back, or change them on their way: one folder for each control."""
