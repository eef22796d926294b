"""What happens when Airflow begins a DAG run."""
