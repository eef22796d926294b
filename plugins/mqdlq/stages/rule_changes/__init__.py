"""A change of a rules table: added rules, their place, and a backtest over stored snapshots."""
