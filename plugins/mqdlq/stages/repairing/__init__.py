"""Repair messages: deliver copies with another Format, CodedCharSetId or destination.

A repair is given for a run with one action for named messages. The body never changes.
"""
