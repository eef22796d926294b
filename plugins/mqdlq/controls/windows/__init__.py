"""Windows in which a destination takes nothing."""
