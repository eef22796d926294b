"""Processes on one machine: runs in the foreground, a local Airflow, the demo."""
