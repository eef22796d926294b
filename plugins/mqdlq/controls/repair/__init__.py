"""Repair messages: the settings of a repair, and the changes that it makes."""
