"""Airflow's side of the workflow: hooks, triggers and operators that pass arguments to stages."""
