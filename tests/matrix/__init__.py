"""Versions of Python, Airflow, Spark and the MQ client: the tested ones, and the results."""
