"""Listeners that Airflow calls when a DAG run starts."""
